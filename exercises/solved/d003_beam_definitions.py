"""Document 003, Question 4's definitions, worked: greedy, beam and exhaustive search."""

import math

from exercises.d003_beam_stopping import END, best_of_all, search
from exercises.solved.d003_beam_stopping import TREE, beams, described, expanded, log
from exercises.worked import Check, Solution, Step, Table, num, sub


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
    return Solution(
        "4",
        (
            Step("Greedy is a beam of width 1: take the most probable word, and again.",
                 numbers=" → ".join(f"{kept[0][0][-1]} ({num(kept[0][1], 2)})"
                                    for _, kept, _ in greedy) + f":  '{' '.join(path)}'"),
            *(candidate_step(t, candidates, beam)
              for t, (candidates, beam, _) in enumerate(steps, 1)),
            Step("The best complete hypothesis of all beams is the result.",
                 "best_(≤t) = max {s : ⟨y, s⟩ ∈ B₁ ∪ … ∪ B_t, y complete}",
                 f"'{' '.join(words)}': {num(best, 2)}, score {log(best)}"),
            Step("Exhaustive search lists every complete sequence; it is the judge here, and "
                 "impossible for a real vocabulary.",
                 table=Table(("sequence", "probability"),
                             tuple((" ".join(w), num(p, 3)) for w, p in all_of_them))),
        ),
        f"Greedy finds '{' '.join(path)}' with {num(by_greedy, 2)}, a beam of 2 finds "
        f"'{' '.join(words)}' with {num(best, 2)}: the better first word is not on the best path.",
        (Check("npdl's beam search of widths 1 and 2 finds the same",
               abs(math.exp(search(TREE, 1).best.log_prob) - by_greedy) < 1e-12
               and abs(math.exp(search(TREE, 2).best.log_prob) - best) < 1e-12),
         Check("all sequences together have probability 1; the best is npdl's exhaustive one",
               abs(mass - 1) < 1e-12
               and abs(math.exp(best_of_all(TREE).log_prob) - all_of_them[0][1]) < 1e-12)),
        f"The tree {described(TREE)}; where nothing is named, </s> follows. Width b = 2.")


def solutions():
    return [by_definition()]
