"""What can be checked, made into one kind of thing: a Subject.

    y, cache = layer.forward(x)           dx = layer.backward(dy, cache)         a Layer
    y = layer.forward(x)                  dx = layer.backward(dy)                cache in self
    y, cache = f_forward(x, w)            dx, dw = f_backward(dy, cache)         two functions

A class whose cache is in self may keep what it learns as Params, in lists or dicts `params` and
`grads`, or as W beside dW, its parts too. Layers that draw random numbers draw the same ones at
every run.
"""

import contextlib
import copy
import inspect

import numpy as np

from npdl.backend import stream
from npdl.core import Cache, Layer, Param, items_of, walk
from npdl.errors import InputError
from npdl_study.trees import (
    alone,
    cast,
    copied,
    kept,
    leaves,
    placed,
    rebuilt,
    same,
    tupled,
    upstream,
)


class Unfit(InputError):
    """A forward that no backward can be checked against; `kind` is "aliasing" or "random"."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Subject:
    """A layer ready to be checked: a float64 copy with random parameters, and float64 inputs.

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
        if not keep:
            randomise(self.layer, stream(seed, 77))
        self.inputs, self.options = cast(tuple(inputs), "float64"), options or {}
        self.forward = forward or forward_of
        self.names = [p.name for p in inspect.signature(layer.forward).parameters.values()
                      if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.bare = [] if isinstance(self.layer, InSelf) else bare_arrays(self.layer)
        self._random = generators(self.layer, self.inputs, self.options)
        self._start = [g.bit_generator.state for g in self._random]
        outputs = self._outputs()
        self.dout = upstream(outputs, stream(seed, 78))
        self.paths = [path for path, _ in leaves(self.dout)]
        if not self.paths:
            raise InputError(f"{self.name}: forward returned no float array to differentiate")
        self.uses = [self.paths, *([path] for path in self.paths if len(self.paths) > 1)]
        if len(self.paths) > 2:
            self.uses += [[a, b] for i, a in enumerate(self.paths) for b in self.paths[i + 1:]]
        self.arrays = self.named_arrays()
        self._alone = {tuple(self.paths): self.dout}

    @property
    def name(self):
        return type(self.layer).__name__

    def run(self):
        """(outputs, cache) of forward; random numbers are those of the first time."""
        returned = self.again(self.layer, *self.inputs, **self.options)
        if not isinstance(returned, tuple) or len(returned) != 2:
            what = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else (
                "nothing" if returned is None else f"one {type(returned).__name__}")
            raise InputError(f"{self.name}.forward returned {what}; it must return a pair: its "
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
            with kept(self.layer, self.inputs):
                self._alone[tuple(used)] = alone(self.layer, self.run, self.dout, used)
        return copied(self._alone[tuple(used)])

    def backward(self, dout, cache, turn=None):
        """({name: gradient}, {name: what param.grad holds}) after one backward.

        It must add to what the gradients hold before it: zeros, or with a `turn` random values,
        others each turn. What it does not return is missing. Parameters and inputs are put back.
        """
        before, rng = {}, stream(self.seed, 79, turn or 0)
        for name, param in self.layer.params():
            start = np.zeros(param.shape) if turn is None else rng.standard_normal(param.shape)
            before[name] = np.asarray(start, param.data.dtype)
            param.grad = before[name].copy()
        with kept(self.layer, self.inputs), self._repeated():
            returned = copied(self.layer.backward(dout, cache))     # it may be an input
        after = {name: param.grad for name, param in self.layer.params()}
        gradients = {name: np.asarray(after[name]) - before[name] for name in after}
        return gradients | self.returned(returned), after

    def returned(self, gradients):
        """{name: gradient} of what a backward returned."""
        gradients, _ = placed(gradients, [any(True for _ in leaves(a)) for a in self.inputs])
        return dict(self._named(leaves(tupled(gradients))))

    def named_arrays(self):
        """{name: array} of the parameters and the float inputs."""
        found = {name: param.data for name, param in self.layer.params()}
        return found | {name: array for name, array in self._named(leaves(self.inputs))
                        if isinstance(array, np.ndarray)}

    def notes(self):
        """Sentences on what has no gradient that could be checked."""
        given = self._named((str(i), array) for i, array in enumerate(self.inputs))
        return [f"{name} is {array.dtype}: it has no gradient to check" for name, array in given
                if isinstance(array, np.ndarray) and array.dtype.kind in "iub"] + [
            f"{type(part).__name__}.{name} is an array and no Param: no gradient of it was "
            f"checked; if it is learned, write self.{name} = Param(...), and self.{name}.grad += "
            "in backward" for part, name in self.bare]

    def _named(self, found):
        """(path, array) pairs with the name of forward's argument for the first of a path."""
        for path, array in found:
            first, dot, rest = path.partition(".")
            number = int(first)
            name = self.names[number] if number < len(self.names) else first
            yield f"input {name}{dot}{rest}", array

    def longer(self):
        """The Subject on inputs with one more axis in front, of a size that no other has; None
        where forward does not take them: does not make of each what it would make of it alone."""
        arrays = [a for a in self.inputs if isinstance(a, np.ndarray)]
        if isinstance(self.layer, Functions) or not any(a.ndim for a in arrays):
            return None
        size = next(k for k in (2, 3, 5, 4, 6) if k not in {n for a in arrays for n in a.shape}
                    or k == 6)
        twin = copy.copy(self)
        twin.inputs = more(self.inputs, size)
        try:
            with np.errstate(all="ignore"):
                outputs, _ = twin.run()
                apart = []
                for i in range(size):
                    twin.inputs = slice_of(self.inputs, i, size)
                    apart.append(twin.outputs())
                twin.inputs = more(self.inputs, size)
        except Exception:
            return None
        for (_, found), *alone in zip(leaves(outputs), *apart, strict=True):
            if np.shape(alone[0]) and (np.shape(found) != (size, *np.shape(alone[0]))
                                       or not np.allclose(found, alone)):
                return None
        twin.dout = upstream(outputs, stream(self.seed, 78))
        twin.arrays, twin._alone = twin.named_arrays(), {tuple(self.paths): twin.dout}
        return twin

    def _outputs(self):
        """What forward gives; InputError when, run again, it gives something else."""
        with np.errstate(all="ignore"):
            held = copied(self.inputs)
            outputs = copied(self.run()[0])
            if not all(map(same, *([a for _, a in leaves(n)] for n in (held, self.inputs)))):
                raise Unfit("aliasing", f"{self.name}: forward changes its inputs in place: what "
                            "comes after it sees other numbers; write into a new array")
            again = self.run()[0]
        if not all(map(same, *([np.array(a) for _, a in leaves(n)] for n in (outputs, again)))):
            raise Unfit(
                "random", f"{self.name}: forward gives other outputs when it is run again on the same "
                "inputs. Hand over a generator that repeats: forward(self, x, rng), and sample() "
                "returns (layer, (x,), {'rng': npdl_study.check.samples.Repeated(0)}); or draw "
                "from one that forward itself makes anew from a seed. Then run this again")
        return outputs

    @contextlib.contextmanager
    def _repeated(self):
        """Generators, NumPy's global one among them, begin where they began; and are put back."""
        for generator, state in zip(self._random, self._start, strict=True):
            generator.bit_generator.state = state
        held = np.random.get_state() if self._random_globally else None
        if held:
            np.random.seed(self.seed)
        try:
            yield
        finally:
            for generator, state in zip(self._random, self._start, strict=True):
                generator.bit_generator.state = state
            if held:
                np.random.set_state(held)

    @property
    def _random_globally(self):
        return not type(self.layer).__module__.startswith("npdl.")


def subject_of(thing, inputs=(), options=None, forward=None, seed=0, keep=False):
    """The Subject of a layer, of an object whose cache is in self, or of a pair of functions.

    inputs   what forward takes; options: its keywords, a dict
    forward  a function in place of thing.forward, called with the layer first
    keep     True leaves the parameters as they are instead of randomising them
    """
    return Subject(as_layer(thing), inputs, options, forward, seed, keep)


def more(nest, size):
    """Arrays with one more axis in front: the same numbers, a little larger each, or rolled."""
    if isinstance(nest, (tuple, list)):
        return rebuilt(nest, [more(item, size) for item in nest])
    if not isinstance(nest, np.ndarray) or not nest.ndim:
        return nest
    if nest.dtype.kind != "f":
        return np.stack([np.roll(nest, i) for i in range(size)])
    return np.stack([nest * factor for factor in np.linspace(0.7, 1.3, size)])


def slice_of(nest, i, size):
    """The i-th slice of what `more` returns."""
    if isinstance(nest, (tuple, list)):
        return rebuilt(nest, [slice_of(item, i, size) for item in nest])
    return more(nest, size)[i] if isinstance(nest, np.ndarray) and nest.ndim else nest


def as_layer(thing):
    """A Layer of what can be checked. Raises InputError for anything else."""
    if isinstance(thing, tuple) and len(thing) == 2 and all(map(callable, thing)):
        return functions(getattr(thing[0], "__name__", "f"), *thing)()
    if not inspect.isclass(thing) and keeps_cache_in_self(type(thing)):
        return thing if isinstance(thing, InSelf) else in_self(type(thing))(thing, made=True)
    if not isinstance(thing, Layer):
        raise InputError(f"a layer is needed, not {type(thing).__name__}; give an instance of a "
                         "class such as class Mine(Layer)")
    if "params" in vars(thing):
        raise InputError(f"{type(thing).__name__}.params hides the method params() of Layer, which "
                         "lists what is learned: give it another name, self.p = {'W': Param(...)}")
    refuse_cycle(thing)
    return thing


def refuse_cycle(layer, around=(), path="self"):
    """Raise InputError for a layer that holds itself."""
    if any(layer is other for other in around):
        raise InputError(f"{type(layer).__name__} holds itself, as {path}: parameters could not "
                         "be counted to an end; hold the parts of a layer, not the layer they "
                         "belong to")
    for name, child in layer.children():
        refuse_cycle(child, (*around, layer), f"{path}.{name}")


def forward_of(layer, /, *inputs, **options):
    """layer.forward, for what takes a function in its place."""
    return layer.forward(*inputs, **options)


def randomise(layer, rng, scale=0.5):
    """Give every parameter normal values; vectors around 1, so that gains are not near zero."""
    for _, param in layer.params():
        centre = 1.0 if param.data.ndim == 1 else 0.0
        param.data[...] = centre + scale * rng.standard_normal(param.data.shape)


def bare_arrays(layer):
    """(part, name) of the float arrays that a user's layer holds before it has run."""
    return [(part, name) for part in walk(layer) if not type(part).__module__.startswith("npdl.")
            for name, value in vars(part).items()
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size]


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


class Functions(Layer):
    """Two functions as a layer without parameters: each array that forward takes is an input."""

    def forward(self, *inputs, **options):
        returned = self.run(*inputs, **options)
        if not isinstance(returned, tuple) or len(returned) < 2:
            raise InputError(f"{self.run.__name__} must return its output and a cache: "
                             "return out, cache")
        *outputs, cache = returned
        return (outputs[0] if len(outputs) == 1 else tuple(outputs)), cache

    def backward(self, dout, cache):
        douts = dout if isinstance(dout, tuple) and _needs(self.undo) > 2 else (dout,)
        return tupled(self.undo(*douts, cache))


def functions(name, forward, backward, sample=None):
    """A Layer class of two functions; `sample()` returns forward's arguments."""
    def run(self, *inputs, **options):
        return Functions.forward(self, *inputs, **options)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(forward)
    run.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])
    body = {"forward": run, "run": staticmethod(forward), "undo": staticmethod(backward),
            "__module__": forward.__module__, "__doc__": forward.__doc__}
    if sample is not None:
        body["sample"] = classmethod(lambda cls: (cls(), sample()))
    return type(name, (Functions,), body)


class InSelf(Layer):
    """A layer that keeps its cache in itself: backward(dout), after a forward that returns out."""

    def __init__(self, made):
        self.made = made
        self.held = {} if isinstance(made, Layer) else {
            name: value if isinstance(value, Param) else Param(value)
            for name, (value, _) in learned(made).items()}

    def params(self, frozen=False):
        yield from self.made.params(frozen) if isinstance(self.made, Layer) else self.held.items()

    def forward(self, *inputs, **options):
        returned = self.made.forward(*inputs, **options)
        if isinstance(returned, tuple) and isinstance(returned[-1], Cache):
            raise InputError(f"{type(self.made).__name__}.forward returns a cache, and its "
                             "backward takes none: write backward(self, dy, cache)")
        return returned, self.made

    def backward(self, dout, cache):
        several = isinstance(dout, tuple) and _needs(self.made.backward) > 1
        bare = {name: read for name, (value, read) in
                ({} if isinstance(self.made, Layer) else learned(self.made)).items()
                if not isinstance(value, Param)}
        for read in bare.values():
            gradient = read({})
            if isinstance(gradient, np.ndarray):
                gradient[...] = 0                       # some write into it, some add
        returned = self.made.backward(*(dout if several else (dout,)))
        given = [g for g in tupled(returned) if isinstance(g, dict)]
        for name, read in bare.items():
            gradient = read(given[0] if given else {})
            if gradient is None:
                raise InputError(f"{type(self.made).__name__}.backward leaves no gradient of "
                                 f"{name}: write self.d{name} = ..., or self.grads as self.params")
            self.held[name].grad += gradient
        rest = tuple(g for g in tupled(returned) if not isinstance(g, dict))
        return rest if isinstance(returned, tuple) and len(rest) != 1 else (rest or (None,))[0]

    def _copy(self, copy_param, memo, copy_array=lambda array: array):
        if isinstance(self.made, Layer):
            return super()._copy(copy_param, memo, copy_array)
        found = {}
        for name, (value, _) in learned(self.made).items():
            twin = copy_param(self.held[name])
            found[id(value)] = twin if isinstance(value, Param) else twin.data
        return type(self)(copy.deepcopy(self.made, found), made=True)


def in_self(cls):
    """A Layer class that runs a class whose cache is in self."""
    def __init__(self, *arguments, made=False, **keywords):
        InSelf.__init__(self, arguments[0] if made else cls(*arguments, **keywords))

    def forward(self, *inputs, **options):
        return InSelf.forward(self, *inputs, **options)

    __init__.__signature__ = inspect.signature(cls.__init__)
    forward.__signature__ = inspect.signature(cls.forward)
    body = {"__init__": __init__, "forward": forward, "__module__": cls.__module__,
            "__doc__": cls.__doc__}
    if hasattr(cls, "sample"):
        def sample(own):
            first, *rest = cls.sample()
            return (own(first, made=True), *rest)
        body["sample"] = classmethod(sample)
    return type(cls.__name__, (InSelf,), body)


def learned(made):
    """{name: (array or Param, read)} of what an object that is no Layer learns.

    read(given) finds its gradient after a backward that returned, in a dict `given`, those that
    it leaves nowhere else; None where there is none.
    """
    values = getattr(made, "params", None)
    if isinstance(values, (dict, list, tuple)) and values:
        def read(key):
            return lambda given: _at(getattr(made, "grads", None), key, given.get(key))
        named = isinstance(values, dict)
        return {str(key) if named else f"params[{key}]": (array, read(key))
                for key, array in (values.items() if named else enumerate(values))}
    found = {}
    for path, owner, name, value in _attributes(made):
        if isinstance(value, Param):
            found[path] = value, None
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            if not hasattr(owner, name[1:]) and (f"d{name}" in _named_in(type(owner))
                                                 or hasattr(owner, f"d{name}")):
                found[path] = value, _attribute(owner, f"d{name}")
    return {path: held for i, (path, held) in enumerate(found.items())
            if not any(held[0] is other for other, _ in list(found.values())[:i])}


def _attribute(owner, name):
    return lambda given: getattr(owner, name, None)


def _at(nest, key, otherwise):
    try:
        return nest[key]
    except (KeyError, IndexError, TypeError):
        return otherwise


def _attributes(made, path="", around=()):
    """(dotted path, owner, name, value) of an object's attributes and those of its parts."""
    for name, value in list(vars(made).items()):
        for at, item in items_of(value, f"{path}{name}"):
            if isinstance(item, Layer):
                yield from ((f"{at}.{n}", made, name, p) for n, p in item.params())
            elif hasattr(item, "backward") and hasattr(item, "__dict__"):
                if not any(item is other for other in (made, *around)):
                    yield from _attributes(item, f"{at}.", (made, *around))
            else:
                yield at, made, name, item


def _named_in(cls):
    """The attributes of self that a class's methods name."""
    return {name for base in cls.__mro__ for value in vars(base).values()
            if inspect.isfunction(value) for name in value.__code__.co_names}


def keeps_cache_in_self(cls):
    """Whether a class's backward takes a gradient alone; or, of a class that is no Layer, several,
    by their names (dh_next, dc_next)."""
    if issubclass(cls, InSelf):
        return True
    backward = getattr(cls, "backward", None)
    if issubclass(cls, Functions) or not inspect.isfunction(backward) or backward is Layer.backward:
        return False
    names = list(inspect.signature(backward).parameters)[1:]
    several = not issubclass(cls, Layer) and bool(names) and all(
        name.startswith(("d", "g")) or name.endswith(("_grad", "_bar")) for name in names)
    return _needs(backward) == 2 or several


def _needs(function):
    """How many positional arguments a function needs."""
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
               for p in inspect.signature(function).parameters.values())
