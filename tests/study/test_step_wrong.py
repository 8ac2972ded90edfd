"""What step says of the lines of a wrong backward: no right line is called wrong."""

import io
import re

import pytest

from npdl_study.check.target import build
from npdl_study.step.step import step
from tests.tools import slow
from tests.tools.corpus_files import MARK, whole_files

# where all that the mistake's line reads is known to be right, and what it writes to be wrong
CERTAIN = ("conv_cs", "conv_transposed", "gru_steps", "layernorm_chain", "lstm_peephole",
           "mlp_block", "negative_sampling", "powers", "rnn_steps")
QUICK = ("layernorm_chain", "mlp_block", "negative_sampling", "powers")


def accused(path, text):
    """(the numbers of the lines that step calls wrong, the lines of the mistake, the Walk)."""
    path.write_text(text)
    name = re.match(r"# (\w+): ", text)[1]
    layer, inputs, options = build(f"{path}:{name}")
    walk = step(layer, *inputs, **options)
    found = {s.line.first for s in walk.recording.phase("backward") for w in s.writes
             if (v := walk.mark(s, w.name)) is not None
             and v.right is False and not v.kink and not v.follows}
    return found, {n for n, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)}, walk


@pytest.mark.slow
@pytest.mark.parametrize("file", slow.but(QUICK, whole_files()))
def test_only_the_mistake_is_called_wrong(file, tmp_path):
    found, marked, walk = accused(tmp_path / f"{file}.py", whole_files()[file])
    assert all(walk.notes[-1].startswith(f"line {line} in ") for line in found)     # blame's
    assert found <= marked and (found or file not in CERTAIN)


GATES = """# cell: .
import numpy as np

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
        dh = {factor}ds + dh * z  #~
    return dx, dW
"""


@pytest.mark.slow
def test_a_name_is_no_fault_where_what_is_right_is_made_of_it(tmp_path):
    text = GATES.format(sign="+=", factor="2 * ")
    found, marked, walk = accused(tmp_path / "cell.py", text)
    assert not any(f.right for f in walk.finals) and found <= marked    # dz, dn are those of a
    out = io.StringIO()
    walk.show(("backward",), out)
    assert "wrong, here or in what it reads" in out.getvalue()
    assert "is not the gradient of" not in out.getvalue()       # no acquittal beside a wrong one


def test_every_statement_of_a_line_is_seen(tmp_path):
    from npdl_study.blame.blame import blame
    (tmp_path / "cell2.py").write_text(GATES.format(sign="=", factor=""))
    layer, inputs, options = build(f"{tmp_path / 'cell2.py'}:cell")
    report = blame(layer, *inputs, **options)
    assert report.source.startswith("dx[:, t] = ds; dW = s.T @ da") and report.name == "dW"
    assert "with `dW += s.T @ da` in place of `dW = s.T @ da`" in report.diagnosis
