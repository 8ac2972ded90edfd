"""Run a layer's forward and backward for one upstream gradient, and record or replace values.

Runs also compare the gradients with the numerical gradients of a Check.
"""

import contextlib
import time
import warnings

import numpy as np

from npdl.core import NoBias, walk
from npdl.study.containment import is_npdls
from npdl.study.deviation import deviation
from npdl.study.trace.watch import Watch
from npdl.study.trees import copy_tree, map_leaves

CLOSE = 1e-7                    # allowed error of a gradient, relative to its largest entry
LEAST = 1e-3                    # if the largest entry is smaller, errors are relative to this
ZERO = 1e-9                     # a singular value of this relative size counts as 0
SOLVED = 1e-6                   # allowed relative error of a solution of a linear system; a larger
                                # number gives more false candidates


@contextlib.contextmanager
def silence_warnings():
    """Silence the warnings of NumPy and of the module `warnings` in the block."""
    # Entering such a block takes time, so an inner block does nothing.
    if all(what == "ignore" for what in np.geterr().values()):
        yield
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Budget:
    """A limit for the work of a search: computed values, and seconds of processor time.

    The number of values doesn't depend on the machine or its load, so it is the usual limit.
    """

    def __init__(self, left, seconds=np.inf):
        self.left, self.seconds, self.begun = left, seconds, time.process_time()

    def spend(self, values):
        """Subtract computed values from the budget."""
        self.left -= values

    @property
    def over(self):
        """Return True if the budget is spent."""
        return self.left <= 0 or self.took > self.seconds

    @property
    def took(self):
        """Return the processor time in seconds since the budget was made."""
        return time.process_time() - self.begun


@contextlib.contextmanager
def restore_attributes(layer):
    """Restore the attributes of a layer and its parts at the end of the block."""
    held = [(vars(one), dict(vars(one))) for part in walk(layer) for one in (
        part, *(value for value in vars(part).values() if isinstance(value, NoBias)))]
    try:
        yield
    finally:
        for now, before in held:
            now.clear()
            now.update(before)


class Runs:
    """Runs a Subject with one upstream gradient. Each run spends a part of the budget.

    check   the Check of the Subject
    used    the outputs whose upstream gradients are used, as a list of paths
    truth   {name: true gradient}, set by `learn`; unknown entries are NaN
    watch   the Watch of the functions of the layer
    """

    uses_dout = True                # whether backward depends on the upstream gradient

    def __init__(self, check, used, budget, watch=None):
        self.check, self.subject, self.arrays = check, check.subject, check.arrays
        self.used, self.dout, self.truth = used, check.subject.upstream(used), {}
        self.budget, self.costs = budget, {}
        self.watch = watch or Watch(lambda: forward_backward(self.subject, self.dout),
                                    is_npdls(type(self.subject.layer)))

    @contextlib.contextmanager
    def _watched(self, what, options):
        """Watch the block and spend its cost, the number of values that the first such run made."""
        before = self.watch.work
        try:
            if options or what not in self.costs:
                self.watch.start(**options or {"only": ()})
            with silence_warnings():
                yield
        finally:
            self.watch.stop()
            self.budget.spend(self.costs.setdefault(what, self.watch.work - before))

    def outputs(self, **watched):
        """Run forward and return the arrays of its outputs.

        `watched` are the options of Watch.start.
        """
        with self._watched("forward", watched):
            return [np.array(array) for array in self.subject.outputs()]

    def gradients(self, factor=1.0, **watched):
        """Run forward and backward and return {name: gradient}.

        factor   multiplies the upstream gradient
        watched  the options of Watch.start for the backward
        """
        with self._watched("forward", {}):
            _, cache = self.subject.run()
        dout = map_leaves(self.dout, lambda d: None if d is None else d * factor)
        with self._watched("backward", watched):
            found = self.subject.backward(dout, cache, is_random=True)
        return {name: np.zeros(array.shape) if found.get(name) is None else np.asarray(
            found[name], float) for name, array in self.arrays.items()}

    def learn(self, wrong):
        """Take the numerical gradients as true for names in `wrong`, and others as computed."""
        self.truth = self.gradients() | {
            name: self.check.numerical(name, self.used) for name in wrong}

    def wrong(self, found):
        """Return the names of the wrong gradients in `found`, {name: gradient}."""
        return {name for name, true in self.truth.items() if not _is_right(found[name], true)}

    def is_correctable(self, found, free):
        """Return True if the columns of `free` can correct the gradients in `found`.

        Each column is a change of all gradients. Changes may be scaled and added.
        """
        is_shaped = all(found[name].shape == true.shape for name, true in self.truth.items())
        return is_shaped and solve_linear(free, self.short(found))[2]

    def rows(self, names):
        """Return a mask, True for the entries of `short(found)` that belong to these gradients."""
        return np.concatenate([np.full(true.size, name in names)
                               for name, true in self.truth.items()])

    def short(self, found):
        """Return the true minus the found gradients as one vector; unknown entries are 0."""
        parts = []
        for name, true in self.truth.items():
            have = found[name]
            if have.shape != true.shape:
                have = have.reshape(true.shape) if have.size == true.size else \
                    np.broadcast_to(have, true.shape)
            parts.append(np.where(np.isnan(true), 0, true - have).ravel())
        return np.concatenate(parts)


def solve_linear(J, residual):
    """Solve J @ delta = residual and return (delta, is_unique, fits).

    `fits` is True if J @ delta is the residual, up to a relative error of SOLVED.
    """
    delta, _, rank, _ = np.linalg.lstsq(J, residual, rcond=ZERO)
    most = SOLVED * max(np.abs(residual).max(initial=0), LEAST)
    return delta, rank == J.shape[1], bool((np.abs(J @ delta - residual) <= most).all())


def _is_right(value, true):
    """Return True if a gradient agrees with the true one in all entries that are known."""
    if value.shape != true.shape:
        return False
    known = ~np.isnan(true)
    return deviation(value[known], true[known], LEAST) <= CLOSE


def forward_backward(subject, dout):
    """Run the forward and the backward of a Subject."""
    subject.layer.backward(copy_tree(dout), subject.run()[1])
