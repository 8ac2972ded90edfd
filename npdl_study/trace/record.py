"""One forward and one backward of a layer, as a list of the statements that ran.

    recording = record(layer, inputs, dout=dout)
    for step in recording.steps: print(step.statement.source, step.writes)

Each step has a copy of every array that its statement wrote, those changed in place and those
changed through a view included.
"""

import contextlib
from dataclasses import dataclass, field

import numpy as np

from npdl.backend import xp
from npdl.errors import InputError
from npdl_study.trace.fold import carried
from npdl_study.trace.pairs import pairs_of
from npdl_study.trace.reads import arrays_read, entries_written
from npdl_study.trace.trace import Listener, Tracer, wanted
from npdl_study.trees import kept

COPIED = 1 << 14            # arrays with more entries are summarised, but not copied
MOST_STEPS = 4000           # of a phase, where they are to be shown
COMPARED = 1 << 12          # nor are larger ones compared with what they were before a statement


@dataclass(repr=False)
class Write:
    """A value that a statement wrote.

    name   a local ("dx"), an attribute ("self.W.grad"), or "return"
    value  a copy: an array, or a tuple of arrays; None where it has more than COPIED entries
    how    "bound", "in place", or "through a view": the statement names another array, or only
           calls a function, and this one changed
    mask   for arrays changed in place: which entries changed
    shown  what `digest` made of the value
    same_as  for an array that changed because the statement bound it to another name too
             (`dx = np.multiply(dy, 2, out=dgain)`): that name
    """

    name: str
    value: object
    how: str = "bound"
    mask: object = None
    shown: object = None
    same_as: str = ""


@dataclass(repr=False)
class Step:
    """One statement that ran.

    `reads` are (source, digest) of the arrays that it read. `carried` is "same" when it made no
    array but handed on what its call held before, "view" when it handed on parts of that.
    """

    index: int
    call: object
    statement: object
    iteration: tuple
    writes: list = field(default_factory=list)
    reads: list = field(default_factory=list)
    carried: str = ""
    error: object = None
    returned: object = None
    first_inner: int = 0            # the first step of the calls that it made


@dataclass(repr=False)
class Recording:
    """All calls and steps of both phases; `error` is what the layer raised, if it did.

    `cut` are the phases of which only the first MOST_STEPS steps are there.
    """

    steps: list = field(default_factory=list)
    calls: list = field(default_factory=list)
    outputs: object = None
    cache: object = None
    returned: object = None
    error: object = None
    cut: list = field(default_factory=list)

    def phase(self, name):
        return [step for step in self.steps if step.call.phase == name]


def is_float_array(value):
    return isinstance(value, (np.ndarray, np.floating)) and value.dtype.kind == "f"


def kind_of(value):
    """What sort of value a name holds: those of one sort can be confused."""
    if is_float_array(value):
        return "array"
    if isinstance(value, (int, np.integer, slice)):
        return "index"
    if isinstance(value, float):
        return "number"
    return "nest" if isinstance(value, (tuple, list)) else "other"


def floats(value, depth=8):
    """A copy of a float array, or of a nest of tuples of them; None for anything else.

    `depth` ends a list that a mistake has put into itself.
    """
    if is_float_array(value):
        return np.array(value) if value.size <= COPIED else None
    if isinstance(value, (tuple, list)) and value and depth:
        items = tuple(floats(item, depth - 1) for item in value)
        return items if any(item is not None for item in items) else None
    return None


class Recorder(Listener):
    """Writes a Recording; `digest` makes what a Write shows, from the value itself."""

    def __init__(self, digest=None):
        self.recording = Recording()
        self.digest = digest
        self.known = {}             # {call number: {name: (array, copy)}}
        self.before = {}            # {call number: its locals before the statement that runs}
        self.counts = {}            # {phase: steps}
        self.started = {}           # {call number: index of the first step of its statement}

    def entered(self, call, names):
        self.recording.calls.append(call)
        self.known[call.number] = {}
        self._changed(call, names, set(call.function.arguments))
        self.before[call.number] = dict(names)
        call.kinds.update((n, kind_of(names.get(n))) for n in call.function.arguments)
        self.started[call.number] = len(self.recording.steps)
        if call.phase == "backward":
            call.pairs = pairs_of(call, self.recording.calls)

    def ran(self, call, statement, names, value):
        step = self._step(call, statement)
        self._read(step)
        explicit = set(statement.binds)
        if statement.is_return:
            step.returned = value
            self._write(step, "return", value, "bound")
        for name in statement.binds:
            call.kinds[name] = kind_of(names.get(name))
            self._write(step, name, names.get(name), "bound")
        changed = self._changed(call, names, set(statement.binds))
        if self.digest is not None and not changed:
            made = [value] if statement.is_return else [names.get(n) for n in statement.binds]
            step.carried = carried(made, list(self.before[call.number].values()))
        for source in statement.changes:
            name = source if "." in source else source.split("[")[0]
            if name in explicit or "(" in source:
                continue
            explicit.add(name)
            value = look_up(source if "." in source else name, names)
            mask = changed.get(name)                    # none where it has added zeros
            if mask is None and isinstance(value, np.ndarray):
                mask = entries_written(statement.node, source, value, names)
            self._write(step, name, value, "in place", mask)
        changed |= dict.fromkeys(_large_views(names, explicit - set(statement.binds)))
        for name, mask in changed.items():
            if name not in explicit:
                self._write(step, name, names[name], "through a view", mask)
        for write in step.writes:
            array = names.get(write.name) if write.how != "bound" else None
            write.same_as = next((n for n in statement.binds if array is not None
                                  and names.get(n) is array), "")
        self.before[call.number] = dict(names)

    def raised(self, call, statement, error):
        step = self._step(call, statement)
        self._read(step)
        step.error = error

    def left(self, call, names):
        self.known.pop(call.number, None)
        self.before.pop(call.number, None)

    def _read(self, step):
        """Digest what a statement read, each array as it was before the statement."""
        if self.digest is None:
            return
        number = step.call.number
        names = self.before[number] | {n: copy for n, (_, copy) in self.known[number].items()}
        for source, value in arrays_read(step.statement, names):
            shown = self.digest(value)
            if shown:
                step.reads.append((source, shown))

    def _step(self, call, statement):
        steps = self.recording.steps
        first = self.started[call.number]
        step = Step(len(steps), call, statement, call.all_turns(statement), first_inner=first)
        steps.append(step)
        self.counts[call.phase] = self.counts.get(call.phase, 0) + 1
        if self.digest is not None and self.counts[call.phase] == MOST_STEPS:
            self.recording.cut.append(call.phase)
            self.tracer.stop()
        self.started[call.number] = len(steps)
        return step

    def _write(self, step, name, value, how, mask=None):
        copy = floats(value)
        shown = None if self.digest is None else self.digest(value)
        if copy is not None or shown:
            step.writes.append(Write(name, copy, how, mask, shown))

    def _changed(self, call, names, bound):
        """{name: mask} of the arrays whose entries differ from what they were."""
        known, found = self.known[call.number], {}
        for name, value in list(names.items()):
            if (not isinstance(value, np.ndarray) or value.dtype.kind != "f"
                    or value.size > COMPARED):
                known.pop(name, None)
                continue
            old = known.get(name)
            if old is None or old[0] is not value:
                known[name] = (value, value.copy())
                continue
            same = (value == old[1]) | (np.isnan(value) & np.isnan(old[1]))
            if not same.all():
                known[name] = (value, value.copy())
                found[name] = ~same
        return {name: mask for name, mask in found.items() if name not in bound}


def _large_views(names, written):
    """Names of large arrays that share memory with one of the arrays just written in place."""
    targets = [names[n] for n in written if isinstance(names.get(n), np.ndarray)]
    return [n for n, v in list(names.items()) if targets and n not in written
            and isinstance(v, np.ndarray) and v.size > COMPARED
            and any(np.may_share_memory(v, t) for t in targets)]


def look_up(source, names):
    """The value of `self.W.grad`, `dz`, or None."""
    head, *path = source.split(".")
    if "[" in source:
        return None
    value = names.get(head)
    for attribute in path:
        value = getattr(value, attribute, None)
    return value


def output_and_cache(layer, returned):
    """What a forward returned; raises InputError unless it is a pair."""
    if isinstance(returned, tuple) and len(returned) == 2:
        return returned
    what = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else (
        "nothing" if returned is None else f"one {type(returned).__name__}")
    raise InputError(f"{type(layer).__name__}.forward returned {what}; it must return a pair: its "
                     "output and a Cache")


def forward_of(layer, /, *inputs, **options):
    """layer.forward, for what takes a function in its place."""
    return layer.forward(*inputs, **options)


def record(layer, inputs, options=None, dout=None, digest=None, backward=True, forward=None):
    """Run forward, then backward with the gradients `dout`, and return the Recording.

    `dout` may be a function of the outputs. An exception of the layer's ends the recording and is
    kept in its `error`; parameters and inputs are put back. Raises InputError when a debugger is
    attached.
    """
    recorder = Recorder(digest)
    recorder.tracer = tracer = Tracer(wanted(layer), recorder)
    recording = recorder.recording
    run = forward or forward_of
    with np.errstate(all="ignore"), kept(layer, inputs), tracer(), unwritten_is_nan():
        try:
            returned = run(layer, *inputs, **(options or {}))
            recording.outputs, recording.cache = output_and_cache(layer, returned)
            if backward:
                upstream = dout(recording.outputs) if callable(dout) else dout
                tracer.turn("backward")
                recording.returned = layer.backward(upstream, recording.cache)
        except Exception as error:
            recording.error = error
    return recording


@contextlib.contextmanager
def unwritten_is_nan():
    """Let xp.empty give NaN instead of leftovers, so that what is never written shows."""
    def poisoned(make):
        def empty(*args, **options):
            array = make(*args, **options)
            if array.dtype.kind == "f":
                array[...] = np.nan
            return array
        return empty

    names = ("empty", "empty_like")
    for name in names:
        vars(xp)[name] = poisoned(getattr(np, name))
    try:
        yield
    finally:
        for name in names:
            vars(xp).pop(name, None)
