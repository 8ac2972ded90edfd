"""The share of wrong backwards that the gradient check catches.

    python -m tests.tools.mutation_score [--functions LSTMCell] [--every N] [--equivalent] [--progress]

Every function that only backwards run gets small mistakes (tests.tools.mutants, tests.tools.mutant_kinds), one
at a time, and the gradient-check cases that run the function are checked until one fails. A mutant
that passes them all is *equivalent* when its place is run and no gradient differs on other random
inputs either; else it has survived. An exception, or a backward that does not end, counts as
caught. The reasons of known survivors are in tests.tools.mutation_reasons. Exit status 1 below 95 %
caught.
"""

import argparse
import collections
import sys
import time

from tests.tools.cases import all_cases
from tests.tools.mutant_kinds import all_mutants
from tests.tools.mutation import Checked, backward_functions, score
from tests.tools.mutation_reasons import reason

GOAL = 0.95
COLUMNS = ("mutants", "change the result", "caught", "caught by an exception", "survived",
           "equivalent")


def counts(row):
    """The columns of a Counter of verdicts."""
    caught = row["caught"] + row["raised"]
    changed = caught + row["survived"]
    return (changed + row["equivalent"], changed, caught, row["raised"], row["survived"],
            row["equivalent"])


def share(row):
    """The share caught of the mutants that change the result; 1 when none does."""
    _, changed, caught, *_ = counts(row)
    return caught / changed if changed else 1.0


def table(rows):
    """The rows as a Markdown table, with their sum."""
    total = sum(rows.values(), collections.Counter())
    lines = [f"| backward of | {' | '.join(COLUMNS)} | caught |", "|---|" + "--:|" * 7]
    for name, row in [*rows.items(), ("all", total)]:
        cells = " | ".join(map(str, counts(row)))
        lines.append(f"| {name} | {cells} | {100 * share(row):.1f} % |")
    return "\n".join(lines), total


def listed(unseen, wanted):
    """One line for each mutant that no check saw: file:line, the change, the reason."""
    lines = []
    for mutant, verdict in unseen:
        if verdict == wanted:
            file = mutant.function.__module__.replace(".", "/") + ".py"
            why = f" ({reason(mutant) or 'no reason known'})" if verdict == "survived" else ""
            lines.append(f"{file}:{mutant.line}: [{mutant.kind}] {mutant}{why}")
    return lines


def arguments(given):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--functions", default="", help="only functions whose name contains this")
    parser.add_argument("--every", type=int, default=1, help="take one mutant in N")
    parser.add_argument("--equivalent", action="store_true", help="list the equivalent ones too")
    parser.add_argument("--progress", action="store_true", help="tell of each mutant as it goes")
    return parser.parse_args(given)


def main(given=None):
    options, start = arguments(given), time.time()
    running = backward_functions([Checked(case) for case in all_cases()])
    chosen = [f for f in running if options.functions in f.__qualname__]
    pool = [mutant for f in chosen for mutant in all_mutants(f)][:: options.every]
    done = 0

    def progress(mutant, verdict):
        nonlocal done
        done += 1
        if options.progress:
            print(f"{done}/{len(pool)} {verdict:<10} {mutant}", file=sys.stderr, flush=True)

    rows, unseen = score(pool, running, progress)
    text, total = table(rows)
    print(text)
    print(f"\n{len(chosen)} functions, {time.time() - start:.0f} s")
    for wanted in ("survived", "equivalent") if options.equivalent else ("survived",):
        print(f"\n{wanted}:", *(listed(unseen, wanted) or ["none"]), sep="\n  ")
    return int(share(total) < GOAL)


if __name__ == "__main__":
    sys.exit(main())
