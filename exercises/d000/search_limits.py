"""Document 000, Question 2.5: what greedy decoding and beam search miss, and what they cost."""

import math
from functools import cache, partial

import numpy as np

from exercises.d000.counting import CountingScorer, random_model
from exercises.d000.decoding_trees import completed, decode
from exercises.framework import Claim, judge
from exercises.worked import Solution, Table, num, share
from npdl.decoding import Tree, beam_search, exhaustive_search, greedy

QUESTION = """\
2.5  What is the main weakness of greedy decoding, and what is that of beam search?"""
TITLES = {"2.5": "What greedy decoding and beam search miss"}

WIDTHS = (1, 2, 3, 4, 8, 64)         # of 4 words and 4 levels; the last can miss nothing
claim = partial(Claim, "000", "Q2", "5")


def random_tree(rng, N, T, spread=1.5):
    """A full tree of N words and T levels, each node's probabilities a softmax of normals."""
    logits = spread * rng.standard_normal(N)
    logs = np.minimum(logits - np.log(np.exp(logits).sum()), 0)
    return {f"{word:02d}": (float(log), random_tree(rng, N, T - 1, spread) if T > 1 else {})
            for word, log in enumerate(logs)}


@cache
def search_results(widths=WIDTHS, trees=100, N=4, T=4, seed=0):
    """{width: best hypothesis for each random tree}, with "greedy" and "best" beside them."""
    rng = np.random.default_rng(seed)
    results = {key: [] for key in ("greedy", "best", *widths)}
    for _ in range(trees):
        scorer = Tree(random_tree(rng, N, T))
        results["greedy"] += greedy(scorer, T)
        results["best"].append(exhaustive_search(scorer, T).best)
        for width in widths:
            results[width].append(beam_search(scorer, width, T).best)
    return results


def found_best(results, key):
    """In how many trees `key` found the most probable sequence."""
    return sum(one.tokens == best.tokens
               for one, best in zip(results[key], results["best"], strict=True))


def rows_scored(method, N, T, width=1):
    """Distributions over N words that a search asks the model for."""
    scorer = CountingScorer(random_model(N))
    if method == "greedy":
        greedy(scorer, T)
    else:
        beam_search(scorer, width, T)
    return scorer.rows


def claims():
    results = search_results()
    full = found_best(results, WIDTHS[-1]) == len(results["best"])
    return [*greedy_claims(results, full), *beam_claims(results, full)]


def greedy_claims(results, full):
    """full: whether a beam that can miss nothing agrees with the exhaustive search."""
    trees = len(results["best"])
    missed = trees - found_best(results, "greedy")
    early = sum(one.tokens[0] != best.tokens[0]
                for one, best in zip(results["greedy"], results["best"], strict=True))
    gap = max(best.log_prob - one.log_prob
              for one, best in zip(results["greedy"], results["best"], strict=True))
    return [
        claim("Greedy decoding can end in a sequence that is not the most probable.",
              "locally optimal choices can be globally poor",
              f"{share(missed, trees)} of {trees} random trees (4 words, 4 levels; seed 0)",
              judge(missed > 0, provided=full),
              "compared with exhaustive search on each tree"),
        claim("A slightly less probable early choice may lead to a much better sequence.",
              "a trade that greedy decoding never makes",
              f"in {share(early, trees)} the best sequence starts with another word; the largest "
              f"loss is a factor {np.exp(gap):.0f} in probability",
              judge(early > 0, provided=full),
              "first words of both sequences compared on each tree"),
    ]


def beam_claims(results, full):
    trees = len(results["best"])
    cost = {width: rows_scored("beam", 20, 6, width) for width in (1, 2, 4, 8)}
    expected = all(cost[width] == 1 + 5 * width for width in cost)
    least = rows_scored("greedy", 20, 6)
    dearer = least <= cost[1] < cost[2] < cost[4] < cost[8]
    shares = {width: share(found_best(results, width), trees) for width in WIDTHS}
    tree = completed({"cube": -5.1, "disc": -5.5})
    narrow, wide = decode(tree, "greedy")[0], decode(tree, "beam", 2)[0]
    yield claim("Beam search costs more than greedy decoding, the more the wider it is.",
                "more expensive",
                f"distributions asked for at T = 6: greedy {least}; " + ", ".join(
                    f"B = {width}: {rows}" for width, rows in cost.items()),
                judge(dearer, provided=expected),
                "counted: 1 + (T - 1) B against T; the beam's rows can be computed together")
    yield claim("Too narrow a beam can miss the most probable sequence.", "can still miss it",
                "best found: " + ", ".join(f"B = {w}: {text}" for w, text in shares.items()),
                judge(found_best(results, 2) < trees, provided=full),
                f"{trees} random trees, seed 0; no beam of N^(T-1) = {WIDTHS[-1]} can miss it")
    yield claim("Width trades cost for quality: a wider beam finds better sequences.",
                "a trade-off",
                "on average yes, in each case no: on the tree of 2.4 width 1 can end at "
                f"{narrow[1]:.1f} and width 2 at {wide[1]:.1f}",
                judge(wide[1] < narrow[1], "under-specified"),
                "words after (a, red) of -5.1 and -5.5: greedy's prefix is pushed out by two "
                "others; certain only for B >= N^(T-1)")


# {first word: (its probability, {second word: its probability})}
PROBABILITIES = {
    "a": (0.5, {"u": 0.34, "v": 0.33, "w": 0.33}),
    "b": (0.3, {"u": 0.6, "v": 0.4}),
    "c": (0.2, {"u": 0.95, "v": 0.05}),
}


def solutions():
    sequences = sorted(((first, second, p, q, p * q)
                        for first, (p, below) in PROBABILITIES.items()
                        for second, q in below.items()), key=lambda row: -row[-1])
    best = [best_of(width) for width in (1, 2, 3)]
    tree = Tree({first: (math.log(p), {word: math.log(q) for word, q in below.items()})
                 for first, (p, below) in PROBABILITIES.items()})
    library = [[tree.words(greedy(tree, 2)[0])],
               *([tree.words(beam_search(tree, width, 2).best)] for width in (1, 2, 3)),
               [tree.words(exhaustive_search(tree, 2).best)]]
    ours = [best[0], *best, sequences[0][:2]]
    work = Solution("2.5",
                    "Three first words, and a few second ones; all probabilities can be "
                    "multiplied by hand.")
    work.step("Multiply along every path: this is what an exhaustive search would do.",
              "p(w₁, w₂) = p(w₁) · p(w₂ | w₁)",
              table=Table(("w₁", "w₂", "p(w₁)", "p(w₂ | w₁)", "product"), tuple(sequences)))
    work.step("Greedy decoding takes the best first word and never looks back: the weakness is "
              "that a good start may have no good continuation.", numbers=line(1, best[0]))
    work.step("A beam of width 2 keeps a second start, and repairs this mistake. But the first "
              "word of the best sequence is third, so it is pruned before its continuation is "
              "seen: the weakness is the same, one place further down.", numbers=line(2, best[1]))
    work.step("A wider beam finds it, and costs more: B N scores a step. Only B ≥ N^(T−1) is safe "
              "for every model.", numbers=line(3, best[2]))
    work.answer = ("Greedy decoding is short-sighted: it can't undo a choice. Beam search is too, "
                   "with B choices instead of one, at B times the cost and without a guarantee.")
    work.check("npdl's greedy, beam (width 1, 2, 3) and exhaustive search end the same way.",
               [tuple(words) for (words,) in library] == [tuple(found[:2]) for found in ours])
    yield work


def best_of(width):
    """(w₁, w₂, probability): the best sequence whose first word is among the `width` best."""
    kept = sorted(PROBABILITIES, key=lambda word: -PROBABILITIES[word][0])[:width]
    return max(((first, second, PROBABILITIES[first][0] * q) for first in kept
                for second, q in PROBABILITIES[first][1].items()), key=lambda row: row[-1])


def line(width, found):
    return f"B = {width}: ({found[0]}, {found[1]}) with {num(found[2])}"
