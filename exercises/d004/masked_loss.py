"""Document 004, Problem 3: the loss, its normalisation, the accuracy, the simplex."""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge, judgement, proved
from exercises.worked import Solution, Table, below, num, terms, vec
from npdl.data import ModularArithmetic
from npdl.functions import log_softmax, softmax
from npdl.losses import SequenceLoss, answer_mask, loss_and_accuracy

QUESTION = """\
Loss: for each sample the mean of -log P[target] over its right-hand side, then the mean over the
batch. Accuracy: the share of samples whose whole right-hand side is the most probable one. Do the
formulas, the three reductions and the comparison with an average over all tokens hold, and does
raising the wanted probability lower each of the others?"""

TITLES = {"3": "The loss and the accuracy"}

claim = partial(Claim, "004", "Problem 3")


def loss_by_sums(logits, targets, counted, first=0):
    """The printed triple sum: one loss for each sample, (B,).

    logits (B, S, V), targets and counted (B, S). `first` numbers the components of P: with 1, as
    [V] = {1 .. V} is printed, component k is compared with token k and token 0 is never met.
    """
    B, S, V = logits.shape
    losses = np.zeros(B)
    for i in range(B):
        rhs = [j for j in range(S) if counted[i, j]]
        share = 1 / len(rhs)
        for j in rhs:
            log_p = logits[i, j] - np.log(np.exp(logits[i, j]).sum())
            for k in range(first, first + V):
                if k == targets[i, j]:
                    losses[i] -= share * log_p[k]
    return losses


def accuracy_by_products(logits, targets, counted):
    """The printed product of indicators: 1 or 0 for each sample, (B,)."""
    B, S, V = logits.shape
    return np.array([math.prod(int(targets[i, j] == max(range(V), key=logits[i, j].__getitem__))
                               for j in range(S) if counted[i, j]) for i in range(B)], float)


def example(p=5, orders=(2, 3), seed=0):
    """(logits, targets, eq_positions, mask) for every equation of p, logits random."""
    sets = ModularArithmetic(p, orders=orders)
    equations, V = sets.equations, sets.vocabulary.size
    logits = 2 * np.random.default_rng(seed).standard_normal((*equations.targets.shape, V))
    right = np.random.default_rng(seed + 1).random(equations.targets.shape) < 0.5
    chosen = np.eye(V)[equations.targets]
    return (logits + 20 * chosen * right[..., None], equations.targets, equations.eq_positions,
            equations.mask)


def averages(losses_of_tokens):
    """(mean of the samples' means, mean of all tokens) of lists of token losses."""
    means = [float(np.mean(tokens)) for tokens in losses_of_tokens]
    return float(np.mean(means)), float(np.mean(sum(losses_of_tokens, [])))


def stepped(p, wanted, rate):
    """The probabilities after one gradient step of -log p[wanted] on the logits log p."""
    logits = np.log(np.asarray(p, float))[None, None]
    loss = SequenceLoss()
    _, cache = loss.forward(logits, np.array([[wanted]]), np.array([[True]]))
    return softmax(logits - rate * loss.backward(1.0, cache))[0, 0]


def claims():
    logits, targets, eq, mask = data = example()
    counted = answer_mask(targets, eq, mask)
    return [value_claim(data, counted), component_claim(logits, targets, counted),
            accuracy_claim(data, counted), reduction_claim(data), *average_claims(),
            training_claim(), *simplex_claims(), stable_claim()]


def value_claim(data, counted):
    loss, _ = loss_and_accuracy(*data)
    error = abs(float(loss) - loss_by_sums(*data[:2], counted).mean())
    return claim(
        "loss", "The loss is the batch's mean of each sample's mean negative log-likelihood over "
        "its right-hand side.", "the triple sum", f"npdl's loss equals the sums: {below(error)}",
        proved(error < 1e-9), f"{len(counted)} equations (p = 5, both orders), random logits; "
        "tokens and components numbered alike, right-hand side by position")


def component_claim(logits, targets, counted):
    full = loss_by_sums(logits, targets, counted)
    literal = loss_by_sums(logits, targets, counted, first=1)
    zero = ((targets == 0) & counted).any(1)
    same = np.allclose(full, literal)
    return claim(
        "components", "The sum and the arg max over k from 1 to V reach every token, tokens being "
        "0 to V - 1.", "k = 1 .. V, k in [V]", "k = 0 .. V - 1",
        judge(same, if_false="slip"),
        f"from 1 the {int(zero.sum())} of {len(zero)} equations with r = 0 lose that "
        f"token's loss (all others {'agree' if np.allclose(full[~zero], literal[~zero]) else 'not'}"
        "), and no arg max is ever token 0", error="components from 1")


def accuracy_claim(data, counted):
    _, accuracy = loss_and_accuracy(*data, reduction="none")
    by_hand = accuracy_by_products(*data[:2], counted)
    tokens = (data[0].argmax(-1) == data[1])[counted].mean()
    alike = np.array_equal(data[0].argmax(-1), softmax(data[0]).argmax(-1))
    return claim(
        "accuracy", "An equation counts as right only if every token of its right-hand side is "
        "right; the arg max of the logits decides.", "product of indicators",
        f"npdl's accuracy equals the products for all {len(counted)} equations: "
        f"{accuracy.mean():.3f} of equations, {tokens:.3f} of tokens",
        judge(accuracy.mean() < tokens, provided=np.array_equal(accuracy, by_hand) and alike),
        "an example: logits of seed 0, half the targets (seed 1) raised; logits and "
        "probabilities have the same arg max")


def reduction_claim(data):
    parts = {name: loss_and_accuracy(*data, reduction=name) for name in ("none", "sum", "mean")}
    B = len(data[1])
    fits = all(parts["none"][i].shape == (B,)
               and abs(parts["none"][i].sum() - parts["sum"][i]) < 1e-9
               and abs(parts["sum"][i] / B - parts["mean"][i]) < 1e-9 for i in (0, 1))
    return claim(
        "reduction", "'none' gives loss and accuracy of each sample, (B,); 'sum' leaves out 1/B; "
        "'mean' is the formula.", "two one-dimensional tensors of length B",
        f"shapes {parts['none'][0].shape} and {parts['none'][1].shape}; their sums and means agree",
        proved(fits), f"B = {B}, npdl's loss_and_accuracy")


def average_claims():
    apart = averages([[0.0], [3.0] * 9])
    ratio = apart[1] / apart[0]
    logits, targets, eq, mask = example()
    losses, counted = {}, answer_mask(targets, eq, mask)
    for name, these in (("answers", counted), ("all tokens", mask)):
        losses[name] = [float(SequenceLoss(average=average).forward(logits, targets, these)[0])
                        for average in ("sample", "token")]
    gap = {name: abs(a - b) for name, (a, b) in losses.items()}
    yield claim(
        "token average",
        "A mean over all valid tokens of the batch changes the normalisation when samples have "
        "different numbers of them.", "differs with different numbers of valid tokens",
        f"samples of 1 and 9 tokens: {apart[0]:.2f} by samples, {apart[1]:.2f} by tokens; on "
        "all tokens of p = 5 {:.3f} and {:.3f}".format(*losses["all tokens"]),
        judge(gap["all tokens"] > 1e-6 and abs(apart[0] - apart[1]) > 1e-6),
        "npdl's SequenceLoss with both averages; losses 0 and 3 for 1 and 9 tokens, random logits "
        "(an example, seeds 0 and 1) for p = 5")
    yield claim("slightly",
                "Averaged over tokens, the loss is slightly different when samples have different "
                "numbers of valid tokens.", "slightly different",
                "on these right-hand sides, 2 tokens each, exactly equal (difference "
                f"{below(gap['answers'])}); where the numbers differ the gap need not be slight: "
                f"{ratio:.1f} times as large above",
                judge(ratio < 1.1, if_false="under-specified"),
                "all equations of p = 5, both orders; the ratio is bounded only by the batch size "
                "B")
    yield claim("ignore_index",
                "With an index to ignore, a library's mean takes in the valid tokens alone, those "
                "of the right-hand side.", "ignore_index, valid tokens",
                f"ignoring PAD leaves {int(mask.sum())} targets, {int(counted.sum())} of them on "
                f"the right-hand side: means {losses['all tokens'][1]:.3f} and "
                f"{losses['answers'][1]:.3f}",
                judge(bool((mask == counted).all()), if_false="under-specified"),
                "all equations of p = 5, both orders, the same logits; holds if every target up to "
                "= is overwritten with the ignored index first")


def training_claim():
    logits, targets, eq, mask = example()
    counted = answer_mask(targets, eq, mask)
    gradients = []
    for average in ("sample", "token"):
        loss = SequenceLoss(average=average)
        gradients.append(loss.backward(1.0, loss.forward(logits, targets, counted)[1]))
    gap = float(abs(gradients[0] - gradients[1]).max())
    return claim(
        "either version", "Models trained with either average generalise.", "both generalise",
        f"on this data they are one and the same training: gradients differ by {below(gap)}",
        judgement("essay", provided=gap < 1e-9),
        "gradients of both losses, all equations of p = 5, both orders")


def simplex_claims(V=6):
    corners = np.eye(V)
    rank = int(np.linalg.matrix_rank(corners[1:] - corners[0]))
    p = softmax(5 * np.random.default_rng(3).standard_normal((1000, V)))
    inside = p.min() >= 0 and p.max() <= 1 and abs(p.sum(1) - 1).max() < 1e-9
    before = np.array([0.01, 0.98, 0.01])
    after = stepped(before, 0, 0.5)
    others = (before[1:].sum(), after[1:].sum())
    return [
        claim("simplex", "Softmax rows lie in {p : p_i >= 0, sum 1}, of dimension V - 1.",
              "(V - 1)-dimensional", f"dimension {rank} for V = {V}",
              judge(rank == V - 1, provided=inside),
              f"rank of the corners' differences; {len(p)} random rows are inside"),
        claim("other components", "Raising the wanted component automatically minimises the other "
              "components.", "automatically minimises them", "their sum, 1 - p_k, falls; not each "
              f"of them: p = (0.01, 0.98, 0.01), the first wanted, becomes ({after[0]:.4f}, "
              f"{after[1]:.4f}, {after[2]:.4f}) in one gradient step",
              judge(bool((after[1:] < before[1:]).all()), if_false="under-specified"),
              f"the sum of the others {others[0]:.4f} -> {others[1]:.4f}; holds for the sum and in "
              "the limit p_k = 1 (step 0.5 on the logits, npdl's SequenceLoss)"),
    ]


def stable_claim():
    logits = np.array([1000.0, 0.0])
    with np.errstate(all="ignore"):
        naive = np.log(np.exp(logits) / np.exp(logits).sum())
        two_steps = np.log(softmax(logits))
    own = log_softmax(logits)
    return claim(
        "log softmax", "log P is better taken by a log-softmax of the logits than by way of P.",
        "encouraged, no reason given", f"logits (1000, 0): log-softmax {own[0]:.0f}, {own[1]:.0f}; "
        f"log of a stable softmax {two_steps[0]:.0f}, {two_steps[1]}; with plain exp {naive[0]}",
        judge(not np.isfinite(two_steps).all(),
              provided=own.tolist() == [0, -1000] and softmax(logits).tolist() == [1, 0]),
        "the exact values are 0 and -1000; exp(-1000) is 0 in float64")


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
    accuracy = sum(right) / len(right)
    rows = tuple((i, *row[:2], vec(POWERS[i - 1, row[0] - 1], 0), num(row[2]), num(row[3]), row[4])
                 for i, sample in enumerate(found, 1) for row in sample)
    logits = np.log(POWERS)
    own, _ = SequenceLoss("none").forward(logits, TARGETS, COUNTED)
    mean, _ = SequenceLoss(average="token").forward(logits, TARGETS, COUNTED)
    work = Solution("3",
                    "B = 2 samples, S = 3 places, V = 3 tokens; logits are logarithms of whole "
                    "numbers.")
    work.step("For every counted place take the probability of the right token, and its negative "
              "logarithm. All other places are left out.",
              "P̂_k = e^(ŷ_k) / Σ e^(ŷ),   loss of a token = −log P̂_target",
              table=Table(("sample", "place", "target", "e^ŷ", "P̂ of it", "−log P̂",
                           "arg max"), rows))
    work.step("First the mean within each sample, over its own counted tokens.",
              "Lᵢ = (1/|RHSᵢ|) Σ_(j ∈ RHSᵢ) −log P̂ᵢⱼ",
              "\n".join(f"L{'₁₂'[i]} = ({terms([row[3] for row in sample])})/{len(sample)} = "
                        f"{num(each[i])}" for i, sample in enumerate(found)))
    work.step("Then the mean over the samples.", "L = (1/B) Σᵢ Lᵢ",
              f"({terms(each)})/{len(each)} = {num(by_sample)}")
    work.step("Averaging over all tokens at once weighs the longer sample more.",
              "Σ over all counted tokens / their number",
              f"({terms(tokens)})/{len(tokens)} = {num(by_token)}")
    work.step("Accuracy: a sample is right only if every counted token is the arg max.",
              "A = (1/B) Σᵢ Πⱼ 1(target = arg max)",
              f"sample 1: {' · '.join(str(int(r[1] == r[4])) for r in found[0])} = {right[0]}, "
              f"sample 2: {right[1]};   A = ({terms(right)})/{len(right)} = "
              f"{num(accuracy, 1)}")
    work.step("The reductions: none returns one number for each sample, sum adds them, mean "
              "divides by B.",
              numbers=f"none {vec(each)},   sum {num(sum(each))},   mean {num(by_sample)}")
    work.answer = (f"L = {num(by_sample)} (sample by sample; {num(by_token)} over tokens), A = "
                   f"{num(accuracy, 1)}.")
    work.check("npdl's SequenceLoss gives the losses of both samples, and the mean over tokens",
               np.allclose(own, each) and abs(float(mean) - by_token) < 1e-12)
    work.check("the printed triple sum and product give the same",
               np.allclose(loss_by_sums(logits, TARGETS, COUNTED), each)
               and accuracy_by_products(logits, TARGETS, COUNTED).tolist() == right)
    return work


def solutions():
    return [loss()]
