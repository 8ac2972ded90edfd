"""Document 003, Question 4, worked: the proof, and the step at which it lets one tree stop."""

import math

from exercises.d003_beam_stopping import END, best_of_all, search
from exercises.worked import Check, Solution, Step, Table, num

TREE = {"a": (0.5, {END: 0.2, "c": (0.5, {END: 1.0}), "d": (0.3, {END: 1.0})}),
        "b": (0.4, {END: 0.9, "c": (0.1, {END: 1.0})}), END: 0.1}


def expanded(branches, beam):
    """The expansions of a beam [(words, probability)], complete ones left out, best first."""
    found = []
    for words, p in beam:
        if words[-1:] == (END,):
            continue
        below = branches
        for word in words:
            below = below[word][1]
        for word, branch in below.items():
            found.append(((*words, word), p * (branch[0] if isinstance(branch, tuple) else branch)))
    return sorted(found, key=lambda row: -row[1])


def beams(branches, width):
    """[(expansions, the beam kept, best complete probability so far or 0)] step by step."""
    beam, best, steps = [((), 1.0)], 0.0, []
    while any(words[-1:] != (END,) for words, _ in beam):
        candidates = expanded(branches, beam)
        beam = candidates[:width]
        best = max([best, *(p for words, p in beam if words[-1] == END)])
        steps.append((candidates, beam, best))
    return steps


def stop_at(steps):
    """The first step t at which the best of the beam is no more probable than the best complete."""
    return next(t for t, (_, beam, best) in enumerate(steps, 1) if beam[0][1] <= best)


def described(branches):
    """The tree in one line: a word, its probability, what may follow."""
    def one(word, branch):
        p, below = branch if isinstance(branch, tuple) else (branch, {})
        inside = {w: b for w, b in below.items() if (w, b) != (END, 1.0)}
        return f"{word} {num(p, 1)}" + (f" (then {described(inside)})" if inside else "")

    return ", ".join(one(word, branch) for word, branch in branches.items())


def log(p):
    return num(math.log(p), 2) if p else "none"


def proof():
    """Question 4."""
    steps = beams(TREE, 2)
    t = stop_at(steps)
    _, beam, best = steps[t - 1]
    live = max((p for words, p in beam if words[-1] != END), default=0.0)
    later = max(p for _, p in steps[t][0])
    first = TREE["a"][0]
    second = first * TREE["a"][1]["c"][0]
    found, full = search(TREE, 2), search(TREE, 2, stop=False)
    return Solution(
        "4",
        (
            Step("One more word never raises a score: a probability is at most 1, its logarithm at "
                 "most 0.", "s(y ∘ w) = s(y) + log p(w | x, y) ≤ s(y)",
                 f"'a': {log(first)};   'a c': {log(first)} + ({log(second / first)}) = "
                 f"{log(second)}"),
            Step("All that will ever be in a later beam grows out of B_t. By induction over the "
                 "steps no descendant scores above its ancestor in B_t.",
                 "s(later) ≤ s(its ancestor in B_t) ≤ s¹"),
            Step("So if s¹ is at most the best complete score, every later complete hypothesis is "
                 "at most that good.",
                 "s(later) ≤ s¹ ≤ best_(≤t)   →   stop; the search would end with best_(≤t)"),
            Step(f"Watch it on a tree, width 2: {described(TREE)}; where nothing is named, </s> "
                 "follows.",
                 table=Table(("t", "B_t", "s¹", "best_(≤t)", "s¹ ≤ best: stop?"), tuple(
                     (str(n), ", ".join(f"{' '.join(words)} {num(p, 2)}" for words, p in kept),
                      log(kept[0][1]), log(b),
                      "yes" if b and kept[0][1] <= b else "no")
                     for n, (_, kept, b) in enumerate(steps, 1)))),
            Step("At the stop one hypothesis was still alive. What came of it did not win.",
                 numbers=f"alive at t = {t}: {num(live, 2)}; its best descendant {num(later, 2)} "
                 f"≤ {num(best, 2)}"),
            Step("What the proof does not say: that no sequence outside the beams is better. "
                 "Pruned hypotheses have no descendants in B_t, so it is the best that this beam "
                 "search can find."),
        ),
        "Scores never rise along a path, so s(later) ≤ s¹ ≤ best_(≤t) for all that grows out of "
        f"B_t; here the search may stop at t = {t} with {num(best, 2)}.",
        (Check("npdl's beam search stops at this step, and without the rule ends with the same",
               len(found.steps) == t and found.best.tokens == full.best.tokens
               and abs(math.exp(found.best.log_prob) - best) < 1e-12),
         Check("in this tree it is also the best of all sequences",
               abs(math.exp(best_of_all(TREE).log_prob) - best) < 1e-12)),
        "Scores are sums of log-probabilities; the table shows probabilities beside them.",
        picture="the best live and the best complete score at each step, and the stop")


def solutions():
    return [proof()]
