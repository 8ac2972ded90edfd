"""Small mistakes put into npdl one at a time, and the share of them that somebody sees.

    python -m tests.tools.mutation_score textbook     # the gradient check, in backwards
    python -m tests.tools.mutation_score wing         # the wing equals the textbook
    python -m tests.tools.mutation_score blame        # blame, in backwards: and on which line
    python -m tests.tools.mutation_score exercises    # the exercises: our failure, no verdict

One mistake in N with --every, from number K on with --first; --kept goes on where it stopped. A
subject is a module (SUBJECTS) with `functions()`, `mistakes(function)`, `judge_of(functions)` and
`reason(mutant)`. A judge says how a mutant fares: "equivalent" changes no result and is not
counted; "survived" was not seen; "caught", or another word of the subject's CAUGHT, was. Exit
status 1 below the subject's GOALS.
"""

import argparse
import collections
import importlib
import json
import sys
from pathlib import Path

SUBJECTS = {"textbook": "tests.tools.mutation", "wing": "tests.fast.mutation",
            "blame": "tests.tools.blame_score",
            "exercises": "tests.tools.exercise_mutation"}


def owner(function):
    """The class that a function belongs to; its own name when there is none."""
    return function.__qualname__.split(".")[0]


def counts(row, caught):
    """(mutants, those that change a result, those caught, and each word of `caught` but the
    first, survivors, equivalent ones) of a Counter of verdicts."""
    seen = sum(row[word] for word in caught)
    changed = seen + row["survived"]
    return (changed + row["equivalent"], changed, seen, *(row[word] for word in caught[1:]),
            row["survived"], row["equivalent"])


def share(row, words, caught):
    """The share with one of these verdicts among the mutants that change a result; 1 of none."""
    _, changed, *_ = counts(row, caught)
    return sum(row[word] for word in words) / changed if changed else 1.0


def table(rows, subject):
    """The rows {name: Counter} as a Markdown table, with their sum, and the sum."""
    total = sum(rows.values(), collections.Counter())
    names = [f"caught {word}" for word in subject.CAUGHT[1:]]
    columns = ("mutants", "change the result", "caught", *names, "survived", "equivalent", "caught")
    lines = [f"| {subject.WHERE} | {' | '.join(columns)} |", "|---|" + "--:|" * len(columns)]
    for name, row in [*rows.items(), ("all", total)]:
        cells = " | ".join(map(str, counts(row, subject.CAUGHT)))
        part = share(row, subject.CAUGHT, subject.CAUGHT)
        lines.append(f"| {name} | {cells} | {100 * part:.1f} % |")
    return "\n".join(lines), total


def line(mutant, verdict, subject):
    """One line for a mutant: file:line, the change, and the reason of a survivor."""
    file = mutant.function.__module__.replace(".", "/") + ".py"
    why = f" ({subject.reason(mutant) or 'no reason known'})" if verdict == "survived" else ""
    kind = getattr(mutant, "kind", "token")
    return f"{verdict}: {file}:{mutant.line}: [{kind}] {mutant}{why}"


def score(pool, judge, subject, keep=None, shown=()):
    """({owner: Counter of verdicts}, lines of the mutants with a verdict in `shown`).

    keep  a file of JSON lines that each verdict is added to; what is in it is not judged again
    """
    known = {}
    if keep is not None and Path(keep).exists():
        known = dict(json.loads(row) for row in Path(keep).read_text("utf-8").splitlines())
    rows, lines = {}, []
    for mutant in pool:
        name = f"{mutant.function.__module__} {mutant.line} {mutant.column} {mutant}"
        verdict = known.get(name) or judge(mutant)
        if keep is not None and name not in known:
            with open(keep, "a", encoding="utf-8") as file:
                file.write(json.dumps([name, verdict]) + "\n")
        rows.setdefault(owner(mutant.function), collections.Counter())[verdict] += 1
        if verdict in shown:
            lines.append(line(mutant, verdict, subject))
    return rows, lines


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--every", type=int, default=1, help="take one mistake in N")
    parser.add_argument("--first", type=int, default=0, help="which of the N: 0 to N - 1")
    parser.add_argument("--functions", default="", help="only functions whose name contains this")
    parser.add_argument("--module", default="", help="only of modules whose name contains this")
    parser.add_argument("--show", nargs="*", default=["survived"], metavar="VERDICT",
                        help="verdicts whose mutants are listed (default: survived)")
    parser.add_argument("--kept", metavar="FILE", help="keep verdicts here, and go on from them")
    options = parser.parse_args(given)
    subject = importlib.import_module(SUBJECTS[options.subject])
    chosen = [f for f in subject.functions() if options.functions in f.__qualname__
              and options.module in f.__module__]
    pool = [m for f in chosen for m in subject.mistakes(f)][options.first::options.every]
    rows, lines = score(pool, subject.judge_of(chosen), subject, options.kept, options.show)
    text, total = table(rows, subject)
    print(text, f"\n{len(chosen)} functions", *lines, sep="\n")
    return int(any(share(total, words, subject.CAUGHT) < least
                   for words, least in subject.GOALS.items()))


if __name__ == "__main__":
    sys.exit(main())
