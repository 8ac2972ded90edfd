"""Document 000, Question 2.4: greedy decoding and beam search on the given tree.

The figure of the tree is missing. Its numbers follow from the sums in the printed solution, which
says nothing about the words after "the green" and "a red".
"""

import math

import numpy as np

from exercises.course import format_table, judge, question
from npdl.decoding import Tree, beam_search, greedy

# {word: (log-probability, subtree)}
PRINTED_TREE = {
    "the": (-1.7, {"green": (-3.6, {}),
                   "red": (-3.3, {"circle": (-5.0, {}), "rectangle": (-4.7, {})})}),
    "a": (-2.0, {"blue": (-2.7, {"ellipse": (-5.6, {}), "square": (-5.2, {})}), "red": (-2.9, {})}),
}
PRINTED_SUMS = {
    ("the", "green"): -5.3, ("the", "red"): -5.0, ("a", "blue"): -4.7, ("a", "red"): -4.9,
    ("a", "blue", "ellipse"): -10.3, ("a", "blue", "square"): -9.9,
    ("the", "red", "circle"): -10.0, ("the", "red", "rectangle"): -9.7,
}
FIRST, SECOND = ("the", "red", "rectangle"), ("a", "blue", "square")    # the printed final beam
EXAMPLE = ("The edges of the question's tree have log-probabilities. The probabilities along a "
           "path are multiplied, so the log-probabilities are added. The path with the larger "
           "(less negative) sum is more probable.")


def next_word_log_probs(path):
    """Return {next word: log-probability} after a path, a tuple of words, in the printed tree."""
    below = PRINTED_TREE
    for word in path:
        below = below[word][1]
    return {word: log_p for word, (log_p, _) in below.items()}


def path_log_p(path):
    """Return the log-probability of a path, the sum over its words."""
    return math.fsum(next_word_log_probs(path[:i])[word] for i, word in enumerate(path))


def complete_tree(after_a_red):
    """Return the printed tree, with the missing branches after "a red" as given."""
    log_p, below = PRINTED_TREE["a"]
    return PRINTED_TREE | {"a": (log_p, below | {"red": (-2.9, after_a_red)})}


def decode_tree(tree, width=2):
    """Return [(words, log-likelihood)] by beam search, best first; width 0 means greedy."""
    scorer = Tree(tree)
    result = beam_search(scorer, width, 3) if width else None
    hypotheses = result.finished + result.unfinished if width else greedy(scorer, 3)
    return [(tuple(scorer.words(h)), h.log_prob) for h in hypotheses]


def format_paths(*paths):
    """Return paths as text: "(the, red); (a, blue)"."""
    return "; ".join(f"({', '.join(path)})" for path in paths)


@question("000.2.4a", "Greedy decoding on a tree")
def solve_greedy_decoding(say, step, answer, check, claim):
    """Say what greedy decoding finds on a tree of log-probabilities, and with which likelihood."""
    path, parts = (), []
    say(EXAMPLE)
    while after := next_word_log_probs(path):
        word = max(after, key=after.get)
        phrase = f"'{' '.join(path)}'" if path else "<BOS>"
        step(f"Look at the words after {phrase} and take the most probable one.",
             f"w̄{'₁₂₃'[len(path)]} = argmax_w log p(w | {' '.join(('<BOS>', *path))})",
             format_table(("word", "log p", ""),
                          [(w, log_p, "largest: taken" if w == word else "")
                           for w, log_p in after.items()], 1))
        path, parts = (*path, word), [*parts, after[word]]
    total = math.fsum(parts)
    step("Add the log-probabilities of the three words.",
         "log p(w̄₁, w̄₂, w̄₃) = log p(w̄₁) + log p(w̄₂ | w̄₁) + log p(w̄₃ | w̄₁, w̄₂)",
         f"                  = {' + '.join(map(str, parts))} = {total:.1f}")
    answer(f"Greedy decoding finds {format_paths(path)} with log-likelihood {total:.1f}.")
    (decoded, log_p), = decode_tree(PRINTED_TREE, width=0)
    check(f"npdl's greedy search on this tree finds {format_paths(decoded)} with {log_p:.1f}.",
          decoded == path and math.isclose(log_p, total))
    claim("", "Greedy decoding finds (the, red, rectangle).", "(the, red, rectangle)",
          format_paths(path), judge(path == FIRST),
          "npdl's greedy search on the tree; the document prints the largest branch of each step")
    claim("", "Its log-likelihood is -9.7.", "-1.7 - 3.3 - 4.7 = -9.7", f"{total:.1f}",
          judge(round(total, 9) == -9.7), "the sum of the three branches")
    claim("", "The probability of the first word is the larger of -1.7 and -2.0.",
          "p(w1 | <BOS>) = max(-1.7, -2.0) = -1.7",
          f"log p = {parts[0]}, so p = {math.exp(parts[0]):.4f}; the word is the arg max, and the "
          "number is the max", judge(0 <= parts[0] <= 1, if_false="slip"),
          "a probability is not negative; w2 and w3 have the same slip")


def expand_beam(beam):
    """Return the continuations by one word of the paths in a beam, best first."""
    return sorted(((*path, word) for path in beam for word in next_word_log_probs(path)),
                  key=path_log_p, reverse=True)


def list_candidate_rows(paths, width):
    """Return rows (rank, hypothesis, sum, "kept" or "pruned") of expanded paths."""
    return [(rank, format_paths(path),
             f"{path_log_p(path[:-1]):.1f} − {-next_word_log_probs(path[:-1])[path[-1]]:.1f} = "
             f"{path_log_p(path):.1f}", "kept" if rank <= width else "pruned")
            for rank, path in enumerate(paths, 1)]


@question("000.2.4b", "Beam search of width 2 on the same tree")
def solve_beam_search(say, step, answer, check, claim):
    """Say what beam search of width 2 finds on the same tree."""
    heads = ("", "hypothesis", "sum", "")
    first = expand_beam([()])
    second = expand_beam(first[:2])
    known, before = expand_beam(second[:2]), path_log_p(("a", "red"))
    say(EXAMPLE)
    step("Start with the empty hypothesis only. Keep the B = 2 best words after it.",
         "s(w₁) = 0 + log p(w₁ | <BOS>)", format_table(heads, list_candidate_rows(first, 2)))
    step("Extend every kept hypothesis by every word. All candidates compete with each other, so "
         "both of the kept ones may come from the same hypothesis.",
         "s(w₁, w₂) = s(w₁) + log p(w₂ | w₁)", format_table(heads, list_candidate_rows(second, 2)))
    step(f"Extend only the two kept hypotheses, {format_paths(second[0])} and "
         f"{format_paths(second[1])}. A continuation of a pruned hypothesis is not a candidate.",
         "s(w₁, w₂, w₃) = s(w₁, w₂) + log p(w₃ | w₁, w₂)",
         format_table(heads[1:3], [*(row[1:3] for row in list_candidate_rows(known, 0)),
                                   ("(a, red, x)", f"{before:.1f} + log p(x | a red), not given")]))
    totals = [path_log_p(path) for path in known]
    bounds = [total - before for total in totals]
    step("The question does not give the words x after 'a red', so find out how the answer depends "
         "on them. Such a word beats a known sum if its own log-probability is above the "
         "difference.", "s(x) > s  ⇔  log p(x) > s − s(w₁, w₂)",
         *(f"to beat {format_paths(path)}:  log p(x) > {total:.1f} − ({before:.1f}) = {bound:.1f}"
           for path, total, bound in zip(known, totals, bounds, strict=True)))
    answer(f"Beam search finds {format_paths(known[0])} with {totals[0]:.1f} and "
           f"{format_paths(known[1])} with {totals[1]:.1f}, if no word after 'a red' has a "
           f"log-probability above {bounds[1]:.1f}. A word above {bounds[1]:.1f} takes the second "
           f"place, and a word above {bounds[0]:.1f} takes the first.")
    scorer = Tree(PRINTED_TREE)
    check("npdl's beam search keeps the same hypotheses in steps 1 and 2.",
          [[tuple(scorer.words(h)) for h in kept.kept]
           for kept in beam_search(scorer, 2, 2).steps] == [first[:2], second[:2]])
    first, second = first[:2], second[:2]
    sums = {path: path_log_p(path) for path in PRINTED_SUMS}
    listed = sorted((path for path in sums if len(path) == 3), key=sums.get, reverse=True)
    allowed = [path for path in listed if path[:2] in second]

    def claim_path_sums(step_number, path_length, printed):
        own = [path for path in sums if len(path) == path_length]
        claim("", f"The four sums of step {step_number}.", printed,
              ", ".join(f"{sums[path]:.1f}" for path in own),
              judge(all(abs(PRINTED_SUMS[path] - sums[path]) < 1e-9 for path in own)),
              "consistent with the branches that greedy decoding uses")

    claim("", "Step 1 keeps both words.", "(the); (a)", format_paths(*first),
          judge(first == [("the",), ("a",)]), "only two branches are given")
    claim_path_sums(2, 2, "-5.3, -5.0, -4.7, -4.9")
    claim("", "The two best of step 2 are (a, blue) and (the, red).", "(a, blue); (the, red)",
          format_paths(*second), judge(set(second) == {("a", "blue"), ("the", "red")}),
          f"(a, red) has {sums['a', 'red']:.1f}, (the, red) only {sums['the', 'red']:.1f}; the "
          "document prints both numbers")
    claim_path_sums(3, 3, "-10.3, -9.9, -10.0, -9.7")
    claim("", "Step 3 expands (a, blue) and (the, red).", "four candidates",
          f"only {len(allowed)} of the four extend a kept hypothesis: {format_paths(*allowed)}; "
          "the words after (a, red) are missing", judge(len(allowed) == 4),
          "(the, red) was pruned at step 2, so its words can't be candidates")
    claim("", "Of the four candidates listed, the two marked are the best.",
          format_paths(FIRST, SECOND), format_paths(*listed[:2]),
          judge(listed[:2] == [FIRST, SECOND]),
          "the list is wrong, but the choice from it is right")
    grid = np.arange(-0.1, -8.0, -0.4)
    beams = {(one, two): decode_tree(complete_tree({"cube": one, "disc": two})) for one in grid
             for two in grid if two <= one and math.exp(one) + math.exp(two) <= 1}
    count, total = len(beams), path_log_p(FIRST)
    with_first, with_second = (sum(path in dict(beam) for beam in beams.values())
                               for path in (FIRST, SECOND))
    rule = all((SECOND in dict(beam)) == (two < -5.0) for (_, two), beam in beams.items())
    worse = sum(beam[0][1] < total for beam in beams.values())
    green, red = (total - path_log_p(path) for path in (("the", "green"), ("a", "red")))
    claim("", "The best of the final beam is (the, red, rectangle) with -9.7.",
          "(the, red, rectangle), -9.7", "(a, blue, square) with -9.9, unless a word after (a, "
          "red) is above -5.0 and comes first", judge(with_first > 0),
          f"tried {count} pairs of log-probabilities for two words after (a, red): it is in npdl's "
          f"final beam for {with_first} of them, because its prefix was pruned", weight="answer")
    claim("", "The second of the final beam is (a, blue, square) with -9.9.",
          "(a, blue, square), -9.9", "first if no word after (a, red) is above -5.0, second if one "
          "word is, otherwise not in the beam", judge(rule, "under-specified"),
          f"in the final beam for {with_second} of the {count} pairs: those whose second word is "
          "below -5.0; the missing figure would decide")
    claim("", "Beam search of width 2 finds the best sequence that greedy decoding finds.", "the "
          "same best sequence", "never on this tree; its best can even be below greedy decoding's "
          f"{total:.1f}", judge(with_first == count), f"for {worse} of the {count} pairs its best "
          f"is below {total:.1f}; a wider beam is not always better", weight="answer")
    claim("", "(the, red, rectangle) is the most probable sequence of the tree.", "called the best "
          "sequence", f"true if no word after (the, green) is above {green:.1f} and no word after "
          f"(a, red) is above {red:.1f}", judge(listed[0] == FIRST, "under-specified"),
          "the best of the four printed sequences; the missing figure would decide")
