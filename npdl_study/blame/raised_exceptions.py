"""Where an exception comes from, and what is said of it."""

import ast
import contextlib
import itertools
import traceback

import numpy as np

from npdl.core import Cache
from npdl_study.blame.report import Blame
from npdl_study.blame.suspects import called_names
from npdl_study.check.subjects import NotAPair
from npdl_study.containment import CodeLeft, message
from npdl_study.trace.oracle import stems
from npdl_study.trace.source import defined, original_file
from npdl_study.trace.syntax import bound_by, indices, names_of
from npdl_study.trace.watch import NPDL, STUDY

TURNS = {"reshape", "expand_dims", "transpose", "swapaxes", "moveaxis", "tile", "repeat", "squeeze"}


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


def line_at_fault(error, trail, forward):
    """Of the Lines on the way to an exception, the innermost first, the one that raised; of what
    forward calls too, and of a helper that reads nothing but what is made for it in the call, the
    one that calls it. And in a function before it the one that turns an argument into another
    shape, or makes an index beyond an axis, or an array whose shape is not that of forward's of its
    name, or of that it is the gradient of. `forward` are [(the place of a value, the value)]."""
    ran, shapes = {place.function for place, _ in forward}, {}
    for place, value in forward:
        for name in place.names[:1]:
            shapes.setdefault(name, set()).add(value.shape)
    line = next((line for line, caller in itertools.pairwise(trail)
                 if (line.inside or line.function not in ran) and not _is_handed(line, caller)),
                trail[-1])
    held, names = locals_at(error, line), names_of(line.node)
    beyond = set(_indices_beyond(line, held))
    every = [name for one in line.function.lines for name in bound_by(one.node)]
    once = {name for name in every if every.count(name) == 1}
    for before in reversed([one for one in line.function.lines if one.first < line.first]):
        bound = bound_by(before.node) & names
        value = getattr(before.node, "value", None)
        if value is not None and (bound & beyond or any(
                isinstance(held.get(n), np.ndarray) and held[n].shape not in shapes[own]
                for n in bound for own in {n, *stems(n) * (n in once)} & shapes.keys())
                or called_names(before.node) & TURNS
                and bound & names_of(value) & set(line.function.arguments)):
            return before
        names |= names_of(before.node) if bound else set()
    return line


def _indices_beyond(line, held):
    """The names of a Line that are indices beyond an axis."""
    for node in ast.walk(line.node):
        array = held.get(getattr(getattr(node, "value", None), "id", None))
        if isinstance(node, ast.Subscript) and isinstance(array, np.ndarray):
            for index, size in zip(indices(node), array.shape, strict=False):
                at = held.get(getattr(index, "id", None))
                if isinstance(at, (int, np.integer)) and not -size <= at < size:
                    yield index.id


def _is_handed(line, caller):
    """Whether a Line reads arguments, or parts of them, alone, one of which its caller computes."""
    made = set()
    for before in line.function.lines:
        source = getattr(before.node, "iter", getattr(before.node, "value", None))
        if before.first < line.first and source is not None and (names_of(source) & made or any(
                isinstance(part, (ast.Call, ast.BinOp)) for part in ast.walk(source))):
            made |= bound_by(before.node)
    calls = [node for node in ast.walk(caller.node) if isinstance(node, ast.Call)
             and ast.unparse(node.func).endswith(line.function.code.co_name)]
    return not made & names_of(line.node) and any(isinstance(
        given, (ast.BinOp, ast.Call, ast.Subscript)) for call in calls for given in call.args)


def shapes_read(error, line):
    """The shapes of what a Line read that raised, or the fields of a cache that lacks one."""
    error = original_error(error)
    holds = getattr(error, "obj", None)
    if isinstance(error, AttributeError) and isinstance(holds, Cache):
        return f"the cache has no {error.name}; it has: {', '.join(vars(holds)) or 'nothing'}"
    held, read = locals_at(error, line), []
    for text in sorted({ast.unparse(p) for p in ast.walk(line.node)
                        if isinstance(p, (ast.Name, ast.Attribute))}):
        with contextlib.suppress(Exception):
            value = eval(text, {}, held)
            read += [f"{text}, which is None"] * (value is None)
            read += [f"{text} {value.shape}"] * isinstance(value, np.ndarray)
    return f"the line read {', '.join(read)}" if read else "the line did not run to its end"


def locals_at(error, line):
    """What the names of a Line's function stood for when an exception came through it, best
    through the Line itself."""
    code = line.function.node
    frames = [(line.first <= at <= line.node.end_lineno, i, frame.f_locals)
              for i, (frame, at) in enumerate(traceback.walk_tb(
                  original_error(error).__traceback__))
              if original_file(frame.f_code.co_filename) == line.function.file
              and code.lineno <= at <= code.end_lineno]
    return max(frames, key=lambda found: found[:2])[-1]


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
