"""The page that `step --html` writes, and the formulae beside the code."""

import ast
import json
import re
import shlex
from pathlib import Path
from xml.dom import minidom

import numpy as np
import pytest

from npdl.__main__ import main
from npdl.core import Cache, Layer
from npdl_study.check.samples import layer_classes, sample
from npdl_study.step import maths
from npdl_study.step.show_html import page
from npdl_study.step.step import step
from npdl_study.trace.statements import lines_of
from tests.tools import slow

ROOT = Path(__file__).parents[2]
CLASSES = layer_classes()


def page_data(text):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert "<" not in found[1]                          # no tag, no comment, whatever it holds
    return json.loads(found[1])


@pytest.mark.parametrize("name", slow.but(["LayerNorm"], ["LayerNorm", "LSTM", "Block"]))
def test_the_page_is_one_small_file_that_asks_for_nothing(name):
    layer, inputs, options = sample(CLASSES[name])
    text = page(step(layer, *inputs, **options))
    assert len(text.encode()) < 1_000_000
    assert "default-src 'none'" in text and not re.search(r"(src|href|url)\s*[=(]", text)
    assert "http" not in text.replace("http-equiv", "")
    assert str(ROOT) not in text and str(Path.home()) not in text
    data = page_data(text)
    calls, functions = data["calls"], data["functions"]
    for one in data["steps"]:
        function = functions[calls[one["call"]]["function"]]
        assert one["from"] in [line[0] for line in function["lines"]]
        arrays = [data["arrays"][entry["array"]] for entry in (*one["writes"], *one["reads"])]
        assert all(len(array["shape"]) <= 6 and array["picture"] for array in arrays)
    kinds = {w["check"]["kind"] for s in data["steps"] for w in s["writes"] if "check" in w}
    assert kinds == {"right"}
    assert {c["phase"] for c in calls} == {"forward", "backward"}


DOCUMENT = ROOT / "docs" / "study-tools.md"


def test_the_committed_transcript_is_what_its_command_says_now(capsys):
    """Every line that docs/study-tools.md keeps of it, in order; a rounding error may differ."""
    command, kept = re.search(r"^\$ python -m npdl (step .*)\n((?:.*\n)+?)```",
                              DOCUMENT.read_text(encoding="utf-8"), re.M).groups()
    assert main(shlex.split(command)) == 0
    said, wanted = (re.sub(r"error \d\S*?\)", "error)", text).splitlines()
                    for text in (capsys.readouterr().out, kept))
    lines = [line for line in wanted if line not in ("", "...")]
    assert len(lines) > 8
    rest = iter(said)
    for line in lines:
        assert line in rest, f"{line!r} is not what `python -m npdl {command}` says"


class Hostile(Layer):
    """Its source and its error hold what would end a script, or begin a comment in one."""

    def forward(self, x):
        y = x * len("</script><b>&amp;")
        return y, Cache()

    def backward(self, dy, cache):
        raise ValueError("not <!-- <script> in </script>")


def test_source_cannot_break_the_page():
    text = page(step(Hostile(), np.ones((2, 2))))
    assert text.count("</script>") == 2
    lines = page_data(text)["functions"][0]["lines"]
    assert any("&lt;/script&gt;&lt;b&gt;&amp;amp;" in line[1] for line in lines)


@pytest.mark.parametrize(("code", "formula"), [
    ("dx = dx - x_hat * along_x", "dx = dx − x\u0302 ⊙ along_x"),
    ("self.W.grad += cache.rows.T @ dy_rows", "dW += rowsᵀ dy_rows"),
    ("rstd = 1 / xp.sqrt(var + self.eps)", "rstd = 1 / √(var + ε)"),
    ("dx = xp.multiply(dx, rstd, out=dx)", "dx = dx ⊙ rstd"),
    ("y = a - (b - c)", "y = a − (b − c)"),
    ("y = (a + b) * c", "y = (a + b) ⊙ c"),
    ("y = a / (b * c)", "y = a / (b ⊙ c)"),
    ("y = -(a + b)", "y = −(a + b)"),
    ("db = dz.sum(0)", "db = Σ_0 dz"),
    ("y = x ** 2", "y = x²"),
    ("y, cache = self.f.forward(x)", "y = f(x)"),
    ("import os", ""),
    ("x_hat, rstd = cache.x_hat, cache.rstd", ""),
    ("y = y.reshape(-1, D)", ""),
    ("z_i, z_f = xp.split(z, 2, -1)", "[z_i, z_f] = z"),
    ("dz = xp.concatenate([dz_i, dz_f], -1)", "dz = [dz_i, dz_f]"),
    ("shift = dx_hat.mean(-1, keepdims=True)", "shift = mean dx\u0302"),
    ("dh = dy[:, t]", "dh = dy[t]"),
    ("z = xp.zeros(shape, dtype) * parts", ""),
    ("parts = (zeros,) * 2", ""),
    ("dc = dh * (1 - tanh_c * tanh_c)", "dc = dh ⊙ (1 − tanh(c) ⊙ tanh(c))"),
    ("state = new if real is None else if_real(new)", ""),
    ("df = dc * c_prev", "df = dc ⊙ c_prev"),
    ("dz = xp.multiply(dy, cache.slope)", "dz = dy ⊙ slope"),
    ("dx = self.ffn.backward(dy, cache.ffn)", ""),
])
def test_lines_as_formulae(code, formula):
    node = ast.parse(code).body[0]
    assert maths.text(node) == formula
    assert bool(maths.mathml(node)) == bool(formula)


@pytest.mark.parametrize(("code", "indices"), [
    ("a = self.target_embedding.forward(source_ids)", 0), ("a, b, c = NEWTON_SCHULZ", 0),
    ("a = self.norm_1.forward(x)", 1), ("q = x @ self.W_Q.data", 1),
])
def test_two_words_are_no_letter_with_an_index(code, indices):
    assert maths.mathml(ast.parse(code).body[0]).count("<msub>") == indices


def test_formulae_are_well_formed():
    for cls in CLASSES.values():
        for name in ("forward", "backward"):
            found = lines_of(getattr(cls, name).__code__)
            for line in found.lines if found else ():
                text = maths.mathml(line.node)
                if text:
                    minidom.parseString(text)
