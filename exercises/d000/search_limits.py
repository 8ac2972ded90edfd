"""Document 000, Question 2.5: what greedy decoding and beam search miss, and what they cost."""

import math
from functools import cache

import numpy as np

from exercises.course import judge, question, table
from exercises.d000.counting import CountingScorer, random_model
from exercises.d000.decoding_trees import completed, decode
from npdl.decoding import Tree, beam_search, exhaustive_search, greedy

WIDTHS = (1, 2, 3, 4, 8, 64)         # for 4 words and 4 levels; a beam of 64 can miss nothing
TREES = 100


def random_tree(rng, N, T):
    """Return a full tree of N words and T levels, probabilities a softmax of normal numbers."""
    logits = 1.5 * rng.standard_normal(N)
    logs = np.minimum(logits - np.log(np.exp(logits).sum()), 0)
    return {f"{word:02d}": (float(log), random_tree(rng, N, T - 1) if T > 1 else {})
            for word, log in enumerate(logs)}


@cache
def search_results(N=4, T=4):
    """Return {width, "greedy" or "best": what was found in each of TREES random trees}."""
    rng = np.random.default_rng(0)
    results = {key: [] for key in ("greedy", "best", *WIDTHS)}
    for _ in range(TREES):
        scorer = Tree(random_tree(rng, N, T))
        results["greedy"] += greedy(scorer, T)
        results["best"].append(exhaustive_search(scorer, T).best)
        for width in WIDTHS:
            results[width].append(beam_search(scorer, width, T).best)
    return results


def share(successes):
    """Return a share of TREES with its standard error: 41.2 % +- 0.5 %."""
    p = successes / TREES
    return f"{100 * p:.1f} % +- {100 * math.sqrt(p * (1 - p) / TREES):.1f} %"


def found_best(key):
    """Return in how many trees a search found the most probable sequence."""
    results = search_results()
    return sum(one.tokens == best.tokens
               for one, best in zip(results[key], results["best"], strict=True))


# {first word: (its probability, {second word: its probability})}
PROBABILITIES = {"a": (0.5, {"u": 0.34, "v": 0.33, "w": 0.33}), "b": (0.3, {"u": 0.6, "v": 0.4}),
                 "c": (0.2, {"u": 0.95, "v": 0.05})}


@question("000.2.5", "What greedy decoding and beam search miss")
def search_limits(work):
    """Name the main weakness of greedy decoding, and that of beam search."""
    rows = sorted(((one, two, p, q, p * q) for one, (p, below) in PROBABILITIES.items()
                   for two, q in below.items()), key=lambda row: -row[-1])
    best = [max((row for row in rows if row[0] in "abc"[:width]), key=lambda row: row[-1])
            for width in (1, 2, 3)]
    lines = [f"B = {width}: ({row[0]}, {row[1]}) with {row[-1]:.3f}"
             for width, row in enumerate(best, 1)]
    work.say("Three first words, and a few second ones; all probabilities can be multiplied by "
             "hand.")
    work.step("Multiply along every path: this is what an exhaustive search would do.",
              "p(w₁, w₂) = p(w₁) · p(w₂ | w₁)",
              table(("w₁", "w₂", "p(w₁)", "p(w₂ | w₁)", "product"), rows))
    work.step("Greedy decoding takes the best first word and never looks back: the weakness is "
              "that a good start may have no good continuation.", lines[0])
    work.step("A beam of width 2 keeps a second start, and repairs this mistake. But the first "
              "word of the best sequence is third, so it is pruned before its continuation is "
              "seen: the weakness is the same, one place further down.", lines[1])
    work.step("A wider beam finds it, and costs more: B N scores a step. Only B ≥ N^(T−1) is safe "
              "for every model.", lines[2])
    work.answer("Greedy decoding is short-sighted: it can't undo a choice. Beam search is too, "
                "with B choices instead of one, at B times the cost and without a guarantee.")
    tree = Tree({one: (math.log(p), {two: math.log(q) for two, q in below.items()})
                 for one, (p, below) in PROBABILITIES.items()})
    found = [greedy(tree, 2)[0], *(beam_search(tree, width, 2).best for width in (1, 2, 3)),
             exhaustive_search(tree, 2).best]
    work.check("npdl's greedy, beam (width 1, 2, 3) and exhaustive search end the same way.",
               [tuple(tree.words(h)) for h in found]
               == [row[:2] for row in (best[0], *best, rows[0])])
    work.check("On random trees a beam of N^(T−1) finds what the exhaustive search finds.",
               found_best(WIDTHS[-1]) == TREES)
    greedy_claims(work)
    beam_claims(work)


def greedy_claims(work):
    """Add the claims on greedy decoding."""
    results, missed = search_results(), TREES - found_best("greedy")
    pairs = list(zip(results["greedy"], results["best"], strict=True))
    early = sum(one.tokens[0] != best.tokens[0] for one, best in pairs)
    gap = max(best.log_prob - one.log_prob for one, best in pairs)
    work.claim("", "Greedy decoding can end in a sequence that is not the most probable.",
               "locally optimal choices can be globally poor",
               f"{share(missed)} of {TREES} random trees (4 words, 4 levels; seed 0)",
               judge(missed > 0), "compared with exhaustive search on each tree")
    work.claim("", "A slightly less probable early choice may lead to a much better sequence.",
               "a trade that greedy decoding never makes",
               f"in {share(early)} the best sequence starts with another word; the largest loss is "
               f"a factor {math.exp(gap):.0f} in probability", judge(early > 0),
               "first words of both sequences compared on each tree")


def beam_claims(work, N=20, T=6):
    """Add the claims on beam search."""
    rows = {}
    for width in ("greedy", 1, 2, 4, 8):
        scorer = CountingScorer(random_model(N))
        greedy(scorer, T) if width == "greedy" else beam_search(scorer, width, T)
        rows[width] = scorer.rows
    least = rows.pop("greedy")
    shares = {width: share(found_best(width)) for width in WIDTHS}
    tree = completed({"cube": -5.1, "disc": -5.5})
    narrow, wide = decode(tree, "greedy")[0][1], decode(tree, "beam")[0][1]
    work.claim("", "Beam search costs more than greedy decoding, the more the wider it is.",
               "more expensive",
               f"distributions asked for at T = {T}: greedy {least}; "
               + ", ".join(f"B = {width}: {count}" for width, count in rows.items()),
               judge(least <= rows[1] < rows[2] < rows[4] < rows[8]),
               "counted: 1 + (T - 1) B against T; the beam's rows can be computed together")
    work.claim("", "Too narrow a beam can miss the most probable sequence.", "can still miss it",
               "best found: " + ", ".join(f"B = {w}: {text}" for w, text in shares.items()),
               judge(found_best(2) < TREES),
               f"{TREES} random trees, seed 0; no beam of N^(T-1) = {WIDTHS[-1]} can miss it")
    work.claim("", "Width trades cost for quality: a wider beam finds better sequences.",
               "a trade-off",
               "on average yes, in each case no: on the tree of 2.4 width 1 can end at "
               f"{narrow:.1f} and width 2 at {wide:.1f}",
               judge(wide < narrow, "under-specified"),
               "words after (a, red) of -5.1 and -5.5: greedy's prefix is pushed out by two "
               "others; certain only for B >= N^(T-1)")
