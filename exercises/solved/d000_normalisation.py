"""The worked solution of document 000, Question 1: three normalisations of one tensor."""

import numpy as np

from exercises.d000_normalisation import (
    DEFINED_AXES,
    TENSOR,
    exact_statistics,
    library_statistics,
)
from exercises.worked import Check, Solution, Step, Table, num, terms

SHARED = {
    "batch": ("one channel, over all samples and features", "channel"),
    "layer": ("one sample, over all its channels and features", "sample"),
    "instance": ("one channel of one sample, over its features alone", "sample, channel"),
}


def solutions():
    steps = [Step(
        "Write down which entries share a mean: x has the indices sample i, channel c, feature k, "
        "and each normalisation averages over some of them. The pairs (μ, σ²) are as many as the "
        "values of the indices that are left.",
        table=Table(("", "averages over", "values in a group", "pairs"), tuple(
            (kind, SHARED[kind][0].split("over ")[1], size(kind), TENSOR.size // size(kind))
            for kind in DEFINED_AXES)))]
    steps += [kind_step(kind) for kind in DEFINED_AXES]
    steps.append(Step(
        "Which one is meant by layer normalisation? The definition takes all units of a sample, as "
        "here. In a transformer the second index is time, each position is normalised by itself, "
        "and the groups are those that are called instance above.",
        numbers=f"{TENSOR.size // size('layer')} pairs by the definition, "
                f"{TENSOR.size // size('instance')} over the last axis alone"))
    right = all(np.allclose(np.array(exact_statistics(TENSOR, axes), float),
                            library_statistics(TENSOR, kind), atol=1e-12)
                for kind, axes in DEFINED_AXES.items())
    return [Solution(
        "1", tuple(steps),
        "; ".join(f"{kind} {TENSOR.size // size(kind)} pairs (one for each "
                  f"{SHARED[kind][1].replace(', ', ' and ')})" for kind in DEFINED_AXES)
        + ": the numbers of the three tables.",
        (Check("npdl's normalisation layers take the same means and variances from this tensor.",
               right),),
        "The tensor of the question: 4 samples, 2 channels, 3 features, 24 numbers.",
        picture="which entries share a mean, by colour")]


def size(kind):
    return int(np.prod([TENSOR.shape[axis] for axis in DEFINED_AXES[kind]]))


def kind_step(kind):
    """The first group with a pencil, then all groups in a table."""
    axes = DEFINED_AXES[kind]
    kept = [axis for axis in range(3) if axis not in axes]
    values = np.moveaxis(TENSOR, kept, range(len(kept))).reshape(-1, size(kind))
    means, variances = exact_statistics(TENSOR, axes)
    places = np.ndindex(*(TENSOR.shape[axis] for axis in kept))
    group, n = values[0].tolist(), size(kind)
    squares = " + ".join(f"({num(value)} − {num(means[0])})²" for value in group[:2])
    return Step(
        f"{kind.capitalize()}: {SHARED[kind][0]}. The first group with a pencil, then all.",
        "μ = (x₁ + … + xₙ) / n      σ² = ((x₁ − μ)² + … + (xₙ − μ)²) / n",
        f"μ = ({terms(group)}) / {n} = {num(sum(group))} / {n} = {num(means[0])}\n"
        f"σ² = ({squares} + …) / {n} = {num(variances[0] * n)} / {n} = {num(variances[0])}",
        table=Table((SHARED[kind][1], "values", "μ", "σ²", "μ ≈", "σ² ≈"), tuple(
            (", ".join(str(i + 1) for i in place), " ".join(map(str, row)), num(mean),
             num(variance), float(mean), float(variance))
            for place, row, mean, variance in zip(places, values.tolist(), means, variances,
                                                  strict=True)), 4))
