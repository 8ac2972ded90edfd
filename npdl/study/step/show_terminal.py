"""Print the Walk that step() returns. A terminal shows colours; NO_COLOR turns them off."""

import os
import re
import sys

from npdl.exceptions import to_printable
from npdl.study.containment import format_exception
from npdl.study.step import maths

RESET, BOLD, DIM, RED, GREEN, YELLOW = (f"\033[{n}m" for n in (0, 1, 2, 31, 32, 33))
COLOURS = {"right": GREEN, "upstream": YELLOW, "wrong": RED}


def print_walk(walk, phases):
    """Print the shown statements of a Walk with their arrays, for the given phases."""
    is_coloured = (sys.stdout.isatty() and not os.environ.get("NO_COLOR")
                   and os.environ.get("TERM") != "dumb")

    def paint(text, colour=""):
        text = to_printable(text, "\n")
        return colour + text + RESET if is_coloured and colour else text

    for line in _format_walk(walk, phases, paint):
        print(line)


def _format_walk(walk, phases, paint):
    phase = call = None
    for step in walk.steps(phases):
        pad = "  " * _count_callers(step.call)
        if step.call.phase != phase:
            phase = step.call.phase
            yield paint(f"\n=== {walk.title}: {phase} ===", BOLD)
        if step.call is not call:
            call = step.call
            caller = call.caller_statement
            by = caller and f"  called by line {caller.first_line} of {call.parent.name}"
            yield paint(f"\n{pad}{call.name}", BOLD) + paint(by or "", DIM)
        yield from (pad + line for line in _format_step(step, paint))
    if walk.recording.error is not None:
        yield paint(f"\nthe layer raised {format_exception(walk.recording.error)}", RED)
    yield from (paint(f"note: {note}") for note in walk.notes)
    if walk.finals:
        yield paint("\n=== gradients against their numerical values ===", BOLD)
    width = max((len(row.name) for row in walk.finals), default=0)
    for row in walk.finals:
        word = paint(row.inconclusive_text, YELLOW) if row.right is None else \
            paint("right", GREEN) if row.right else paint("WRONG", RED)
        error = "" if row.right is None else f" ({row.reason or f'relative error {row.error:.1e}'})"
        yield paint(f"  {row.name:<{width}}  ") + word + error


def _count_callers(call):
    return 0 if call.parent is None else 1 + _count_callers(call.parent)


def _format_step(step, paint):
    """Yield lines of text: a Step's code, its formula, and the arrays that it read and wrote."""
    statement, pad = step.statement, 7 * " "
    loops = "".join(f"  [{text}]" for text in step.iterations)
    first, *rest = statement.source.split("\n")
    yield f"{statement.first_line:>5}  {paint(first)}{paint(loops, DIM)}"
    yield from (paint(f"{pad}{code}") for code in rest)
    formula = maths.format_formula(statement.node)
    if _remove_notation(formula) not in ("", _remove_notation(statement.text)):
        yield paint(f"{pad}{formula}")
    read = [f"{name}{path} {summary.format_brief()}" for name, shown in step.reads.items()
            for path, summary in shown]
    if read:
        yield paint(f"{pad}reads {', '.join(read)}", DIM)
    for write in step.writes:
        for path, summary in write.shown:
            how = "" if write.how == "bound" else f" ({write.how})"
            mark = write.mark and "  " + paint(write.mark.text, COLOURS[write.mark.kind])
            text = paint(f"{pad}writes {write.name}{path} {summary.format_line()}{how}")
            yield text + (mark or "")
    if step.error is not None:
        yield pad + paint(f"raised {format_exception(step.error)}", RED)


def _remove_notation(text):
    """Return a line without spaces, parentheses and "self.", to compare code with a formula."""
    return re.sub(r"[ ()]|self\.", "", text).replace("−", "-")
