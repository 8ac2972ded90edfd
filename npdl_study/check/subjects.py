"""A layer with inputs, ready to be checked: a Subject.

It runs forward and backward in float64, as often as one likes, with the same outcome each time: the
layer is a copy, random numbers are drawn anew from where they began, and what a backward writes
into is put back.
"""

import contextlib
import functools
import inspect
import itertools

import numpy as np

from npdl.backend import stream, to_device
from npdl.core import Param, rebuilt, walk
from npdl.errors import InputError
from npdl_study.check.adapters import InSelf, as_layer, holders
from npdl_study.trees import (
    by_input,
    cast,
    copied,
    dout_of,
    leaves,
    restored,
    same,
    tupled,
    upstream,
)

HELD = 0.3          # of a row that has no gradient


class Unfit(InputError):
    """A forward that no backward can be checked against; `kind` is "aliasing" or "random"."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class NotAPair(InputError):
    """A forward returned something else than its output and a cache."""


class Subject:
    """A layer ready to be checked: a float64 copy with random parameters, and float64 inputs.

    params  {name: Param} of the layer
    arrays  {name: array} of all that has a gradient, parameters by their dotted names, inputs as
            forward names them ("input x", "input state.0"); what is written into one is what the
            next run sees
    dout    random upstream gradients in the nest of the outputs
    paths   the outputs' places in that nest; uses: the lists of those that are used at once
    Raises InputError for what can't be checked: no float output, a forward that gives other
    outputs when it is run again.
    """

    def __init__(self, layer, inputs, options=None, forward=None, seed=0, keep=False):
        self.layer, self.seed = layer.astype("float64"), seed
        self.extra, self.nones = [], set()
        self.inputs, self.options = cast(tuple(inputs), "float64"), options or {}
        if isinstance(self.layer, InSelf) and self.layer.could:
            with contextlib.suppress(Exception), np.errstate(all="ignore"):
                self.layer.find_params(copied(self.inputs), self.options)
        if not keep:
            randomise(self.layer, stream(seed, 77))
        self.forward = forward or functools.partial(forward_of, {})
        self.names = [p.name for p in inspect.signature(layer.forward).parameters.values()
                      if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.bare = bare_arrays(self.layer)
        self._random = generators(self.layer, self.inputs, self.options)
        self._start = [g.bit_generator.state for g in self._random]
        self._global = False                            # whether it draws from NumPy's own
        self.set_up(self._outputs())

    def set_up(self, outputs):
        """Draw the upstream gradients, and name what has gradients."""
        self.dout = upstream(outputs, stream(self.seed, 78))
        self.paths = [path for path, _ in leaves(self.dout)]
        if not self.paths:
            raise InputError(f"{self.name}: forward returned no float array to differentiate")
        self.uses = [self.paths, *([path] for path in self.paths if len(self.paths) > 1)]
        if len(self.paths) > 2:
            self.uses += [[a, b] for i, a in enumerate(self.paths) for b in self.paths[i + 1:]]
        self.arrays, self._alone = self.named_arrays(), {tuple(self.paths): self.dout}

    @property
    def name(self):
        return type(self.layer).__name__

    def anew(self, inputs, draw=0, keep=False):
        """The same with other inputs, and parameters that are drawn anew, or kept."""
        return type(self)(self.layer, inputs, self.options, self.forward, self.seed + draw, keep)

    def run(self):
        """(outputs, cache) of forward; random numbers are those of the first time."""
        returned = self.again(self.layer, *self.inputs, **self.options)
        if not isinstance(returned, tuple) or len(returned) != 2:
            what = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else (
                "nothing" if returned is None else f"one {type(returned).__name__}")
            raise NotAPair(f"{self.name}.forward returned {what}; it must return a pair: its "
                           "output and a Cache")
        return returned

    def again(self, layer, /, *inputs, **options):
        """What forward returns; random numbers are those of the first time."""
        with self._repeated():
            return self.forward(layer, *inputs, **options)

    def outputs(self):
        """The float arrays that forward returns, as a list beside `paths`."""
        return [array for _, array in leaves(self.run()[0])]

    def upstream(self, used):
        """Upstream gradients for the outputs of the paths `used`, the others None or zeros."""
        if tuple(used) not in self._alone:
            with restored(self.params.values(), self.inputs):
                self._alone[tuple(used)] = dout_of(self.layer, self.run, self.dout, used)
        return copied(self._alone[tuple(used)])

    def backward(self, dout, cache, turn=None):
        """({name: gradient}, {name: what param.grad holds}) after one backward.

        It must add to what the gradients hold before it: zeros, or with a `turn` random values,
        others each turn. What it does not return is missing. Parameters and inputs are put back.
        """
        before, rng = {}, stream(self.seed, 79, turn or 0)
        for name, param in self.params.items():
            start = np.zeros(param.shape) if turn is None else rng.standard_normal(param.shape)
            before[name] = np.asarray(start, param.data.dtype)
            param.grad = before[name].copy()
        with restored(self.params.values(), self.inputs), self._repeated():
            returned = copied(self.layer.backward(dout, cache))     # it may be an input
        after = {name: param.grad for name, param in self.params.items()}
        gradients = {name: added(after[name], before[name]) for name in after
                     if name not in getattr(self.layer, "absent", ())}
        return gradients | self.returned(returned), after

    def returned(self, gradients):
        """{name: gradient} of what a backward returned; of one input that is a nest, as that."""
        nest, *more = self.inputs or (None,)
        if isinstance(nest, (tuple, list)) and not more and not (
                isinstance(gradients, tuple) and len(gradients) == 1):
            gradients = (gradients,)
        gradients, _ = by_input(gradients, [any(True for _ in leaves(a)) for a in self.inputs])
        count = len(tupled(gradients))
        gradients = [as_array(g, a) for g, a in itertools.zip_longest(
            tupled(gradients), self.inputs)]
        rest = gradients[max(len(self.inputs), len(self.names)):]   # a state that was not given
        self.extra = [part for g in rest for part in (map(repr, g) if isinstance(g, dict) else [
            f"an array {np.shape(part)}" for _, part in leaves(g)])]
        self.nones = {self.names[i] for i, g in enumerate(gradients) if g is None
                      and i < min(count, len(self.names)) and any(x is not None for x in gradients)}
        return dict(self._named(leaves(gradients[: len(self.inputs)])))

    def named_arrays(self):
        """{name: array} of the parameters and the float inputs."""
        self.params = dict(self.layer.params())
        found = {name: param.data for name, param in self.params.items()}
        return found | {name: array for name, array in self._named(leaves(self.inputs))
                        if isinstance(array, np.ndarray)}

    def notes(self):
        """Sentences on what has no gradient that could be checked."""
        given = self._named((str(i), array) for i, array in enumerate(self.inputs))
        return [f"{name} is {array.dtype}: it has no gradient to check" for name, array in given
                if isinstance(array, np.ndarray) and array.dtype.kind in "iub"] + [
            f"{type(part).__name__}.{name} is an array and no Param: no gradient of it was "
            f"checked; if it is learned, write self.{name} = Param(...), and self.{name}.grad += "
            "in backward" for part, name in self.bare if not isinstance(self.layer, InSelf)]

    def _named(self, found):
        """(path, array) pairs with the name of forward's argument for the first of a path."""
        for path, array in found:
            first, dot, rest = path.partition(".")
            number = int(first)
            name = self.names[number] if number < len(self.names) else first
            yield f"input {name}{dot}{rest}", array

    def _outputs(self):
        """What forward gives; InputError when, run again, it gives something else."""
        with np.errstate(all="ignore"):
            held, state = copied(self.inputs), np.random.get_state()
            outputs = copied(self.run()[0])
            self._global = not same(state[1:3], np.random.get_state()[1:3])
            if self._global:                            # seldom: putting that back takes time
                np.random.set_state(state)
                outputs = copied(self.run()[0])
            if not all(map(same, *([a for _, a in leaves(n)] for n in (held, self.inputs)))):
                raise Unfit("aliasing", f"{self.name}: forward changes its inputs in place: what "
                            "comes after it sees other numbers; write into a new array")
            again = self.run()[0]
        if not all(map(same, *([np.array(a) for _, a in leaves(n)] for n in (outputs, again)))):
            raise Unfit(
                "random", f"{self.name}: forward gives other outputs when it is run again on the "
                "same inputs. Hand over a generator that repeats: forward(self, x, rng), and "
                "sample() returns (layer, (x,), {'rng': npdl_study.check.examples.Repeated(0)}); "
                "or draw from one that forward itself makes anew from a seed. Then run this again")
        return outputs

    @contextlib.contextmanager
    def _repeated(self):
        """Generators, NumPy's global one among them, begin where they began; and are put back."""
        for generator, state in zip(self._random, self._start, strict=True):
            generator.bit_generator.state = state
        held = np.random.get_state() if self._global else None
        if held:
            np.random.seed(self.seed)
        try:
            yield
        finally:
            for generator, state in zip(self._random, self._start, strict=True):
                generator.bit_generator.state = state
            if held:
                np.random.set_state(held)


def added(after, before):
    """What was added to a gradient that held `before`; what was put in its place, where the shape
    is another; None where that is no array of numbers."""
    try:
        found = np.asarray(after, None if np.iscomplexobj(after) else float)
    except (TypeError, ValueError):
        return None
    return found - before if found.shape == before.shape else found


def as_array(gradient, value):
    """The gradient of an input that is an array, as one too: of a list of its rows, of a number.
    Of a nest, such as a state (h, c): the parts' gradients so; an array is them, or each one's."""
    if isinstance(value, (tuple, list)):
        if isinstance(gradient, (np.ndarray, np.generic, int, float)):
            rows = np.shape(gradient)[:1] == (len(value),)
            gradient = list(gradient) if rows else [gradient] * len(value)
        nests = isinstance(gradient, (tuple, list)) and len(gradient) == len(value)
        return rebuilt(gradient, list(map(as_array, gradient, value))) if nests else gradient
    if not isinstance(value, np.ndarray) or gradient is None:
        return gradient
    if isinstance(gradient, (tuple, list)) and len(gradient) == 1 != len(value):
        gradient = gradient[0]
    try:
        return np.asarray(gradient, float)
    except (TypeError, ValueError):
        return gradient


def subject_of(thing, inputs=(), options=None, forward=None, seed=0, keep=False):
    """The Subject of a layer, of an object whose cache is in self, or of a pair of functions.

    inputs   what forward takes; options: its keywords, a dict
    forward  a function in place of thing.forward, called with the layer first
    keep     True leaves the parameters as they are instead of randomising them
    """
    return Subject(as_layer(thing), inputs, options, forward, seed, keep)


def forward_of(known, layer, /, *inputs, **options):
    """layer.forward, for what takes a function in its place. The row of a padding_id is held: its
    gradient is 0 by definition. `known` keeps the tables that have one, {id: (layer, tables)}."""
    if id(layer) not in known:
        known[id(layer)] = layer, [
            part for part in walk(layer) if getattr(part, "padding_id", None) is not None
            and isinstance(getattr(part, "W", None), Param)]
    with contextlib.ExitStack() as stack:
        for part in known[id(layer)][1]:
            vars(part)["forward"] = functools.partial(_padded, part, type(part).forward)
            stack.callback(vars(part).pop, "forward")
        return layer.forward(*inputs, **options)


def _padded(part, forward, *inputs, **options):
    """Forward of a table of vectors, the row of its padding_id being what no run changes."""
    table = part.W.data
    part.W.data = table.copy()
    part.W.data[part.padding_id] = HELD
    try:
        return forward(part, *inputs, **options)
    finally:
        part.W.data = table


def randomise(layer, rng, scale=0.5):
    """Give every parameter normal values; vectors around 1, so that gains are not near zero."""
    for _, param in layer.params():
        centre = 1.0 if param.data.ndim == 1 else 0.0
        param.data[...] = to_device(centre + scale * rng.standard_normal(param.data.shape))


def bare_arrays(layer):
    """(part, name) of the float arrays that a user's layer holds now, in no Param."""
    learned = [param.data for _, param in layer.params()]
    return [(part, name) for part in holders(layer) if not type(part).__module__.startswith("npdl.")
            for name, value in vars(part).items()
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size
            and not any(value is data for data in learned)]


def generators(layer, inputs, options):
    """The NumPy generators that a forward may draw from: handed to it, held by the layer and its
    parts, or named where its code stands."""
    holders = [dict(enumerate(inputs)), options, *(vars(part) for part in walk(layer))]
    if isinstance(layer, InSelf):
        holders += [getattr(layer.made, "__dict__", {})]
    own = layer.made if isinstance(layer, InSelf) else layer
    if not type(own).__module__.startswith("npdl."):
        holders += [getattr(getattr(own, "run", own.forward), "__globals__", {})]
    return list({id(value): value for held in holders for value in list(held.values())
                 if isinstance(value, np.random.Generator)}.values())
