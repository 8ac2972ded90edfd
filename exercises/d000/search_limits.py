"""Document 000, Question 2.5: what greedy decoding and beam search miss, and what they cost."""

import math

from exercises.course import judge, question, table
from exercises.d000.counting import CountingScorer, random_model
from exercises.d000.decoding_trees import completed, decode
from npdl.decoding import Tree, beam_search, exhaustive_search, greedy

# {first word: (its probability, {second word: its probability})}
PROBABILITIES = {"a": (0.5, {"u": 0.34, "v": 0.33, "w": 0.33}), "b": (0.3, {"u": 0.6, "v": 0.4}),
                 "c": (0.2, {"u": 0.95, "v": 0.05})}
SEQUENCES = sorted(((one, two, p, q, p * q) for one, (p, below) in PROBABILITIES.items()
                    for two, q in below.items()), key=lambda row: -row[-1])
BEST = {width: next(row for row in SEQUENCES if row[0] in "abc"[:width]) for width in (1, 2, 3)}


@question("000.2.5", "What greedy decoding and beam search miss")
def search_limits(say, step, answer, check, claim):
    """Name the main weakness of greedy decoding, and that of beam search."""
    lines = [f"B = {width}: ({row[0]}, {row[1]}) with {row[-1]:.3f}"
             for width, row in BEST.items()]
    say("Three first words, and a few second ones; all probabilities can be multiplied by hand.")
    step("Multiply along every path: this is what an exhaustive search would do.",
         "p(w₁, w₂) = p(w₁) · p(w₂ | w₁)",
         table(("w₁", "w₂", "p(w₁)", "p(w₂ | w₁)", "product"), SEQUENCES))
    step("Greedy decoding takes the best first word and never looks back: the weakness is "
         "that a good start may have no good continuation.", lines[0])
    step("A beam of width 2 keeps a second start, and repairs this mistake. But the first "
         "word of the best sequence is third, so it is pruned before its continuation is "
         "seen: the weakness is the same, one place further down.", lines[1])
    step("A wider beam finds it, and costs more: B N scores a step. Only B ≥ N^(T−1) is safe "
         "for every model.", lines[2])
    answer("Greedy decoding is short-sighted: it can't undo a choice. Beam search is too, "
           "with B choices instead of one, at B times the cost and without a guarantee.")
    tree = Tree({one: (math.log(p), {two: math.log(q) for two, q in below.items()})
                 for one, (p, below) in PROBABILITIES.items()})
    found = [greedy(tree, 2)[0], *(beam_search(tree, width, 2).best for width in (1, 2, 3)),
             exhaustive_search(tree, 2).best]
    check("npdl's greedy, beam (width 1, 2, 3) and exhaustive search end the same way.",
          [tuple(tree.words(h)) for h in found]
          == [row[:2] for row in (BEST[1], *BEST.values(), SEQUENCES[0])])
    found, best = BEST[1], SEQUENCES[0]
    claim("", "Greedy decoding can end in a sequence that is not the most probable.",
          "locally optimal choices can be globally poor",
          f"it ends in ({found[0]}, {found[1]}) with {found[-1]:.3f}; ({best[0]}, {best[1]}) "
          f"has {best[-1]:.3f}", judge(found[-1] < best[-1]),
          f"compared with all {len(SEQUENCES)} sequences")
    claim("", "A slightly less probable early choice may lead to a much better sequence.",
          "a trade that greedy decoding never makes",
          f"the first word {best[0]} with {best[2]} in place of {found[0]} with {found[2]} "
          f"makes the sequence {best[-1] / found[-1]:.2f} times as probable",
          judge(best[2] < found[2] and best[-1] > found[-1]),
          f"{best[-1]:.3f} against {found[-1]:.3f}")
    N, T = 20, 6
    scorers = {width: CountingScorer(random_model(N)) for width in (0, 1, 2, 4, 8)}
    for width, scorer in scorers.items():
        beam_search(scorer, width, T) if width else greedy(scorer, T)
    least, *rows = (scorer.rows for scorer in scorers.values())
    tree = completed({"cube": -5.1, "disc": -5.5})
    narrow, wide = (decode(tree, width)[0][1] for width in (1, 2))
    claim("", "Beam search costs more than greedy decoding, the more the wider it is.",
          "more expensive",
          f"distributions asked for at T = {T}: greedy {least}; "
          + ", ".join(f"B = {scorer}: {count}" for scorer, count in zip(
              (1, 2, 4, 8), rows, strict=True)),
          judge(least <= rows[0] < rows[1] < rows[2] < rows[3]),
          "counted: 1 + (T - 1) B against T; the beam's rows can be computed together")
    claim("", "Too narrow a beam can miss the most probable sequence.", "can still miss it",
          ", ".join(f"B = {width}: {row[-1]:.3f}" for width, row in BEST.items()),
          judge(BEST[2] != SEQUENCES[0]), "no beam of N^(T-1) = 3 can miss it")
    claim("", "Width trades cost for quality: a wider beam finds better sequences.", "a trade-off",
          "on average yes, in each case no: on the tree of 2.4 width 1 can end at "
          f"{narrow:.1f} and width 2 at {wide:.1f}", judge(wide < narrow, "under-specified"),
          "words after (a, red) of -5.1 and -5.5: greedy's prefix is pushed out by two "
          "others; certain only for B >= N^(T-1)")
