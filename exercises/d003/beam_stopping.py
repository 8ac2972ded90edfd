"""Document 003, Question 4: when beam search may stop.

The rule: stop when the best score in the beam is no higher than the best completed score. Random
trees of words are searched with and without it, and exhaustively.
"""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Solution, Table, listing, num
from npdl.decoding import Tree, beam_search, exhaustive_search

QUESTION = """\
Question 4. B_t holds the b best expansions of B_(t-1) by their sums of log-probabilities; those \
ending in </s> are complete and not expanded; best_(<=t) is the best complete score so far. Let \
y^1 be the best of B_t, with score s^1. Prove: once s^1 <= best_(<=t), no later step finds a \
better one, and the best complete hypothesis is the one of highest probability."""

TITLES = {"4": "When beam search may stop"}

claim_of = partial(Claim, "003", "Q4")
END = "</s>"


def random_tree(seed, depth=5, words=2):
    """Nested {word: (probability, subtree)}; after `depth` words only </s> follows."""
    rng = np.random.default_rng(seed)

    def grow(level):
        if level == depth:
            return {END: 1.0}
        p = rng.dirichlet(np.full(words + 1, 0.8))
        below = {f"w{n}": (float(p[n]), grow(level + 1)) for n in range(words)}
        return below | {END: float(1 - p[:words].sum())}

    return grow(0)


def search(branches, width=2, max_len=6, stop=True, **options):
    """npdl's beam_search on a tree of probabilities; </s> is the end token."""
    tree = Tree(branches, probabilities=True)
    return beam_search(tree, width, max_len, eos=tree.token(END), stop=stop, **options)


def best_of_all(branches, max_len=6):
    """The complete hypothesis of highest probability, by exhaustive search."""
    tree = Tree(branches, probabilities=True)
    return exhaustive_search(tree, max_len, eos=tree.token(END)).best


def compare(trees, width=2):
    """Counts over [(tree, best log-probability of all)].

    Of trees on which the search finds the same best with and without the rule, on which it is the
    best of all, and on which the rule fires; and the steps taken with and without it.
    """
    same = optimal = fired = 0
    steps = np.zeros(2, int)
    for branches, best in trees:
        stopped, full = search(branches, width), search(branches, width, stop=False)
        same += stopped.best.log_prob == full.best.log_prob
        fired += stopped.reason == "bound"
        optimal += abs(stopped.best.log_prob - best) < 1e-12
        steps += len(stopped.steps), len(full.steps)
    return {"same": same, "optimal": optimal, "fired": fired, "steps": steps.tolist()}


def largest_rise(trees, width=2):
    """By how much the best kept score rises at most from one step to the next, live ones only."""
    rises = [-math.inf]
    for branches in trees:
        for step in search(branches, width, stop=False).steps:
            rises += [kept.log_prob - step.parents[0].log_prob for kept in step.kept]
    return max(rises)


def normalised_rule_fails(trees, width=2):
    """On how many trees the same rule, on log-probability / length, stops before the best one."""
    fails = 0
    for branches in trees:
        steps = search(branches, width, stop=False, length_power=1.0).steps
        final = steps[-1].best.score
        for step in steps:
            live = [h.log_prob / step.length for h in step.kept if not h.complete]
            if step.best is not None and max(live, default=-math.inf) <= step.best.score:
                fails += step.best.score < final - 1e-12
                break
    return fails


def pruned_tree():
    """A tree whose most probable sequence starts with the less probable word."""
    return {"a": (0.6, {END: 0.55, "c": (0.45, {END: 1.0})}), "b": (0.4, {END: 1.0})}


def twin_trees():
    """Two trees, the same for two words, of which the second completes better in the third."""
    def tree(last):
        return {"a": (1.0, {END: 0.4, "c": (0.6, {END: last, "d": (1 - last, {END: 1.0})})})}

    return tree(0.5), tree(0.9)


def rule():
    """Claims on the statement that is to be proved."""
    trees = [random_tree(seed) for seed in range(60)]
    known = [(branches, best_of_all(branches).log_prob) for branches in trees]
    counts = {width: compare(known, width) for width in (1, 2, 4)}
    rise = largest_rise(trees)
    n, two = len(trees), counts[2]
    searches = 3 * n
    yield claim_of(
        "", "once s^1 <= best, no later step finds a better complete hypothesis", "to be proved",
        "proof: log p <= 0, so no expansion scores above its parent; all that is live scores at "
        "most s^1, and so does all that can come of it",
        proved(all(c["same"] == n for c in counts.values()) and rise <= 0),
        "seeds 0 to 59: "
        f"{n} random trees, widths 1, 2, 4: the same best in all {searches} searches with and "
        f"without the rule; at width 2 it fires in {two['fired']} and takes {two['steps'][0]} "
        f"steps in place of {two['steps'][1]}")
    found, best = search(pruned_tree(), 1), best_of_all(pruned_tree())
    shares = [counts[width]["optimal"] for width in (1, 2, 4)]
    yield claim_of(
        "", "then the best completed hypothesis is the overall most probable one", "to be proved",
        "of what this beam search can find, yes; not of all sequences, problem (10): the best may "
        "have been pruned before",
        judge(min(shares) == n, "confirmed", "under-specified"),
        f"width 1, branches a 0.6, b 0.4: it stops at {math.exp(found.best.log_prob):.2f} while "
        f"'b </s>' has {math.exp(best.log_prob):.2f}; random trees with the true optimum at widths "
        f"1, 2, 4: {listing(shares, 'd')} of {n}")
    worse, better = (search(tree, 2, stop=False) for tree in twin_trees())
    early = worse.steps[1].best.log_prob
    yield claim_of(
        "", "the rule stops no later than necessary", "not asked",
        "while s^1 > best, a later completion can still be better: the scores so far can't exclude "
        "it",
        judge(worse.best.log_prob == early < better.best.log_prob, "no answer given"),
        f"two trees equal for two steps, best {math.exp(early):.2f} then; in the end "
        f"{math.exp(worse.best.log_prob):.2f} and {math.exp(better.best.log_prob):.2f}")
    fails = normalised_rule_fails(trees)
    yield claim_of(
        "", "the rule holds for the score that is compared", "sums of log-probabilities",
        "for scores that never rise; with scores divided by the length it stops too early",
        judge(fails == 0, "confirmed", "under-specified"),
        f"log-probability / length, width 2: a better one was still to come in {fails} of {n} "
        "trees")


def claims():
    return list(rule())


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
    first, c_after_a = TREE["a"][0], TREE["a"][1]["c"][0]
    second = first * c_after_a
    found, full = search(TREE, 2), search(TREE, 2, stop=False)
    work = Solution("4",
                    "Scores are sums of log-probabilities; the table shows probabilities beside "
                    "them.")
    work.step("One more word never raises a score: a probability is at most 1, its logarithm at "
              "most 0.", "s(y ∘ w) = s(y) + log p(w | x, y) ≤ s(y)",
              f"'a': {log(first)};   'a c': {log(first)} + ({log(c_after_a)}) = {log(second)}")
    work.step("All that will ever be in a later beam grows out of B_t. By induction over the "
              "steps no descendant scores above its ancestor in B_t.",
              "s(later) ≤ s(its ancestor in B_t) ≤ s¹")
    work.step("So if s¹ is at most the best complete score, every later complete hypothesis is at "
              "most that good.",
              "s(later) ≤ s¹ ≤ best_(≤t)   →   stop; the search would end with best_(≤t)")
    work.step(f"Watch it on a tree, width 2: {described(TREE)}; where nothing is named, </s> "
              "follows.",
              table=Table(("t", "B_t", "s¹", "best_(≤t)", "s¹ ≤ best: stop?"), tuple(
                  (str(n), ", ".join(f"{' '.join(words)} {num(p, 2)}" for words, p in kept),
                   log(kept[0][1]), log(b),
                   "yes" if b and kept[0][1] <= b else "no")
                  for n, (_, kept, b) in enumerate(steps, 1))))
    work.step("At the stop one hypothesis was still alive. What came of it did not win.",
              numbers=f"alive at t = {t}: {num(live, 2)}; its best descendant {num(later, 2)} ≤ "
                      f"{num(best, 2)}")
    work.step("What the proof does not say: that no sequence outside the beams is better. Pruned "
              "hypotheses have no descendants in B_t, so it is the best that this beam search can "
              "find.")
    work.answer = ("Scores never rise along a path, so s(later) ≤ s¹ ≤ best_(≤t) for all that "
                   f"grows out of B_t; here the search may stop at t = {t} with {num(best, 2)}.")
    work.check("npdl's beam search stops at this step, and without the rule ends with the same",
               len(found.steps) == t and found.best.tokens == full.best.tokens
               and abs(math.exp(found.best.log_prob) - best) < 1e-12)
    work.check("in this tree it is also the best of all sequences",
               abs(math.exp(best_of_all(TREE).log_prob) - best) < 1e-12)
    return work


def solutions():
    return [proof()]
