"""Document 004, Problem 3: which tokens are the right-hand side of an equation."""

from functools import partial
from itertools import permutations

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table
from npdl.data import ModularArithmetic
from npdl.losses import answer_mask

QUESTION = """\
The loss counts the right-hand side of each equation: the tokens after = that are not PAD. The
document writes it RHS(y) = {j : [=] < y_j < [PAD]}, without padding {j : [=] < y_j}, and for
next-token training {j : y_j < [PAD]}. Read as comparisons of token ids, are these the sets that
the words describe; is there padding where it is said; and where is = counted from?"""

TITLES = {"3": "Which tokens the loss counts"}

claim = partial(Claim, "004", "Problem 3")


def printed_set(y, eq, pad=None):
    """{j : eq < y_j < pad}, j from 1, with eq and pad as token ids; no upper bound without pad."""
    return {j for j, token in enumerate(y, 1) if eq < token and (pad is None or token < pad)}


def meant_set(y, eq, pad=None):
    """Positions j from 1 after the '=' whose token is not PAD."""
    y = list(y)
    return {j for j, token in enumerate(y, 1) if j > y.index(eq) + 1 and token != pad}


def next_token_set(y, pad):
    """{j : y_j < pad}, j from 1, as printed for next-token training."""
    return {j for j, token in enumerate(y, 1) if token < pad}


def sequences(p=31, orders=(2,)):
    """(targets (N, S), vocabulary) of every sum with operands below p."""
    data = ModularArithmetic(p, orders=orders)
    return data.equations.targets, data.vocabulary


def orders_that_work(p=2):
    """In how many orders of the vocabulary's ids is the printed set right for every a + b = r?

    Returns (orders, of which right for the answer, of which right for next-token training). Two
    targets more, padded, stand for longer batches.
    """
    targets, words = sequences(p)
    padded = np.concatenate([targets, np.full((len(targets), 2), words.pad)], 1)
    total = right = next_token = 0
    for order in permutations(range(words.size)):
        new = np.array(order)
        eq, pad = int(new[words.eq]), int(new[words.pad])
        rows = new[padded].tolist()
        total += 1
        right += all(printed_set(y, eq, pad) == meant_set(y, eq, pad) for y in rows)
        next_token += all(next_token_set(y, pad) == set(range(1, len(y) - 1)) for y in rows)
    return total, right, next_token


def claims():
    total, right, next_token = orders_that_work()
    return [set_claim(total, right), *padding_claims(), next_token_claim(total, next_token),
            position_claim(), length_claim()]


def set_claim(total, right):
    targets, words = sequences()
    rows = targets.tolist()
    agree = sum(printed_set(y, words.eq, words.pad) == meant_set(y, words.eq, words.pad)
                for y in rows)
    wrong = len(rows) - agree
    y = rows[0]
    kept, meant = (sorted(f(y, words.eq, words.pad)) for f in (printed_set, meant_set))
    return claim(
        "right-hand side", "{j : [=] < y_j < [PAD]} is the set of tokens after =, PAD left out "
        "(in the footnote, without padding, {j : [=] < y_j}).", "{j : [=] < y_j < [PAD]}",
        f"{{j : position of = < j, y_j not PAD}}; '{words.decode(y)}': {meant}, as printed {kept}",
        judge(agree == len(rows)),
        f"with ids 0 .. p - 1, +, =, BOS, EOS, PAD only EOS lies between: wrong for "
        f"{wrong} of {len(rows)} sums. No order of the ids can help ({right} of "
        f"{total} for p = 2): in a + 0 = a the same token stands on both sides")


def pads(orders, p=5):
    """Numbers of PAD in the targets and in the inputs, for each order: {order: (t, i)}."""
    data = ModularArithmetic(p, orders=orders)
    sets, pad = data.equations, data.vocabulary.pad
    return {order: tuple(int(n) for array in (sets.targets, sets.inputs)
                         for n in np.unique((array[sets.orders == order] == pad).sum(1)))
            for order in orders}


def padding_claims():
    alone = {order: pads((order,))[order] for order in (2, 3)}
    both = pads((2, 3))
    said = set(alone.values()) == {(0, 0)} and both[2] != (0, 0)
    return [
        claim("padding", "There is no padding if all equations have two or all have three "
              "operands; there is with both.", "operation_orders 2 or 3, not (2, 3)",
              f"PADs: {alone[2][0]} and {alone[3][0]} alone; together {both[2][0]} for two "
              f"operands, {both[3][0]} for three", proved(said),
              "targets counted for every sum with p = 5"),
        claim("padded sequence", "Beside a + b + c = r EOS, a binary sample is a + b = r EOS PAD "
              "PAD.", "two PADs", f"{both[2][0]} PADs in the targets, {both[2][1]} in the inputs "
              "(which begin with BOS and stop one token earlier)",
              proved(both[2][0] == 2), "targets and inputs counted for every sum with p = 5"),
    ]


def next_token_claim(total, next_token):
    targets, words = sequences(5, (2, 3))
    same = all(next_token_set(y, words.pad) == {j for j, t in enumerate(y, 1) if t != words.pad}
               for y in targets.tolist())
    targets, words = sequences()
    whole = all(next_token_set(y, words.pad) == set(range(1, len(y) + 1)) for y in targets.tolist())
    one_in = total // next_token
    return claim(
        "next token", "{j : y_j < [PAD]} is every token but PAD, and without padding all of [S].",
        "{j : y_j < [PAD]}; [S]", "right if PAD has the largest id, as npdl numbers them: "
        f"{'equal' if same and whole else 'different'} for every sum with p = 5 (padded) and 31",
        judge(next_token == total and same and whole,
              if_false="under-specified" if same and whole else "wrong"),
        f"of {total} orders of the ids for p = 2, {next_token} (1 in {one_in}) are "
        "right: those with PAD above the 6 other tokens that targets hold")


def position_claim():
    data = ModularArithmetic(11, orders=(2, 3))
    sets, words = data.equations, data.vocabulary
    found = {}
    for name, array in (("targets", sets.targets), ("inputs", sets.inputs)):
        at = (array == words.eq).argmax(1)
        found[name] = [int(at[sets.orders == order][0]) for order in (2, 3)]
    as_said = found["targets"] == [3, 5]
    one_based = [n + 1 for n in found["targets"]] == [3, 5]
    return claim(
        "position of =", "= is at position 3 of binary and at 5 of ternary samples.", "3 and 5",
        f"{found['targets'][0]} and {found['targets'][1]} in the targets counted from 0; from 1, "
        f"as [S] = {{1 .. S}} counts, one more; in the inputs, from 0, {found['inputs'][0]} and "
        f"{found['inputs'][1]}",
        judge(as_said and one_based, if_false="under-specified"),
        "data with p = 11; holds for targets counted from 0: then RHS is j > P, and with j from 1 "
        "it is j > P + 1")


def length_claim():
    lengths = set()
    for orders in ((2,), (3,), (2, 3)):
        counted = ModularArithmetic(5, orders=orders).equations.answer_mask.sum(1)
        lengths |= set(counted.tolist())
    return claim(
        "size", "How many tokens are on the right-hand side?", "|RHS(Y_i)|, no number",
        f"{sorted(lengths)}: r and EOS, for two operands and for three",
        judge(len(lengths) == 1, "no answer given"),
        "counted for every sum with p = 5, orders 2, 3 and both: |RHS| is the same for all samples "
        "of this data")


P = 5


def target_of(a, b):
    """(ids of the padded target a + b = r EOS PAD PAD modulo P, vocabulary)."""
    targets, words = sequences(P, (2, 3))
    return next(row for row in targets.tolist()
                if row[:3:2] == [a, b] and row[3] == words.eq), words


def shown(braces):
    return "{" + ", ".join(map(str, sorted(braces))) + "}"


def counted():
    y, words = target_of(4, 3)
    names = [words.tokens[token] for token in y]
    eq, pad = words.eq, words.pad
    printed, meant = printed_set(y, eq, pad), meant_set(y, eq, pad)
    place = y.index(eq)
    from_1 = place + 1
    rows = tuple((j, name, token, "yes" if j in printed else "",
                  "yes" if j in meant else "")
                 for j, (name, token) in enumerate(zip(names, y, strict=True), 1))
    mask = answer_mask(np.array([y]), np.array([place]), np.array([[t != pad for t in y]]))
    own = {j + 1 for j in range(len(y)) if mask[0, j]}
    work = Solution("3",
                    f"p = {P}: the target {' '.join(names)}, padded to the length of a sum of "
                    "three.")
    work.step("Write the target and its ids. Numbers come first, then the signs.",
              numbers=f"ids: = is {eq}, PAD is {pad}, EOS is {words.eos}",
              table=Table(("j", "token", "id", "= < id < PAD", "after =, not PAD"), rows))
    work.step("Read as ids, the condition [=] < y_j < [PAD] keeps what lies between two numbers: "
              "EOS alone. The answer itself is a small number, below =.", "{j : [=] < yⱼ < [PAD]}",
              shown(printed))
    work.step("What is meant is a place: everything after the =, padding left out.",
              "RHS(y) = {j : j > place of =, yⱼ ≠ PAD}", shown(meant))
    work.step("Counted from 0, as a program does, = stands one place earlier.",
              numbers=f"place of = from 0: {place}, from 1: {from_1}")
    work.answer = (f"RHS = {shown(meant)}, the answer and EOS, by place; by ids it would be "
                   f"{shown(printed)}.")
    work.check("npdl's answer_mask marks the same places", own == meant)
    work.check(f"|RHS| = 2 for every sum with p = {P}",
               all(len(meant_set(row, eq, pad)) == 2 for row in sequences(P, (2, 3))[0].tolist()))
    return work


def solutions():
    return [counted()]
