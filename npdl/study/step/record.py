"""Record one forward and one backward, with the arrays that each statement reads and writes.

A Recorder is a Watch (npdl.study.trace.watch) whose hook is also called after every statement. Each
Step holds summaries of the arrays that the statement read and wrote, and the keys of the values
that it computed.
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
from npdl.study.trace.statements import Watched, find_reads, find_writes
from npdl.study.trace.watch import Rewrite, Watch, load_target
from npdl.study.trees import as_tuple

COPIED = 1 << 14            # arrays with more entries are not copied, so they are not compared
MOST_STEPS = 4000           # statements of a phase that are recorded


@dataclass(repr=False, eq=False)
class Call:
    """One call of a function.

    phase       "forward" or "backward"
    function    the Watched
    code        the code object that runs
    names       the local variables before the next statement, {name: value}
    parent      the Call of the caller, or None
    line        the Line of the caller, or None if it is not recorded
    iterations  the loop variables around this Line
    arguments   {name: value}
    returned    the returned value
    pairs       for a call of backward, the calls of forward that belong to it
    ran         counts how often each Line has run
    reads       {Line: the `reads` of its next Step}
    keys        {Line: the `keys` of its next Step}
    """

    phase: str
    function: object
    code: object
    names: dict
    parent: "Call | None" = None
    line: object = None
    iterations: tuple = ()
    arguments: dict = field(init=False)
    returned: object = None
    pairs: list = field(default_factory=list)
    ran: Counter = field(default_factory=Counter)
    reads: dict = field(default_factory=dict)
    keys: dict = field(default_factory=dict)

    def __post_init__(self):
        taken = self.code.co_varnames[: self.code.co_argcount]
        self.arguments = {name: self.names.get(name) for name in taken}

    @property
    def name(self):
        """Return the qualified name of the function."""
        own, around = self.code.co_name, self.function
        return around.qualname + f".{own}" * (own != around.code.co_name)


@dataclass(repr=False)
class Write:
    """A value that a statement wrote.

    name     a local variable ("dx"), an attribute ("self.W.grad"), or "return"
    arrays   copies of the arrays in the value; empty if they are large
    how      "bound" or "in place"
    shown    [(path, Summary)] of these arrays
    mark     the Mark (npdl.study.step.marks), or None
    """

    name: str
    arrays: list
    how: str
    shown: list
    mark: object = None


@dataclass(repr=False)
class Step:
    """A statement that ran or raised an exception.

    call        the Call in which it ran
    line        the Line
    iterations  the loop variables: for each loop around the statement, pairs (name, value)
    writes      the Writes
    reads       {source: [(path, Summary)]} of the arrays that the statement read
    keys        the keys of the values that it computed
    is_new      False if all arrays that it wrote were already the values of other variables
    error       the exception that it raised, or None
    """

    call: Call
    line: object
    iterations: tuple
    writes: list = field(default_factory=list)
    reads: dict = field(default_factory=dict)
    keys: list = field(default_factory=list)
    is_new: bool = True
    error: object = None


class Recording:
    """All Calls and Steps of forward and backward.

    cut    the phases of which only the first MOST_STEPS steps are recorded
    error  the exception that the layer raised, or None
    """

    def __init__(self):
        self.steps, self.calls, self.cut, self.error = [], [], [], None
        self.call_of = {}           # {key of a value in forward: its Call}
        self.values = {}            # {key of a value in backward: a copy}

    def phase(self, name):
        return [step for step in self.steps if step.call.phase == name]


class StatementRewrite(Rewrite):
    """A Rewrite that also calls the hook when a function begins, and after each statement.

    Then the hook gets a negative number: watch.marked[~number] is the Watched or the Line.
    """

    def visit_FunctionDef(self, node):
        node = super().visit_FunctionDef(node)
        node.body.insert(0, ast.Expr(self._mark(self.function)))
        return node

    def around(self, node):
        """Yield a statement between the calls of the hook that belong to it.

        Before `z += e`, z is passed to the hook, because the statement reads it.
        """
        if isinstance(node, ast.AugAssign) and not isinstance(node.target, ast.Attribute):
            yield ast.copy_location(ast.Expr(self.hooked(load_target(node.target))), node)
        yield from super().around(node)
        if isinstance(node, ast.Return):
            node.value = ast.copy_location(self._mark(self.line, node.value), node)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)):
            yield ast.copy_location(ast.Expr(self._mark(self.line)), node)

    def _mark(self, thing, value=None):
        """Return a call of the hook that reports a function that begins, or a Line that has run."""
        self.watch.marked.append(thing)
        place = ast.Constant(~(len(self.watch.marked) - 1))
        return ast.Call(ast.Name(HOOK, ast.Load()), [place, value or ast.Constant(None)], [])


class Recorder(Watch):
    """A Watch that records the statements of the functions that `work()` runs.

    marked  the Watched and the Lines that the hook reports
    """

    rewriter = StatementRewrite

    def __init__(self, work):
        self.recording, self.marked, self.is_recording = Recording(), [], False
        self.frames = {}            # {frame: Call} of the calls of the phase
        super().__init__(work, True)
        self.read = [place.line and place.text in find_reads(place.line.node)
                     and place.text for place in self.places]

    def run(self, forward, backward):
        """Run forward() and backward(returned), where forward returned `returned`.

        Returns the Recording.
        """
        try:
            self._begin("forward")
            returned = forward()
            self._begin("backward")
            backward(returned)
        except Exception as error:
            self.recording.error = error
            self._raised(error)
        finally:
            self.recording.values = self.seen
            self.stop()
            self.frames.clear()
        return self.recording

    def _begin(self, phase):
        self.stop()
        self.phase, self.count, self.frames = phase, 0, {}
        self.start((), record=True)
        self.is_recording = True

    def stop(self):
        super().stop()
        self.is_recording = False

    def __call__(self, place, value, into=False):
        if not self.is_recording:
            return value if place < 0 else super().__call__(place, value, into)
        frame = sys._getframe(1)
        if place < 0:
            thing = self.marked[~place]
            if isinstance(thing, Watched):
                self._entered(thing, frame)
            else:
                self._ran(thing, value, self._recorded(frame))
            return value
        first = self.counts[place]
        value = self._nest(place, value)
        keys = [(place, occurrence) for occurrence in range(first, self.counts[place])]
        self._used(place, keys, value, self.frames.get(self._recorded(frame)))
        return value

    def _recorded(self, frame):
        """Return a Python frame, or that of its nearest recorded caller, or None."""
        while frame is not None and frame not in self.frames:
            frame = frame.f_back
        return frame

    def _entered(self, function, frame):
        """Add the Call of a function that begins."""
        call = Call(self.phase, function, frame.f_code, dict(frame.f_locals))
        caller = self._recorded(frame.f_back)
        if caller is not None:
            call.parent = self.frames[caller]
            call.line = call.parent.function.at(caller.f_lineno)
            call.iterations = self._iterations(call.parent, call.line, caller.f_locals)
        if self.phase == "backward":
            call.pairs = find_forward_calls(call, self.recording.calls)
        self.recording.calls.append(call)
        self.frames[frame] = call

    def _used(self, place, keys, value, call):
        """Note a value that a statement reads or computes, for the next Step of the statement."""
        if call is None:
            return
        line, source = self.places[place].line, self.read[place]
        if self.phase == "forward":
            self.recording.call_of.update(dict.fromkeys(keys, call))
        elif self.places[place].root:
            call.keys.setdefault(line, []).extend(keys)
        if source and source not in call.reads.setdefault(line, {}):
            shown = summarise_arrays(value)
            if shown:
                call.reads[line][source] = shown

    def _ran(self, line, value, frame):
        """Add the Step of a Line that has run; `value` is the value of a return statement."""
        if frame is None:
            return
        call, names = self.frames[frame], dict(frame.f_locals)
        step = self._step(call, line, names)
        binds, changes = find_writes(line.node)
        call.returned = value                           # the last value is that of a return
        written = {"return": value} if line.is_return else {n: look_up(n, names) for n in binds}
        held = {id(array) for _, array in find_arrays([*call.names.values()])}
        step.is_new = bool(changes) or any(
            id(array) not in held for _, array in find_arrays([*written.values()]))
        for name, made in written.items():
            self._write(step, name, made)
        call.names = {} if line.is_return else names    # the arrays of a call that ended may go
        direct = [c if "." in c or "'" in c else c.split("[")[0] for c in changes if "(" not in c]
        for name in dict.fromkeys(direct):
            if name not in binds:
                self._write(step, name, look_up(name, names), "in place")

    def _step(self, call, line, names):
        """Add a Step without its Writes, and return it."""
        step = Step(call, line, self._iterations(call, line, names),
                    reads=call.reads.pop(line, {}), keys=call.keys.pop(line, []))
        self.recording.steps.append(step)
        call.ran[line] += 1
        self.count += 1
        if self.count == MOST_STEPS:
            self.recording.cut.append(self.phase)
            self.is_recording = False
        return step

    def _iterations(self, call, line, names):
        """Return the loop variables around a Line; those of outer calls come first.

        For a loop without an integer variable, the number of earlier runs of the line is returned.
        """
        iterations = []
        for loop in line.loops if line is not None else ():
            bound, _ = find_writes(loop) if hasattr(loop, "target") else ((), ())
            shown = tuple((n, int(names[n])) for n in bound if isinstance(names.get(n), int))
            iterations.append(shown or (((*bound, "iteration")[0], call.ran[line]),))
        return call.iterations + tuple(iterations)

    def _write(self, step, name, value, how="bound"):
        found = [array for _, array in find_arrays(value)]
        if found:
            small = all(array.size <= COPIED for array in found)
            copies = [np.array(array) for array in found] if small else []
            step.writes.append(Write(name, copies, how, summarise_arrays(value)))

    def _raised(self, error):
        """Add a Step for each call that ended with an exception, the innermost call first."""
        for frame, number in list(traceback.walk_tb(error.__traceback__))[::-1]:
            call = self.frames.get(frame)
            line = call and call.function.at(number)
            if line is not None:
                self._step(call, line, dict(frame.f_locals)).error = error


def look_up(source, names):
    """Return the value of a variable such as `dz`, `self.W.grad` or `grads["W"]`, or None."""
    with contextlib.suppress(Exception):
        return None if "(" in source else eval(source, {}, names)       # a call would run again


def strip_direction(name):
    """Return the name of a function without "forward" or "backward"."""
    parts = [p for p in name.split("_") if p not in ("", "call", "forward", "backward", "grad")]
    return "_".join(parts)


def find_forward_calls(call, calls):
    """Return the calls of forward that belong to a call of backward, the last one first.

    Such a call of forward returned an argument of the call of backward, for example a cache. If no
    call did so, the object keeps its cache in self, and its calls of forward are returned.
    """
    own = [other for other in reversed(calls) if other.phase == "forward"
           and strip_direction(other.code.co_name) == strip_direction(call.code.co_name)]
    owner = call.arguments.get("self")
    plain = (bool, int, float, str, type(None))         # equal values may be one object
    handed = {id(value) for value in call.arguments.values() if not isinstance(value, plain)
              and not (isinstance(value, tuple) and not value)}
    return [other for other in own if handed & {*map(id, as_tuple(other.returned))}] or [
        other for other in own if owner is not None and other.arguments.get("self") is owner]
