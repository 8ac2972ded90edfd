"""Document 003, Question 4: when beam search may stop.

The rule: stop when the best score in the beam is no higher than the best completed score. Random
trees of words are searched with and without it, and exhaustively.
"""

import math
import sys
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from exercises.framework import Claim, judge, run_script
from exercises.shown import listing
from npdl.decoding import Tree, beam_search, exhaustive_search
from npdl.errors import InputError

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
    if depth < 1 or words < 1:
        raise InputError(f"depth = {depth!r}, words = {words!r}; both must be at least 1")
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
    trees = [random_tree(seed) for seed in range(150)]
    known = [(branches, best_of_all(branches).log_prob) for branches in trees]
    counts = {width: compare(known, width) for width in (1, 2, 4)}
    rise = largest_rise(trees[:50])
    n, two = len(trees), counts[2]
    yield claim_of(
        "", "once s^1 <= best, no later step finds a better complete hypothesis", "to be proved",
        "proof: log p <= 0, so no expansion scores above its parent; all that is live scores at "
        "most s^1, and so does all that can come of it",
        judge(all(c["same"] == n for c in counts.values()) and rise <= 0),
        f"{n} random trees, widths 1, 2, 4: the same best in all {3 * n} searches with and without "
        f"the rule; at width 2 it fires in {two['fired']} and takes {two['steps'][0]} steps in "
        f"place of {two['steps'][1]}")
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


def figures(folder):
    """The best live and the best complete score at each step, and where the rule stops."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axis, seed in zip(figure.subplots(1, 2, sharey=True), (2, 11), strict=True):
        branches = random_tree(seed)
        steps = search(branches, 3, stop=False).steps
        stop = len(search(branches, 3).steps)
        t = [step.length for step in steps]
        axis.plot(t, [step.bound if step.bound > -math.inf else np.nan for step in steps], "o-",
                  label="best live score")
        axis.plot(t, [step.best.log_prob if step.best else np.nan for step in steps], "s-",
                  label="best complete score so far")
        axis.axvline(stop, color="gray", ls="--", label=f"the rule stops (t = {stop})")
        axis.axhline(best_of_all(branches).log_prob, color="black", ls=":", lw=1,
                     label="best of all sequences")
        axis.set(title=f"random tree {seed}, width 3", xlabel="step t")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.axes[0].set_ylabel("sum of log-probabilities")
    path = Path(folder) / "d003_beam_stopping.png"
    figure.savefig(path, dpi=120)
    return [path]


if __name__ == "__main__":
    sys.exit(run_script(globals()))
