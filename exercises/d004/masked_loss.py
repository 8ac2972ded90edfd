"""Document 004, Problem 3: the loss, its normalisation, the accuracy, the simplex."""

import math

import numpy as np

from exercises.course import judge, question, table, vec
from npdl.data import ModularArithmetic
from npdl.functions import log_softmax, softmax
from npdl.losses import SequenceLoss, answer_mask, loss_and_accuracy

# e^logit for every place: sample 1 counts places 2 and 3, sample 2 counts place 3 alone
POWERS = np.array([[[1, 1, 2], [4, 2, 2], [1, 6, 1]], [[3, 1, 4], [1, 1, 2], [2, 4, 10]]], float)
TARGETS = np.array([[2, 0, 1], [0, 2, 1]])
COUNTED = np.array([[False, True, True], [False, False, True]])


def loss_by_sums(logits, targets, counted, first=0):
    """Return the printed triple sum, (B,), over the components k from `first` on."""
    losses = np.zeros(len(logits))
    for i, j in np.argwhere(counted):
        log_p = logits[i, j] - np.log(np.exp(logits[i, j]).sum())
        for k in range(first, len(log_p)):
            losses[i] -= (k == targets[i, j]) * log_p[k] / counted[i].sum()
    return losses


def accuracy_by_products(logits, targets, counted):
    """Return the printed product of indicators, (B,)."""
    right = logits.argmax(-1) == targets
    return np.array([math.prod(row[mask].tolist()) for row, mask in zip(right, counted,
                                                                       strict=True)])


def example(p=5):
    """Return random logits, targets, positions of = and mask of all equations of 2 and 3 operands.

    Half of the targets are raised.
    """
    sets = ModularArithmetic(p, orders=(2, 3))
    equations, V = sets.equations, sets.vocabulary.size
    logits = 2 * np.random.default_rng(0).standard_normal((*equations.targets.shape, V))
    right = np.random.default_rng(1).random(equations.targets.shape) < 0.5
    return (logits + 20 * np.eye(V)[equations.targets] * right[..., None], equations.targets,
            equations.eq_positions, equations.mask)


@question("004.3.loss", "The loss and the accuracy")
def loss(work):
    """Compute the loss and the accuracy of a batch over the right-hand sides of its equations."""
    P = POWERS / POWERS.sum(-1, keepdims=True)
    rows = [(i + 1, j + 1, TARGETS[i, j], vec(POWERS[i, j], 0), P[i, j, TARGETS[i, j]],
             -math.log(P[i, j, TARGETS[i, j]]), P[i, j].argmax()) for i, j in np.argwhere(COUNTED)]
    tokens = [row[5] for row in rows]
    each = [sum(tokens[:2]) / 2, tokens[2]]
    hits = [int(row[2] == row[6]) for row in rows]
    right = [hits[0] * hits[1], hits[2]]
    a, b, c = (f"{value:.3f}" for value in tokens)
    mean, by_token, accuracy = sum(each) / 2, sum(tokens) / 3, sum(right) / 2
    work.say("B = 2 samples, S = 3 places, V = 3 tokens; logits are logarithms of whole numbers.")
    work.step("For every counted place take the probability of the right token, and its negative "
              "logarithm. All other places are left out.",
              "P̂_k = e^(ŷ_k) / Σ e^(ŷ),   loss of a token = −log P̂_target",
              table(("sample", "place", "target", "e^ŷ", "P̂ of it", "−log P̂", "arg max"), rows))
    work.step("First the mean within each sample, over its own counted tokens.",
              "Lᵢ = (1/|RHSᵢ|) Σ_(j ∈ RHSᵢ) −log P̂ᵢⱼ",
              f"L₁ = ({a} + {b})/2 = {each[0]:.3f}", f"L₂ = ({c})/1 = {each[1]:.3f}")
    work.step("Then the mean over the samples.", "L = (1/B) Σᵢ Lᵢ",
              f"({each[0]:.3f} + {each[1]:.3f})/2 = {mean:.3f}")
    work.step("Averaging over all tokens at once weighs the longer sample more.",
              "Σ over all counted tokens / their number", f"({a} + {b} + {c})/3 = {by_token:.3f}")
    work.step("Accuracy: a sample is right only if every counted token is the arg max.",
              "A = (1/B) Σᵢ Πⱼ 1(target = arg max)",
              f"sample 1: {hits[0]} · {hits[1]} = {right[0]}, sample 2: {right[1]};   A = "
              f"({right[0]} + {right[1]})/2 = {accuracy}")
    work.step("The reductions: none returns one number for each sample, sum adds them, mean "
              "divides by B.", f"none {vec(each)},   sum {sum(each):.3f},   mean {mean:.3f}")
    work.answer(f"L = {mean:.3f} (sample by sample; {by_token:.3f} over tokens), A = {accuracy}.")
    work.say("In npdl: loss_and_accuracy in npdl/losses.py.")
    logits = np.log(POWERS)
    own, _ = SequenceLoss("none").forward(logits, TARGETS, COUNTED)
    over_tokens, _ = SequenceLoss(average="token").forward(logits, TARGETS, COUNTED)
    work.check("npdl's SequenceLoss gives the losses of both samples, and the mean over tokens",
               np.allclose(own, each) and math.isclose(over_tokens, by_token))
    work.check("the printed triple sum and product give the same",
               np.allclose(loss_by_sums(logits, TARGETS, COUNTED), each)
               and accuracy_by_products(logits, TARGETS, COUNTED).tolist() == right)
    data = example()
    formula_claims(work, data, answer_mask(*data[1:]))
    average_claims(work, data, answer_mask(*data[1:]))
    softmax_claims(work)


def formula_claims(work, data, counted):
    """Add the claims on the formulas of loss and accuracy."""
    logits, targets, _, _ = data
    by_sums = loss_by_sums(logits, targets, counted)
    literal = loss_by_sums(logits, targets, counted, first=1)
    zero = ((targets == 0) & counted).any(1)
    parts = {name: loss_and_accuracy(*data, reduction=name) for name in ("none", "sum", "mean")}
    B, tokens = len(targets), (logits.argmax(-1) == targets)[counted].mean()
    accuracies = parts["none"][1]
    work.check("npdl's accuracy equals the products for all equations",
               np.array_equal(accuracies, accuracy_by_products(logits, targets, counted)))
    work.check("numbered from 1, all other equations keep their losses",
               np.allclose(by_sums[~zero], literal[~zero]))
    work.claim(
        "loss", "The loss is the batch's mean of each sample's mean negative log-likelihood over "
        "its right-hand side.", "the triple sum", "npdl's loss equals the sums: below 1e-9",
        judge(abs(parts["mean"][0] - by_sums.mean()) < 1e-9),
        f"{B} equations (p = 5, both orders), random logits; tokens and components numbered alike, "
        "right-hand side by position")
    work.claim(
        "components", "The sum and the arg max over k from 1 to V reach every token, tokens being "
        "0 to V - 1.", "k = 1 .. V, k in [V]", "k = 0 .. V - 1",
        judge(np.allclose(by_sums, literal), if_false="slip"),
        f"from 1 the {zero.sum()} of {B} equations with r = 0 lose that token's loss (all others "
        "agree), and no arg max is ever token 0")
    work.claim(
        "accuracy", "An equation counts as right only if every token of its right-hand side is "
        "right; the arg max of the logits decides.", "product of indicators",
        f"npdl's accuracy equals the products for all {B} equations: {accuracies.mean():.3f} of "
        f"equations, {tokens:.3f} of tokens", judge(accuracies.mean() < tokens),
        "an example: logits of seed 0, half the targets (seed 1) raised; logits and probabilities "
        "have the same arg max")
    work.claim(
        "reduction", "'none' gives loss and accuracy of each sample, (B,); 'sum' leaves out 1/B; "
        "'mean' is the formula.", "two one-dimensional tensors of length B",
        f"shapes {parts['none'][0].shape} and {accuracies.shape}; their sums and means agree",
        judge(all(none.shape == (B,) and np.allclose((none.sum(), total / B), (total, mean))
                  for none, total, mean in zip(*parts.values(), strict=True))),
        f"B = {B}, npdl's loss_and_accuracy")


def average_claims(work, data, counted):
    """Add the claims on the average over samples and over tokens."""
    logits, targets, _, mask = data
    found = {}
    for name, these in (("answers", counted), ("all", mask)):
        losses = [SequenceLoss(average=average) for average in ("sample", "token")]
        runs = [loss.forward(logits, targets, these) for loss in losses]
        found[name] = [float(value) for value, _ in runs]
        gradients = [loss.backward(1.0, cache) for loss, (_, cache) in zip(losses, runs,
                                                                          strict=True)]
        found[name].append(abs(gradients[0] - gradients[1]).max())
    by_sample, by_token = (0.0 + 3.0) / 2, (1 * 0.0 + 9 * 3.0) / 10
    work.claim(
        "token average", "A mean over all valid tokens of the batch changes the normalisation when "
        "samples have different numbers of them.", "differs with different numbers of valid tokens",
        f"samples of 1 and 9 tokens: {by_sample:.2f} by samples, {by_token:.2f} by tokens; on all "
        f"tokens of p = 5 {found['all'][0]:.3f} and {found['all'][1]:.3f}",
        judge(abs(found["all"][0] - found["all"][1]) > 1e-6),
        "npdl's SequenceLoss with both averages; losses 0 and 3 for 1 and 9 tokens, random logits "
        "(an example, seeds 0 and 1) for p = 5")
    work.check("on right-hand sides of 2 tokens each both losses and both gradients are equal",
               math.isclose(*found["answers"][:2]) and found["answers"][2] < 1e-9)
    work.claim(
        "slightly", "Averaged over tokens, the loss is slightly different when samples have "
        "different numbers of valid tokens.", "slightly different",
        "on these right-hand sides, 2 tokens each, exactly equal (difference below 1e-9); where "
        f"the numbers differ the gap need not be slight: {by_token / by_sample:.1f} times as large "
        "above", judge(by_token / by_sample < 1.1, if_false="under-specified"),
        "all equations of p = 5, both orders; the ratio is bounded only by the batch size B")
    work.claim(
        "ignore_index", "With an index to ignore, a library's mean takes in the valid tokens "
        "alone, those of the right-hand side.", "ignore_index, valid tokens",
        f"ignoring PAD leaves {mask.sum()} targets, {counted.sum()} of them on the right-hand "
        f"side: means {found['all'][1]:.3f} and {found['answers'][1]:.3f}",
        judge((mask == counted).all(), if_false="under-specified"),
        "all equations of p = 5, both orders, the same logits; holds if every target up to = is "
        "overwritten with the ignored index first")
    work.claim("either version", "Models trained with either average generalise.",
               "both generalise", "on this data they are one and the same training: gradients "
               "differ by less than 1e-9", "essay",
               "gradients of both losses, all equations of p = 5, both orders")


def softmax_claims(work, V=6):
    """Add the claims on the probabilities."""
    rank = np.linalg.matrix_rank(np.eye(V)[1:] - np.eye(V)[0])
    p = softmax(5 * np.random.default_rng(3).standard_normal((1000, V)))
    before, step = np.array([0.01, 0.98, 0.01]), SequenceLoss()
    _, cache = step.forward(np.log(before)[None, None], np.array([[0]]), np.array([[True]]))
    after = softmax(np.log(before) - 0.5 * step.backward(1.0, cache)[0, 0])
    work.check("softmax rows are inside the simplex",
               p.min() >= 0 and np.allclose(p.sum(1), 1, 0, 1e-9))
    work.claim("simplex", "Softmax rows lie in {p : p_i >= 0, sum 1}, of dimension V - 1.",
               "(V - 1)-dimensional", f"dimension {rank} for V = {V}", judge(rank == V - 1),
               f"rank of the corners' differences; {len(p)} random rows are inside")
    work.claim(
        "other components", "Raising the wanted component automatically minimises the other "
        "components.", "automatically minimises them", "their sum, 1 - p_k, falls; not each of "
        f"them: p = (0.01, 0.98, 0.01), the first wanted, becomes {vec(after, 4)} in one gradient "
        "step", judge((after[1:] < before[1:]).all(), if_false="under-specified"),
        f"the sum of the others {before[1:].sum():.4f} -> {after[1:].sum():.4f}; holds for the sum "
        "and in the limit p_k = 1 (step 0.5 on the logits, npdl's SequenceLoss)")
    logits = np.array([1000.0, 0.0])
    with np.errstate(all="ignore"):
        naive, two = np.log(np.exp(logits) / np.exp(logits).sum()), np.log(softmax(logits))
    own = log_softmax(logits)
    work.check("npdl's log-softmax is exact here", own.tolist() == [0, -1000])
    work.claim(
        "log softmax", "log P is better taken by a log-softmax of the logits than by way of P.",
        "encouraged, no reason given", f"logits (1000, 0): log-softmax {own[0]:.0f}, {own[1]:.0f}; "
        f"log of a stable softmax {two[0]:.0f}, {two[1]}; with plain exp {naive[0]}",
        judge(not np.isfinite(two).all()),
        "the exact values are 0 and -1000; exp(-1000) is 0 in float64")
