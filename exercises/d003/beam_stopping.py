"""Document 003, Question 4: when beam search may stop, and what its definitions say.

(10) The most probable complete sequence is wanted; (12) B_t is the top b of all expansions of the
pairs ⟨y, s⟩ in B_(t−1); (13) best_(≤t) is the largest score s of a complete y in B₁ .. B_t.
"""

import math

import numpy as np

from exercises.course import format_table, judge, question, vec
from npdl.decoding import Tree, beam_search, exhaustive_search

END = "</s>"
TREE = {"a": (0.5, {END: 0.2, "c": (0.5, {END: 1.0}), "d": (0.3, {END: 1.0})}),
        "b": (0.4, {END: 0.9, "c": (0.1, {END: 1.0})}), END: 0.1}
TWINS = [{"a": (1.0, {END: 0.4, "c": (0.6, {END: last, "d": (1 - last, {END: 1.0})})})}
         for last in (0.5, 0.9)]                # the same for two words
SHOWN = "a 0.5 (then </s> 0.2, c 0.5, d 0.3), b 0.4 (then </s> 0.9, c 0.1), </s> 0.1"


def random_tree(rng, depth=5):
    """Return nested {word: (probability, subtree)}; after `depth` words only </s> follows."""
    if depth == 0:
        return {END: 1.0}
    p = rng.dirichlet(np.full(3, 0.8))
    below = {f"w{n}": (float(p[n]), random_tree(rng, depth - 1)) for n in range(2)}
    return below | {END: float(1 - p[:2].sum())}


TREES = [random_tree(np.random.default_rng(seed)) for seed in range(60)]


def search_tree(branches, width=2, **options):
    """Return npdl's BeamResult for a tree of probabilities."""
    tree = Tree(branches, probabilities=True)
    return beam_search(tree, width, 6, eos=tree.token(END), **options)


def find_most_probable(branches):
    """Return the most probable complete hypothesis, by npdl's exhaustive search."""
    tree = Tree(branches, probabilities=True)
    return exhaustive_search(tree, 6, eos=tree.token(END)).best


def expand_beam(branches, beam):
    """Return the expansions of incomplete hypotheses [(words, probability)], best first."""
    expansions = []
    for words, p in beam:
        if words[-1:] != (END,):
            below = branches
            for word in words:
                below = below[word][1]
            expansions += [
                ((*words, word), p * (branch[0] if isinstance(branch, tuple) else branch))
                for word, branch in below.items()]
    return sorted(expansions, key=lambda row: -row[1])


def list_beam_steps(branches, width):
    """Return (expansions, the new beam, best complete probability so far or 0) of each step."""
    beam, best, steps = [((), 1.0)], 0.0, []
    while any(words[-1:] != (END,) for words, _ in beam):
        candidates = expand_beam(branches, beam)
        beam = candidates[:width]
        best = max([best, *(p for words, p in beam if words[-1] == END)])
        steps.append((candidates, beam, best))
    return steps


def format_log(p):
    """Return the logarithm of a probability as text."""
    return f"{math.log(p):.2f}" if p else "none"


@question("003.4", "When beam search may stop")
def solve_stopping_rule(say, step, answer, check, claim):
    """Prove: if the best score s¹ of B_t is at most best_(≤t), no better hypothesis can follow."""
    steps = list_beam_steps(TREE, 2)
    t = next(n for n, (_, kept, best) in enumerate(steps, 1) if kept[0][1] <= best)
    _, beam, best = steps[t - 1]
    live, later = max(p for words, p in beam if words[-1] != END), max(p for _, p in steps[t][0])
    first, c = TREE["a"][0], TREE["a"][1]["c"][0]
    found, full = search_tree(TREE), search_tree(TREE, stop=False)
    say("Scores are sums of log-probabilities. The table also shows the probabilities.")
    step("One more word never increases a score, because a probability is at most 1, so its "
         "logarithm is at most 0.", "s(y ∘ w) = s(y) + log p(w | x, y) ≤ s(y)",
         f"'a': {format_log(first)};   'a c': {format_log(first)} + ({format_log(c)}) = "
         f"{format_log(first * c)}")
    step("Every hypothesis in a later beam extends a hypothesis in B_t. By induction over the "
         "steps, no descendant has a higher score than its ancestor in B_t.",
         "s(later) ≤ s(ancestor in B_t) ≤ s¹")
    step("So if s¹ is at most the best complete score, no later complete hypothesis has a higher "
         "score.", "s(later) ≤ s¹ ≤ best_(≤t)   →   stop; the search would end with best_(≤t)")
    step(f"Try the rule on a tree with width 2: {SHOWN}. If no continuation is given, </s> "
         "follows.", format_table(("t", "B_t", "s¹", "best_(≤t)", "s¹ ≤ best: stop?"), [
             (str(n), ", ".join(f"{' '.join(words)} {p:.2f}" for words, p in kept),
              format_log(kept[0][1]), format_log(b), "yes" if kept[0][1] <= b else "no")
             for n, (_, kept, b) in enumerate(steps, 1)]))
    step("When the search stops, one hypothesis is incomplete. Its descendants are not better.",
         f"incomplete at t = {t}: {live:.2f}; its best descendant: {later:.2f} ≤ {best:.2f}")
    step("The proof does not show that no other sequence is better. Pruned hypotheses have no "
         "descendants in later beams, so the result is only the best of this beam search.")
    answer("Scores never increase along a path, so s(later) ≤ s¹ ≤ best_(≤t) for all descendants "
           f"of B_t. Here the search may stop at t = {t} with {best:.2f}.")
    check("npdl's beam search stops at this step. Without the rule, it finds the same best "
          "hypothesis.", len(found.steps) == t and found.best.tokens == full.best.tokens
          and math.isclose(math.exp(found.best.log_prob), best))
    runs = {width: [(search_tree(tree, width), search_tree(tree, width, stop=False))
                    for tree in TREES]
            for width in (1, 2, 4)}
    pairs = [pair for row in runs.values() for pair in row]
    same = all(stopped.best.log_prob == full.best.log_prob for stopped, full in pairs)
    rise = max(kept.log_prob - step.parents[0].log_prob
               for _, full in runs[2] for step in full.steps for kept in step.kept)
    steps = [sum(len(result.steps) for result in row) for row in zip(*runs[2], strict=True)]
    claim("", "once s^1 <= best, no later step finds a better complete hypothesis", "to be proved",
          "proof: log p <= 0, so no expansion has a higher score than its parent; all incomplete "
          "hypotheses score at most s^1, and so do all their descendants",
          judge(same and rise <= 0), f"{len(TREES)} random trees, widths 1, 2, 4: the best is the "
          f"same with and without the rule in all {len(pairs)} searches; at width 2 the rule needs "
          f"{steps[0]} steps instead of {steps[1]}")
    best = [find_most_probable(tree).log_prob for tree in TREES]
    optimal = [sum(abs(stopped.best.log_prob - b) < 1e-12
                   for (stopped, _), b in zip(row, best, strict=True)) for row in runs.values()]
    claim("", "then the best completed hypothesis is the overall most probable one", "to be proved",
          "true among the hypotheses that this beam search can find; not among all sequences, as "
          "in problem (10), because the best may have been pruned before",
          judge(min(optimal) == len(TREES), if_false="under-specified"), "the true optimum is "
          f"found at widths 1, 2, 4 in {vec(optimal)} of {len(TREES)} random trees")
    worse, better = (search_tree(tree, stop=False) for tree in TWINS)
    early = worse.steps[1].best.log_prob
    claim("", "the rule stops no later than necessary", "not asked",
          "as long as s^1 > best, a later complete hypothesis can be better",
          judge(worse.best.log_prob == early < better.best.log_prob, "no answer given"), "two "
          f"trees are equal for two steps, with the best {math.exp(early):.2f}; at the end, the "
          f"best are {math.exp(worse.best.log_prob):.2f} and {math.exp(better.best.log_prob):.2f}")
    fails = sum(map(is_stopped_too_early, TREES))
    claim("", "the rule holds for the score that is compared", "sums of log-probabilities",
          "true for scores that never increase; for scores divided by the length, it can stop too "
          "early", judge(fails == 0, if_false="under-specified"), "log-probability / length, width "
          f"2: a better hypothesis comes later in {fails} of {len(TREES)} trees")


def is_stopped_too_early(tree):
    """Return True if the rule, with log-probability / length, stops before the best one."""
    steps = search_tree(tree, stop=False, length_power=1.0).steps
    for step in steps:
        live = [h.log_prob / len(h.tokens) for h in step.kept if not h.complete]
        if step.best is not None and max(live, default=-math.inf) <= step.best.score:
            return step.best.score < steps[-1].best.score - 1e-12
    return False


@question("003.4.tree", "Greedy, beam and exhaustive search by their definitions")
def solve_search_definitions(say, step, answer, check, claim):
    """Search a tree by the definitions (10) to (13). Are the definitions correct?"""
    steps, greedy = list_beam_steps(TREE, 2), list_beam_steps(TREE, 1)
    best, by_greedy, path = steps[-1][2], greedy[-1][2], " ".join(greedy[-1][1][0][0])
    words = next(" ".join(w) for _, beam, _ in steps for w, p in beam if w[-1] == END and p == best)
    done, live = [], [((), 1.0)]
    while live:
        live = expand_beam(TREE, live)
        done += [row for row in live if row[0][-1] == END]
    done.sort(key=lambda row: -row[1])
    say(f"The tree is {SHOWN}. If no continuation is given, </s> follows. The width is b = 2.")
    step("Greedy search is a beam search of width 1. It takes the most probable word at each step.",
         " → ".join(f"{kept[0][0][-1]} ({kept[0][1]:.2f})" for _, kept, _ in greedy)
         + f":  '{path}'")
    for t, (candidates, beam, _) in enumerate(steps, 1):
        step(f"B{'₁₂₃₄'[t - 1]}: Expand all incomplete hypotheses. Sort and keep two." if t > 1
             else "B₁: Expand the empty sequence of probability 1. Sort and keep two.",
             "s(y ∘ w) = s(y) + log p(w | y)",
             format_table(("hypothesis", "probability", "score", ""), [
                 (" ".join(w), f"{p:.3f}", format_log(p), "kept" * ((w, p) in beam))
                 for w, p in candidates]))
    step("The best complete hypothesis of all beams is the result.", "best_(≤t) = max {s : ⟨y, s⟩ "
         "∈ B₁ ∪ … ∪ B_t, y complete}", f"'{words}': {best:.2f}, score {format_log(best)}")
    step("Exhaustive search lists every complete sequence, so it finds the true optimum. It is not "
         "feasible for a real vocabulary.",
         format_table(("sequence", "probability"), [(" ".join(w), f"{p:.3f}") for w, p in done]))
    answer(f"Greedy search finds '{path}' with {by_greedy:.2f}, and a beam of width 2 finds "
           f"'{words}' with {best:.2f}. The most probable first word is not on the best path.")
    check("npdl's beam search of widths 1 and 2 finds the same hypotheses.",
          math.isclose(math.exp(search_tree(TREE, 1).best.log_prob), by_greedy)
          and math.isclose(math.exp(search_tree(TREE, 2).best.log_prob), best))
    check("All sequences together have probability 1, and npdl's exhaustive search agrees.",
          math.isclose(sum(p for _, p in done), 1)
          and math.isclose(math.exp(find_most_probable(TREE).log_prob), done[0][1]))
    kept = [step.kept for tree in TREES for step in search_tree(tree, 4, stop=False).steps[:-1]]
    complete = sum(any(hypothesis.complete for hypothesis in beam) for beam in kept)
    claim("(12)", "B_t is made from all pairs <y, s> in B_(t-1)", "for every <y, s> in B_(t-1)",
          "only from those that are not complete: the text forbids expanding complete ones, but "
          "the formula does not", judge(complete == 0, if_false="under-specified"), f"{len(TREES)} "
          f"random trees, width 4: {complete} of {len(kept)} beams contain complete hypotheses")
    claim("(10)", "the most probable complete sequence exists", "argmax over all y", "true if some "
          "complete sequence has a probability above 0: at most 1/e sequences have a probability "
          "of e or more, so the supremum is attained; otherwise no sequence is complete",
          judge(find_most_probable({"a": (1.0, {END: 0.0, "b": 1.0})}) is not None,
                if_false="under-specified"),
          "if </s> has the probability 0, no sequence is complete")
