"""Record one forward and one backward, with the arrays that each statement reads and writes.

A Watch (npdl.study.trace.watch) changes functions so that each value passes through a hook. The
Recorder is a Watch whose hook is also called around every statement, and then makes a Step.
"""

import ast
import contextlib
import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from npdl.study.step.pictures import find_float_arrays, summarise_float_arrays
from npdl.study.trace.source import HOOK
from npdl.study.trace.statements import list_bound_and_changed_variables, list_read_variables
from npdl.study.trace.syntax import is_pure, parse_expression
from npdl.study.trace.watch import Rewrite, Watch
from npdl.study.trees import as_tuple

COPIED = 1 << 14            # arrays with more entries are not copied, so they are not compared
MOST_STEPS = 4000           # statements of a phase that are recorded
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)


@dataclass(repr=False, eq=False)
class Call:
    """One call of a function."""

    phase: str                  # "forward" or "backward"
    function: object            # the WatchedFunction
    code: object                # the code object that runs
    arguments: dict             # {name: value}
    parent: "Call | None" = None        # the Call of the caller
    caller_statement: object = None     # the Statement of the caller, if it is recorded
    iterations: tuple = ()              # the loop variables around this Statement, as in Step
    returned: object = None
    pairs: list = field(default_factory=list)       # of a backward: the calls of its forward
    ran: Counter = field(default_factory=Counter)   # {Statement: how often it has run}
    step: "Step | None" = None          # of the statement that runs
    held: set = field(default_factory=set)      # ids of arrays in local variables before `step`

    @property
    def name(self):
        """Return the qualified name of the function."""
        own, around = self.code.co_name, self.function
        return around.qualname + f".{own}" * (own != around.code.co_name)


@dataclass(repr=False)
class Write:
    """A value that a statement wrote."""

    name: str                   # a local variable, an attribute ("self.W.grad"), or "return"
    arrays: list                # copies of the arrays in the value; empty if they are large
    how: str                    # "bound" for `dx = ..`, "in place" for `dx[0] = ..`
    shown: list                 # [(path, ArraySummary)] of the arrays
    mark: object = None         # the Mark (npdl.study.step.marks)


@dataclass(repr=False)
class Step:
    """A statement that ran or raised an exception."""

    call: Call                  # the Call in which it ran
    statement: object           # the Statement
    reads: dict = field(default_factory=dict)       # {variable: [(path, ArraySummary)]} read
    iterations: tuple = ()      # texts such as "t = 2", for each loop around it
    writes: list = field(default_factory=list)      # the Writes
    keys: list = field(default_factory=list)        # (number of an Expression, occurrence) of the
                                                    # values that it assigned or returned
    is_new: bool = True         # False if other variables held all arrays that it wrote: `x = y.x`
    error: object = None        # the exception that it raised


class StatementRewrite(Rewrite):
    """Rewrites a function so that the hook is called before and after each statement, too.

    These calls pass a negative number to the hook. watch.reports[~number] is a method of the
    Recorder and the Statement.
    """

    def surround_with_hooks(self, node):
        """Yield a statement between two calls of the hook; the second one gets a returned value."""
        if not isinstance(node, SIMPLE):
            yield from super().surround_with_hooks(node)
            return
        yield ast.copy_location(ast.Expr(self._make_report_call(self.watch.begin_step)), node)
        yield from super().surround_with_hooks(node)
        if isinstance(node, ast.Return):
            node.value = self._make_report_call(self.watch.end_step, node.value)
        else:
            yield ast.copy_location(ast.Expr(self._make_report_call(self.watch.end_step)), node)

    def _make_report_call(self, method, value=None):
        """Return the node of a hook call that calls method(Statement, call, value, frame)."""
        self.watch.reports.append((method, self.statement))
        number = ast.Constant(~(len(self.watch.reports) - 1))
        return ast.Call(ast.Name(HOOK, ast.Load()), [number, value or ast.Constant(None)], [])


class Recorder(Watch):
    """Records every statement of the functions that `work()` calls, with its arrays.

    steps    the Steps of forward and backward
    cut      the phases of which only the first MOST_STEPS steps are recorded
    error    the exception that the layer raised, or None
    call_of  {key: Call} for forward's values; a key is (number of an Expression, occurrence)
    values   {key: copy} for backward's values
    reports  pairs (method, Statement); the hook calls the method
    phase    "forward" or "backward" during the recording, else ""
    frames   {frame: Call} of the calls of the phase
    """

    rewriter = StatementRewrite

    def __init__(self, work):
        self.steps, self.calls, self.cut, self.error = [], [], [], None
        self.call_of, self.values, self.reports, self.phase, self.frames = {}, {}, [], "", {}
        super().__init__(work, True)

    def list_steps(self, phase):
        return [step for step in self.steps if step.call.phase == phase]

    def run(self, forward, backward):
        """Run backward(forward()) and record it."""
        try:
            self._begin_phase("forward")
            returned = forward()
            self._begin_phase("backward")
            backward(returned)
        except Exception as error:
            self.error = error
            self._add_exception_steps(error)
        finally:
            self.values = self.seen
            self.stop()
            self.phase = ""
            self.frames.clear()

    def _begin_phase(self, phase):
        self.phase, self.count, self.frames = phase, 0, {}
        self.start((), record=True)

    def __call__(self, number, value, into=False):
        if not self.phase:
            return value if number < 0 else super().__call__(number, value, into)
        frame = sys._getframe(1)
        if number < 0:
            report, statement = self.reports[~number]
            report(statement, self._find_or_add_call(frame, statement.function), value, frame)
            return value
        first, expression = self.counts[number], self.expressions[number]
        value = self._record_or_change_nested(number, value)
        keys = [(number, occurrence) for occurrence in range(first, self.counts[number])]
        call = self._find_or_add_call(frame, expression.function)
        if call is not None and self.phase == "forward":
            self.call_of.update(dict.fromkeys(keys, call))
        elif expression.root and call and call.step and call.step.statement is expression.statement:
            call.step.keys.extend(keys)
        return value

    def _find_or_add_call(self, frame, function):
        """Return the Call of a frame, or of its nearest caller that is recorded, or None.

        If no Call of the frame is recorded, the `function` has just begun, and a Call is added.
        """
        if frame not in self.frames and frame.f_code.co_name[0] != "<":     # "<": a lambda
            self._add_call(function, frame)
        return self.frames.get(self._find_recorded_frame(frame))

    def _find_recorded_frame(self, frame):
        while frame is not None and frame not in self.frames:
            frame = frame.f_back
        return frame

    def _add_call(self, function, frame):
        """Add a Call to the recording, for a function that begins to run in `frame`."""
        call = Call(self.phase, function, frame.f_code, dict(frame.f_locals))
        caller = self._find_recorded_frame(frame.f_back)
        if caller is not None:
            call.parent = self.frames[caller]
            call.caller_statement = call.parent.function.find_statement(caller.f_lineno)
            call.iterations = self._describe_loops(
                call.parent, call.caller_statement, caller.f_locals)
        if self.phase == "backward":
            call.pairs = find_forward_calls(call, self.calls)
        self.calls.append(call)
        self.frames[frame] = call

    def begin_step(self, statement, call, value, frame):
        """Note the arrays that a Statement will read, before it runs in `frame`."""
        call.step = Step(call, statement)
        call.held = {id(array) for _, array in find_float_arrays([*frame.f_locals.values()])}
        for name in list_read_variables(statement.node):
            if shown := summarise_float_arrays(evaluate_variable(name, frame)):
                call.step.reads[name] = shown

    def end_step(self, statement, call, returned, frame):
        """Add a Step for a Statement that has run; `returned` is the value of a return."""
        step = self._add_step(call, statement, frame)
        binds, changes = list_bound_and_changed_variables(statement.node)
        call.returned = returned                         # the last value is that of a return
        changes = [c if "." in c or "'" in c else c.split("[")[0] for c in changes]
        written = {name: evaluate_variable(name, frame) for name in (*binds, *changes)}
        if statement.is_return:
            written["return"] = returned
        step.is_new = bool(changes) or any(
            id(array) not in call.held for _, array in find_float_arrays([*written.values()]))
        for name, made in written.items():
            is_changed = name in changes and name not in binds
            self._add_write(step, name, made, "in place" if is_changed else "bound")

    def _add_step(self, call, statement, frame):
        """Add a Step to the recording and return it; its list `writes` is still empty."""
        is_begun = call.step and call.step.statement is statement
        step = call.step if is_begun else Step(call, statement)
        step.iterations = self._describe_loops(call, statement, frame.f_locals)
        self.steps.append(step)
        call.ran[statement] += 1
        self.count += 1
        if self.count == MOST_STEPS:
            self.cut.append(self.phase)
            self.phase = ""
        return step

    def _describe_loops(self, call, statement, variables):
        """Return texts such as "t = 2", one for each loop around a Statement (Step.iterations).

        The loops of calling functions come first. For a loop without an integer variable, the value
        is the number of earlier runs of the statement.
        """
        iterations = call.iterations
        for loop in statement.loops if statement is not None else ():
            bound = list_bound_and_changed_variables(loop)[0] or ["iteration"]
            shown = [f"{n} = {variables[n]:d}" for n in bound
                     if isinstance(variables.get(n), int)]
            iterations += tuple(shown) or (f"{bound[0]} = {call.ran[statement]}",)
        return iterations

    def _add_write(self, step, name, value, how):
        found = [array for _, array in find_float_arrays(value)]
        if found:
            small = all(array.size <= COPIED for array in found)
            copies = [np.array(array) for array in found] if small else []
            step.writes.append(Write(name, copies, how, summarise_float_arrays(value)))

    def _add_exception_steps(self, error):
        """Add a Step for each call that ended with an exception, the innermost call first."""
        for frame, number in list(traceback.walk_tb(error.__traceback__))[::-1]:
            call = self.frames.get(frame)
            statement = call and call.function.find_statement(number)
            if statement is not None:
                self._add_step(call, statement, frame).error = error


def evaluate_variable(source, frame):
    """Return the value of `dz`, `self.W.grad` or `grads["W"]` in a frame, or None."""
    with contextlib.suppress(Exception):
        if is_pure(parse_expression(source)):           # it is evaluated once more
            return eval(source, frame.f_globals, frame.f_locals)


def remove_forward_backward(name):
    """Return a function's name without "forward" and "backward": "lstm" for "lstm_backward"."""
    parts = [p for p in name.split("_") if p not in ("", "call", "forward", "backward", "grad")]
    return "_".join(parts)


def find_forward_calls(backward_call, calls):
    """Return the Calls of forward whose gradients a Call of backward computes, the last one first.

    They are the calls that returned an argument of backward, for example the cache. If no call did,
    the object keeps its cache in self, and all calls of this object's forward are returned.
    """
    name = remove_forward_backward(backward_call.code.co_name)
    own = [other for other in reversed(calls) if other.phase == "forward"
           and remove_forward_backward(other.code.co_name) == name]
    owner = backward_call.arguments.get("self")
    plain = (bool, int, float, str, type(None))         # equal values may be one object
    handed = {id(value) for value in backward_call.arguments.values()
              if not isinstance(value, plain) and not (isinstance(value, tuple) and not value)}
    return [other for other in own if handed & {*map(id, as_tuple(other.returned))}] or [
        other for other in own if owner is not None and other.arguments.get("self") is owner]
