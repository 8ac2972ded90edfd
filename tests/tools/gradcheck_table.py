"""Print every layer's worst gradient-check error over all its cases, as a Markdown table.

    python -m tests.tools.gradcheck_table

Exit status 1 if a layer exceeds the limit or has no case.
"""

import sys

from npdl_study.check.gradcheck import gradcheck
from tests.tools.cases import all_cases
from tests.tools.running import CASE_LIMIT, case_rng, covers, npdl_layers


def check(case):
    """The Report of one case."""
    layer, inputs, options = case.build(case_rng(case))
    return gradcheck(layer, *inputs, forward=case.forward, entries=case.entries, **options)


def worst_of(cases):
    """(error, gradient, what) of the worst gradient among `cases`."""
    found = [(row.error, f"{row.name}{list(map(int, row.index))}", case.what)
             for case in cases for row in check(case).rows]
    return max(found, default=(0.0, "-", "-"))


def main():
    layers, cases = npdl_layers(), all_cases()
    by_class = {cls: [case for case in cases if covers(case.layer_class, cls)] for cls in layers}
    failed = False
    print(f"| {'layer':<20} | cases | worst error | {'gradient':<44} | case")
    print(f"|{'-' * 22}|------:|------------:|{'-' * 46}|---")
    for cls, own in by_class.items():
        error, gradient, what = worst_of(own)
        failed |= not own or not error < CASE_LIMIT
        print(f"| {cls.__name__:<20} | {len(own):5d} | {error:11.1e} | {gradient:<44} | {what}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
