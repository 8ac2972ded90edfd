"""A model of your own: an LSTM with coupled gates, with a backward by hand, memorises a rhyme.

One gate i decides how much of the new value g replaces the cell's value c: c = (1 - i) c + i g
(Greff et al. 2017, CIFG). The run ends with a sample.    python docs/examples/own_model.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import npdl
from npdl.functions import sigmoid
from npdl.train.config import Config
from npdl.train.metrics import read_records
from npdl.train.run import train

RHYME = "Twinkle, twinkle, little star,\nHow I wonder what you are!\n"


class CoupledLSTM(npdl.Layer):
    """x (B, S, D) -> h (B, S, H); the columns of W_x, W_h and b are those of the gates i, o, g."""

    def __init__(self, D, H, rng):
        rng, bound = np.random.default_rng(rng), H**-0.5
        self.W_x, self.W_h, self.b = (
            npdl.Param(rng.uniform(-bound, bound, shape).astype("float32"))
            for shape in ((D, 3 * H), (H, 3 * H), (3 * H,)))

    def forward(self, x):
        B, S, _ = x.shape
        h = c = np.zeros((B, len(self.W_h.data)), x.dtype)
        hs, steps = [], []
        for t in range(S):
            z = x[:, t] @ self.W_x.data + h @ self.W_h.data + self.b.data   # z (B, 3H)
            zi, zo, zg = np.split(z, 3, axis=1)
            i, o, g = sigmoid(zi), sigmoid(zo), np.tanh(zg)
            steps.append((h, c, i, o, g))
            c = (1 - i) * c + i * g
            h = o * np.tanh(c)
            hs.append(h)
        return np.stack(hs, 1), npdl.Cache(x=x, steps=steps)

    def backward(self, dhs, cache):
        dxs, dh, dc = [], 0, 0
        for t in reversed(range(dhs.shape[1])):
            h, c, i, o, g = cache.steps[t]                  # h and c are those before the step
            tanh_c = np.tanh((1 - i) * c + i * g)
            dh = dhs[:, t] + dh
            dc = dc + dh * o * (1 - tanh_c**2)
            di, do, dg = dc * (g - c), dh * tanh_c, dc * i
            dz = np.concatenate([di * i * (1 - i), do * o * (1 - o), dg * (1 - g**2)], axis=1)
            self.W_x.grad += cache.x[:, t].T @ dz
            self.W_h.grad += h.T @ dz
            self.b.grad += dz.sum(0)
            dxs.append(dz @ self.W_x.data.T)
            dh, dc = dz @ self.W_h.data.T, dc * (1 - i)
        return np.stack(dxs[::-1], 1)


def make_coupled_lstm(config, task):
    V, H = task.vocab_size, config.width
    return npdl.Sequential(npdl.Embedding(V, H, rng=1), CoupledLSTM(H, H, rng=2),
                           npdl.Linear(H, V, rng=3))


def main(folder=None, steps=400, **settings):
    folder = Path(folder or tempfile.mkdtemp())
    (folder / "rhyme.txt").write_text(RHYME * 40)
    train(Config(text=str(folder / "rhyme.txt"), model=make_coupled_lstm, width=64, block=32,
                 lr=1e-2, clip=1.0, steps=steps, eval_every=steps // 4, **settings), folder / "run")
    accuracy = read_records(folder / "run" / "metrics.jsonl")[-1]["validation_accuracy"]
    print(f"{accuracy:.1%} of the next characters are right; the run is in {folder}")
    return accuracy


if __name__ == "__main__":
    main(*sys.argv[1:])
