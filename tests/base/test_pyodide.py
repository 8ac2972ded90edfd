"""Engine, gradcheck, step and blame with NumPy alone, as in a browser (Pyodide, JupyterLite): no
processes, threads, signals or file locks, and no other package."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import sys
import numpy, numpy.random, sysconfig           # which has a lock, from Python 3.12 on
FORBIDDEN = {"_posixsubprocess", "_multiprocessing", "concurrent", "fcntl", "joblib",
             "matplotlib", "multiprocessing", "resource", "signal", "_signal", "subprocess",
             "threading", "threadpoolctl", "tqdm"}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in FORBIDDEN:
            raise ImportError(f"{name} is not there in a browser")

for name in list(sys.modules):                  # what these have loaded for themselves
    if name.split(".")[0] in FORBIDDEN:
        del sys.modules[name]
sys.meta_path.insert(0, Refuse())
try:
    import threading
except ImportError:
    pass
else:
    raise SystemExit("the test forbids nothing")
sys.path.insert(0, sys.argv[1])
"""
PROGRAM = """
import numpy as np
from npdl import GPT, AdamW, LSTMCell, SequenceLoss, blame, clip_by_global_norm, gradcheck, step
from npdl.data import ModularArithmetic, batch_indices
from npdl.study.check.samples import sample
from npdl.study.mine import MyLayer

data = ModularArithmetic(p=5)
model = GPT(data.vocabulary.size, d_model=8, num_heads=2, max_len=data.sequence_length)
optimizer, loss_of, losses = AdamW(model, lr=1e-2), SequenceLoss(), []
for t in range(30):
    batch = data.train.take(batch_indices(len(data.train), 32, t, seed=0))
    logits, cache = model.forward(batch.inputs)
    loss, c_loss = loss_of.forward(logits, batch.targets, batch.answer_mask)
    optimizer.zero_grad()
    model.backward(loss_of.backward(1.0, c_loss), cache)
    clip_by_global_norm(optimizer.params.values(), 1.0)
    optimizer.step()
    losses.append(float(loss))
assert losses[-1] < losses[0]

layer, inputs, options = sample(LSTMCell)
assert gradcheck(layer, *inputs, **options).ok()
walk = step(layer, *inputs, **options)
with open(sys.argv[2] + "/walk.txt", "w", encoding="utf-8") as file:
    walk.show(file=file)
walk.to_html(sys.argv[2] + "/walk.html")
assert "gradients are right" in walk.outcome() and "<iframe" in walk._repr_html_()


class Wrong(MyLayer):
    def backward(self, dy, cache):
        dx = super().backward(dy, cache)
        self.b.grad -= 2 * dy.sum(0)
        return dx


layer, x = Wrong.sample()
assert blame(layer, x).right is False
"""


def test_everything_runs_in_a_browser(tmp_path):
    done = subprocess.run([sys.executable, "-W", "error", "-c", BEGIN + PROGRAM, ROOT, tmp_path],
                          capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
