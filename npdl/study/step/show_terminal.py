"""Print a walk through a layer; in colour if the output is a terminal and NO_COLOR is not set."""

import os
import sys

from npdl.exceptions import printable
from npdl.study.containment import message
from npdl.study.step import maths

RESET, BOLD, DIM, RED, GREEN, YELLOW, BLUE = (
    "\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m", "\033[34m")
MOST_READ = 6               # arrays that are listed as read by a statement


class Paint:
    """Makes text printable, and coloured if the output is a terminal."""

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
        formula = ""                                    # it only repeats the code
    if formula or line.comment:
        comment = f"# {line.comment}" if line.comment else ""
        comment = f"    {comment}" if formula and comment else comment
        print(f"{pad}       {paint(formula, BLUE)}{paint(comment, DIM)}", file=file)
    read = [f"{name}{path} {summary.brief()}" for name, shown in step.reads.items()
            for path, summary in shown]
    if read:
        print(paint(f"{pad}       from {', '.join(read[:MOST_READ])}", DIM), file=file)
    for write in step.writes:
        for path, summary in write.shown:
            how = "" if write.how == "bound" else f" ({write.how})"
            mark = _mark(walk.mark(step, write.name), paint)
            line = paint(f"{pad}       {write.name}{path} {summary.line()}{how}")
            print(line + mark, file=file)
    if step.error is not None:
        print(paint(f"{pad}       raised {message(step.error)}", RED), file=file)


def _plain(text):
    """Return a line without the characters that formulas write differently."""
    return text.replace(" ", "").replace("−", "-").replace("self.", "")


def _mark(mark, paint):
    if mark is None or not mark.text:
        return ""
    colours = (GREEN,) if mark.right else (YELLOW,) if mark.kink or mark.upstream else (RED, BOLD)
    return "  " + paint(mark.text, *colours)


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
        word = paint(f"inconclusive here: {row.reason}", YELLOW) if row.right is None else \
            paint("right", GREEN) if row.right else paint("WRONG", RED, BOLD)
        print(paint(f"  {row.name:<{width}}  {row.error:8.1e}  ") + word, file=file)
