"""Document 004, Problem 3: which tokens are the right-hand side of an equation.

The document writes it RHS(y) = {j : [=] < y_j < [PAD]}, without padding {j : [=] < y_j}, and for
next-token training {j : y_j < [PAD]}.
"""

import numpy as np

from exercises.course import judge, question, table, vec
from npdl.data import ModularArithmetic
from npdl.losses import answer_mask


def printed_set(y, eq, pad):
    """Return {j : eq < y_j < pad} with token ids, j from 1."""
    return {j for j, token in enumerate(y, 1) if eq < token < pad}


def meant_set(y, eq, pad):
    """Return the positions j from 1 after the = whose token is not PAD."""
    return {j for j, token in enumerate(y, 1) if j > list(y).index(eq) + 1 and token != pad}


def next_token_set(y, pad):
    """Return {j : y_j < pad}, j from 1, as printed for next-token training."""
    return {j for j, token in enumerate(y, 1) if token < pad}


def sums(p=31, orders=(2,)):
    """Return the targets of all sums with operands below p, and the vocabulary."""
    data = ModularArithmetic(p, orders=orders)
    return data.equations.targets.tolist(), data.vocabulary


def shown(braces):
    """Return a set as text."""
    return "{" + ", ".join(map(str, sorted(braces))) + "}"


@question("004.3.rhs", "Which tokens the loss counts")
def tokens(say, step, answer, check, claim):
    """Find the tokens of 4 + 3 modulo 5 that the loss counts: those after = that are not PAD."""
    targets, words = sums(5, (2, 3))
    eq, pad = words.eq, words.pad
    y = next(row for row in targets if row[:3:2] == [4, 3] and row[3] == eq)
    names, place = [words.tokens[token] for token in y], y.index(eq)
    printed, meant = printed_set(y, eq, pad), meant_set(y, eq, pad)
    say(f"p = 5: the target {' '.join(names)}, padded to the length of a sum of three.")
    step("Write the target and its ids. Numbers come first, then the signs.",
         f"ids: = is {eq}, PAD is {pad}, EOS is {words.eos}",
         table(("j", "token", "id", "= < id < PAD", "after =, not PAD"), [
             (j, name, token, "yes" * (j in printed), "yes" * (j in meant))
             for j, (name, token) in enumerate(zip(names, y, strict=True), 1)]))
    step("Read as ids, the condition [=] < y_j < [PAD] keeps what lies between two numbers: "
         "EOS alone. The answer itself is a small number, below =.", "{j : [=] < yⱼ < [PAD]}",
         shown(printed))
    step("What is meant is a place: everything after the =, padding left out.",
         "RHS(y) = {j : j > place of =, yⱼ ≠ PAD}", shown(meant))
    step("Counted from 0, as a program does, = is one place earlier.",
         f"place of = from 0: {place}, from 1: {place + 1}")
    answer(f"RHS = {shown(meant)}, the answer and EOS, by place; by ids it would be "
           f"{shown(printed)}.")
    mask = answer_mask(np.array([y]), np.array([place]), np.array([y]) != pad)
    check("npdl's answer_mask marks the same places",
          {j + 1 for j in np.flatnonzero(mask[0]).tolist()} == meant)
    rows, large = sums()
    wrong = sum(printed_set(y, large.eq, large.pad) != meant_set(y, large.eq, large.pad)
                for y in rows)
    kept, meant = (sorted(f(rows[0], large.eq, large.pad)) for f in (printed_set, meant_set))
    claim("right-hand side", "{j : [=] < y_j < [PAD]} is the set of tokens after =, PAD left out "
          "(in the footnote, without padding, {j : [=] < y_j}).", "{j : [=] < y_j < [PAD]}",
          f"{{j : position of = < j, y_j not PAD}}; '{large.decode(rows[0])}': {meant}, as printed "
          f"{kept}", judge(wrong == 0), f"only the id of EOS lies between: wrong for {wrong} of "
          f"{len(rows)} sums. No order of the ids can help: in a + 0 = a one token is on both "
          "sides")
    check("as npdl numbers them, the set for next-token training is right for every sum",
          all(next_token_set(y, pad) == {j for j, t in enumerate(y, 1) if t != pad}
              for y in targets)
          and all(next_token_set(y, large.pad) == set(range(1, len(y) + 1)) for y in rows))
    first_pad = any(next_token_set([pad - token for token in y], 0) for y in targets)
    claim("next token", "{j : y_j < [PAD]} is every token but PAD, and without padding all of [S].",
          "{j : y_j < [PAD]}; [S]", "right if PAD has the largest id, as npdl numbers them: equal "
          "for every sum with p = 5 (padded) and 31", judge(first_pad, if_false="under-specified"),
          "numbered the other way round, with PAD first, the set is empty for every sum")
    alone = [max(row.count(vocabulary.pad) for row in found)
             for found, vocabulary in (sums(5), sums(5, (3,)))]
    both = {row.index(eq): row.count(pad) for row in targets}           # by the place of =
    claim("padding", "There is no padding if all equations have two or all have three operands; "
          "there is with both.", "operation_orders 2 or 3, not (2, 3)",
          f"PADs: {alone[0]} and {alone[1]} alone; together {both[3]} for two operands, "
          f"{both[5]} for three", judge(alone == [0, 0] and both[3] > 0),
          "targets counted for every sum with p = 5")
    claim("padded sequence", "Next to a + b + c = r EOS, a binary sample is a + b = r EOS PAD PAD.",
          "two PADs", f"{both[3]} PADs in the targets", judge(both[3] == 2),
          "targets counted for every sum with p = 5")
    data = ModularArithmetic(11, orders=(2, 3))
    sets, eq = data.equations, data.vocabulary.eq
    found = {name: [array[sets.orders == order][0].tolist().index(eq) for order in (2, 3)]
             for name, array in (("targets", sets.targets), ("inputs", sets.inputs))}
    check("from 0, = is at 3 and 5 of the targets", found["targets"] == [3, 5])
    claim("position of =", "= is at position 3 of binary and at 5 of ternary samples.", "3 and 5",
          f"{found['targets'][0]} and {found['targets'][1]} in the targets counted from 0; from 1, "
          f"one more; in the inputs, from 0, {found['inputs'][0]} and {found['inputs'][1]}",
          judge([n + 1 for n in found["targets"]] == [3, 5], if_false="under-specified"),
          "data with p = 11; holds for targets counted from 0")
    lengths = {len(meant_set(row, words.eq, pad)) for row in targets}
    claim("size", "How many tokens are on the right-hand side?", "|RHS(Y_i)|, no number",
          f"{vec(lengths)}: r and EOS, for two operands and for three",
          judge(len(lengths) == 1, "no answer given"), "counted for every sum with p = 5")
