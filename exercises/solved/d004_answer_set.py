"""Document 004, Problem 3, worked: which tokens of one padded equation the loss counts."""

import numpy as np

from exercises.d004_answer_set import meant_set, printed_set, sequences
from exercises.worked import Check, Solution, Step, Table
from npdl.losses import answer_mask

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
    rows = tuple((j, name, token, "yes" if j in printed else "",
                  "yes" if j in meant else "")
                 for j, (name, token) in enumerate(zip(names, y, strict=True), 1))
    mask = answer_mask(np.array([y]), np.array([place]), np.array([[t != pad for t in y]]))
    own = {j + 1 for j in range(len(y)) if mask[0, j]}
    return Solution(
        "3",
        (
            Step("Write the target and its ids. Numbers come first, then the signs.",
                 numbers=f"ids: = is {eq}, PAD is {pad}, EOS is {words.eos}",
                 table=Table(("j", "token", "id", "= < id < PAD", "after =, not PAD"), rows)),
            Step("Read as ids, the condition [=] < y_j < [PAD] keeps what lies between two "
                 "numbers: EOS alone. The answer itself is a small number, below =.",
                 "{j : [=] < yⱼ < [PAD]}", shown(printed)),
            Step("What is meant is a place: everything after the =, padding left out.",
                 "RHS(y) = {j : j > place of =, yⱼ ≠ PAD}", shown(meant)),
            Step("Counted from 0, as a program does, = stands one place earlier.",
                 numbers=f"place of = from 0: {place}, from 1: {place + 1}"),
        ),
        f"RHS = {shown(meant)}, the answer and EOS, by place; by ids it would be "
        f"{shown(printed)}.",
        (Check("npdl's answer_mask marks the same places", own == meant),
         Check(f"|RHS| = 2 for every sum with p = {P}",
               all(len(meant_set(row, eq, pad)) == 2 for row in sequences(P, (2, 3))[0].tolist()))),
        f"p = {P}: the target {' '.join(names)}, padded to the length of a sum of three.")


def solutions():
    return [counted()]
