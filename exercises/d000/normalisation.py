"""Document 000, Question 1: means and variances of batch, layer and instance normalisation.

The tensor has 4 samples, 2 channels and 3 features.
"""

from fractions import Fraction

import numpy as np

from exercises.course import format_table, judge, question, vec
from npdl.layers.batch_norm import centre_and_moments

TENSOR = np.array([[[2, 5, 1], [4, 3, 4]], [[1, 2, 4], [1, 2, 2]],
                   [[3, 1, 2], [3, 2, 4]], [[3, 4, 3], [5, 2, 3]]])

# {kind: (axes by the definition, axes of the document, what shares a mean, over what)}
KINDS = {
    "batch": ((0, 2), (0,), "channel", "one channel over ", "all samples and features"),
    "layer": ((1, 2), (2,), "sample", "one sample over ", "all its channels and features"),
    "instance": ((2,), (1, 2), "sample, channel", "one channel of one sample over ",
                 "its features only"),
}
PRINTED = {
    "batch": ("2.25 3.0 2.5 3.25 2.25 3.25", "0.6875 2.5 1.25 2.1875 0.1875 0.6875"),
    "layer": ("2.67 3.67 2.33 1.67 2.00 3.00 3.33 3.00", "2.89 0.22 1.56 0.22 0.67 0.67 0.22 2.00"),
    "instance": ("3.17 2.00 2.50 3.33", "2.14 1.11 0.92 2.22"),
}
# {kind: (the document's axes in words, why the definition has others)}
WHY = {
    "batch": ("samples", "channels and features are separate axes, so each channel has one pair "
                         "over samples and features (axes 0 and 2); six pairs would be right for a "
                         "dense layer of 6 units without a feature axis"),
    "layer": ("features", "the definition averages over all units of a sample (axes 1 and 2); a "
                          "transformer averages over the last axis only, because axis 1 is time; "
                          "by the definition, the document has the pairs of instance "
                          "normalisation"),
    "instance": ("channels and features", "an instance is one channel of one sample, so the "
                                          "average is over axis 2 only; by the definition, the "
                                          "document has the pairs of layer normalisation"),
}


def group_entries(tensor, axes):
    """Return the groups of entries that share a mean over `axes`, one group in each row."""
    kept = [axis for axis in range(3) if axis not in axes]
    values = np.moveaxis(tensor, kept, range(len(kept)))
    return values.reshape(-1, np.prod([tensor.shape[axis] for axis in axes]))


def exact_moments(tensor, axes):
    """Return the means and the variances of all groups as fractions."""
    values = group_entries(tensor, axes) * Fraction(1)
    means = values.mean(1)
    return means.tolist(), ((values - means[:, None]) ** 2).mean(1).tolist()


def find_misprints(printed_text, exact_values):
    """Return (place, text, value) of printed decimals that are not their value rounded."""
    return [(number, text, value)
            for number, (text, value) in enumerate(
                zip(printed_text.split(), exact_values, strict=True), 1)
            if abs(Fraction(text) - value) > Fraction(1, 2 * 10 ** len(text.partition(".")[2]))]


@question("000.1", "Means and variances of batch, layer and instance normalisation")
def solve_means_and_variances(say, step, answer, check, claim):
    """Give the means and variances of a tensor for batch, layer and instance normalisation."""
    rows = {kind: group_entries(TENSOR, axes) for kind, (axes, *_) in KINDS.items()}
    say("The tensor of the question has 4 samples, 2 channels and 3 features, so 24 entries.")
    step("Write down which entries share a mean. An entry has three indices: sample i, channel c "
         "and feature k. Each normalisation averages over some of them. There is one pair (μ, σ²) "
         "for each combination of the other indices.",
         format_table(("", "averages over", "values in a group", "pairs"),
                      [(kind, KINDS[kind][4], group.shape[1], len(group))
                       for kind, group in rows.items()]))
    for kind, (axes, _, shared, which, over) in KINDS.items():
        values, n = rows[kind], rows[kind].shape[1]
        means, variances = exact_moments(TENSOR, axes)
        indices = np.ndindex(*(n for axis, n in enumerate(TENSOR.shape) if axis not in axes))
        row = values[0].tolist()
        squares = " + ".join(f"({value} − {means[0]})²" for value in row[:2])
        step(f"{kind.capitalize()} normalisation averages {which}{over}. Compute the first group "
             "by hand, then all groups.", "μ = (x₁ + … + xₙ) / n      σ² = ((x₁ − μ)² + … + (xₙ − "
             "μ)²) / n", f"μ = ({' + '.join(map(str, row))}) / {n} = {sum(row)} / {n} = {means[0]}",
             f"σ² = ({squares} + …) / {n} = {variances[0] * n} / {n} = {variances[0]}",
             format_table((shared, "values", "μ", "σ²", "μ ≈", "σ² ≈"), [
                 (", ".join(str(i + 1) for i in index), " ".join(map(str, group)), *pair,
                  *map(float, pair)) for index, group, *pair in zip(
                      indices, values, means, variances, strict=True)], 4))
    step("Layer normalisation has two meanings. By its definition it averages over all units of a "
         "sample, as above. In a transformer, the second index is time, and each position is "
         "normalised separately. Then the groups are those that are called instance above.",
         f"{len(rows['layer'])} pairs by the definition, {len(rows['instance'])} over the last "
         "axis only")
    answer(", ".join(f"{kind} normalisation has {len(group)} pairs (one for each "
                     f"{KINDS[kind][2].replace(', ', ' and ')})"
                     for kind, group in rows.items()).capitalize() + ". The tables show them.")
    check("npdl's normalisation layers compute the same means and variances.",
          all(np.allclose(np.array(exact_moments(TENSOR, axes), float),
                          [np.ravel(part) for part in
                           centre_and_moments(TENSOR.astype(float), axes)[1:]])
              for kind, (axes, *_) in KINDS.items()))
    for kind, (axes, document, *_) in KINDS.items():
        ours, theirs = exact_moments(TENSOR, axes), exact_moments(TENSOR, document)
        means, variances = (vec(map(float, values), 4) for values in ours)
        claim("", f"{kind.capitalize()} normalisation averages this tensor over {WHY[kind][0]}.",
              f"{len(theirs[0])} means: {PRINTED[kind][0].replace(' ', ', ')}",
              f"{len(ours[0])} means {means}, variances {variances}",
              judge(theirs == ours, if_false="convention" if kind == "layer" else "wrong"),
              WHY[kind][1], weight="answer")
    check("By the definition, the document's layer pairs are instance pairs, and vice versa.",
          exact_moments(TENSOR, KINDS["layer"][1]) == exact_moments(TENSOR, KINDS["instance"][0])
          and exact_moments(TENSOR, KINDS["instance"][1])
          == exact_moments(TENSOR, KINDS["layer"][0]))
    misread = TENSOR.copy()
    misread[3, 1] = 5, 2, 2
    for kind, (_, axes, *_) in KINDS.items():
        for what, printed, values, other in zip(("means", "variances"), PRINTED[kind],
                                                exact_moments(TENSOR, axes),
                                                exact_moments(misread, axes), strict=True):
            wrong = find_misprints(printed, values)
            where = "; ".join(f"number {index}: {text} should be {value} = {float(value):.4f}"
                              for index, text, value in wrong)
            if wrong and not find_misprints(printed, other):
                where += "; all printed numbers are right if the row 5 2 3 is misread as 5 2 2"
            claim("", f"The {len(values)} printed {kind} {what} are what the printed code gives.",
                  printed, vec(map(float, values), 4), judge(not wrong),
                  where or f"all {len(values)} equal the exact fractions to the printed decimals")
