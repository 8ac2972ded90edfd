"""Document 004, Problem 3, worked: the loss and the accuracy of two samples."""

import math

import numpy as np

from exercises.d004_loss import accuracy_by_products, loss_by_sums
from exercises.worked import Check, Solution, Step, Table, num, terms, vec
from npdl.losses import SequenceLoss

# e^logit for every place: sample 1 counts places 2 and 3, sample 2 counts place 3 alone.
POWERS = np.array([[[1, 1, 2], [4, 2, 2], [1, 6, 1]], [[3, 1, 4], [1, 1, 2], [2, 4, 10]]], float)
TARGETS = np.array([[2, 0, 1], [0, 2, 1]])
COUNTED = np.array([[False, True, True], [False, False, True]])


def token_losses():
    """For each sample the (place, target, P of the target, its loss, most probable token)."""
    P = POWERS / POWERS.sum(-1, keepdims=True)
    return [[(j + 1, int(TARGETS[i, j]), float(P[i, j, TARGETS[i, j]]),
              -math.log(P[i, j, TARGETS[i, j]]), int(P[i, j].argmax()))
             for j in range(TARGETS.shape[1]) if COUNTED[i, j]] for i in range(len(TARGETS))]


def loss():
    found = token_losses()
    each = [math.fsum(row[3] for row in sample) / len(sample) for sample in found]
    by_sample = math.fsum(each) / len(each)
    tokens = [row[3] for sample in found for row in sample]
    by_token = math.fsum(tokens) / len(tokens)
    right = [int(all(row[1] == row[4] for row in sample)) for sample in found]
    rows = tuple((i, *row[:2], vec(POWERS[i - 1, row[0] - 1], 0), num(row[2]), num(row[3]), row[4])
                 for i, sample in enumerate(found, 1) for row in sample)
    logits = np.log(POWERS)
    own, _ = SequenceLoss("none").forward(logits, TARGETS, COUNTED)
    mean, _ = SequenceLoss(average="token").forward(logits, TARGETS, COUNTED)
    return Solution(
        "3",
        (
            Step("For every counted place take the probability of the right token, and its "
                 "negative logarithm. All other places are left out.",
                 "P̂_k = e^(ŷ_k) / Σ e^(ŷ),   loss of a token = −log P̂_target",
                 table=Table(("sample", "place", "target", "e^ŷ", "P̂ of it", "−log P̂",
                              "arg max"), rows)),
            Step("First the mean within each sample, over its own counted tokens.",
                 "Lᵢ = (1/|RHSᵢ|) Σ_(j ∈ RHSᵢ) −log P̂ᵢⱼ",
                 "\n".join(f"L{'₁₂'[i]} = ({terms([row[3] for row in sample])})/{len(sample)} = "
                           f"{num(each[i])}" for i, sample in enumerate(found))),
            Step("Then the mean over the samples.", "L = (1/B) Σᵢ Lᵢ",
                 f"({terms(each)})/{len(each)} = {num(by_sample)}"),
            Step("Averaging over all tokens at once weighs the longer sample more.",
                 "Σ over all counted tokens / their number",
                 f"({terms(tokens)})/{len(tokens)} = {num(by_token)}"),
            Step("Accuracy: a sample is right only if every counted token is the arg max.",
                 "A = (1/B) Σᵢ Πⱼ 1(target = arg max)",
                 f"sample 1: {' · '.join(str(int(r[1] == r[4])) for r in found[0])} = {right[0]}, "
                 f"sample 2: {right[1]};   A = ({terms(right)})/{len(right)} = "
                 f"{num(sum(right) / len(right), 1)}"),
            Step("The reductions: none returns one number for each sample, sum adds them, mean "
                 "divides by B.", numbers=f"none {vec(each)},   sum {num(sum(each))},   mean "
                 f"{num(by_sample)}"),
        ),
        f"L = {num(by_sample)} (sample by sample; {num(by_token)} over tokens), A = "
        f"{num(sum(right) / len(right), 1)}.",
        (Check("npdl's SequenceLoss gives the losses of both samples, and the mean over tokens",
               np.allclose(own, each) and abs(float(mean) - by_token) < 1e-12),
         Check("the printed triple sum and product give the same",
               np.allclose(loss_by_sums(logits, TARGETS, COUNTED), each)
               and accuracy_by_products(logits, TARGETS, COUNTED).tolist() == right)),
        "B = 2 samples, S = 3 places, V = 3 tokens; logits are logarithms of whole numbers.")


def solutions():
    return [loss()]
