"""Document 004, Problem 3: which tokens the loss counts, its normalisation, and the accuracy.

The document writes the right-hand side of an equation RHS(y) = {j : [=] < y_j < [PAD]}, without
padding {j : [=] < y_j}, and for next-token training {j : y_j < [PAD]}.
"""

import math

import numpy as np

from exercises.course import format_table, judge, question, vec
from npdl.data import ModularArithmetic
from npdl.functions import log_softmax, softmax
from npdl.losses import SequenceLoss, answer_mask, loss_and_accuracy


def printed_positions(y, equals_id, pad_id):
    """Return {j : equals_id < y_j < pad_id} with token ids, j from 1."""
    return {j for j, token in enumerate(y, 1) if equals_id < token < pad_id}


def intended_positions(y, equals_id, pad_id):
    """Return the positions j (from 1) after the = whose token is not PAD."""
    return {j for j, token in enumerate(y, 1) if j > list(y).index(equals_id) + 1
            and token != pad_id}


def next_token_positions(y, pad_id):
    """Return {j : y_j < pad_id}, j from 1, as printed for next-token training."""
    return {j for j, token in enumerate(y, 1) if token < pad_id}


def make_targets_and_words(p=31, orders=(2,)):
    """Return the targets of all sums with operands below p, and the vocabulary."""
    data = ModularArithmetic(p, orders=orders)
    return data.equations.targets.tolist(), data.vocabulary


def format_set(positions):
    """Return a set as text."""
    return "{" + ", ".join(map(str, sorted(positions))) + "}"


@question("004.3.rhs", "Which tokens the loss includes")
def solve_counted_tokens(say, step, answer, check, claim):
    """Find the tokens of 4 + 3 modulo 5 that the loss includes: those after = that are not PAD."""
    targets, words = make_targets_and_words(5, (2, 3))
    eq, pad = words.eq, words.pad
    y = next(row for row in targets if row[:3:2] == [4, 3] and row[3] == eq)
    names, position = [words.tokens[token] for token in y], y.index(eq)
    printed, intended = printed_positions(y, eq, pad), intended_positions(y, eq, pad)
    say(f"p = 5. The target {' '.join(names)} is padded to the length of a sum of three numbers.")
    step("Write the target and its ids. The ids of the numbers come first, then those of the "
         "signs.", f"ids: = is {eq}, PAD is {pad}, EOS is {words.eos}",
         format_table(("j", "token", "id", "= < id < PAD", "after =, not PAD"), [
             (j, name, token, "yes" * (j in printed), "yes" * (j in intended))
             for j, (name, token) in enumerate(zip(names, y, strict=True), 1)]))
    step("Read the condition [=] < y_j < [PAD] as a condition on ids. Only EOS satisfies it. The "
         "answer does not, because the ids of numbers are smaller than that of =.",
         "{j : [=] < yⱼ < [PAD]}", format_set(printed))
    step("Read it as a condition on positions. Then it includes every token after the =, except "
         "for padding.", "RHS(y) = {j : j > position of =, yⱼ ≠ PAD}", format_set(intended))
    step("If positions are counted from 0, as in a program, the position of = is smaller by one.",
         f"position of = from 0: {position}, from 1: {position + 1}")
    answer(f"RHS = {format_set(intended)}, the answer and EOS, if the condition is on positions. "
           f"If it were on ids, it would be {format_set(printed)}.")
    mask = answer_mask(np.array([y]), np.array([position]), np.array([y]) != pad)
    check("npdl's answer_mask marks the same positions.",
          {j + 1 for j in np.flatnonzero(mask[0]).tolist()} == intended)
    rows, large = make_targets_and_words()
    ids = large.eq, large.pad
    wrong = sum(printed_positions(y, *ids) != intended_positions(y, *ids) for y in rows)
    kept, intended = (sorted(f(rows[0], *ids)) for f in (printed_positions, intended_positions))
    claim("right-hand side", "{j : [=] < y_j < [PAD]} is the set of tokens after =, PAD left out "
          "(in the footnote, without padding, {j : [=] < y_j}).", "{j : [=] < y_j < [PAD]}",
          f"{{j : position of = < j, y_j not PAD}}; '{large.decode(rows[0])}': {intended}, as "
          f"printed: {kept}", judge(wrong == 0),
          f"only the id of EOS is between them, so it is wrong for {wrong} of {len(rows)} sums; no "
          "order of the ids would be right, because in a + 0 = a the same token is on both sides")
    check("With npdl's ids, the set for next-token training is right for every sum.",
          all(next_token_positions(y, pad) == {j for j, t in enumerate(y, 1) if t != pad}
              for y in targets)
          and all(next_token_positions(y, large.pad) == set(range(1, len(y) + 1)) for y in rows))
    first_pad = any(next_token_positions([pad - token for token in y], 0) for y in targets)
    claim("next token", "{j : y_j < [PAD]} is every token but PAD, and without padding all of [S].",
          "{j : y_j < [PAD]}; [S]", "right if PAD has the largest id, as in npdl: equal for every "
          "sum with p = 5 (padded) and 31", judge(first_pad, if_false="under-specified"),
          "with the reverse numbering, in which PAD is first, the set is empty for every sum")
    alone = [max(row.count(vocabulary.pad) for row in rows)
             for rows, vocabulary in (make_targets_and_words(5), make_targets_and_words(5, (3,)))]
    both = {row.index(eq): row.count(pad) for row in targets}           # by the place of =
    claim("padding", "There is no padding if all equations have two or all have three operands; "
          "there is with both.", "operation_orders 2 or 3, not (2, 3)",
          f"number of PADs: {alone[0]} and {alone[1]} separately; with both orders {both[3]} for "
          f"two operands, {both[5]} for three", judge(alone == [0, 0] and both[3] > 0),
          "targets counted for every sum with p = 5")
    claim("padded sequence", "Next to a + b + c = r EOS, a binary sample is a + b = r EOS PAD PAD.",
          "two PADs", f"{both[3]} PADs in the targets", judge(both[3] == 2),
          "targets counted for every sum with p = 5")
    data = ModularArithmetic(11, orders=(2, 3))
    sets, eq = data.equations, data.vocabulary.eq
    positions = {name: [array[sets.orders == order][0].tolist().index(eq) for order in (2, 3)]
                 for name, array in (("targets", sets.targets), ("inputs", sets.inputs))}
    claim("position of =", "= is at position 3 of binary and at 5 of ternary samples.", "3 and 5",
          f"{positions['targets'][0]} and {positions['targets'][1]} in the targets, counted from 0 "
          f"(one more if counted from 1); {positions['inputs'][0]} and {positions['inputs'][1]} in "
          "the inputs, counted from 0",
          judge([n + 1 for n in positions["targets"]] == [3, 5], if_false="under-specified"),
          "data with p = 11; true for targets counted from 0")
    lengths = {len(intended_positions(row, words.eq, pad)) for row in targets}
    claim("size", "How many tokens are on the right-hand side?", "|RHS(Y_i)|, no number",
          f"{vec(lengths)}: r and EOS, both for two and for three operands",
          judge(len(lengths) == 1, "no answer given"), "counted for every sum with p = 5")


# e^logit for every position: positions 2 and 3 of sample 1 are unmasked, and position 3 of sample 2
POWERS = np.array([[[1, 1, 2], [4, 2, 2], [1, 6, 1]], [[3, 1, 4], [1, 1, 2], [2, 4, 10]]], float)
TARGETS = np.array([[2, 0, 1], [0, 2, 1]])
EQUALS = np.array([0, 1])                       # the position of =, from 0
LOGITS, MASK = np.log(POWERS), np.ones((2, 3), bool)
COUNTED = answer_mask(TARGETS, EQUALS, MASK)


def compare_averages(mask):
    """Return npdl's loss averaged over samples and over tokens, and the gradients' difference."""
    losses, gradients = [], []
    for average in ("sample", "token"):
        loss = SequenceLoss(average=average)
        value, cache = loss.forward(LOGITS, TARGETS, mask)
        losses.append(float(value))
        gradients.append(loss.backward(1.0, cache))
    return *losses, abs(gradients[0] - gradients[1]).max()


@question("004.3.loss", "The loss and the accuracy")
def solve_masked_loss(say, step, answer, check, claim):
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
    say("B = 2 samples, S = 3 positions, V = 3 tokens. The logits are logarithms of integers.")
    step("For every unmasked position, compute the probability of the target, and its negative "
         "logarithm. Leave out all other positions.",
         "P̂_k = e^(ŷ_k) / Σ e^(ŷ),   loss of a token = −log P̂_target",
         format_table(("sample", "position", "target", "e^ŷ", "P̂", "−log P̂", "arg max"), rows))
    step("Compute the mean within each sample, over its own unmasked tokens.",
         "Lᵢ = (1/|RHSᵢ|) Σ_(j ∈ RHSᵢ) −log P̂ᵢⱼ",
         f"L₁ = ({a} + {b})/2 = {each[0]:.3f}", f"L₂ = ({c})/1 = {each[1]:.3f}")
    step("Compute the mean over the samples.", "L = (1/B) Σᵢ Lᵢ",
         f"({each[0]:.3f} + {each[1]:.3f})/2 = {mean:.3f}")
    step("Compare with the mean over all tokens at once. It gives the longer sample a larger "
         "weight.", "Σ over all unmasked tokens / their number",
         f"({a} + {b} + {c})/3 = {by_token:.3f}")
    step("Compute the accuracy. A sample is right only if every unmasked target is the arg max.",
         "A = (1/B) Σᵢ Πⱼ 1(target = arg max)", f"sample 1: {hits[0]} · {hits[1]} = {right[0]}, "
         f"sample 2: {right[1]};   A = ({right[0]} + {right[1]})/2 = {accuracy}")
    step("Compare the reductions. 'none' returns one number for each sample, 'sum' adds these "
         "numbers, and 'mean' divides the sum by B.",
         f"none {vec(each)},   sum {sum(each):.3f},   mean {mean:.3f}")
    answer(f"L = {mean:.3f} if the mean is over samples ({by_token:.3f} over tokens). A = "
           f"{accuracy}.")
    say("In npdl, this is loss_and_accuracy in npdl/losses.py.")
    own, hits_own = loss_and_accuracy(LOGITS, TARGETS, EQUALS, MASK, reduction="none")
    check("npdl computes the same losses and accuracies for both samples.",
          np.allclose(own, each) and hits_own.tolist() == right)
    check("npdl computes the same means over samples and over tokens.",
          np.allclose(compare_averages(COUNTED)[:2], (mean, by_token)))
    from_1 = sum(row[5] for row in rows[:2] if row[2] > 0) / 2
    total, averaged = (loss_and_accuracy(LOGITS, TARGETS, EQUALS, MASK, reduction=name)
                       for name in ("sum", "mean"))
    claim("loss", "The loss is the batch's mean of each sample's mean negative log-likelihood over "
          "its right-hand side.", "the triple sum", "npdl's loss equals the sums",
          judge(np.isclose(averaged[0], mean, 0, 1e-12)), "if tokens and components have the same "
          "numbers, and the right-hand side is defined by position")
    claim("components", "The sum and the arg max over k from 1 to V reach every token, tokens "
          "being 0 to V - 1.", "k = 1 .. V, k in [V]", "k = 0 .. V - 1",
          judge(math.isclose(from_1, each[0]), if_false="slip"),
          f"if k starts at 1, sample 1 lacks the loss of its token 0: {each[0]:.3f} becomes "
          f"{from_1:.3f}; and the arg max is never token 0")
    claim("accuracy", "An equation counts as right only if every token of its right-hand side is "
          "right; the arg max of the logits decides.", "product of indicators",
          f"npdl's accuracy equals the products: {accuracy:g} of the equations, "
          f"{sum(hits) / 3:.3f} of the tokens are right", judge(accuracy < sum(hits) / 3),
          "the logits and the probabilities have the same arg max")
    claim("reduction", "'none' gives loss and accuracy of each sample, (B,); 'sum' leaves out 1/B; "
          "'mean' is the formula.", "two one-dimensional tensors of length B",
          f"shapes {own.shape} and {hits_own.shape}; their sums and means agree",
          judge(own.shape == hits_own.shape == (2,)
                and np.allclose((own.sum(), hits_own.sum()), total)
                and np.allclose(np.divide(total, 2), averaged)), "B = 2, npdl's loss_and_accuracy")
    by_sample, by_token, _ = compare_averages(COUNTED)
    same_length = compare_averages(MASK & [False, True, True])    # two tokens in each sample
    equal = np.isclose(*same_length[:2], 0, 1e-12) and same_length[2] < 1e-12
    check("If each sample has two tokens, both losses and both gradients are equal.", equal)
    ratio = ((0 + 9 * 3) / 10) / ((0 + 3) / 2)
    claim("token average",
          "A mean over all valid tokens of the batch changes the normalisation when samples have "
          "different numbers of them.", "differs with different numbers of valid tokens",
          f"samples of 2 and 1 tokens: {by_sample:.3f} over samples, {by_token:.3f} over tokens",
          judge(abs(by_sample - by_token) > 1e-6), "npdl's SequenceLoss with both averages")
    claim("slightly", "Averaged over tokens, the loss is slightly different when samples have "
          "different numbers of valid tokens.", "slightly different",
          "exactly equal with 2 tokens in each sample, as in this data; the difference can be "
          f"large: with losses 0 and 3 for 1 and 9 tokens, it is {ratio:.1f} times as large",
          judge(ratio < 1.1, if_false="under-specified"), "only the batch size B bounds the ratio")
    claim("ignore_index", "With an index to ignore, a library's mean takes in the valid tokens "
          "alone, those of the right-hand side.", "ignore_index, valid tokens",
          f"if PAD is ignored, {MASK.sum()} targets remain, of which {COUNTED.sum()} are on the "
          "right-hand side", judge(np.array_equal(MASK, COUNTED), if_false="under-specified"),
          "true if every target up to = is first replaced by the ignored index")
    claim("either version", "Models trained with either average generalise.", "both generalise",
          "on this data, with 2 tokens in each sample, both averages give the same training",
          "essay", "the gradients of both losses are equal")
    V, rank = 6, np.linalg.matrix_rank(np.eye(6)[1:] - np.eye(6)[0])
    before, layer = np.array([0.01, 0.98, 0.01]), SequenceLoss()
    _, cache = layer.forward(np.log(before)[None, None], np.array([[0]]), np.array([[True]]))
    after = softmax(np.log(before) - 0.5 * layer.backward(1.0, cache)[0, 0])
    claim("simplex", "Softmax rows lie in {p : p_i >= 0, sum 1}, of dimension V - 1.",
          "(V - 1)-dimensional", f"dimension {rank} for V = {V}", judge(rank == V - 1),
          "rank of the differences of the corners")
    claim("other components", "Raising the wanted component automatically minimises the other "
          "components.", "automatically minimises them",
          "true for their sum, 1 - p_k, but not for each of them: p = (0.01, 0.98, 0.01) with the "
          f"first component as target becomes {vec(after, 4)} in one gradient step",
          judge((after[1:] < before[1:]).all(), if_false="under-specified"),
          f"the sum of the others changes from {before[1:].sum():.4f} to {after[1:].sum():.4f} "
          "(step 0.5 on the logits, npdl's SequenceLoss)")
    logits = np.array([1000.0, 0.0])
    with np.errstate(all="ignore"):
        naive, two = np.log(np.exp(logits) / np.exp(logits).sum()), np.log(softmax(logits))
    own = log_softmax(logits)
    check("npdl's log-softmax is exact here.", own.tolist() == [0, -1000])
    claim("log softmax", "log P is better taken by a log-softmax of the logits than by way of P.",
          "encouraged, no reason given", f"logits (1000, 0): log-softmax gives {own[0]:.0f}, "
          f"{own[1]:.0f}; the log of a stable softmax gives {two[0]:.0f}, {two[1]}; with plain exp "
          f"the first is {naive[0]}", judge(not np.isfinite(two).all()),
          "the exact values are 0 and -1000; exp(-1000) is 0 in float64")
