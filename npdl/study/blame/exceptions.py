"""Find the line that is responsible if forward or backward raises an exception."""

import ast
import contextlib
import traceback

import numpy as np

from npdl.study.blame.edits import DERIVATIVE, RANKS
from npdl.study.blame.localize import Localization
from npdl.study.blame.repair import FixSearch
from npdl.study.blame.report import Blame, located, nearby
from npdl.study.check.adapters import Unfit
from npdl.study.containment import NPDL, message
from npdl.study.trace.oracle import Oracle, plain, stems
from npdl.study.trace.source import defined
from npdl.study.trace.statements import written_by
from npdl.study.trace.syntax import names_of

ADVICE = ("forward must run to its end before backward can be checked. Does the layer need other "
          "inputs or constructor arguments than these? Give it a classmethod sample() that returns "
          "(layer, *inputs), or a function NAME_sample() next to NAME_forward")

STUDY = __file__.rpartition("blame/")[0]


def blame_raised(checked, runs):
    """Return (Blame, Fix or None) of a backward that raises an exception."""
    trail = list(_trail(checked.error, runs.watch))
    if not trail:
        return blame_exception(checked.subject.layer, checked.error, checked.notes), None
    trail = [step for step in trail if step[0].function.file == runs.watch.home] or trail
    found = _localization(runs)
    found.frames |= {(one.places[-1], 0): held for one, held in trail[::-1] if one.places}
    line = _line_at_fault(checked.error, trail, found)
    search = FixSearch(found, [checked.check])
    before = [one for one in line.function.lines if one.first < line.first][::-1]
    lines = dict.fromkeys([line, *(one for one, _ in trail), *before])
    for rank in (rank for rank in RANKS if rank != DERIVATIVE):
        for one in lines:
            fix = search.fix(one, rank)
            if fix is not None:
                return located(fix.line, checked, kind=fix.kind), fix
    read = _arrays_read(*trail[0])
    if line is not trail[0][0]:
        read = f"it makes line {trail[0][0].first} raise, and {read}"
    return located(line, checked, kind="raised", diagnosis=read), None


def blame_exception(layer, error, notes=(), in_backward=False):
    """Return the Blame of an exception that no statement of a watched backward raised.

    NotImplementedError means that the code isn't written yet (kind "blank"). In every other case
    the inputs may be wrong, or npdl may call the layer in a wrong way, so no line is named.
    """
    place = _place(layer, error)
    if isinstance(error, NotImplementedError):
        name = "backward(self, dout, cache)" if in_backward else "forward(self, x)"
        text = message(error).partition(": ")[2] or (
            "write this function" if place else f"{type(layer).__name__} has no {name} yet")
        return Blame(False, notes=list(notes), error=error, kind="blank", diagnosis=text, **place)
    at = f" at {nearby(place['file'])}:{place['line']}, `{place['source']}`" if place else ""
    advice = "" if isinstance(error, Unfit) else f". {ADVICE}"
    return Blame(False, notes=list(notes), error=error, kind="unchecked",
                 diagnosis=f"{message(error)}{at}{advice}")


def _place(layer, error):
    """Return the fields of a Blame for the innermost line of the student's code in a traceback.

    They are a dict with the keys file, function, line and source. It is empty if there is no line.
    """
    frames = [(f.f_code, number) for f, number in traceback.walk_tb(
        error.__traceback__) if not f.f_code.co_filename.startswith(STUDY)]
    own = [(c, n) for c, n in frames if not c.co_filename.startswith(NPDL) and defined(c)]
    inside = [(c, n) for c, n in frames if "layers" in c.co_filename[len(NPDL):] and defined(c)]
    for code, number in (own or inside)[-1:]:
        node, _ = defined(code)
        at = [n for n in ast.walk(node) if isinstance(n, ast.stmt) and n is not node
              and n.lineno <= number <= n.end_lineno]
        statement = max(at, key=lambda n: n.lineno, default=None)
        return {"file": code.co_filename, "function": code.co_qualname,
                "line": statement.lineno if at else number,
                "source": ast.unparse(statement).split("\n")[0] if at else ""}
    return {}


def _trail(error, watch):
    """Yield (Line, local variables) of a traceback's watched statements, the innermost first."""
    frames = list(traceback.walk_tb(error.__traceback__))
    for frame, number in frames[::-1]:
        name = frame.f_code.co_filename
        for function in watch.functions:
            line = function.at(number) if function.file == name and (
                function.node.lineno <= number <= function.node.end_lineno) else None
            if line is not None:
                yield line, frame.f_locals


def _line_at_fault(error, trail, found):
    """Return the Line that is responsible for an exception.

    It is the innermost line of the traceback in a function that forward doesn't run. If shapes
    don't fit, an earlier line may be responsible: it made a gradient whose shape differs from the
    shape of its variable in forward.
    """
    places, oracle, shapes = found.runs.watch.places, found.oracle, {}
    shared = {places[key[0]].function for key in oracle.values}
    for key, value in oracle.values.items():
        shapes.setdefault(plain(oracle.given_to(key)), set()).add(value.shape)
    line, held = next(((one, held) for one, held in trail if one.function not in shared), trail[-1])
    names = names_of(line.node)
    if isinstance(error, (AttributeError, NameError, TypeError, KeyError)):
        return line
    for before in [one for one in line.function.lines if one.first < line.first][::-1]:
        bound = names & {*written_by(before.node)[0]}
        for name in bound:
            own = {plain(name), *stems(name)} & shapes.keys()
            if isinstance(held.get(name), np.ndarray) and own and not any(
                    held[name].shape in shapes[n] for n in own):
                return before
        names |= names_of(before.node) if bound else set()
    return line


def _arrays_read(line, held):
    """Return a sentence on the shapes of the arrays that a line reads."""
    read = []
    for text in sorted({ast.unparse(p) for p in ast.walk(line.node)
                        if isinstance(p, (ast.Name, ast.Attribute))}):
        with contextlib.suppress(Exception):
            value = eval(text, {}, held)
            read += [f"{text}, which is None"] * (value is None)
            read += [f"{text} {value.shape}"] * isinstance(value, np.ndarray)
    return f"the line reads {', '.join(read)}" if read else "this line raised the exception"


def _localization(runs):
    """Return a Localization without candidates, with the variables of the statements that ran."""
    roots = {i for i, place in enumerate(runs.watch.places) if place.root and place.line}
    with contextlib.suppress(Exception):
        runs.gradients(only=roots, record=True, frames=True)
    frames = runs.watch.locals or {}
    runs.watch.stop()
    return Localization(runs, {}, set(), Oracle(runs), [], frames)
