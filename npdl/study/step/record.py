"""Record one forward and one backward, with the arrays that each statement reads and writes.

A Watch (npdl.study.trace.watch) changes functions so that each value passes through a hook. The
Recorder is a Watch whose hook is also called after every statement, and then makes a Step.
"""

import ast
import contextlib
import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from npdl.study.step.pictures import find_arrays, summarise_arrays
from npdl.study.trace.source import HOOK
from npdl.study.trace.statements import WatchedFunction, find_reads, find_writes
from npdl.study.trace.watch import Rewrite, Watch, read_target
from npdl.study.trees import as_tuple

COPIED = 1 << 14            # arrays with more entries are not copied, so they are not compared
MOST_STEPS = 4000           # statements of a phase that are recorded


@dataclass(repr=False, eq=False)
class Call:
    """One call of a function."""

    phase: str                  # "forward" or "backward"
    function: object            # the WatchedFunction
    code: object                # the code object that runs
    names: dict                 # the local variables before the next statement, {name: value}
    arguments: dict             # {name: value}
    parent: "Call | None" = None        # the Call of the caller
    line: object = None                 # the Statement of the caller, if it is recorded
    iterations: tuple = ()              # the loop variables around this Statement, as in Step
    returned: object = None
    pairs: list = field(default_factory=list)       # of a backward: the calls of its forward
    ran: Counter = field(default_factory=Counter)   # {Statement: how often it has run}
    pending: dict = field(default_factory=dict)     # {Statement: its next Step}, whose reads and
                                                    # keys are collected while it runs

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
    shown: list                 # [(path, Summary)] of the arrays
    mark: object = None         # the Mark (npdl.study.step.marks)


@dataclass(repr=False)
class Step:
    """A statement that ran or raised an exception."""

    call: Call                  # the Call in which it ran
    line: object                # the Statement
    iterations: tuple = ()      # for each loop around it, a tuple of pairs (variable, value)
    writes: list = field(default_factory=list)      # the Writes
    reads: dict = field(default_factory=dict)       # {variable: [(path, Summary)]} that it read
    keys: list = field(default_factory=list)        # (number of an Expression, occurrence) of the
                                                    # values that it computed
    is_new: bool = True         # False if other variables held all arrays that it wrote: `x = y.x`
    error: object = None        # the exception that it raised


class StatementRewrite(Rewrite):
    """Rewrites a function so that the hook is called when it begins and after each statement, too.

    These calls pass a negative number to the hook. watch.marked[~number] is the WatchedFunction
    that begins, or the Statement that has run.
    """

    def visit_FunctionDef(self, node):
        node = super().visit_FunctionDef(node)
        node.body.insert(0, ast.Expr(self._make_report_call(self.function)))
        return node

    def surround_statement(self, node):
        """Yield a statement, followed by a call of the hook.

        Before `z += e`, z is passed to the hook, because the statement reads z.
        """
        if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Attribute):
            yield ast.copy_location(ast.Expr(self.make_hook_call(read_target(node.target))), node)
        yield from super().surround_statement(node)
        if isinstance(node, ast.Return):
            node.value = ast.copy_location(self._make_report_call(self.line, node.value), node)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)):
            yield ast.copy_location(ast.Expr(self._make_report_call(self.line)), node)

    def _make_report_call(self, thing, value=None):
        """Return the node of a hook call for a function that begins or a Statement that ran."""
        self.watch.marked.append(thing)
        number = ast.Constant(~(len(self.watch.marked) - 1))
        return ast.Call(ast.Name(HOOK, ast.Load()), [number, value or ast.Constant(None)], [])


class Recorder(Watch):
    """Records every statement of the functions that `work()` calls, with its arrays.

    steps, calls  the Steps and the Calls of forward and backward
    cut           the phases of which only the first MOST_STEPS steps are recorded
    error         the exception that the layer raised, or None
    call_of       {key: Call} for forward's values; a key is (number of an Expression, occurrence)
    values        {key: copy} for backward's values
    marked        the WatchedFunctions and the Statements that the hook reports
    frames        {frame: Call} of the calls of the phase
    """

    rewriter = StatementRewrite

    def __init__(self, work):
        self.steps, self.calls, self.cut, self.error = [], [], [], None
        self.call_of, self.values, self.marked, self.frames = {}, {}, [], {}
        super().__init__(work, True)
        self.read = [one.line and one.text in find_reads(one.line.node) and one.text
                     for one in self.expressions]

    def steps_of(self, phase):
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
            self.frames.clear()

    def _begin_phase(self, phase):
        self.stop()
        self.phase, self.count, self.frames = phase, 0, {}
        self.start((), record=True)
        self.is_recording = True

    def stop(self):
        super().stop()
        self.is_recording = False

    def __call__(self, number, value, into=False):
        if not self.is_recording:
            return value if number < 0 else super().__call__(number, value, into)
        frame = sys._getframe(1)
        if number < 0:
            thing = self.marked[~number]
            if isinstance(thing, WatchedFunction):
                self._add_call(thing, frame)
            else:
                self._add_step(thing, value, self._find_recorded_frame(frame))
            return value
        first = self.counts[number]
        value = self._hook_nested(number, value)
        keys = [(number, occurrence) for occurrence in range(first, self.counts[number])]
        self._note_value(number, keys, value, self.frames.get(self._find_recorded_frame(frame)))
        return value

    def _find_recorded_frame(self, frame):
        """Return this frame or its nearest calling frame that is recorded as a Call, or None."""
        while frame is not None and frame not in self.frames:
            frame = frame.f_back
        return frame

    def _add_call(self, function, frame):
        """Add a Call to the recording, for a function that begins to run in `frame`."""
        code, names = frame.f_code, dict(frame.f_locals)
        call = Call(self.phase, function, code, names, {
            name: names.get(name) for name in code.co_varnames[: code.co_argcount]})
        caller = self._find_recorded_frame(frame.f_back)
        if caller is not None:
            call.parent = self.frames[caller]
            call.line = call.parent.function.find_line(caller.f_lineno)
            call.iterations = self._find_iterations(call.parent, call.line, caller.f_locals)
        if self.phase == "backward":
            call.pairs = find_forward_calls(call, self.calls)
        self.calls.append(call)
        self.frames[frame] = call

    def _note_value(self, number, keys, value, call):
        """Note in a Call that its current statement has read or computed a value."""
        if call is None:
            return
        line, source = self.expressions[number].line, self.read[number]
        step = call.pending.setdefault(line, Step(call, line))
        if self.phase == "forward":
            self.call_of.update(dict.fromkeys(keys, call))
        elif self.expressions[number].root:
            step.keys.extend(keys)
        if source and source not in step.reads and (shown := summarise_arrays(value)):
            step.reads[source] = shown

    def _add_step(self, line, value, frame):
        """Add a Step for a Statement that has run; `value` is what a return statement returned."""
        if frame is None:
            return
        call, names = self.frames[frame], dict(frame.f_locals)
        step = self._start_step(call, line, names)
        binds, changes = find_writes(line.node)
        call.returned = value                           # the last value is that of a return
        written = {"return": value} if line.is_return else {
            name: look_up_variable(name, names) for name in binds}
        held = {id(array) for _, array in find_arrays([*call.names.values()])}
        step.is_new = bool(changes) or any(
            id(array) not in held for _, array in find_arrays([*written.values()]))
        for name, made in written.items():
            self._add_write(step, name, made)
        call.names = {} if line.is_return else names    # the arrays of a call that ended may go
        direct = [c if "." in c or "'" in c else c.split("[")[0] for c in changes]
        for name in dict.fromkeys(direct):
            if name not in binds:
                self._add_write(step, name, look_up_variable(name, names), "in place")

    def _start_step(self, call, line, names):
        """Add a Step to the recording and return it; its list `writes` is still empty."""
        step = call.pending.pop(line, None) or Step(call, line)
        step.iterations = self._find_iterations(call, line, names)
        self.steps.append(step)
        call.ran[line] += 1
        self.count += 1
        if self.count == MOST_STEPS:
            self.cut.append(self.phase)
            self.is_recording = False
        return step

    def _find_iterations(self, call, line, names):
        """Return the variables of the loops that contain a Statement, as in Step.iterations.

        The loops of calling functions come first. For a loop without an integer variable, the value
        is the number of earlier runs of the statement.
        """
        iterations = []
        for loop in line.loops if line is not None else ():
            bound, _ = find_writes(loop) if hasattr(loop, "target") else ((), ())
            shown = tuple((n, int(names[n])) for n in bound if isinstance(names.get(n), int))
            iterations.append(shown or (((*bound, "iteration")[0], call.ran[line]),))
        return call.iterations + tuple(iterations)

    def _add_write(self, step, name, value, how="bound"):
        found = [array for _, array in find_arrays(value)]
        if found:
            small = all(array.size <= COPIED for array in found)
            copies = [np.array(array) for array in found] if small else []
            step.writes.append(Write(name, copies, how, summarise_arrays(value)))

    def _add_exception_steps(self, error):
        """Add a Step for each call that ended with an exception, the innermost call first."""
        for frame, number in list(traceback.walk_tb(error.__traceback__))[::-1]:
            call = self.frames.get(frame)
            line = call and call.function.find_line(number)
            if line is not None:
                self._start_step(call, line, dict(frame.f_locals)).error = error


def look_up_variable(source, names):
    """Return the value of a variable such as `dz`, `self.W.grad` or `grads["W"]`, or None."""
    with contextlib.suppress(Exception):
        return None if "(" in source else eval(source, {}, names)       # a call would run again


def remove_forward_backward(name):
    """Return a function's name without "forward" and "backward": "lstm" for "lstm_backward"."""
    parts = [p for p in name.split("_") if p not in ("", "call", "forward", "backward", "grad")]
    return "_".join(parts)


def find_forward_calls(call, calls):
    """Return the Calls of forward whose gradients a Call of backward computes, the last one first.

    They are the calls that returned an argument of backward, for example the cache. If no call did,
    the object keeps its cache in self, and all calls of this object's forward are returned.
    """
    name = remove_forward_backward(call.code.co_name)
    own = [other for other in reversed(calls) if other.phase == "forward"
           and remove_forward_backward(other.code.co_name) == name]
    owner = call.arguments.get("self")
    plain = (bool, int, float, str, type(None))         # equal values may be one object
    handed = {id(value) for value in call.arguments.values() if not isinstance(value, plain)
              and not (isinstance(value, tuple) and not value)}
    return [other for other in own if handed & {*map(id, as_tuple(other.returned))}] or [
        other for other in own if owner is not None and other.arguments.get("self") is owner]
