"""The worked solution of document 000, Question 2.5: what greedy decoding and beam search miss."""

import math

from exercises.worked import Check, Solution, Step, Table, num
from npdl.decoding import Tree, beam_search, exhaustive_search, greedy

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
    return [Solution(
        "2.5",
        (Step("Multiply along every path: this is what an exhaustive search would do.",
              "p(w₁, w₂) = p(w₁) · p(w₂ | w₁)",
              table=Table(("w₁", "w₂", "p(w₁)", "p(w₂ | w₁)", "product"), tuple(sequences))),
         Step("Greedy decoding takes the best first word and never looks back: the weakness is "
              "that a good start may have no good continuation.",
              numbers=line(1, best[0])),
         Step("A beam of width 2 keeps a second start, and repairs this mistake. But the first "
              "word of the best sequence is third, so it is pruned before its continuation is "
              "seen: the weakness is the same, one place further down.", numbers=line(2, best[1])),
         Step("A wider beam finds it, and costs more: B N scores a step. Only B ≥ N^(T−1) is safe "
              "for every model.", numbers=line(3, best[2])),),
        "Greedy decoding is short-sighted: it can't undo a choice. Beam search is too, with B "
        "choices instead of one, at B times the cost and without a guarantee.",
        (Check("npdl's greedy, beam (width 1, 2, 3) and exhaustive search end the same way.",
               [tuple(words) for (words,) in library] == [tuple(found[:2]) for found in ours]),),
        "Three first words, and a few second ones; all probabilities can be multiplied by hand.",
        picture="how often each width finds the best sequence of random trees")]


def best_of(width):
    """(w₁, w₂, probability): the best sequence whose first word is among the `width` best."""
    kept = sorted(PROBABILITIES, key=lambda word: -PROBABILITIES[word][0])[:width]
    return max(((first, second, PROBABILITIES[first][0] * q) for first in kept
                for second, q in PROBABILITIES[first][1].items()), key=lambda row: row[-1])


def line(width, found):
    return f"B = {width}: ({found[0]}, {found[1]}) with {num(found[2])}"
