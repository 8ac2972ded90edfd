"""Plot the norm of the gradient through time, for an RNN, a GRU and an LSTM cell."""

import numpy as np

from npdl.backend import make_rng
from npdl.layers.recurrent import GRUCell, LSTMCell, RNNCell
from npdl.train import style

CELLS = {"RNN": (RNNCell, style.VERMILION), "GRU": (GRUCell, style.GREEN),
         "LSTM": (LSTMCell, style.BLUE)}
WIDTH, BATCH, SEEDS = 64, 16, 5
BIAS = 3.0              # the bias of an open gate: sigmoid(3) = 0.95


def set_long_memory(cell, rng):
    """Set the parameters of a cell such that gradients hardly vanish through time.

    The W_h of an RNN becomes orthogonal. The gates of a GRU or LSTM retain nearly all of the state.
    """
    H = cell.d_hidden
    if isinstance(cell, RNNCell):
        Q, R = np.linalg.qr(rng.standard_normal((H, H)))
        cell.W_h.data[...] = Q * np.sign(np.diag(R))
    elif isinstance(cell, LSTMCell):
        cell.b.data[H : 2 * H] = BIAS               # forget gate: c' = f * c + i * g, f near 1
    else:
        cell.b.data[:H] = -BIAS                     # update gate: h' = (1 - z) * h + z * h_hat


def compute_gradient_norms(cell, num_time_steps, rng):
    """Return the norm of dL/dstate_t for each step t, averaged over a batch.

    The result is an array (num_time_steps + 1,). dL/dh at the last step is random. The inputs
    are standard normal, and the initial state is 0. The state of an LSTM is (h, c).
    """
    state, caches = None, []
    for _ in range(num_time_steps):
        x = rng.standard_normal((BATCH, WIDTH))
        state, cache = cell.forward(x, state)
        caches.append(cache)
    dstates = [rng.standard_normal((BATCH, cell.d_hidden))]
    for cache in reversed(caches):
        dstates.append(cell.backward(dstates[-1], cache)[1])
    parts = [d if isinstance(d, tuple) else (d,) for d in reversed(dstates)]
    return np.array([np.sqrt(sum((part * part).sum(-1) for part in d)).mean() for d in parts])


def compute_norm_curves(cell_class, has_long_memory, num_time_steps):
    """Return norms (SEEDS, steps + 1), from the last step back, divided by that of the last."""
    curves = []
    for seed in range(SEEDS):
        rng = make_rng(seed, 14)
        cell = cell_class(WIDTH, WIDTH, rng=rng, dtype="float64")
        if has_long_memory:
            set_long_memory(cell, rng)
        norms = compute_gradient_norms(cell, num_time_steps, rng)[::-1]
        curves.append(np.maximum(norms / norms[0], 1e-300))
    return np.array(curves)


def plot_gradients_through_time(num_time_steps=100):
    """Return a Figure with the norm of the state's gradient over the steps back from the end."""
    made = style.make_figure(
        10, 4.2, "How far back does the gradient reach?",
        f"width {WIDTH}, random inputs, gradient 1 at the last step; line: geometric mean of "
        f"{SEEDS} seeds, band: smallest to largest")
    titles = ("default initialisation", "long memory: orthogonal W_h, gate biases ±3")
    for has_long_memory, axes, title in zip((False, True), made.subplots(1, 2, sharey=True), titles,
                                   strict=True):
        for dash, (name, (cls, colour)) in zip(style.DASHES, CELLS.items(), strict=False):
            curves = compute_norm_curves(cls, has_long_memory, num_time_steps)
            axes.fill_between(range(num_time_steps + 1), curves.min(0), curves.max(0),
                              color=colour, alpha=0.18, linewidth=0)
            axes.plot(np.exp(np.log(curves).mean(0)), color=colour, linewidth=2,
                      linestyle=dash, label=name)
        axes.set(yscale="log", ylim=(1e-16, 1e2), xlim=(0, num_time_steps))
        style.label_axes(axes, "steps back from the end",
                         "" if has_long_memory else "gradient norm, relative (log scale)", title)
    axes.legend(frameon=False, labelcolor=style.INK, loc="lower left", handlelength=3)
    return made
