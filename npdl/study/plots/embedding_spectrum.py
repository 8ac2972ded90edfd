"""Plot the principal components of a run's embeddings, and the Fourier spectrum of numbers.

A model that adds modulo p often embeds each number n as cos(2 pi k n / p) and sin(2 pi k n / p) for
a few frequencies k (Nanda et al. 2023, arXiv:2301.05217). These frequencies are the peaks of the
spectrum.
"""

import numpy as np
from matplotlib import colormaps

from npdl.backend import to_host
from npdl.errors import InputError
from npdl.train import style


def compute_principal_components(matrix):
    """Return (scores, shares) of the first two principal components of a matrix (n, D).

    `scores` is an array (n, 2), and `shares` are the fractions of the variance, an array (2,).
    """
    centred = matrix - matrix.mean(0)
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    share = np.square(s) / np.square(s).sum()
    return U[:, :2] * s[:2], share[:2]


def compute_power_spectrum(matrix):
    """Return the power spectrum along the rows of a (p, D) matrix, as fractions of the total power.

    The power is summed over the D columns. The result is an array (p//2,): frequencies 1..p//2.
    """
    power = np.square(np.abs(np.fft.rfft(matrix - matrix.mean(0), axis=0))).sum(1)
    if len(matrix) % 2 == 0:
        power[-1] /= 2                          # every other frequency counts for k and p - k
    return power[1:] / power[1:].sum()


def project_to_frequency(matrix, k):
    """Project the rows of a (p, D) matrix onto the plane of frequency k; return an array (p, 2).

    The Fourier transform along the p rows has a complex vector (D,) at k. Its real and imaginary
    parts span this plane.
    """
    wave = np.fft.rfft(matrix - matrix.mean(0), axis=0)[k]           # wave (D,), complex
    U, _, _ = np.linalg.svd(np.stack([wave.real, wave.imag]).T, full_matrices=False)
    return (matrix - matrix.mean(0)) @ U[:, :2]


def plot_embeddings(run, title):
    """Return a Figure with the principal components of the embeddings.

    If the tokens are numbers, the Figure also shows the Fourier spectrum, and the embeddings in the
    plane of the strongest frequency.

    Raises InputError for an embedding matrix with a single row or column.
    """
    table = to_host(run.model.embedding.W.data).astype(np.float64)
    if min(table.shape) < 2:
        raise InputError(f"embeddings: the embedding matrix has the shape {table.shape}; this plot "
                         "needs 2 or more rows and columns")
    if run.config.text is not None:
        made = style.make_figure(6.4, 6, title)
        _draw_components(made.subplots(), table, list(run.task.vocabulary.characters))
        return made
    p = run.config.p
    numbers, shares = table[:p], compute_power_spectrum(table[:p])
    made = style.make_figure(10, 3.9, title, f"the {p} rows of the numbers 0 to {p - 1}, centred; "
                             "colour: the number")
    left, middle, axes = made.subplots(1, 3)
    _draw_components(left, numbers, range(p))
    _draw_spectrum(middle, shares)
    k = int(shares.argmax()) + 1
    scores = project_to_frequency(numbers, k)
    order = np.arange(p) * pow(k, -1, p) % p if np.gcd(k, p) == 1 else np.arange(p)
    path = scores[np.append(order, order[0])]
    axes.plot(*path.T, color="#bbbbbb", linewidth=0.9, zorder=1)
    _draw_points(axes, scores, range(p))
    style.label_axes(axes, f"first axis of frequency {k}", "second axis",
                     f"n at the angle 2π·{k}n/{p}")
    return made


def _draw_components(axes, matrix, labels):
    scores, share = compute_principal_components(matrix)
    _draw_points(axes, scores, labels)
    style.label_axes(axes, f"component 1 ({share[0]:.0%} of the variance)",
                     f"component 2 ({share[1]:.0%})", "principal components")


def _draw_points(axes, scores, labels):
    """Draw a dot for each point, with its label on the side that faces away from the centre."""
    colours = colormaps[style.SEQUENTIAL](np.linspace(0, 1, len(scores)))
    axes.scatter(*scores.T, c=colours, s=26, linewidths=0, zorder=3)
    for point, label in zip(scores, labels, strict=True):
        outward = 11 * point / max(np.linalg.norm(point), 1e-12)
        axes.annotate(style.escape_token(str(label)), point, outward, textcoords="offset points",
                      ha="center", va="center", fontsize=8, color=style.INK, parse_math=False)
    axes.margins(0.12)
    axes.set_aspect("equal", "datalim")


def _draw_spectrum(axes, powers):
    k = np.arange(1, len(powers) + 1)
    strong = powers > 2 / len(powers)
    axes.bar(k, powers, color=np.where(strong, style.BLUE, "#b8c7d3"), width=0.75)
    for at in k[strong]:
        axes.text(at, powers[at - 1], f"{at}", ha="center", va="bottom", fontsize=9,
                  color=style.INK)
    axes.axhline(1 / len(powers), color=style.VERMILION, linewidth=1, linestyle="--")
    axes.text(1.01, 1 / len(powers), "uniform", transform=axes.get_yaxis_transform(), va="center",
              fontsize=8.5, color=style.VERMILION)          # right of the bars
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    style.label_axes(axes, "frequency k", "fraction of the power",
                     "Fourier spectrum over the numbers", grid="y")
