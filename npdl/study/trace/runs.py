"""Run a layer's forward and backward for one upstream gradient, and record or replace values."""

import contextlib
import time
import warnings

import numpy as np

from npdl.core import NoBias, walk
from npdl.study.containment import is_npdl_class
from npdl.study.relative_error import relative_error
from npdl.study.trace.watch import Watch
from npdl.study.trees import copy_tree, map_leaves

CLOSE = 1e-7                    # allowed error of a gradient, relative to its largest entry
LEAST = 1e-3                    # if the largest entry is smaller, errors are relative to this
ZERO = 1e-9                     # a singular value of this relative size counts as 0
SOLVED = 1e-6                   # allowed relative error of a solution of a linear system; a larger
                                # number gives more false candidates


@contextlib.contextmanager
def silence_warnings():
    """Silence the warnings of NumPy and of the module `warnings` in the `with` block."""
    # Entering such a block takes time, so an inner block does nothing.
    if all(what == "ignore" for what in np.geterr().values()):
        yield
        return
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Budget:
    """A limit for the work of a search.

    left     the number of values that may still be computed; it is the same on all machines
    seconds  a limit of processor time, counted from the creation of the Budget
    """

    def __init__(self, left, seconds=np.inf):
        self.left, self.seconds, self.begun = left, seconds, time.process_time()

    @property
    def is_spent(self):
        """Return True if the budget is spent."""
        return self.left <= 0 or self.elapsed > self.seconds

    @property
    def elapsed(self):
        """Return the processor time in seconds since the Budget was created."""
        return time.process_time() - self.begun


@contextlib.contextmanager
def preserve_attributes(layer):
    """Restore the attributes of a layer and of its sublayers at the end of the `with` block."""
    held = [(vars(one), dict(vars(one))) for part in walk(layer) for one in (
        part, *(value for value in vars(part).values() if isinstance(value, NoBias)))]
    try:
        yield
    finally:
        for now, before in held:
            now.clear()
            now.update(before)


class Runs:
    """Runs a layer with one upstream gradient; each run spends a part of the budget.

    check         a Check (npdl.study.check.verdicts) of the layer, with its numerical gradients
    used_outputs  paths of outputs, such as ("0",); all other outputs have the upstream gradient 0
    truth         {name: true gradient}, set by `set_true_gradients`; unknown entries are NaN
    watch         the Watch, which records and changes the values that the layer's functions compute
    """

    uses_dout = True                # whether backward depends on the upstream gradient

    def __init__(self, check, used_outputs, budget, watch=None):
        self.check, self.subject, self.arrays = check, check.subject, check.arrays
        self.used_outputs, self.dout = used_outputs, check.subject.copy_upstream(used_outputs)
        self.truth, self.budget, self.costs = {}, budget, {}
        self.watch = watch or Watch(lambda: run_forward_backward(self.subject, self.dout),
                                    is_npdl_class(type(self.subject.layer)))

    @contextlib.contextmanager
    def _watch_phase(self, phase, watch_options):
        """Watch the values in the `with` block, and subtract its cost from the budget.

        phase          "forward" or "backward"; the cost is the number of values that the first
                       block of this phase has computed
        watch_options  the options of Watch.start
        """
        before = self.watch.work
        try:
            if watch_options or phase not in self.costs:
                self.watch.start(**watch_options or {"expression_numbers": ()})
            with silence_warnings():
                yield
        finally:
            self.watch.stop()
            self.budget.left -= self.costs.setdefault(phase, self.watch.work - before)

    def compute_outputs(self, **watch_options):
        """Run forward with the options of Watch.start; return the list of its output arrays."""
        with self._watch_phase("forward", watch_options):
            return [np.array(array) for array in self.subject.compute_outputs()]

    def compute_gradients(self, factor=1.0, **watch_options):
        """Run forward and backward and return {name: gradient}.

        factor         multiplies the upstream gradient
        watch_options  the options of Watch.start for the backward
        """
        with self._watch_phase("forward", {}):
            _, cache = self.subject.run_forward()
        dout = map_leaves(self.dout, lambda d: None if d is None else d * factor)
        with self._watch_phase("backward", watch_options):
            found = self.subject.backward(dout, cache)
        return {name: np.zeros(array.shape) if found.get(name) is None else np.asarray(
            found[name], float) for name, array in self.arrays.items()}

    def set_true_gradients(self, numerical_names):
        """Set `truth`: numerical gradients for `numerical_names`, computed ones for others."""
        self.truth = self.compute_gradients() | {
            name: self.check.get_numerical_gradient(name, self.used_outputs)
            for name in numerical_names}

    def find_wrong_gradients(self, gradients):
        """Return the set of the names in {name: gradient} whose gradient is not the true one."""
        return {name for name, true in self.truth.items() if not _is_right(gradients[name], true)}

    def is_correctable(self, gradients, allowed_changes):
        """Return True if a linear combination of the allowed changes corrects all gradients.

        gradients        {name: gradient}
        allowed_changes  a matrix; each column is a change of all entries of all gradients
        """
        is_shaped = all(gradients[name].shape == true.shape for name, true in self.truth.items())
        return is_shaped and solve_linear(allowed_changes, self.compute_residual(gradients))[2]

    def make_gradient_mask(self, names):
        """Return a mask for the vector of compute_residual(), True at the named gradients."""
        return np.concatenate([np.full(true.size, name in names)
                               for name, true in self.truth.items()])

    def compute_residual(self, gradients):
        """Return the true gradients minus the given ones as a vector, 0 at unknown entries."""
        parts = []
        for name, true in self.truth.items():
            have = gradients[name]
            if have.shape != true.shape:
                have = have.reshape(true.shape) if have.size == true.size else \
                    np.broadcast_to(have, true.shape)
            parts.append(np.where(np.isnan(true), 0, true - have).ravel())
        return np.concatenate(parts)


def solve_linear(J, residual):
    """Solve J @ delta = residual by least squares and return (delta, is_unique, is_solved)."""
    delta, _, rank, _ = np.linalg.lstsq(J, residual, rcond=ZERO)
    most = SOLVED * max(np.abs(residual).max(initial=0), LEAST)
    return delta, rank == J.shape[1], bool((np.abs(J @ delta - residual) <= most).all())


def _is_right(gradient, true_gradient):
    """Return True if a gradient agrees with the true one in all entries that are known."""
    if gradient.shape != true_gradient.shape:
        return False
    known = ~np.isnan(true_gradient)
    return relative_error(gradient[known], true_gradient[known], LEAST) <= CLOSE


def run_forward_backward(subject, dout):
    """Run a Subject (a layer with inputs): forward, and backward with the upstream gradient."""
    subject.layer.backward(copy_tree(dout), subject.run_forward()[1])
