"""Checks of a backward's lines that no forward line has a name for.

`W_h.grad += h_prev.T @ dz`: what one call adds to a parameter's gradient is compared with the
numerical gradient of that parameter as the forward call that it undoes used it: in an LSTM, of
one time step. `shift = dx_hat.mean(-1)`: where every gradient is right, the value is moved a
little and the backward runs on; when a gradient is then wrong, the value had to be what it is.
"""

import ast
import time

import numpy as np

from npdl.backend import stream
from npdl_study.trace.finals import finals
from npdl_study.trace.fold import is_pass
from npdl_study.trace.judge import Verdict
from npdl_study.trace.nudge import LIMIT, SMALL, STEP
from npdl_study.trace.record import look_up
from npdl_study.trace.trace import Listener, Tracer
from npdl_study.trees import copied, kept

MOVE = 1e-2                     # how far a value is moved, as a share of its largest entry


class Needed(Verdict):
    """A value without a namesake, right because moving it makes a right gradient wrong."""


class Lines:
    """Adds verdicts to those of a judge, for `walk` and what is Prepared that it was made of."""

    def __init__(self, walk, check, dout, until):
        self.walk, self.check, self.dout, self.until = walk, check, dout, until
        self.of = walk.verdicts.of
        self.steps = walk.recording.phase("backward")
        self.right = all(final.right or final.kink for final in walk.finals)

    def run(self):
        self._added()
        if self.right:
            for step in self.steps:
                if time.monotonic() > self.until:
                    return
                self._needed(step)
        self._returns()

    def _added(self):
        """Judge what each call has added to each parameter's gradient, at its last line."""
        params = {id(p): name for name, p in self.check.layer.params()}
        amounts, lasts, held = {}, {}, {}
        for step in self.steps:
            for write in step.writes:
                param = owner(write.name, step)
                if id(param) not in params or write.value is None:
                    continue
                added = write.value - held.get(id(param), 0.0)
                held[id(param)] = write.value
                lasts[step.call.number, id(param)] = step, write, param
                call = step.call
                while call is not None:
                    key = call.number, id(param)
                    amounts[key] = amounts.get(key, 0.0) + added
                    call = call.parent
        wrong = {f.name for f in self.walk.finals if not f.right}
        for key, (step, write, param) in lasts.items():
            name = params[key[1]]
            if step.call.pairs and time.monotonic() < self.until:
                error = self._error_of(step.call.pairs[0].number, param, amounts[key])
                replaces = name in wrong and isinstance(step.statement.node, ast.Assign)
                if error < LIMIT or name in wrong:          # what it adds; = for += adds nothing
                    self.of[step.index, write.name] = Verdict(
                        write.name, error < LIMIT and not replaces, error, step, step.call)
        for final in self.walk.finals:                  # what no call could be paired for
            own = [v for (_, i), v in lasts.items() if params[i] == final.name]
            if own and (own[-1][0].index, own[-1][1].name) not in self.of:
                step, write, _ = own[-1]
                self.of[step.index, write.name] = Verdict(
                    write.name, final.right, final.error, step, step.call, kink=final.kink)

    def _error_of(self, call, param, amount):
        """How far `amount` is from the gradient of a parameter as one forward call used it."""
        oracle, weights = self.check.oracle, self.check.weights(self.dout)
        v = stream(0, 6, call).standard_normal(param.data.shape)
        above, below = (oracle._traced(_Moved(call, param.data, way * STEP * v))
                        for way in (1, -1))
        numerical = sum(float((d * (a - b)).sum()) for d, a, b in zip(
            weights, above, below, strict=True) if d is not None) / (2 * STEP)
        scale = max(abs(numerical), float(np.sqrt((amount * amount).sum())), SMALL)
        error = abs(float((amount * v).sum()) - numerical) / scale
        return error if np.isfinite(error) else float("inf")

    def _needed(self, step):
        """Judge a value without a namesake: whether a gradient depends on it."""
        for write in step.writes:
            known = self.of.get((step.index, write.name))
            bound = write.how == "bound" and write.name != "return" and write.value is not None
            if not bound or (known is not None and known.right is not None):
                continue
            if not self.walk.folder.would_show(step):
                continue
            moved = _Swapped(step.index, write.name, stream(0, 7, step.index))
            if any(not f.right and not f.kink for f in self._finals_with(moved)):
                self.of[step.index, write.name] = Needed(write.name, True, 0.0, step, step.call)

    def _finals_with(self, listener):
        """The gradients of a backward in which the listener moves a value; none if it raises."""
        check = self.check
        check.reset()
        handed = copied(self.dout)
        tracer = Tracer(check.oracle.wants, listener)
        listener.tracer = tracer
        try:
            with np.errstate(all="ignore"), kept(check.layer, check.inputs), tracer():
                _, cache = check.forward(check.layer, *check.inputs, **check.options)
                tracer.phase = "backward"
                returned = copied(check.layer.backward(handed, cache))
        except Exception:
            return []
        with np.errstate(all="ignore"):
            return finals(check, returned, self.dout)

    def _returns(self):
        """A helper's computed return is what its caller's line bound, and has that verdict."""
        callers = {}
        for step in self.steps:
            if len(step.statement.binds) == 1 and type(step.statement.node).__name__ == "Assign":
                callers[step.call.number, step.statement, step.first_inner] = step
        for step in self.steps:
            call = step.call
            if not step.statement.is_return or call.parent is None or not is_pass(call):
                continue
            caller = next((c for (n, statement, first), c in callers.items()
                           if n == call.parent.number and statement is call.from_statement
                           and first <= step.index < c.index), None)
            if caller is None or type(caller.statement.node.value).__name__ != "Call":
                continue
            verdict = self.of.get((caller.index, caller.statement.binds[0]))
            if verdict is not None:
                self.of.setdefault((step.index, "return"), verdict)


def owner(source, step):
    """The Param whose `grad` the expression `source` is, in the call of a step; else None."""
    if not source.endswith(".grad"):
        return None
    names = {"self": step.call.owner, **step.call.arguments}
    return look_up(source.removesuffix(".grad"), names)


class _Moved(Listener):
    """Moves a parameter's data by `shift` while one forward call runs."""

    def __init__(self, call, data, shift):
        self.call, self.data, self.shift = call, data, shift
        self.before = data.copy()

    def entered(self, call, names):
        if call.number == self.call:
            self.data += self.shift

    def left(self, call, names):
        if call.number == self.call:
            self.data[...] = self.before
            self.tracer.stop()


class _Swapped(Listener):
    """Moves what the statement with this index in the recording bound to a name."""

    def __init__(self, index, name, rng):
        self.index, self.name, self.rng = index, name, rng
        self.count = 0

    def ran(self, call, statement, names, value):
        self.count += 1
        if self.count == self.index + 1:
            self.tracer.stop()
            return {self.name: self._moved(names[self.name])}

    def raised(self, call, statement, error):
        self.count += 1

    def _moved(self, value):
        if isinstance(value, (tuple, list)):
            return type(value)(self._moved(item) for item in value)
        if not isinstance(value, (np.ndarray, np.floating)):
            return value
        size = MOVE * (np.abs(value).max(initial=0.0) or 1.0)
        return value + size * self.rng.standard_normal(np.shape(value))
