"""Count how often `blame` names the line and the fix in the files of tests/study/mistakes.

    python -m tests.tools.blame_files               # the table of all files
    python -m tests.tools.blame_files b_lstm        # the full report for files with this prefix

A file holds one layer. It is correct if its name begins with `right_`. In every other file one line
ends with the comment `# correct: STATEMENT`, which is removed before `blame` reads the source.
"""

import re
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from npdl.errors import InputError
from npdl.study.blame.blame import blame
from npdl.study.blame.report import REMAINS
from npdl.study.check.gradcheck import gradcheck
from npdl.study.check.target import build_layer_and_inputs

FOLDER = Path(__file__).parents[1] / "study" / "mistakes"
MARK = "# correct: "
# matches the name of a class with a backward, or the name f of a function f_forward
LAYER = re.compile(r"^class (\w+)(?:.*\n(?=\s))*?.*\n    def backward|^def (\w+)_forward\(", re.M)


@dataclass
class Answer:
    """The answer of `blame` for a source with a mistake in line `line`, and the seconds it took."""

    line: int
    report: object
    seconds: float
    is_true: bool | None            # whether a verified fix is right; None if there is none

    @property
    def is_on_line(self):
        return self.report.line == self.line

    def __str__(self):
        where = "on the line" if self.is_on_line else f"line {self.report.line}, not {self.line}"
        fix = {None: "no fix verified", True: "fix true", False: "FIX FALSE"}[self.is_true]
        return f"{where}; {fix}; {self.seconds:.1f} s"


def reports_error(report):
    """Return True if a report says that a gradient is wrong."""
    return not report.right and report.kind != "unchecked"


def list_mistake_files(prefix=""):
    return sorted(p for p in FOLDER.glob(f"{prefix}*.py") if not p.stem.startswith("right_"))


def read_mistake(path):
    """Return (source with the mistake, number of its line, corrected source) of a file."""
    text = path.read_text()
    (number, line), = ((n, line) for n, line in enumerate(text.split("\n"), 1) if MARK in line)
    wrong, statement = line.split(MARK)
    return replace_line(text, number, wrong.strip()), number, replace_line(text, number, statement)


def build_layer(text, folder):
    """Return (layer, inputs, options) for the last layer of a source, written into `folder`."""
    path = Path(folder, f"layer_{abs(hash(text))}.py")
    path.write_text(text)
    return build_layer_and_inputs(f"{path}:{''.join(LAYER.findall(text)[-1])}")


def run_blame(text, folder):
    """Return the Blame report on the layer of a source."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer, inputs, options = build_layer(text, folder)
        return blame(layer, *inputs, **options)


def replace_line(text, number, statement):
    """Return a source with `statement` in line `number`, at the same indentation."""
    lines = text.split("\n")
    old = lines[number - 1]
    lines[number - 1] = old[: len(old) - len(old.lstrip())] + statement
    return "\n".join(lines)


def has_right_gradients(text, folder):
    """Return True if no gradient of the layer in a source is wrong."""
    try:
        layer, inputs, options = build_layer(text, folder)
        return all(gradcheck(layer, *inputs, seed=seed, **options).right is not False
                   for seed in (0, 1))
    except (InputError, SyntaxError):
        return False


def make_answer(text, line, folder):
    """Return the Answer of `blame` on a source with a mistake in a line."""
    start = time.process_time()
    report = run_blame(text, folder)
    seconds, is_true = time.process_time() - start, None
    if report.verified and REMAINS not in report.notes:     # the fix should correct all gradients
        is_true = has_right_gradients(replace_line(text, report.line, report.fix), folder)
    return Answer(line, report, seconds, is_true)


def main(prefixes):
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for path in (p for prefix in prefixes or [""] for p in list_mistake_files(prefix)):
            text, line, _ = read_mistake(path)
            given = make_answer(text, line, folder)
            found.append(given)
            print(f"{path.stem}: {given}", given.report if prefixes else "", sep="\n"[: bool(
                prefixes)], flush=True)
        print(f"{len(found)} files, {sum(a.is_on_line for a in found)} on the line, "
              f"{sum(a.is_true is True for a in found)} true fixes, "
              f"{sum(a.is_true is False for a in found)} false, "
              f"longest {max((a.seconds for a in found), default=0):.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
