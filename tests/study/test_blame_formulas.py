"""What people forget most is mended by its formula, in the words of the line; so is an eps."""

import numpy as np
import pytest

from npdl_study.blame.blame import blame
from npdl_study.check.target import build
from tests.tools import slow

TEXT = '''import numpy as np


class Net:
    @classmethod
    def sample(cls):
        return cls(), (np.random.default_rng(0).uniform(0.2, 1.5, size=(3, 4)),)

    def forward(self, x):
        self.x = x
        FORWARD
        return self.y

    def backward(self, dy):
        return BACKWARD
'''
SOFTMAX = "e = np.exp(x); self.y = e / e.sum(-1, keepdims=True)"
FORMS = [("self.y = np.tanh(x)", "np.tanh(dy)", "dy * (1 - self.y**2)", "slope"),
         ("self.y = np.tanh(x) * 1.0; self.z = self.y; self.y = self.z + 0", "np.tanh(dy)",
          None, "slope|should be"),
         ("self.y = 2. / (1. + np.exp(-x))", "dy*self.x  # slope", None,
          "slope of 2.0 / (1.0 + np.exp(-x))"),
         ("self.y = np.sin(x)", "dy*np.sin( self.x )", "dy * np.cos(self.x)",
          "the operation is wrong"),
         (SOFTMAX, "dy * self.y * (1 - self.y)",
          "self.y * (dy - (dy * self.y).sum(-1, keepdims=True))", "depends on its whole row"),
         (f"{SOFTMAX}; self.y = np.log(self.y)", "dy - np.exp(self.y)",
          "dy - np.exp(self.y) * dy.sum(-1, keepdims=True)", "log-softmax"),
         ("self.y = np.log(x + 1e-6)", "dy / self.x", "dy / (self.x + 1e-06)", "a small number"),
         ("self.y = np.array(x.mean())", "np.ones((3,4)) * dy", "np.ones((3, 4)) * dy / 12",
          "12 times")]


def asked(folder, forward, backward):
    path = folder / f"formula_{abs(hash(forward + backward))}.py"
    path.write_text(TEXT.replace("FORWARD", forward).replace("BACKWARD", backward))
    layer, inputs, options = build(f"{path}:Net")
    return blame(layer, *inputs, **options)


@pytest.mark.parametrize(("forward", "wrong", "mend", "says"),
                         slow.but(FORMS[:1], FORMS, tuple))
def test_a_formula_is_told_and_true(forward, wrong, mend, says, tmp_path):
    report = asked(tmp_path, forward, wrong)
    assert report.line == 15 and any(word in report.diagnosis for word in says.split("|")), report
    assert asked(tmp_path, forward, report.new.removeprefix("return ")).right
    if mend is not None and mend in report.new:
        assert f"`return {mend}`" in str(report)
    assert "off by" in str(report).splitlines()[0]


def test_numbers_that_look_alike_are_told_by_their_difference(tmp_path):
    report = asked(tmp_path, "self.y = np.log(x + 1e-7) + 0 * x[:, :1]", "dy / self.x")
    text = str(report)
    assert "too large by" in text and "e-07" in text and "should be" not in text.split("diagn")[0]
    assert np.abs(report.computed - report.wanted).max() < 1e-5
