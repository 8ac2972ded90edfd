"""What a run's embeddings have become: principal components, and the Fourier spectrum of numbers.

A model that adds modulo p often stores each number n as waves cos(2 pi k n / p), sin(2 pi k n / p)
of a few frequencies k (Nanda et al. 2023, arXiv:2301.05217); in the table's spectrum over n they
stand out.
"""

import numpy as np
from matplotlib import colormaps

from npdl.backend import to_host
from npdl.errors import InputError
from npdl_study.plots import style

NEAREST = 0.2           # radians between two labels


def principal(table):
    """(scores (n, 2) on the first two principal components, their shares of the variance)."""
    centred = table - table.mean(0)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    share = np.square(s) / np.square(s).sum()
    return U[:, :2] * s[:2], share[:2]


def spectrum(table):
    """Shares of the power of frequencies k = 1..p//2 over the rows n = 0..p-1 of (p, D)."""
    power = np.square(np.abs(np.fft.rfft(table - table.mean(0), axis=0))).sum(1)
    if len(table) % 2 == 0:
        power[-1] /= 2                          # the others stand for k and p - k
    return power[1:] / power[1:].sum()


def circle(table, k):
    """Scores (p, 2) in the plane that best holds the wave of frequency k."""
    wave = np.fft.rfft(table - table.mean(0), axis=0)[k]            # wave (D,), complex
    U, _, _ = np.linalg.svd(np.stack([wave.real, wave.imag]).T, full_matrices=False)
    return (table - table.mean(0)) @ U[:, :2]


def plot_embeddings(run, title):
    """A Figure: PCA of the run's token embeddings; for numbers also the spectrum and the plane
    of the strongest frequency. Raises InputError for a table with a single row or column."""
    table = to_host(run.model.embedding.W.data).astype(np.float64)
    if min(table.shape) < 2:
        raise InputError(f"embeddings: the table is {table.shape}; a picture needs 2 or more rows "
                         "and columns")
    if run.config.text is not None:
        made = style.figure(6.4, 6, title)
        _components(made.subplots(), table, list(run.task.vocabulary.characters))
        return made
    p = run.config.p
    numbers, shares = table[:p], spectrum(table[:p])
    made = style.figure(10, 3.9, title, f"the {p} rows of the numbers 0 to {p - 1}, centred; "
                        "colour: the number")
    panels = made.subplots(1, 3)
    _components(panels[0], numbers, range(p))
    _bars(panels[1], shares)
    k = int(shares.argmax()) + 1
    scores = circle(numbers, k)
    axes = panels[2]
    order = np.arange(p) * pow(k, -1, p) % p if np.gcd(k, p) == 1 else np.arange(p)
    path = scores[np.append(order, order[0])]
    axes.plot(*path.T, color="#bbbbbb", linewidth=0.9, zorder=1)
    _points(axes, scores, range(p))
    style.dress(axes, f"along the wave of frequency {k}", "across it",
                f"n at the angle 2π·{k}n/{p}")
    axes.set_aspect("equal", "datalim")
    return made


def _components(axes, table, labels):
    scores, share = principal(table)
    _points(axes, scores, labels)
    style.dress(axes, f"component 1 ({share[0]:.0%} of the variance)",
                f"component 2 ({share[1]:.0%})", "principal components")
    axes.set_aspect("equal", "datalim")


def _points(axes, scores, labels):
    """A dot for each point, and a line from it to its label, on a circle around all of them."""
    colours = colormaps[style.SEQUENTIAL](np.linspace(0, 1, len(scores)))
    axes.scatter(*scores.T, c=colours, s=26, linewidths=0, zorder=3)
    radius = 1.22 * np.abs(scores[:, 0] + 1j * scores[:, 1]).max()
    angles = apart(np.arctan2(scores[:, 1], scores[:, 0]))
    for (x, y), angle, label in zip(scores, angles, labels, strict=True):
        at = radius * np.cos(angle), radius * np.sin(angle)
        axes.plot([x, 0.94 * at[0]], [y, 0.94 * at[1]], color="#cccccc", linewidth=0.6, zorder=1)
        shown = str(label) if str(label).isprintable() else repr(label)[1:-1]
        axes.text(*at, "␣" if shown == " " else shown, ha="center", va="center", fontsize=8,
                  parse_math=False, color=style.INK)
    axes.update_datalim([(-1.05 * radius, -1.05 * radius), (1.05 * radius, 1.05 * radius)])


def apart(angles):
    """Angles (n,) moved as little as labels need: NEAREST apart, or what a full circle has."""
    order = np.argsort(angles, kind="stable")
    gap = min(NEAREST, 0.95 * 2 * np.pi / len(angles))
    moved = angles[order]
    for _ in range(10_000):
        near = np.maximum(gap - np.diff(moved, append=moved[0] + 2 * np.pi), 0)
        if near.max() < 0.01 * gap:
            break
        moved = moved - near / 2 + np.roll(near, 1) / 2
    back = np.empty_like(moved)
    back[order] = moved
    return back


def _bars(axes, shares):
    k = np.arange(1, len(shares) + 1)
    strong = shares > 2 / len(shares)
    axes.bar(k, shares, color=np.where(strong, style.BLUE, "#b8c7d3"), width=0.75)
    for at in k[strong]:
        axes.text(at, shares[at - 1], f"{at}", ha="center", va="bottom", fontsize=9,
                  color=style.INK)
    axes.axhline(1 / len(shares), color=style.VERMILION, linewidth=1, linestyle="--")
    axes.text(1.01, 1 / len(shares), "even", transform=axes.get_yaxis_transform(), va="center",
              fontsize=8.5, color=style.VERMILION)          # right of the bars
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    style.dress(axes, "frequency k", "share of the power", "Fourier spectrum over the numbers",
                grid="y")
