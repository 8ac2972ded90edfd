"""A walk through a layer, or a report, as lines of a terminal.

Colours and pictures are used only where the output is a terminal and NO_COLOR is not set.
"""

import os
import shutil
import sys

import numpy as np

from npdl.exceptions import printable
from npdl_study.containment import message
from npdl_study.step import maths

RESET, BOLD, DIM, RED, GREEN, YELLOW, BLUE = (
    "\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m", "\033[34m")
MOST_ROWS, MOST_READ = 6, 6


class Paint:
    """Text that changes nothing of a terminal but, where it can, its colours."""

    def __init__(self, file):
        self.on = (hasattr(file, "isatty") and file.isatty() and not os.environ.get("NO_COLOR")
                   and os.environ.get("TERM") != "dumb")

    def __call__(self, text, *codes):
        text = printable(text, "\n")
        return "".join(codes) + text + RESET if self.on and codes else text


def show(walk, phases=("forward", "backward"), file=None):
    """Print every step of a Walk."""
    file = file or sys.stdout
    paint = Paint(file)
    phase = call = None
    for step in walk.steps(phases):
        if step.call.phase != phase:
            phase = step.call.phase
            print(paint(f"\n=== {walk.title}: {phase} ===", BOLD), file=file)
        if step.call is not call:
            call = step.call
            print(paint(f"\n{_depth(call) * '  '}{call.name}", BOLD, BLUE), file=file)
        _step(walk, step, paint, file)
    _finals(walk, paint, file)


def _depth(call):
    return 0 if call.parent is None else 1 + _depth(call.parent)


def _step(walk, step, paint, file):
    pad = "  " * _depth(step.call)
    turn = "".join(f"  [{', '.join(f'{n} = {v}' for n, v in loop)}]" for loop in step.turns)
    line = step.line
    code = line.text if any(other is not line and other.first == line.first for other in
                            line.function.lines) else \
        " ".join(part.split("#")[0].strip() for part in line.source.splitlines())
    print(f"{pad}{line.first:>5}  {paint(code)}{paint(turn, YELLOW)}", file=file)
    formula = maths.text(line.node)
    if _plain(formula) == _plain(code):
        formula = ""                                    # it only says the code again
    if formula or line.comment:
        comment = f"# {line.comment}" if line.comment else ""
        comment = f"    {comment}" if formula and comment else comment
        print(f"{pad}       {paint(formula, BLUE)}{paint(comment, DIM)}", file=file)
    read = [f"{name}{path} {summary.brief()}" for name, shown in step.reads.items()
            for path, summary in shown]
    if read:
        print(paint(f"{pad}       from {', '.join(read[:MOST_READ])}", DIM), file=file)
    for write in step.writes:
        if write.same_as:
            print(paint(f"{pad}       {write.name} is {write.same_as} now"), file=file)
            continue
        for path, summary in write.shown:
            how = "" if write.how == "bound" else f" ({write.how})"
            mark = _mark(walk.mark(step, write.name), paint)
            line = paint(f"{pad}       {write.name}{path} {summary.line()}{how}")
            print(line + mark, file=file)
            if paint.on:
                for row in _picture(summary):
                    print(f"{pad}         {row}", file=file)
    if step.error is not None:
        print(paint(f"{pad}       raised {message(step.error)}", RED), file=file)


def _plain(text):
    """A line without what formulae write differently."""
    return text.replace(" ", "").replace("−", "-").replace("self.", "")


def _mark(mark, paint):
    if mark is None or not mark.says:
        return ""
    if mark.right:
        return "  " + paint(mark.says, GREEN)
    return "  " + (paint(mark.says, YELLOW) if mark.kink or mark.follows else
                   paint(mark.says, RED, BOLD))


def _picture(summary):
    """Rows of coloured half blocks, two rows of the picture to a line."""
    cells = summary.cells
    if cells.size < 2:
        return
    width = max(1, min(2, shutil.get_terminal_size().columns // (2 * cells.shape[1] + 20)))
    rows = cells[: 2 * MOST_ROWS]
    for top in range(0, len(rows), 2):
        line = ""
        for column in range(cells.shape[1]):
            upper = _colour(rows[top, column], summary.scale)
            lower = _colour(rows[top + 1, column], summary.scale) if top + 1 < len(rows) else None
            back = f"\033[48;5;{lower}m" if lower is not None else "\033[49m"
            line += f"\033[38;5;{upper}m{back}" + "▀" * width
        yield line + RESET


def _colour(value, scale):
    """A colour of the 256: blue below zero, orange above, grey for NaN."""
    if not np.isfinite(value):
        return 240
    ramp = (25, 31, 74, 110, 153, 255, 223, 216, 209, 202, 166)
    return ramp[int(round((value / (scale or 1) + 1) / 2 * (len(ramp) - 1)))]


def _finals(walk, paint, file):
    if walk.recording.error is not None:
        print(paint(f"\nended by {message(walk.recording.error)}", RED, BOLD), file=file)
    for note in walk.notes:
        print(paint(f"note: {note}"), file=file)
    if not walk.finals:
        return
    print(paint("\n=== gradients against their numerical values ===", BOLD), file=file)
    width = max(len(f.name) for f in walk.finals)
    for row in walk.finals:
        word = paint(f"not checkable here: {row.reason}", YELLOW) if row.right is None else \
            paint("right", GREEN) if row.right else paint("WRONG", RED, BOLD)
        print(paint(f"  {row.name:<{width}}  {row.error:8.1e}  ") + word, file=file)
