"""How far each number of npdl_study/blame/weights.py could be another without any other decision.

    python -m tests.tools.weight_ranges open --every 2      # cases as of tests.tools.real_mistakes
    python -m tests.tools.weight_ranges open --times WORK 2     # the answers with twice the number

The numbers are run as floats that know what they were made of, so that each comparison tells how
much one of them, the others as they are, may change before it turns out otherwise. What is as
large by chance (a tie) is counted: of two alike the first is taken. A number outside its range may
give the same answers still; in it, it must.
"""

import argparse
import importlib
import operator
import re
import tempfile
from pathlib import Path

from npdl_study.blame import weights

LEFT_OUT = {"TOKEN", "FACTOR", "TERM", "FORMULA",       # they order what is tried
            "SECONDS", "TRIED", "GUESSES",      # of a clock, and counts
            "PASSED_ON", "MOVED", "OF_A_KIND", "PAIRED", "PRODUCT", "POINTS", "PART",
            "SMALL_ENOUGH", "LENGTHS", "CUT",   # counts; the others are of arrays
            "SHIFT", "FACTORS", "SLIGHT", "CLOSE", "ZERO", "POWER", "RIDGE", "HUGE"}
RANGES, TIES = {}, {}                   # {name: [low, high]}, {name: how many}


class Weight(float):
    """A float with its derivatives by the numbers that it was made of."""

    __array_ufunc__ = None

    def __new__(cls, value, by):
        made = super().__new__(cls, value)
        made.by = by
        return made

    def __hash__(self):
        return super().__hash__()


def by_of(value):
    return value.by if isinstance(value, Weight) else {}


def combined(made, a, da, b, db):
    names = by_of(a).keys() | by_of(b).keys()
    return Weight(made, {n: da * by_of(a).get(n, 0.0) + db * by_of(b).get(n, 0.0) for n in names})


def compare(name):
    plain = getattr(operator, name)

    def compared(self, other):
        gap, by = float(self) - float(other), combined(0.0, self, 1, other, -1).by
        for own, slope in by.items():
            if slope and gap == 0:
                TIES[own] = TIES.get(own, 0) + 1
            elif slope and abs(gap) < float("inf"):
                low, high = RANGES.setdefault(own, [-float("inf"), float("inf")])
                change = -gap / slope
                RANGES[own] = [max(low, change), high] if change < 0 else [low, min(high, change)]
        return plain(float(self), float(other))
    return compared


for word in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Weight, f"__{word}__", compare(word))
Weight.__add__ = Weight.__radd__ = lambda a, b: combined(float(a) + float(b), a, 1, b, 1)
Weight.__round__ = lambda a, digits=None: Weight(round(float(a), digits), a.by)
Weight.__sub__ = lambda a, b: combined(float(a) - float(b), a, 1, b, -1)
Weight.__rsub__ = lambda a, b: combined(float(b) - float(a), b, 1, a, -1)
Weight.__mul__ = Weight.__rmul__ = lambda a, b: combined(
    float(a) * float(b), a, float(b), b, float(a))


def weighed(name, value):
    """A number as a Weight; a tuple or dict of numbers with names of their own."""
    if isinstance(value, tuple):
        return tuple(weighed(f"{name} {one}", one) for one in value)
    if isinstance(value, dict):
        return {key: weighed(f"{name} {one}", one) for key, one in value.items()}
    VALUES[name] = float(value)
    return Weight(value, {name: 1.0})


VALUES = {}


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.tools.weight_ranges",
                                     description="In which range could each weight be another?")
    parser.add_argument("sets", nargs="*", default=["open"])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one case in N")
    parser.add_argument("--first", type=int, default=0, metavar="K", help="from the K-th on")
    parser.add_argument("--times", nargs=2, metavar=("NAME", "FACTOR"), action="append", default=[],
                        help="print the answers with a number that many times as large")
    options = parser.parse_args(arguments)
    text = Path(weights.__file__).read_text(encoding="utf-8")
    for name, factor in options.times:
        text = re.sub(rf"(?m)^{name} = ([\d._e-]+)", rf"{name} = type(\1)(\1 * {float(factor)})",
                      text)
    exec(text, vars(weights))                           # and those that are made of them
    for name, value in list(vars(weights).items()) if not options.times else ():
        if name.isupper() and name not in LEFT_OUT:
            setattr(weights, name, weighed(name, value))
    real_mistakes = importlib.import_module("tests.tools.real_mistakes")    # with these numbers

    with tempfile.TemporaryDirectory() as scratch:
        for case in real_mistakes.cases(options.sets)[options.first :: options.every]:
            path = Path(scratch) / f"{real_mistakes._stem(case)}.py"
            path.write_text(case.text())
            told = real_mistakes.asked(path, case.ask)
            print(real_mistakes.told_of({"case": case, "told": told, "kept": None,
                                         "place": real_mistakes.place(case, told)}), flush=True)
    table()


def table():
    for name, value in VALUES.items():
        low, high = RANGES.get(name, (-float("inf"), float("inf")))
        print(f"| {name} | {value:g} | {value + low:.6g} | {value + high:.6g} "
              f"| {TIES.get(name, 0)} |", flush=True)


if __name__ == "__main__":
    main()
