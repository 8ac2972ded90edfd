"""Where an exception comes from, and what is said of it."""

import ast
import traceback

import numpy as np

from npdl.core import Cache
from npdl_study.blame.report import Blame
from npdl_study.check.subjects import NotAPair
from npdl_study.containment import CodeLeft, message
from npdl_study.trace.source import defined, original_file
from npdl_study.trace.watch import NPDL, STUDY


def traceback_lines(error, watch):
    """(Watched, Line) of the statements that an exception came through, the outermost first."""
    for frame, number in traceback.walk_tb(original_error(error).__traceback__):
        name = original_file(frame.f_code.co_filename)
        for function in watch.functions:
            if function.file != name or not (
                    function.node.lineno <= number <= function.node.end_lineno):
                continue
            lines = [line for line in function.lines
                     if line.first <= number <= line.node.end_lineno]
            if lines:
                yield function, max(lines, key=lambda line: line.first)


def shapes_read(error, line):
    """The shapes of what a Line read that raised, or the fields of a cache that lacks one."""
    error = original_error(error)
    holds = getattr(error, "obj", None)
    if isinstance(error, AttributeError) and isinstance(holds, Cache):
        return f"the cache has no {error.name}; it has: {', '.join(vars(holds)) or 'nothing'}"
    names = sorted({p.id for p in ast.walk(line.node) if isinstance(p, ast.Name)})
    held = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)
            if original_file(frame.f_code.co_filename) == line.function.file][-1]
    read = [f"{name} {held[name].shape}" for name in names
            if isinstance(held.get(name), np.ndarray)]
    return f"the line read {', '.join(read)}" if read else "the line did not run to its end"


def original_error(error):
    """What the student's code raised, where `containment` told of it by another exception."""
    return error.__cause__ if isinstance(error, CodeLeft) and error.__cause__ else error


def blame_exception(layer, error, notes=(), backward=False):
    """The Blame for an exception: the line that raised it, best in the user's own file. A
    NotImplementedError is a place that is still to be written (kind "blank")."""
    blank = isinstance(error, NotImplementedError)
    found = Blame(False, [], list(notes), error=error, kind="blank" if blank else "raised")
    trail = traceback.walk_tb(original_error(error).__traceback__)
    frames = [(f.f_code, number) for f, number in trail
              if not f.f_code.co_filename.startswith(STUDY)]
    own = [(c, n) for c, n in frames if not c.co_filename.startswith(NPDL) and defined(c)]
    inside = [(c, n) for c, n in frames if "layers" in c.co_filename[len(NPDL):] and defined(c)]
    code = getattr(type(layer).forward, "__code__", None)
    if isinstance(error, NotAPair) and code is not None and defined(code):
        returns = [n.lineno for n in ast.walk(defined(code)[0]) if isinstance(n, ast.Return)]
        own = [(code, max(returns))] if returns else []
    for code, number in (own or inside)[-1:]:
        node, _ = defined(code)
        at = [n for n in ast.walk(node) if isinstance(n, ast.stmt) and n is not node
              and n.lineno <= number <= n.end_lineno]
        found.file, found.function = original_file(code.co_filename), code.co_qualname
        found.line = max(n.lineno for n in at) if at else number
        found.source = ast.unparse(max(at, key=lambda n: n.lineno)).split("\n")[0] if at else ""
    found.diagnosis = "the backward can be checked when the forward runs to its end"
    if isinstance(original_error(error), (IndexError, TypeError, KeyError)):
        found.diagnosis += ("; inputs made by --input are floats: of what is an index, or a dict, "
                            "give a sample(), or NAME_sample() beside NAME_forward")
    if blank:
        name = "backward(self, dout, cache)" if backward else "forward(self, x)"
        found.diagnosis = message(error).partition(": ")[2] or (
            "this is yours to write" if found.line else f"{type(layer).__name__} has no {name} yet")
    return found
