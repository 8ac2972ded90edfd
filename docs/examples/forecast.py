"""A forecast of numbers: a GRU reads 40 values of a noisy wave and predicts the next one.

The loss of two arrays has a gradient for each. The first is that of the forecast.
    python docs/examples/forecast.py
"""

import numpy as np

import npdl


class Forecaster(npdl.Layer):
    """x (B, T, 1) -> y (B, 1): the last state of a GRU, mapped."""
    def __init__(self, H=24):
        self.gru, self.out = npdl.GRU(1, H, rng=1), npdl.Linear(H, 1, rng=2)

    def forward(self, x):
        (h, _), c_gru = self.gru.forward(x)                     # h (B, T, H)
        y, c_out = self.out.forward(h[:, -1])                   # y (B, 1)
        return y, npdl.Cache(h=h, gru=c_gru, out=c_out)

    def backward(self, dy, cache):
        dh = np.zeros_like(cache.h)
        dh[:, -1] = self.out.backward(dy, cache.out)            # y depends on the last step only
        return self.gru.backward(dh, cache.gru)


def draw_waves(count, rng, T=40):
    """x (count, T, 1) and what comes next (count, 1): sines of any phase, period 10 to 30."""
    t, phase = np.arange(T + 1), rng.uniform(0, 2 * np.pi, (count, 1))
    wave = np.sin(2 * np.pi * t / rng.uniform(10, 30, (count, 1)) + phase)
    seen = wave[:, :T] + rng.normal(0, 0.05, (count, T))
    return seen[..., None], wave[:, T:]


def main(steps=250):
    rng, model, loss_of = np.random.default_rng(0), Forecaster(), npdl.SquaredError()
    optimizer = npdl.AdamW(model, lr=1e-2, weight_decay=0.0)
    for _ in range(steps):
        x, wanted = draw_waves(32, rng)
        y, cache = model.forward(x)
        loss, c_loss = loss_of.forward(y, wanted)
        optimizer.zero_grad()
        dy, _ = loss_of.backward(1.0, c_loss)
        model.backward(dy, cache)
        npdl.clip_by_global_norm(optimizer.params.values(), 1.0)
        optimizer.step()
    x, wanted = draw_waves(500, np.random.default_rng(1))
    explained = 1 - ((model.forward(x)[0] - wanted) ** 2).mean() / wanted.var()
    print(f"last loss {loss:.4f}; of 500 new waves {explained:.1%} of the variance is predicted")
    return explained


if __name__ == "__main__":
    with npdl.BLASThreads(1):            # more threads are slower for arrays this small
        main()
