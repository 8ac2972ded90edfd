"""Write the pages of docs/generated that have a row for each layer, whole.

    python -m tests.tools.pages                     # rows for new layers, none for those gone
    python -m tests.tools.pages --layers RMSNorm    # these rows anew too
    python -m tests.tools.pages --all               # every row anew: minutes

Rows of other layers stay as they are. Without torch, parity.md does. Exit status 1 if a layer
exceeds a limit.
"""

import argparse
import collections
import importlib
import importlib.util
import sys
from pathlib import Path

from tests.tools import mutation
from tests.tools.cases import all_cases
from tests.tools.mutation_score import owner, score, table
from tests.tools.running import CASE_LIMIT, check, covers, npdl_layers

PAGES = Path(__file__).parents[2] / "docs/generated"

GRADIENTS = """# Gradient checks of every layer

Written by `python -m tests.tools.pages`: the worst error over all cases of a layer, relative to
the sizes of what a derivative is summed from, and to what rounding allows; the limit is 1e-7
([how it is decided](../study-tools.md#gradcheck)). `tests/layers/test_gradcheck.py` runs
the cases (of a composed layer each array along one random direction; with `--slow` its entries,
too), and `tests/layers/test_contract.py` runs them again on views that are not contiguous and in
float32.

| layer                | cases | worst error | gradient                                     | case
|----------------------|------:|------------:|----------------------------------------------|---
"""
PARITY = """# Parity with PyTorch

Written by `python -m tests.tools.pages` where torch is installed: the worst difference of every
layer that torch has, over 12 drawings of each pair with random sizes, numbers and parameters, both
sides in float64. A difference is the largest one of an array, divided by the array's largest
number where that is above 1. "Output" is the worst of all outputs (final states too), "gradients"
the worst of the gradients of all parameters, inputs and initial states; the limit is 1e-10.
`tests/layers/test_torch_table.py` fails when a layer has neither a row nor a reason below. "Its
formula" is a document's, written with torch's functions.

| layer | torch's | pairs | output | gradients | worst gradient |
|---|---|--:|--:|--:|---|
"""
MUTATION = """# Mutation score of the gradient checks

Written by `python -m tests.tools.pages`: every function that only backwards run is changed by one
token at a time (sign, operator, swapped names, dropped term or factor, `=` for `+=`, axis,
transposition, a condition turned round, ...), and the gradient checks of
docs/generated/gradients.md are run on each. A mutant that gives the same gradients on fresh inputs
is equivalent and not counted; one that ends in an exception counts as caught. Checks
(`check_gradient`) are left as they are: `tests/layers/test_contract.py` sees that each layer
refuses what it should. `tests/layers/test_mutation.py` runs a seeded sample in every test run, and
asks for 95 %.

"""


def kept(page, again):
    """{layer: its line} of a page, without those to be made anew."""
    lines = page.read_text(encoding="utf-8").splitlines()
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    return {name: line for name, line in rows.items() if name not in again}


def gradients(again):
    """Write gradients.md; returns the layers at fault."""
    page, cases, bad = PAGES / "gradients.md", all_cases(), []
    rows = kept(page, again)
    for cls in npdl_layers():
        if cls.__name__ not in rows:
            own = [case for case in cases if covers(case.layer_class, cls)]
            error, gradient, what = max(
                ((row.error, f"{row.name}{list(map(int, row.index))}", case.what)
                 for case in own for row in check(case).rows), default=(0.0, "-", "-"))
            bad += [] if own and error < CASE_LIMIT else [cls.__name__]
            rows[cls.__name__] = (f"| {cls.__name__:<20} | {len(own):5d} | {error:11.1e} "
                                  f"| {gradient:<44} | {what}")
    write(page, GRADIENTS, [rows[cls.__name__] for cls in npdl_layers()])
    return bad


def parity(again):
    torch = importlib.import_module("tests.layers.torch_table")
    page, bad = PAGES / "parity.md", []
    rows = kept(page, again)
    pairs = {cls.__name__: [pair for pair in torch.PAIRS if pair.layer_class is cls]
             for cls in npdl_layers()}
    for name, own in pairs.items():
        if own and name not in rows:
            (output, _), (gradient, what) = torch.worst_of(own)
            bad += [] if output < torch.LIMIT and gradient < torch.LIMIT else [name]
            torchs = ", ".join(dict.fromkeys(pair.torchs for pair in own))
            rows[name] = (f"| {name} | {torchs} | {len(own)} | {output:.1e} | {gradient:.1e} "
                          f"| {what} |")
    why = ["\nWithout a counterpart in torch:\n",
           *(f"* {name}: {reason}" for name, reason in torch.WITHOUT.items())]
    write(page, PARITY, [rows[name] for name, own in pairs.items() if own] + why)
    return bad


def mutants(again):
    """Write mutation.md, of whose rows each is an owner of functions that backwards run."""
    page, functions = PAGES / "mutation.md", collections.defaultdict(list)
    for function in mutation.functions():
        functions[owner(function)].append(function)
    old, rows, survivors = kept(page, again), {}, []
    told = [line for line in page.read_text("utf-8").splitlines() if line.startswith("survived")]
    for name, own in functions.items():
        if name in old:
            cells = [int(cell) for cell in old[name].split("|")[2:8]]
            rows[name] = collections.Counter({
                "caught": cells[2] - cells[3], "by an exception": cells[3],
                "survived": cells[4], "equivalent": cells[5]})
            survivors += [line for line in told
                          if owner_of(line) == name]
        else:
            found, lines = score([m for f in own for m in mutation.mistakes(f)],
                                 mutation.judge_of(own), mutation, shown=["survived"])
            rows |= found
            survivors += lines
    text, total = table(rows, mutation)
    count = sum(map(len, functions.values()))
    write(page, MUTATION, [text, f"\n{count} functions", *survivors])
    return [name for name, row in rows.items() if row["survived"] and name not in old]


def owner_of(line):
    """The owner in a survivor's line: survived: FILE:LINE: [KIND] OWNER.function: ..."""
    return line.partition("] ")[2].partition(":")[0].split(".")[0]


def write(page, heading, lines):
    page.write_text(heading + "\n".join(lines) + "\n", encoding="utf-8")


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE",
                        help="gradients, mutation, parity (default: all)")
    parser.add_argument("--layers", nargs="+", default=[], help="rows to make anew")
    parser.add_argument("--all", action="store_true", help="make every row anew")
    options = parser.parse_args(given)
    writers = {"gradients": gradients, "mutation": mutants, "parity": parity}
    if importlib.util.find_spec("torch") is None:
        del writers["parity"]
        print("parity.md stays as it is: torch is not installed")
    if unknown := set(options.pages) - writers.keys():
        parser.error(f"{', '.join(sorted(unknown))}: choose among {', '.join(writers)}")
    again = {cls.__name__ for cls in npdl_layers()} if options.all else set(options.layers)
    bad = {name: writer(again) for name, writer in writers.items()
           if name in (options.pages or writers)}
    for name, layers in bad.items():
        print(f"docs/generated/{name}.md", *(f"- look at {layer}" for layer in layers))
    return int(any(bad.values()))


if __name__ == "__main__":
    sys.exit(main())
