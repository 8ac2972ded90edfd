"""gradcheck, blame, assert_right and step give one verdict: on npdl's layers and on mistakes, in a
file, and where there is none: in a function, under another name, from exec, as in a notebook."""

import linecache

import numpy as np
import pytest

from npdl import assert_right, blame, gradcheck, step
from npdl_study.check.samples import layer_classes, sample
from tests.tools import slow
from tests.tools.blame_files import built, mistakes, read

LAYERS = ("Linear", "LayerNorm", "Softmax", "ReLU", "GRUCell", "DotAttention", "CrossEntropy",
          "GroupNorm", "Embedding", "ThresholdNeuron")
# By default one of each kind of verdict.
QUICK_LAYERS = ("Linear", "LayerNorm", "ThresholdNeuron")
QUICK_FILES = ("a_attention_scale", "b_relu_strict")
X = np.random.default_rng(2).standard_normal((3, 4))


def verdicts(layer, inputs, options):
    """{tool: True, False, or None where it could not be looked at}."""
    found = {"gradcheck": gradcheck(layer, *inputs, **options).right}
    report = blame(layer, *inputs, **options)
    unchecked = report.kind in ("unchecked", "random", "aliasing")
    found["blame"] = True if report.right else None if unchecked else False
    try:
        assert_right(layer, *inputs, **options)
        found["assert_right"] = True
    except AssertionError:
        found["assert_right"] = None if unchecked else False
    finals = [row.right for row in step(layer, *inputs, **options).finals]
    found["step"] = False if False in finals else None if None in finals or not finals else True
    return found


def agreed(layer, inputs, options=None):
    """The verdict of all."""
    options = options or {}
    found = verdicts(layer, inputs, options)
    if found["gradcheck"] is False and not gradcheck(layer, *inputs, **options).wrong:
        found.pop("step")                               # which shows gradients, no side effects
    assert len(set(found.values())) == 1, found
    return found["gradcheck"]


@pytest.mark.parametrize("name", slow.but(QUICK_LAYERS, LAYERS))
def test_of_npdls_layers(name):
    layer, inputs, options = sample(layer_classes()[name])
    assert agreed(layer, inputs, options) is (None if name == "ThresholdNeuron" else True)


@pytest.mark.parametrize("path", slow.but(QUICK_FILES, mistakes()[::6] + mistakes("b_relu"),
                                          lambda path: path.stem), ids=lambda path: path.stem)
def test_of_files_with_a_mistake_and_corrected(path, tmp_path):
    wrong, _, right = read(path)
    assert agreed(*built(wrong, tmp_path)) is False
    assert agreed(*built(right, tmp_path)) is True


SOURCE = '''
import numpy as np
from npdl import Cache, Layer, Param

class Net(Layer):
    def __init__(self):
        self.w = Param(np.ones(4))

    def forward(self, x):
        u = x * self.w.data
        return FORWARD, Cache(x=x, u=u)

    def backward(self, dy, cache):
        x, u = cache.x, cache.u
        du = BACKWARD
        self.w.grad += (du * x).sum(0)
        return du * self.w.data
'''
PAIRS = [("u**2", "2 * dy * u", True), ("u**2", "dy * u", False), ("np.tanh(u)", "dy", False),
         ("u / (np.abs(u) + 1e-5)", "0 * dy", False), ("0 * u", "0 * dy", None),
         ("np.maximum(u, 0)", "dy * (u > 0)", True), ("np.maximum(u, 0)", "dy * (u < 0)", False)]


def bare(text):
    """exec without a file: there is no source to be found."""
    names = {"__name__": "__main__"}
    exec(text, names)
    return names["Net"]


def cell(text):
    """A notebook's cell: the source under a name that is no file."""
    name = f"/tmp/ipykernel_1/{abs(hash(text))}.py"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    return names["Net"]


def inside(text):
    """A class that is made in a function, and stands under another name."""
    indented = "def make():\n" + "".join(f"    {line}\n" for line in text.splitlines())
    names = {"__name__": "__main__"}
    exec(compile(indented + "    return Net\n", "<string>", "exec"), names)
    made = names["make"]()
    made.__name__ = "Other"
    return made


def said(place):
    where, forward, backward, _ = place
    return f"{where.__name__}: {forward}, {backward}"


WHERE = (bare, cell, inside)
PLACES = [(where, *pair) for where in WHERE for pair in PAIRS]
QUICK_PLACES = [said((where, *PAIRS[i])) for where, i in zip(WHERE, (0, 2, 4), strict=True)]


@pytest.mark.parametrize(("where", "forward", "backward", "right"),
                         slow.but(QUICK_PLACES, PLACES, said), ids=map(said, PLACES))
def test_wherever_the_class_was_made(where, forward, backward, right):
    made = where(SOURCE.replace("FORWARD", forward).replace("BACKWARD", backward))
    assert agreed(made(), (X,)) is right
