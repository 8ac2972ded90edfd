"""Document 000, Question 2.4: greedy decoding and beam search on the given tree."""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge
from exercises.worked import Solution, Table, num, sub, terms
from npdl.decoding import Tree, beam_search, exhaustive_search, greedy

QUESTION = """\
A language model is given as a tree of log-probabilities (improbable branches left out):
  <BOS>: the -1.7, a -2.0        the: green -3.6, red -3.3        a: blue -2.7, red -2.9
  the red: circle -5.0, rectangle -4.7        a blue: ellipse -5.6, square -5.2
The figure itself is missing; these numbers follow from the sums in the printed solution, which
says nothing about what comes after "the green" and "a red".
2.4a  What does greedy decoding find, and with which log-likelihood?
2.4b  What does beam search of width 2 find?"""
TITLES = {"2.4a": "Greedy decoding on a tree", "2.4b": "Beam search of width 2 on the same tree"}

# {word: (log-probability, subtree)}
PRINTED_TREE = {
    "the": (-1.7, {"green": (-3.6, {}), "red": (-3.3, {"circle": -5.0, "rectangle": -4.7})}),
    "a": (-2.0, {"blue": (-2.7, {"ellipse": -5.6, "square": -5.2}), "red": (-2.9, {})}),
}
PRINTED_SUMS = {
    ("the", "green"): -5.3, ("the", "red"): -5.0, ("a", "blue"): -4.7, ("a", "red"): -4.9,
    ("a", "blue", "ellipse"): -10.3, ("a", "blue", "square"): -9.9,
    ("the", "red", "circle"): -10.0, ("the", "red", "rectangle"): -9.7,
}
PRINTED_BEAM = {
    1: [("the",), ("a",)],
    2: [("a", "blue"), ("the", "red")],
    3: [("the", "red", "rectangle"), ("a", "blue", "square")],
}

PRUNED = "step 2 keeps the third best"

claim = partial(Claim, "000", "Q2")


def path_sum(tree, path):
    """The log-probability of a path of words through nested dictionaries."""
    total = 0.0
    for word in path:
        value = tree[word]
        number, tree = value if isinstance(value, tuple) else (value, {})
        total += number
    return total


def decode(tree, method="beam", width=2, max_len=3):
    """[(words, log-likelihood)] best first. method: "greedy", "beam" or "exhaustive"."""
    scorer = Tree(tree)
    if method == "greedy":
        found = greedy(scorer, max_len)
    elif method == "beam":
        result = beam_search(scorer, width, max_len)
        found = result.finished + result.unfinished
    else:
        found = exhaustive_search(scorer, max_len, n_best=10**6).finished
    return [(tuple(scorer.words(h)), h.log_prob) for h in found]


def beam_steps(tree, width=2, max_len=3):
    """For each step [(words, log-likelihood, kept?)], best first."""
    scorer = Tree(tree)
    return [[(tuple(scorer.words(h)), h.log_prob, kept)
             for kept, part in ((True, step.kept), (False, step.pruned)) for h in part]
            for step in beam_search(scorer, width, max_len).steps]


def completed(after_a_red, after_the_green=None):
    """The printed tree with {word: log-probability} after "a red" (and "the green")."""
    the, a = PRINTED_TREE["the"], PRINTED_TREE["a"]
    return {
        "the": (the[0], the[1] | {"green": (the[1]["green"][0], after_the_green or {})}),
        "a": (a[0], a[1] | {"red": (a[1]["red"][0], after_a_red)}),
    }


def completions(step=0.4, highest=-0.1, lowest=-8.0):
    """{(l1, l2): final beam of width 2} for two words after "a red" with l1 >= l2 on a grid."""
    values = np.arange(highest, lowest, -step)
    return {
        (first, second): decode(completed({"cube": first, "disc": second}))
        for first in values for second in values
        if second <= first and math.exp(first) + math.exp(second) <= 1
    }


def claims():
    return [*greedy_claims(), *step_claims(), *result_claims()]


def greedy_claims():
    (words, total), = decode(PRINTED_TREE, "greedy")
    added = math.isclose(total, path_sum(PRINTED_TREE, words))
    log_p = path_sum(PRINTED_TREE, words[:1])
    p = math.exp(log_p)
    return [
        claim("4a", "Greedy decoding finds (the, red, rectangle).", "(the, red, rectangle)",
              f"({', '.join(words)})", judge(words == ("the", "red", "rectangle")),
              "npdl's greedy on the tree; each step's largest branch is printed"),
        claim("4a", "Its log-likelihood is -9.7.", "-1.7 - 3.3 - 4.7 = -9.7", f"{total:.1f}",
              judge(round(total, 9) == -9.7, provided=added), "sum of the three branches"),
        claim("4a", "The probability of the first word is the larger of -1.7 and -2.0.",
              "p(w1 | <BOS>) = max(-1.7, -2.0) = -1.7",
              f"log p = {log_p}, so p = {p:.4f}; the word is the arg max, the number the max",
              judge(0 <= log_p <= 1, if_false="slip"),
              "a probability is not negative; the same slip stands in the lines for w2 and w3"),
    ]


def step_claims():
    first, second = beam_steps(PRINTED_TREE, max_len=2)
    kept_first = [words for words, _, kept in first if kept]
    kept = [words for words, _, is_kept in second if is_kept]
    missed = dict((words, total) for words, total, _ in second)
    sums = {path: path_sum(PRINTED_TREE, path) for path in PRINTED_SUMS}
    wrong_sums = {length: [path for path, total in PRINTED_SUMS.items() if len(path) == length
                           and abs(total - sums[path]) > 1e-9] for length in (2, 3)}
    searched = missed | dict(decode(PRINTED_TREE, "exhaustive"))
    ours = all(math.isclose(searched[path], sums[path]) for path in sums)
    listed = sorted((path for path in PRINTED_SUMS if len(path) == 3), key=sums.get)[::-1]
    allowed = [path for path in listed if path[:2] in kept]
    yield claim("4b", "Step 1 keeps both words.", names(PRINTED_BEAM[1]), names(kept_first),
                judge(kept_first == PRINTED_BEAM[1]), "only two branches are given")
    yield claim("4b", "The four sums of step 2.", "-5.3, -5.0, -4.7, -4.9",
                ", ".join(f"{sums[path]:.1f}" for path in PRINTED_SUMS if len(path) == 2),
                judge(not wrong_sums[2], provided=ours),
                "consistent with the branches used for greedy decoding")
    yield claim("4b", "The two best of step 2 are (a, blue) and (the, red).",
                names(PRINTED_BEAM[2]), names(kept), judge(set(kept) == set(PRINTED_BEAM[2])),
                f"(a, red) has {missed['a', 'red']:.1f}, (the, red) only "
                f"{missed['the', 'red']:.1f}; both numbers are printed", error=PRUNED)
    yield claim("4b", "The four sums of step 3.", "-10.3, -9.9, -10.0, -9.7",
                ", ".join(f"{sums[path]:.1f}" for path in PRINTED_SUMS if len(path) == 3),
                judge(not wrong_sums[3], provided=ours),
                "consistent with the branches used for greedy decoding")
    yield claim("4b", "Step 3 expands (a, blue) and (the, red).", "four candidates",
                f"of the four listed {len(allowed)} descend from the right beam: "
                f"{names(allowed)}; the words after (a, red) are missing", judge(len(allowed) == 4),
                "(the, red) was pruned at step 2, so its words can't be candidates", error=PRUNED)
    yield claim("4b", "Of the four candidates listed, the two marked are the best.",
                names(PRINTED_BEAM[3]), names(listed[:2]),
                judge(listed[:2] == PRINTED_BEAM[3], provided=ours),
                "the mistake lies in the list, not in the choice from it")


def result_claims():
    found = completions()
    printed_first, printed_second = PRINTED_BEAM[3]
    greedy_total, (green, red) = path_sum(PRINTED_TREE, printed_first), thresholds().values()
    with_first = sum(printed_first in dict(beam) for beam in found.values())
    with_second = sum(printed_second in dict(beam) for beam in found.values())
    rule = all((printed_second in dict(beam)) == (second < -5.0)
               for (_, second), beam in found.items())
    worse = sum(beam[0][1] < greedy_total for beam in found.values())
    count = len(found)
    yield claim("4b", "The best of the final beam is (the, red, rectangle) with -9.7.",
                "(the, red, rectangle), -9.7",
                "(a, blue, square) with -9.9 unless a word after (a, red) has more than -5.0, "
                "which then comes first", judge(with_first > 0),
                f"two words after (a, red), {count} pairs of log-probabilities on a grid from "
                f"-0.1 down by 0.4: with {with_first} of them is it in the beam of npdl's search; "
                "its prefix was pruned", weight="answer", error=PRUNED)
    yield claim("4b", "The second of the final beam is (a, blue, square) with -9.9.",
                "(a, blue, square), -9.9",
                "first if no word after (a, red) has more than -5.0, second if one has, out if "
                "two have", judge(rule, "under-specified"),
                f"in the beam with {with_second} of {count} such pairs, those whose second word "
                "has less than -5.0; the figure would decide")
    yield claim("4b", "Beam search of width 2 finds the best sequence that greedy decoding finds.",
                "the same best sequence",
                f"never on this tree; it may even end below greedy's {greedy_total:.1f}",
                judge(with_first == count),
                f"with {worse} of {count} such pairs its best is below {greedy_total:.1f}, those "
                "without a word above -4.8: a wider beam is not always better", weight="answer",
                error=PRUNED)
    yield claim("4b", "(the, red, rectangle) is the most probable sequence of the tree.",
                "called the best sequence",
                "if " + " and ".join(
                    f"no word after {names([path])} has more than {bound:.1f}"
                    for path, bound in thresholds().items()),
                judge(printed_is_best(red - 0.01, green - 0.01)
                      and not printed_is_best(red + 0.01, green - 0.01)
                      and not printed_is_best(red - 0.01, green + 0.01), "under-specified"),
                "exhaustive search with words on either side of both bounds")


def thresholds():
    """{prefix: how probable a word after it must be to beat the printed best sequence}."""
    best = path_sum(PRINTED_TREE, PRINTED_BEAM[3][0])
    return {path: best - path_sum(PRINTED_TREE, path) for path in (("the", "green"), ("a", "red"))}


def printed_is_best(red, green):
    """Whether the printed best is the best with such words after "a red" and "the green"."""
    tree = completed({"cube": red}, {"oval": green})
    return decode(tree, "exhaustive")[0][0] == PRINTED_BEAM[3][0]


def names(paths):
    return "; ".join(f"({', '.join(path)})" for path in paths)


EXAMPLE = ("The tree of the question, its log-probabilities as edges. Log-probabilities are added "
           "along a path, because probabilities are multiplied: the larger (less negative) sum is "
           "the more probable path.")


def branches(path):
    """{word: log-probability} after a path of the tree."""
    below = PRINTED_TREE
    for word in path:
        below = below[word][1] if isinstance(below[word], tuple) else {}
    return {word: value[0] if isinstance(value, tuple) else value for word, value in below.items()}


def named(path):
    return "(" + ", ".join(path) + ")"


def phrase(path):
    return f"'{' '.join(path)}'" if path else "<BOS>"


def solutions():
    return [greedy_solution(), beam_solution()]


def greedy_solution():
    work, path = Solution("2.4a", EXAMPLE), ()
    while after := branches(path):
        word = max(after, key=after.get)
        rows = tuple((w, log_p, "largest: taken" if w == word else "") for w, log_p in
                     after.items())
        place = sub(len(path) + 1)
        work.step(f"Look at the words after {phrase(path)} and take the most probable one.",
                  f"w̄{place} = argmax_w log p(w | {' '.join(('<BOS>', *path))})",
                  table=Table(("word", "log p", ""), rows, 1))
        path += (word,)
    parts = [branches(path[:i])[word] for i, word in enumerate(path)]
    total = math.fsum(parts)
    work.step("Add the three log-probabilities that were passed.",
              "log p(w̄₁, w̄₂, w̄₃) = log p(w̄₁) + log p(w̄₂ | w̄₁) + log p(w̄₃ | w̄₁, w̄₂)",
              f"                  = {terms(parts, 1)} = {num(total, 1)}")
    work.answer = f"{named(path)} with log-likelihood {num(total, 1)}."
    (found, log_p), = decode(PRINTED_TREE, "greedy")
    work.check(f"npdl's greedy search on this tree finds {named(found)} with {num(log_p, 1)}.",
               found == path and math.isclose(log_p, total))
    return work


def beam_table(beam, kept):
    """The candidates that expand `beam`, best first, as a Table; their paths in that order."""
    paths = [(*path, word) for path in beam for word in branches(path)]
    paths.sort(key=lambda path: -path_sum(PRINTED_TREE, path))
    rows = []
    for rank, path in enumerate(paths, 1):
        before, own = path_sum(PRINTED_TREE, path[:-1]), branches(path[:-1])[path[-1]]
        total = before + own
        rows.append((rank, named(path), f"{terms((before, own), 1)} = {num(total, 1)}",
                     "kept" if rank <= kept else "pruned"))
    return Table(("", "hypothesis", "sum", ""), tuple(rows)), paths


def beam_solution(width=2):
    work = Solution("2.4b", EXAMPLE)
    first, paths = beam_table([()], width)
    work.step(f"Start with the empty hypothesis alone, and keep the B = {width} best of the words "
              "after it.", "s(w₁) = 0 + log p(w₁ | <BOS>)", table=first)
    ours = [paths[:width]]
    second, paths = beam_table(ours[0], width)
    work.step("Expand every kept hypothesis by every word. All candidates compete with each "
              "other, whichever hypothesis they come from; one prefix may win both places.",
              "s(w₁, w₂) = s(w₁) + log p(w₂ | w₁)", table=second)
    beam = paths[:width]
    ours.append(beam)
    third, known = beam_table(beam, 0)
    open_prefix = next(path for path in beam if not branches(path))
    before = path_sum(PRINTED_TREE, open_prefix)
    unknown = f"{num(before, 1)} + log p(x | {' '.join(open_prefix)}), not given"
    work.step(f"Expand the two that were kept, {named(beam[0])} and {named(beam[1])}, and nothing "
              "else: what continues a pruned prefix is no candidate any more.",
              "s(w₁, w₂, w₃) = s(w₁, w₂) + log p(w₃ | w₁, w₂)",
              table=Table(("hypothesis", "sum"), (
                  *(row[1:3] for row in third.rows), (named((*open_prefix, "x")), unknown))))
    totals = [path_sum(PRINTED_TREE, path) for path in known]
    bounds = [total - before for total in totals]
    work.step(f"Say how the answer depends on the words x after {phrase(open_prefix)}, which the "
              "question does not give: such a word beats a known sum when its own log-probability "
              "is above the difference.", "s(x) > s  ⇔  log p(x) > s − s(w₁, w₂)",
              "\n".join(f"to beat {named(path)}:  log p(x) > {num(total, 1)} − ({num(before, 1)}) "
                        f"= {num(bound, 1)}"
                        for path, total, bound in zip(known, totals, bounds, strict=True)))
    work.answer = (f"{named(known[0])} with {num(totals[0], 1)} and {named(known[1])} with "
                   f"{num(totals[1], 1)}, unless a word after {phrase(open_prefix)} has more than "
                   f"{num(bounds[1], 1)} (it then takes the second place) or {num(bounds[0], 1)} "
                   "(the first).")
    work.check("npdl's beam search keeps the same hypotheses in steps 1 and 2.",
               [[words for words, _, kept in step if kept]
                for step in beam_steps(PRINTED_TREE, width, 2)] == ours)
    work.check(f"With a word after {phrase(open_prefix)} a little above or below these bounds, "
               "npdl's beam search ends as said.", bounds_decide(bounds, known))
    return work


def bounds_decide(bounds, known, margin=0.01):
    """Whether one more word just above or below each bound takes the places that are said."""
    def places(log_p):
        return [path for path, _ in decode(completed({"x": log_p}))]

    x = ("a", "red", "x")
    first, second = known
    return (places(bounds[0] + margin) == [x, first] and places(bounds[0] - margin) == [first, x]
            and places(bounds[1] + margin) == [first, x]
            and places(bounds[1] - margin) == [first, second])
