"""Find the line that is responsible if forward or backward raises an exception."""

import contextlib
import traceback

import numpy as np

from npdl.study.blame.edits import FACTOR, TERM, TOKEN
from npdl.study.blame.localize import Candidate, Localization, record_backward
from npdl.study.blame.repair import FixSearch
from npdl.study.blame.report import Blame, make_blame, make_statement_fields, shorten_path
from npdl.study.check.adapters import Uncheckable
from npdl.study.containment import NPDL, format_exception, is_student_file
from npdl.study.trace.oracle import Oracle, guess_variable_names, normalise_name
from npdl.study.trace.statements import (
    list_bound_and_changed_variables,
    list_read_variables,
    make_watched_function,
)
from npdl.study.trace.syntax import find_names

ADVICE = ("forward must run to its end before backward can be checked. Does the layer need other "
          "inputs or constructor arguments than these? Give it a classmethod sample() that returns "
          "a layer and its inputs, or a function NAME_sample() next to NAME_forward")


def blame_backward_exception(verdict, runs):
    """Find the line that made backward raise an exception; return its Blame (the answer)."""
    stack = list(_walk_traceback(verdict.error, runs.watch))
    if not stack:
        return make_exception_blame(verdict.subject.layer, verdict.error, verdict.notes)
    stack = [step for step in stack if step[0].function.file == runs.watch.main_file] or stack
    frames = record_backward(runs)[1]
    frames |= {(one.expressions[-1], 0): held for one, held in stack[::-1] if one.expressions}
    localization = Localization(runs, {}, set(), Oracle(runs), [], frames)
    faulty = _find_faulty_statement(verdict.error, stack, localization)
    search = FixSearch(localization, [verdict.check])
    before = [s for s in faulty.function.statements if s.first_line < faulty.first_line][::-1]
    tried = dict.fromkeys([faulty, *(one for one, _ in stack), *before])
    for rank in (TOKEN, FACTOR, TERM):
        for one in tried:
            fix = search.find_fix(Candidate(one), rank)
            if fix is not None:
                return make_blame(verdict, one, fix)
    raised, held = stack[0]
    read = describe_read_arrays(raised, held)
    read = f"line {raised.first_line} {f'reads {read}' if read else 'raised the exception'}"
    if faulty is not raised:
        read = f"this line causes the exception; {read}"
    return make_blame(verdict, faulty, kind="raised", diagnosis=read)


def make_exception_blame(layer, error, notes=(), in_backward=False):
    """Return the Blame of an exception that is not a mistake in a statement of backward.

    For NotImplementedError the kind is "blank": the code isn't written yet. For every other
    exception the kind is "unchecked", because the inputs may be wrong.
    """
    kind, statement, text = "unchecked", _find_innermost_student_statement(error), str(error)
    if isinstance(error, NotImplementedError):
        kind = "blank"
        name = "backward(self, dout, cache)" if in_backward else "forward(self, x)"
        text = format_exception(error).partition(": ")[2] or (
            "write this function" if statement else f"{type(layer).__name__} has no {name} yet")
    elif not isinstance(error, Uncheckable):
        at = statement and (f" at {shorten_path(statement.function.file)}:{statement.first_line}, "
                            f"`{statement.text}`")
        text = f"{format_exception(error)}{at or ''}. {ADVICE}"
    return Blame(False, notes=list(notes), kind=kind, diagnosis=text, error=error,
                 **make_statement_fields(statement if kind == "blank" else None))


def _find_innermost_student_statement(error):
    """Return the innermost Statement of the student's code in a traceback, or None."""
    found = [(frame.f_code.co_filename, watched.find_statement(number))
             for frame, number in traceback.walk_tb(error.__traceback__)
             if (watched := make_watched_function(frame.f_code))]
    own = [statement for file, statement in found if is_student_file(file)]
    inside = [statement for file, statement in found if file.startswith(f"{NPDL}layers")]
    return (own or inside or [None])[-1]


def _walk_traceback(error, watch):
    """Yield (Statement, local variables) for the frames of a traceback, the innermost first."""
    for frame, number in list(traceback.walk_tb(error.__traceback__))[::-1]:
        name = frame.f_code.co_filename
        for function in watch.functions:
            if function.file == name and (statement := function.find_statement(number)):
                yield statement, frame.f_locals


def _find_faulty_statement(error, stack, localization):
    """Return the Statement that causes an exception.

    error  the exception
    stack  pairs (Statement, local variables) of its traceback, the innermost first

    The result is the innermost statement in a function that forward doesn't run. If shapes don't
    fit, it may be an earlier statement, which computed a `dz` with another shape than forward's z.
    """
    expressions, oracle, shapes = localization.runs.watch.expressions, localization.oracle, {}
    shared = {expressions[key[0]].function for key in oracle.values}
    for key, value in oracle.values.items():
        shapes.setdefault(normalise_name(oracle.get_assigned_variable(key)), set()).add(value.shape)
    faulty, held = next((pair for pair in stack if pair[0].function not in shared), stack[-1])
    names = find_names(faulty.node)
    if isinstance(error, (AttributeError, NameError, TypeError, KeyError)):
        return faulty
    earlier = [s for s in faulty.function.statements if s.first_line < faulty.first_line]
    for before in earlier[::-1]:
        bound = names & {*list_bound_and_changed_variables(before.node)[0]}
        for name in bound:
            own = {normalise_name(name), *guess_variable_names(name)} & shapes.keys()
            if isinstance(held.get(name), np.ndarray) and own and not any(
                    held[name].shape in shapes[n] for n in own):
                return before
        names |= find_names(before.node) if bound else set()
    return faulty


def describe_read_arrays(statement, variables):
    """Return the arrays that a Statement reads, with their shapes: "dy (3, 5), self.W.data (4, 5)".

    The text also names variables that are None. `variables` is {name: value} of local variables.
    """
    read = []
    for text in list_read_variables(statement.node):
        with contextlib.suppress(Exception):
            value = eval(text, {}, variables)
            read += [f"{text}, which is None"] * (value is None)
            read += [f"{text} {value.shape}"] * isinstance(value, np.ndarray)
    return ", ".join(read)

