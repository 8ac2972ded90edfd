"""The worked solutions of document 000, Question 2.4: greedy decoding and beam search."""

import math

from exercises.d000_decoding import PRINTED_TREE, beam_steps, completed, decode, path_sum
from exercises.worked import Check, Solution, Step, Table, num, sub, terms

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
    steps, path = [], ()
    while after := branches(path):
        word = max(after, key=after.get)
        rows = tuple((w, log_p, "largest: taken" if w == word else "") for w, log_p in
                     after.items())
        steps.append(Step(
            f"Look at the words after {phrase(path)} and take the most probable one.",
            f"w̄{sub(len(path) + 1)} = argmax_w log p(w | {' '.join(('<BOS>', *path))})",
            table=Table(("word", "log p", ""), rows, 1)))
        path += (word,)
    parts = [branches(path[:i])[word] for i, word in enumerate(path)]
    total = math.fsum(parts)
    steps.append(Step(
        "Add the three log-probabilities that were passed.",
        "log p(w̄₁, w̄₂, w̄₃) = log p(w̄₁) + log p(w̄₂ | w̄₁) + log p(w̄₃ | w̄₁, w̄₂)",
        f"                  = {terms(parts, 1)} = {num(total, 1)}"))
    (found, log_p), = decode(PRINTED_TREE, "greedy")
    return Solution(
        "2.4a", tuple(steps), f"{named(path)} with log-likelihood {num(total, 1)}.",
        (Check(f"npdl's greedy search on this tree finds {named(found)} with {num(log_p, 1)}.",
               found == path and math.isclose(log_p, total)),), EXAMPLE)


def beam_table(beam, kept):
    """The candidates that expand `beam`, best first, as a Table; their paths in that order."""
    paths = [(*path, word) for path in beam for word in branches(path)]
    paths.sort(key=lambda path: -path_sum(PRINTED_TREE, path))
    rows = []
    for rank, path in enumerate(paths, 1):
        before, own = path_sum(PRINTED_TREE, path[:-1]), branches(path[:-1])[path[-1]]
        rows.append((rank, named(path), f"{terms((before, own), 1)} = {num(before + own, 1)}",
                     "kept" if rank <= kept else "pruned"))
    return Table(("", "hypothesis", "sum", ""), tuple(rows)), paths


def beam_solution(width=2):
    first, paths = beam_table([()], width)
    beam = paths[:width]
    second, paths = beam_table(beam, width)
    ours = [beam, paths[:width]]
    beam = paths[:width]
    third, known = beam_table(beam, 0)
    open_prefix = next(path for path in beam if not branches(path))
    before = path_sum(PRINTED_TREE, open_prefix)
    totals = [path_sum(PRINTED_TREE, path) for path in known]
    bounds = [total - before for total in totals]
    steps = (
        Step(f"Start with the empty hypothesis alone, and keep the B = {width} best of the words "
             "after it.", "s(w₁) = 0 + log p(w₁ | <BOS>)", table=first),
        Step("Expand every kept hypothesis by every word. All candidates compete with each other, "
             "whichever hypothesis they come from; one prefix may win both places.",
             "s(w₁, w₂) = s(w₁) + log p(w₂ | w₁)", table=second),
        Step(f"Expand the two that were kept, {named(beam[0])} and {named(beam[1])}, and nothing "
             f"else: what continues a pruned prefix is no candidate any more.",
             "s(w₁, w₂, w₃) = s(w₁, w₂) + log p(w₃ | w₁, w₂)",
             table=Table(("hypothesis", "sum"), (
                 *(row[1:3] for row in third.rows),
                 (named((*open_prefix, "x")),
                  f"{num(before, 1)} + log p(x | {' '.join(open_prefix)}), not given")))),
        Step(f"Say how the answer depends on the words x after {phrase(open_prefix)}, which the "
             "question does not give: such a word beats a known sum when its own log-probability "
             "is above the difference.",
             "s(x) > s  ⇔  log p(x) > s − s(w₁, w₂)",
             "\n".join(f"to beat {named(path)}:  log p(x) > {num(total, 1)} − ({num(before, 1)}) = "
                       f"{num(bound, 1)}"
                       for path, total, bound in zip(known, totals, bounds, strict=True))),
    )
    return Solution(
        "2.4b", steps,
        f"{named(known[0])} with {num(totals[0], 1)} and {named(known[1])} with "
        f"{num(totals[1], 1)}, unless a word after {phrase(open_prefix)} has more than "
        f"{num(bounds[1], 1)} (it then takes the second place) or {num(bounds[0], 1)} (the first).",
        (Check("npdl's beam search keeps the same hypotheses in steps 1 and 2.", [
            [words for words, _, kept in step if kept]
            for step in beam_steps(PRINTED_TREE, width, 2)] == ours),
         Check(f"With a word after {phrase(open_prefix)} a little above or below these bounds, "
               "npdl's beam search ends as said.",
               bounds_decide(bounds, known))), EXAMPLE,
        picture="both beams as trees, the right one and the document's")


def bounds_decide(bounds, known, margin=0.01):
    """Whether one more word just above or below each bound takes the places that are said."""
    def places(log_p):
        return [path for path, _ in decode(completed({"x": log_p}))]

    x = ("a", "red", "x")
    first, second = known
    return (places(bounds[0] + margin) == [x, first] and places(bounds[0] - margin) == [first, x]
            and places(bounds[1] + margin) == [first, x]
            and places(bounds[1] - margin) == [first, second])
