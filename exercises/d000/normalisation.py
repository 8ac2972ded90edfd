"""Document 000, Question 1: means and variances of batch, layer and instance normalisation."""

from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np

from exercises.framework import Claim, judge
from exercises.worked import Solution, Step, Table, listing, num, terms
from npdl.layers.batch_norm import statistics

QUESTION = """\
A tensor of 4 samples x 2 channels x 3 features is given:
  [[2 5 1] [4 3 4]]  [[1 2 4] [1 2 2]]  [[3 1 2] [3 2 4]]  [[3 4 3] [5 2 3]]
Which mean and which variance do batch, layer and instance normalisation use for it?"""
TITLES = {"1": "Means and variances of batch, layer and instance normalisation"}

TENSOR = np.array([
    [[2, 5, 1], [4, 3, 4]],
    [[1, 2, 4], [1, 2, 2]],
    [[3, 1, 2], [3, 2, 4]],
    [[3, 4, 3], [5, 2, 3]],
])

# What the definitions average over, with axes (sample, channel, feature).
DEFINED_AXES = {"batch": (0, 2), "layer": (1, 2), "instance": (2,)}

# What the document averages over, and what it prints, row by row.
DOCUMENT_AXES = {"batch": (0,), "layer": (2,), "instance": (1, 2)}
PRINTED = {
    ("batch", "mean"): "2.25 3.0 2.5 3.25 2.25 3.25",
    ("batch", "variance"): "0.6875 2.5 1.25 2.1875 0.1875 0.6875",
    ("layer", "mean"): "2.67 3.67 2.33 1.67 2.00 3.00 3.33 3.00",
    ("layer", "variance"): "2.89 0.22 1.56 0.22 0.67 0.67 0.22 2.00",
    ("instance", "mean"): "3.17 2.00 2.50 3.33",
    ("instance", "variance"): "2.14 1.11 0.92 2.22",
}

claim = partial(Claim, "000", "Q1")


def exact_statistics(tensor, axes):
    """Mean and variance over `axes` as lists of fractions, in the order of the other axes.

    tensor    (N, C, L) integers or anything that Fraction takes exactly
    """
    tensor = np.asarray(tensor)
    groups = {}
    for index in product(*map(range, tensor.shape)):
        key = tuple(i for axis, i in enumerate(index) if axis not in axes)
        groups.setdefault(key, []).append(Fraction(tensor[index].item()))
    means = [sum(group) / len(group) for group in groups.values()]
    variances = [
        sum((value - mean) ** 2 for value in group) / len(group)
        for group, mean in zip(groups.values(), means, strict=True)
    ]
    return means, variances


def library_statistics(tensor, kind):
    """npdl's mean and variance of a kind, in float64, flattened."""
    mean, variance = statistics(np.asarray(tensor, "float64"), kind)
    return mean.ravel(), variance.ravel()


def misprints(printed, exact):
    """[(place, printed text, exact value)] where a printed decimal is not its value rounded."""
    texts = printed.split()
    wrong = []
    for place, (text, value) in enumerate(zip(texts, exact, strict=True), 1):
        decimals = len(text.partition(".")[2])
        if abs(Fraction(text) - value) > Fraction(1, 2 * 10**decimals):
            wrong.append((place, text, value))
    return wrong


def claims():
    return [*axes_claims(), *number_claims()]


def axes_claims():
    """One claim for each kind: over which axes does it average?"""
    x = TENSOR.astype(float)
    found = []
    for kind, names in (("batch", "samples"), ("layer", "features"),
                        ("instance", "channels and features")):
        means, variances = exact_statistics(TENSOR, DEFINED_AXES[kind])
        theirs = exact_statistics(TENSOR, DOCUMENT_AXES[kind])
        own = library_statistics(x, kind)
        error = np.abs(np.array(own) - np.array([means, variances], float)).max()
        verdict = judge(theirs == (means, variances), provided=error < 1e-12,
                        if_false="convention" if kind == "layer" else "wrong")
        found.append(claim(
            "", f"{kind.capitalize()} normalisation averages this tensor over {names}.",
            f"{len(theirs[0])} means: {PRINTED[kind, 'mean'].replace(' ', ', ')}",
            f"{len(means)} means {listing(map(float, means), '.4f')}, variances "
            f"{listing(map(float, variances), '.4f')}",
            verdict, f"{why(kind)}; npdl's statistics and fractions differ by "
            f"{'less than 1e-12' if error < 1e-12 else error}", weight="answer",
        ))
    return found


WHY = {
    "batch": "with channels and features named apart, a channel has one pair over samples and "
             "features (axes 0 and 2); six pairs are what a dense layer of 6 units without a "
             "feature axis would have",
    "layer": "the definition takes all units of a sample (axes 1 and 2); the last axis alone is "
             "what a transformer calls layer normalisation, where axis 1 is time",
    "instance": "an instance is one sample AND one channel, so only axis 2 is averaged",
}


def why(kind):
    """WHY, and by which other name the document's statistics would be right."""
    theirs = exact_statistics(TENSOR, DOCUMENT_AXES[kind])
    names = [other for other, axes in DEFINED_AXES.items()
             if other != kind and exact_statistics(TENSOR, axes) == theirs]
    return WHY[kind] + (f"; the document's pairs are those of {names[0]} normalisation by the "
                        "definition, equal as fractions" if names else "")


def number_claims():
    """The printed numbers against the document's own axes: is at least the arithmetic right?"""
    found = []
    for (kind, what), printed in PRINTED.items():
        exact = exact_statistics(TENSOR, DOCUMENT_AXES[kind])[what == "variance"]
        own = (np.var if what == "variance" else np.mean)(TENSOR, DOCUMENT_AXES[kind])
        wrong = misprints(printed, exact)
        where = "; ".join(f"number {place}: {text} should be {value} = {float(value):.4f}"
                          for place, text, value in wrong)
        found.append(claim(
            "", f"The {len(exact)} printed {kind} {what}s are what the printed code gives.",
            printed, listing(map(float, exact), ".4f"),
            judge(not wrong, provided=np.allclose(np.array(exact, float), own.ravel())),
            (where or f"all {len(exact)} equal the exact fractions to the printed decimals")
            + (misread(kind) if kind == "layer" and wrong else ""),
            error="a row misread" if kind == "layer" else "",
        ))
    return found


def misread(kind):
    """What changing one entry of the tensor would explain, as the end of a sentence, or ""."""
    for index in np.ndindex(TENSOR.shape):
        for value in range(10):
            changed = TENSOR.copy()
            changed[index] = value
            means, variances = exact_statistics(changed, DOCUMENT_AXES[kind])
            if not (misprints(PRINTED[kind, "mean"], means)
                    or misprints(PRINTED[kind, "variance"], variances)):
                row = " ".join(map(str, changed[index[:2]]))
                return f"; all printed {kind} numbers are right if that row is read as {row}"
    return ""


SHARED = {
    "batch": ("one channel, over all samples and features", "channel"),
    "layer": ("one sample, over all its channels and features", "sample"),
    "instance": ("one channel of one sample, over its features alone", "sample, channel"),
}


def solutions():
    pairs = {kind: TENSOR.size // size(kind) for kind in DEFINED_AXES}
    work = Solution("1",
                    "The tensor of the question: 4 samples, 2 channels, 3 features, 24 numbers.")
    work.step("Write down which entries share a mean: x has the indices sample i, channel c, "
              "feature k, and each normalisation averages over some of them. The pairs (μ, σ²) are "
              "as many as the values of the indices that are left.",
              table=Table(("", "averages over", "values in a group", "pairs"), tuple(
                  (kind, SHARED[kind][0].split("over ")[1], size(kind), number)
                  for kind, number in pairs.items())))
    work.steps += map(kind_step, DEFINED_AXES)
    work.step("Which one is meant by layer normalisation? The definition takes all units of a "
              "sample, as here. In a transformer the second index is time, each position is "
              "normalised by itself, and the groups are those that are called instance above.",
              numbers=f"{pairs['layer']} pairs by the definition, {pairs['instance']} over the "
                      "last axis alone")
    right = all(np.allclose(np.array(exact_statistics(TENSOR, axes), float),
                            library_statistics(TENSOR, kind), atol=1e-12)
                for kind, axes in DEFINED_AXES.items())
    work.answer = ("; ".join(f"{kind} {number} pairs (one for each "
                             f"{SHARED[kind][1].replace(', ', ' and ')})"
                             for kind, number in pairs.items())
                   + ": the numbers of the three tables.")
    work.check("npdl's normalisation layers take the same means and variances from this tensor.",
               right)
    yield work


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
    total, square_total = sum(group), variances[0] * n
    squares = " + ".join(f"({num(value)} − {num(means[0])})²" for value in group[:2])
    return Step(
        f"{kind.capitalize()}: {SHARED[kind][0]}. The first group with a pencil, then all.",
        "μ = (x₁ + … + xₙ) / n      σ² = ((x₁ − μ)² + … + (xₙ − μ)²) / n",
        f"μ = ({terms(group)}) / {n} = {num(total)} / {n} = {num(means[0])}\n"
        f"σ² = ({squares} + …) / {n} = {num(square_total)} / {n} = {num(variances[0])}",
        table=Table((SHARED[kind][1], "values", "μ", "σ²", "μ ≈", "σ² ≈"), tuple(
            (", ".join(str(i + 1) for i in place), " ".join(map(str, row)), num(mean),
             num(variance), float(mean), float(variance))
            for place, row, mean, variance in zip(places, values.tolist(), means, variances,
                                                  strict=True)), 4))
