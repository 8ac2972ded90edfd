"""Document 003, Question 4: the definitions (10) to (13) of beam search, tested as printed."""

import math
from functools import partial

import numpy as np

from exercises.d003.beam_stopping import (
    END,
    TREE,
    beams,
    best_of_all,
    described,
    expanded,
    log,
    random_tree,
    search,
)
from exercises.framework import Claim, judge
from exercises.worked import Solution, Step, Table, num, sub
from npdl.decoding import Scorer, exhaustive_search

QUESTION = """\
Question 4, the definitions. (10) the most probable complete sequence is wanted; (12) B_t is the \
top b of all expansions of the pairs <y, s> in B_(t-1); (13) best_(<=t) is the largest score s of \
a complete y in B_1 .. B_t. Do they say what is meant?"""

TITLES = {"4": "Greedy, beam and exhaustive search by their definitions"}

claim_of = partial(Claim, "003", "Q4")


class SteadyModel(Scorer):
    """Words of two equally probable kinds without end; </s>, token 0, has probability p."""

    def __init__(self, p):
        with np.errstate(divide="ignore"):
            self.row = np.log([p, (1 - p) / 2, (1 - p) / 2])

    def start(self):
        return self.row[None], None

    def advance(self, state, parents, tokens):
        return np.tile(self.row, (len(tokens), 1)), None


def likely(p, least, max_len=9):
    """How many complete sequences of SteadyModel(p) have a probability of at least `least`.

    Their length is limited by `least` itself: (1 - p)^(n - 1) p falls below it.
    """
    count = 0
    for n in range(1, max_len + 1):
        count += 2 ** (n - 1) * (p * ((1 - p) / 2) ** (n - 1) >= least)
    return count


def definitions():
    """Claims on the definitions (10) to (13)."""
    trees = [random_tree(seed) for seed in range(60)]
    searches = [search(branches, 4, stop=False) for branches in trees]
    complete = sum(bool(step.finished) for result in searches for step in result.steps[:-1])
    total = sum(len(result.steps) - 1 for result in searches)
    plain = [kept for branches in trees for _, kept, _ in beams(branches, 4)[:-1]]
    held = sum(any(words[-1] == END for words, _ in kept) for kept in plain)
    yield claim_of(
        "(12)", "B_t is made from all pairs <y, s> in B_(t-1)", "for every <y, s> in B_(t-1)",
        "of those that are not complete: the text forbids to expand these, the formula does not",
        judge(complete == 0, "confirmed", "under-specified",
              provided=(complete, total) == (held, len(plain))),
        "seeds 0 to 59: "
        f"{len(trees)} random trees, width 4: {complete} of {total} beams to be expanded held "
        "complete hypotheses")
    yield from optimum()


def optimum():
    """Claim on the existence of the maximum."""
    counts = [likely(0.3, least) for least in (0.1, 0.01)]
    none = exhaustive_search(SteadyModel(0.0), 6, eos=0).best
    yield claim_of(
        "(10)", "the most probable complete sequence exists", "argmax over all y",
        "if any complete sequence has a probability above 0: at most 1/e of them reach e, so the "
        "supremum is attained; else there is nothing to choose from",
        judge(none is not None, "confirmed", "under-specified"),
        f"</s> of 0.3, endless sequences: {counts[0]} of at most 10 reach 0.1, {counts[1]} of at "
        "most 100 reach 0.01; with </s> of probability 0 none is complete")


def claims():
    return list(definitions())


def everything(branches):
    """All complete sequences and their probabilities, best first."""
    done, live = [], [((), 1.0)]
    while live:
        live = expanded(branches, live)
        done += [row for row in live if row[0][-1] == END]
    return sorted(done, key=lambda row: -row[1])


def candidate_step(t, candidates, beam):
    """The table of one step: every candidate of the beam, and which are kept."""
    return Step(
        f"B{sub(t)}: expand all that is not complete, sort, keep two." if t > 1 else
        "B₁: expand the empty sequence, of probability 1; sort, keep two.",
        "s(y ∘ w) = s(y) + log p(w | y)",
        table=Table(("hypothesis", "probability", "score", ""), tuple(
            (" ".join(words), num(p, 3), log(p), "kept" if (words, p) in beam else "")
            for words, p in candidates)))


def by_definition():
    """Three searches of the same tree."""
    steps, greedy = beams(TREE, 2), beams(TREE, 1)
    all_of_them = everything(TREE)
    best, by_greedy = steps[-1][2], greedy[-1][2]
    words = next(w for _, beam, _ in steps for w, p in beam if w[-1] == END and p == best)
    path = greedy[-1][1][0][0]
    mass = math.fsum(p for _, p in all_of_them)
    work = Solution("4",
                    f"The tree {described(TREE)}; where nothing is named, </s> follows. Width b = "
                    "2.")
    work.step("Greedy is a beam of width 1: take the most probable word, and again.",
              numbers=" → ".join(f"{kept[0][0][-1]} ({num(kept[0][1], 2)})"
                                 for _, kept, _ in greedy) + f":  '{' '.join(path)}'")
    work.steps.extend((candidate_step(t, candidates, beam)
                       for t, (candidates, beam, _) in enumerate(steps, 1)))
    work.step("The best complete hypothesis of all beams is the result.",
              "best_(≤t) = max {s : ⟨y, s⟩ ∈ B₁ ∪ … ∪ B_t, y complete}",
              f"'{' '.join(words)}': {num(best, 2)}, score {log(best)}")
    work.step("Exhaustive search lists every complete sequence; it is the judge here, and "
              "impossible for a real vocabulary.",
              table=Table(("sequence", "probability"),
                          tuple((" ".join(w), num(p, 3)) for w, p in all_of_them)))
    work.answer = (f"Greedy finds '{' '.join(path)}' with {num(by_greedy, 2)}, a beam of 2 finds "
                   f"'{' '.join(words)}' with {num(best, 2)}: the better first word is not on the "
                   "best path.")
    work.check("npdl's beam search of widths 1 and 2 finds the same",
               abs(math.exp(search(TREE, 1).best.log_prob) - by_greedy) < 1e-12
               and abs(math.exp(search(TREE, 2).best.log_prob) - best) < 1e-12)
    work.check("all sequences together have probability 1; the best is npdl's exhaustive one",
               abs(mass - 1) < 1e-12
               and abs(math.exp(best_of_all(TREE).log_prob) - all_of_them[0][1]) < 1e-12)
    return work


def solutions():
    return [by_definition()]
