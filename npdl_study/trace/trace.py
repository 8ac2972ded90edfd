"""Watch a layer's forward and backward statement by statement, without a change to its code.

`Tracer` follows every function for which there is a plan and tells a listener of each statement
that has run. It uses Python's one tracing slot, so it refuses to start beside a debugger or a
line coverage tool.
"""

import contextlib
import inspect
import os
import sys
from dataclasses import dataclass, field

from npdl.core import walk
from npdl.errors import InputError
from npdl_study.trace.plan import plan

STUDY = os.path.dirname(os.path.dirname(__file__)) + os.sep
# Book-keeping, not mathematics: shapes checked, time steps ordered, generators made.
SKIPPED = ("npdl.core", "npdl.backend", "npdl.init", "npdl.errors", "npdl_study")
HELPERS = ("npdl.layers.", "npdl.adapt.", "npdl.models.", "npdl.losses", "npdl.functions")


@dataclass(repr=False)
class Call:
    """One call of one function: where it is in the tree of calls, and what it returned."""

    number: int
    phase: str
    function: object
    code: object
    parent: "Call | None"
    owner: object = None
    arguments: dict = field(default_factory=dict)
    from_statement: object = None
    loops: dict = field(default_factory=dict)
    returned: object = None
    pairs: list = field(default_factory=list)
    kinds: dict = field(default_factory=dict)
    complete: bool = False
    turns: tuple = ()

    @property
    def key(self):
        return self.function.qualname

    def iteration(self, statement):
        """((loop variables and their values), ...) of the loops around a statement."""
        return tuple(self.loops[line][1] for line in statement.loops if line in self.loops)

    def all_turns(self, statement):
        """The same with the loops around the calls that led here, outermost first."""
        return self.turns + self.iteration(statement)


class Listener:
    """What a Tracer tells. Each method may return {name: value} to rebind the call's locals."""

    def entered(self, call, names):
        """A call begins; `names` are its arguments."""

    def ran(self, call, statement, names, value):
        """A statement has run; `value` is what it returned, if it is a return."""

    def raised(self, call, statement, error):
        """A statement has raised."""

    def left(self, call, names):
        """A call has returned."""


class Tracer:
    """Follows the calls whose code `wants` accepts; `phase` is "forward" or "backward"."""

    def __init__(self, wants, listener):
        self.wants = wants
        self.listener = listener
        self.phase = "forward"
        self.stopped = False
        self.calls = 0
        self.stack = []
        self.current = []

    @contextlib.contextmanager
    def __call__(self):
        refuse_debugger()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            self.stack.clear()
            self.current.clear()

    def stop(self):
        """See no more: from here on the code runs at its own speed."""
        sys.settrace(None)
        self.stopped = True

    def turn(self, phase):
        """Go on with another phase, even when the one before was stopped."""
        self.phase = phase
        if self.stopped:
            self.stopped = False
            self.stack.clear()
            self.current.clear()
            sys.settrace(self._enter)

    def _enter(self, frame, event, arg):
        function = self.wants(frame.f_code) if event == "call" else None
        if function is None or self.stopped:
            return None
        names = frame.f_locals
        parent = self.stack[-1] if self.stack else None
        call = Call(self.calls, self.phase, function, frame.f_code, parent, names.get("self"),
                    {name: names.get(name) for name in function.arguments},
                    self.current[-1] if self.current else None)
        if parent is not None and call.from_statement is not None:
            call.turns = parent.all_turns(call.from_statement)
        self.calls += 1
        self.stack.append(call)
        self.current.append(None)
        self._rebind(names, self.listener.entered(call, names))
        return self._step

    def _step(self, frame, event, arg):
        call = self.stack[-1] if self.stack else None
        if self.stopped or call is None or call.code is not frame.f_code:
            return None
        if event == "exception":
            statement = self.current[-1]
            if statement is not None and not isinstance(arg[1], (StopIteration, GeneratorExit)):
                self.current[-1] = None                 # it has not run to its end
                self.listener.raised(call, statement, arg[1])
            return self._step
        before = self.current[-1]
        now = call.function.at.get(frame.f_lineno) if event == "line" else None
        names = None
        if before is not None and now is not before:
            names = frame.f_locals
            if before.kind == "for":
                self._count(call, before, names)
            value = arg if event == "return" else None
            self._rebind(names, self.listener.ran(call, before, names, value))
        if event == "return":
            call.returned, call.complete = arg, before is not None
            self.listener.left(call, frame.f_locals if names is None else names)
            self.stack.pop()
            self.current.pop()
            return None
        if now is not None:
            if now.kind == "for" and not (before and now.first in before.loops):
                call.loops.pop(now.first, None)
            self.current[-1] = now
        return self._step

    def _count(self, call, head, names):
        turn = call.loops.get(head.first, (0, ()))[0]
        shown = tuple((name, int(names[name])) for name in head.binds
                      if isinstance(names.get(name), int))
        name = head.binds[0] if head.binds else "turn"
        call.loops[head.first] = (turn + 1, shown or ((name, turn),))

    def _rebind(self, names, values):
        for name, value in (values or {}).items():
            names[name] = value


def refuse_debugger():
    """Raise InputError when something else holds Python's tracing slot."""
    holder = sys.gettrace()
    if holder is not None:
        kind = getattr(holder, "__module__", None) or type(holder).__module__
        raise InputError(f"a debugger or a coverage tool ({kind}) is tracing this process: use its "
                         "own step buttons, or run this command without it")


def wanted(layer):
    """A function code -> plan, for the code of npdl's layers and of the layer's own files; the
    cell of a notebook is a file too."""
    parts = {cls for part in walk(layer) for cls in type(part).__mro__ if not
             cls.__module__.startswith(("npdl.core", "npdl_study", "builtins"))}
    own = {getattr(sys.modules.get(cls.__module__), "__file__", None) for cls in parts}
    own |= {value.__code__.co_filename for cls in parts for value in vars(cls).values()
            if inspect.isfunction(value)}
    own = {file for file in own if file and not file.startswith(STUDY)}
    skipped = {file_of(name) for name in SKIPPED}
    found = {}

    def wants(code):
        if code not in found:
            filename = original_file(code.co_filename)
            skip = filename in skipped or not (filename in own or is_helper(filename))
            found[code] = None if skip else plan(code)
        return found[code]

    return wants


def file_of(module):
    """The file of a module that is loaded, else None."""
    return getattr(sys.modules.get(module), "__file__", None)


def is_helper(filename):
    """Whether a file is one of npdl's own layers, models or losses."""
    return filename in {module.__file__ for name, module in list(sys.modules.items())
                        if name.startswith(HELPERS) and getattr(module, "__file__", None)}


def original_file(filename):
    """The file that an edited copy of a function stands for (see npdl_study.blame.edits)."""
    return filename.split("#", 1)[0]
