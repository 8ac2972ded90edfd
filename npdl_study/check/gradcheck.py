"""The gradient check: a layer's backward against central differences, in float64.

    report = gradcheck(LSTM(3, 5, num_layers=2), x)
    print(report)                       # the worst error of every gradient, with its place
    assert report.worst < 1e-7

Parameters are randomised first, gains and biases too: at its starting values a wrong backward
can look right (a LayerNorm that is off by half passes while its gain is 1). The upstream
gradient is random. Every parameter, every float input and every initial state is compared entry
by entry, and each output of the layer is also used alone. Gradients start from random values, so a
backward that overwrites instead of adding is found too.

Where a gradient is wrong, the report says in which gate, slice or time step, and in what way
when that can be told (npdl_study.check.explain). How the backward treats what it is handed is looked at
too (npdl_study.check.manners): what it writes into, strided gradients, a second run, float32.
"""

import itertools
from dataclasses import dataclass, field

import numpy as np

from npdl.backend import is_host, stream, to_device
from npdl.errors import InputError
from npdl_study.check.manners import manners
from npdl_study.trace.record import forward_of
from npdl_study.trees import alone, cast, is_float, kept, leaves, placed, same, upstream

STEP = 5e-4
LIMIT = 1e-7
# Errors are relative to the largest entry of the gradient, but to no less than this: some
# gradients are exactly zero (that of an attention's key bias), and rounding is never.
SMALL = 1e-3


@dataclass
class Row:
    """One gradient: its name, the worst relative error, where it is, and both values there.

    When it is wrong, `place` says which part of it is ("b[3:6], the forget gate"), `kind` in a
    word what is wrong ("sign", "factor", ...; "unknown" where no pattern fits), `diagnosis` in a
    sentence. `used` names the output that was used alone, if it was wrong then.
    """

    name: str
    error: float
    index: tuple
    computed: float
    numerical: float
    place: str = ""
    kind: str = ""
    diagnosis: str = ""
    used: str = ""


@dataclass(repr=False)
class Report:
    """The rows of a check, worst first when printed; `faults` that no row shows, in sentences,
    and what could not be checked. A fault makes `worst` infinite.
    """

    rows: list = field(default_factory=list)
    faults: list = field(default_factory=list)
    unchecked: list = field(default_factory=list)

    @property
    def worst(self):
        return np.inf if self.faults else max((row.error for row in self.rows), default=0.0)

    def ok(self, limit=LIMIT):
        return self.worst <= limit

    def __repr__(self):
        return str(self)

    def __str__(self):
        width = max([len(row.name) for row in self.rows] + [8])
        lines = [f"{'gradient':<{width}}  {'error':>9}  worst entry"]
        for row in sorted(self.rows, key=lambda row: -row.error):
            lines.append(
                f"{row.name:<{width}}  {row.error:9.1e}  {list(map(int, row.index))}: "
                f"computed {row.computed:.9g}, numerical {row.numerical:.9g}"
            )
            if row.diagnosis:
                used = f"with output {row.used} used alone, " if row.used else ""
                lines.append(f"    {row.place}: {used}{row.diagnosis}")
        lines += [f"wrong: {fault}" for fault in self.faults]
        return "\n".join(lines + [f"not checked: {what}" for what in self.unchecked])


def randomise(layer, rng, scale=0.5):
    """Give every parameter normal values; vectors around 1, so that gains are not near zero."""
    for _, param in layer.params():
        centre = 1.0 if param.data.ndim == 1 else 0.0
        param.data[...] = to_device(centre + scale * rng.standard_normal(param.data.shape))


def gradcheck(layer, *inputs, **how):
    """Compare every gradient of `layer` with central differences; return a Report.

    inputs   what forward takes: arrays, or tuples of arrays such as an LSTM's state; integer
             arrays and None get no gradient. Float arrays are taken in float64.
    forward  a function in place of layer.forward, called as forward(*inputs, **options); it must
             return (outputs, cache) as the layer does
    keep     True leaves the parameters as they are instead of randomising them
    entries  check at most this many entries of each array, chosen at random
    each_output  False leaves out the backwards with one output, or two of several, used alone
    bare     True hands over the gradient of the first output, used alone, as a bare array
    seed, step   of the random numbers; of the differences
    For outputs that are not used the backward is handed None if it takes that, as npdl's own layers
    do, else zeros. InputError when forward, run again, gives something else,
    and under the backend 'cupy'.
    Other keywords are forward's own. The layer is copied to float64; the caller's layer and
    arrays stay as they are.
    """
    if not is_host():
        raise InputError("gradcheck works on NumPy only, and the backend is 'cupy'; check there, "
                         "and compare the device's gradients with NumPy's (docs/gpu.md)")
    return GradientCheck(layer, *inputs, **how).report()


@dataclass
class Comparison:
    """One gradient's checked entries: their indices, and both values of each.

    `used` are the paths of the outputs that were used, all of them or one alone.
    """

    name: str
    used: list
    indices: list
    computed: np.ndarray
    numerical: np.ndarray

    @property
    def errors(self):
        size = max(np.abs(self.computed).max(), np.abs(self.numerical).max(), SMALL)
        errors = np.abs(self.computed - self.numerical) / size
        errors[~np.isfinite(errors)] = np.inf
        return errors

    def row(self):
        if not self.indices:
            return Row(self.name, 0.0, (), 0.0, 0.0)
        at = int(self.errors.argmax())
        return Row(self.name, float(self.errors[at]), self.indices[at],
                   float(self.computed[at]), float(self.numerical[at]))


class GradientCheck:
    """A layer, its inputs and their numerical gradients, computed once.

    `report()` and `passes()` run the backward that the layer has now. Arguments as gradcheck.
    """

    def __init__(self, layer, *inputs, seed=0, step=STEP, forward=None, each_output=True,
                 keep=False, entries=None, bare=False, **options):
        rng = stream(seed, 77)
        self.layer = layer = layer.astype("float64")
        if not keep:
            randomise(layer, rng)
        self.inputs = inputs = cast(inputs, "float64")
        self.forward = forward or forward_of
        self.run = lambda: self.forward(layer, *inputs, **options)
        self.options = options
        self.seed, self.step, self.bare = seed, step, bare
        self.dout = upstream(self._outputs(), rng)
        self.paths = [path for path, _ in leaves(self.dout)]
        self.alone = {tuple(self.paths): self.dout}
        if not self.paths:
            raise InputError("gradcheck: forward returned no float array to differentiate")
        self.arrays = {name: param.data for name, param in layer.params()}
        self.arrays |= {f"input {path}": array for path, array in leaves(inputs)}
        self.slopes = {name: {index: np.array([part.sum() for part in self.parts(name, index)])
                              for index in _indices(array, rng, entries)}
                       for name, array in self.arrays.items()}
        counts = range(1, min(len(self.paths), 3)) if each_output else ()
        self.uses = [self.paths, *(list(some) for count in counts
                                   for some in itertools.combinations(self.paths, count))]

    def _outputs(self):
        """What forward gives; InputError when, run again, it gives something else."""
        outputs = self.run()[0]
        before = [np.array(array) for _, array in leaves(outputs)]
        after = [np.array(array) for _, array in leaves(self.run()[0])]
        if not all(map(same, before, after)):
            from npdl_study.check.check import other_outputs
            raise InputError("gradcheck: " + (
                other_outputs(self.layer, self.inputs, self.options, self.forward)
                or "forward gives other outputs when it is run again on the same inputs"))
        return outputs

    def report(self):
        """The Report: for each gradient its worst row, explained when it is wrong."""
        found = list(self.comparisons())
        rows = []
        for name in self.arrays:
            own = [c for c in found if c.name == name]
            row = max((c.row() for c in own), key=lambda row: row.error)
            rows.append(row if row.error <= LIMIT else self._explained(own))
        right = all(row.error <= LIMIT for row in rows)
        return Report(rows, *(manners(self) if right and not self.bare else ()))

    def _explained(self, comparisons):
        """The row of a wrong gradient: of the first use of the outputs that can be explained."""
        from npdl_study.check.explain import explain
        wrong = [c for c in comparisons if c.row().error > LIMIT]
        says = [explain(self, c) for c in wrong]
        at = next((i for i, (_, kind, _) in enumerate(says) if kind != "unknown"), 0)
        row = wrong[at].row()
        row.place, row.kind, row.diagnosis = says[at]
        row.used = " and ".join(wrong[at].used) if wrong[at].used != self.paths else ""
        return row

    def passes(self, limit=LIMIT):
        """Whether every gradient is right; stops at the first that is not."""
        return all(c.row().error <= limit for c in self.comparisons())

    def comparisons(self):
        """Yield a Comparison for every gradient, with all outputs used and with each alone."""
        for used in self.uses:
            gradients, _ = self.backward(used)
            for name in self.arrays:
                yield self._compare(name, gradients.get(name), used)

    def backward(self, used, turn=0):
        """({name: gradient}, {name: what param.grad holds}) after one backward.

        It must add to what the gradients hold before it: random values, others each `turn`.
        """
        rng, before, dout = stream(self.seed, 78, turn), {}, self._alone(tuple(used))
        _, cache = self.run()
        for name, param in self.layer.params():
            param.grad[...] = before[name] = rng.standard_normal(param.data.shape)
        if self.bare and used == self.paths[:1] != self.paths and is_float(dout[0]):
            dout = dout[0]
        with kept(self.layer, self.inputs):
            returned = self.layer.backward(cast(dout, "float64"), cache)
        returned, _ = placed(returned, [any(True for _ in leaves(a)) for a in self.inputs])
        returned = returned if isinstance(returned, tuple) else (returned,)
        after = {name: param.grad.copy() for name, param in self.layer.params()}
        gradients = {name: after[name] - before[name] for name in after}
        return gradients | {f"input {path}": g for path, g in leaves(returned)}, after

    def _alone(self, used):
        if used not in self.alone:
            with kept(self.layer, self.inputs):
                self.alone[used] = alone(self.layer, self.run, self.dout, used)
        return self.alone[used]

    def _compare(self, name, gradient, used):
        shape = self.arrays[name].shape
        if gradient is None:
            raise InputError(f"gradcheck: backward returned no gradient for {name}")
        if gradient.shape != shape:
            turned = "; it is transposed" if gradient.shape == shape[::-1] else ""
            raise InputError(f"gradcheck: the gradient of {name} has shape {gradient.shape}, "
                             f"the array itself {shape}{turned}")
        indices, columns = list(self.slopes[name]), [self.paths.index(path) for path in used]
        numerical = np.array([self.slopes[name][index][columns].sum() for index in indices])
        return Comparison(name, used, indices, np.array([gradient[i] for i in indices]), numerical)

    def parts(self, name, index):
        """The numerical gradient of one entry, in the parts that each entry of each output adds.

        (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h is off by h^4 where the plain
        (f(h) - f(-h)) / 2h is off by h^2; so h can be large enough that rounding does not show.
        Outputs are subtracted before they are summed, which keeps their last digits.
        """
        array, step = self.arrays[name], self.step
        middle = array[index]

        def outputs(distance):
            array[index] = middle + distance
            found = dict(leaves(self.run()[0]))
            copies = [np.array(found[path]) for path in self.paths]  # an output may be the input
            array[index] = middle
            return copies

        around = [outputs(distance) for distance in (step, -step, 2 * step, -2 * step)]
        return [d * (8 * (a - b) - (c - e)) / (12 * step)
                for (_, d), a, b, c, e in zip(leaves(self.dout), *around, strict=True)]


def _indices(array, rng, entries):
    """The entries to check: all, or at most `entries` of them."""
    indices = list(np.ndindex(array.shape))
    if entries is None or len(indices) <= entries:
        return indices
    return [indices[i] for i in rng.choice(len(indices), entries, replace=False)]
