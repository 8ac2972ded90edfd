"""What step says of the lines of a wrong backward: no right line is called wrong."""

import io

import pytest

from npdl_study.blame.blame import blame
from npdl_study.step.step import step
from tests.tools import slow
from tests.tools.blame_files import built, mistakes, read

QUICK = ("a_batchnorm_mean_term", "a_two_layer_net")


def accused(layer, inputs, options):
    """Return (the numbers of the lines that step calls wrong, the Walk)."""
    walk = step(layer, *inputs, **options)
    found = {s.line.first for s in walk.recording.phase("backward") for w in s.writes
             if (v := walk.mark(s, w.name)) is not None
             and v.right is False and not v.kink and not v.follows}
    return found, walk


@pytest.mark.parametrize("path", slow.but(QUICK, mistakes("a_"), lambda path: path.stem),
                         ids=lambda path: path.stem)
def test_only_the_line_that_blame_names_is_called_wrong(path, tmp_path):
    text, _, _ = read(path)
    found, walk = accused(*built(text, tmp_path))
    assert found and all(walk.notes[-1].startswith(f"line {line} in ") for line in found)


GATES = """import numpy as np

def cell_sample():
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, 3, 4)), 0.5 * rng.standard_normal((4, 8))

def cell_forward(x, W):
    h, cache = np.zeros((2, 4)), []
    for t in range(3):
        a = (x[:, t] + h) @ W
        z, n = 1 / (1 + np.exp(-a[:, :4])), np.tanh(a[:, 4:])
        cache.append((x[:, t] + h, z, n, h)); h = (1 - z) * n + z * h
    return h, (cache, W)

def cell_backward(dh, cache):
    dx = np.zeros((2, 3, 4)); dW = np.zeros((4, 8))
    for t in (2, 1, 0):
        s, z, n, prev = cache[0][t]
        dz = dh * (prev - n) * z * (1 - z)
        dn = dh * (1 - z) * (1 - n * n)
        da = np.hstack((dz, dn))
        ds = da @ cache[1].T
        dx[:, t] = ds; dW {sign} s.T @ da
        dh = {factor}ds + dh * z
    return dx, dW
"""


@pytest.mark.slow
def test_a_name_is_no_fault_where_what_is_right_is_made_of_it(tmp_path):
    found, walk = accused(*built(GATES.format(sign="+=", factor="2 * "), tmp_path))
    assert found <= {GATES.splitlines().index("        dh = {factor}ds + dh * z") + 1}
    assert not any(f.right for f in walk.finals)        # dz, dn are the gradients of a
    out = io.StringIO()
    walk.show(("backward",), out)
    assert "wrong, here or in what it reads" in out.getvalue()
    assert "is not the gradient of" not in out.getvalue()       # no acquittal besides a wrong one


def test_every_statement_of_a_line_is_seen(tmp_path):
    layer, inputs, options = built(GATES.format(sign="=", factor=""), tmp_path)
    report = blame(layer, *inputs, **options)
    assert report.source.startswith("dx[:, t] = ds; dW = s.T @ da") and report.name == "dW"
    assert report.fix == "dW += s.T @ da" and report.verified
