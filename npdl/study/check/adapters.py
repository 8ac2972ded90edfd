"""Make a Layer of code that is not written as npdl's layers are.

    y, cache = layer.forward(x)           dx = layer.backward(dy, cache)         a Layer, as it is
    y = layer.forward(x)                  dx = layer.backward(dy)                cache in self
    layer.forward(x)                      layer.backward(dy)     leave self.output and self.dx
    y, cache = f_forward(x, w)            dx, dw = f_backward(dy, cache)         two functions

A class may have `__call__` in place of `forward`. A loss's backward may take no gradient. Functions
may return their gradients in a dict: {"dx": dx}. `learned` finds the parameters of objects.
"""

import contextlib
import copy
import inspect

import numpy as np

from npdl.core import Cache, Layer, Param, walk
from npdl.errors import InputError
from npdl.study.check.learned import after_first_forward, candidates, constants, gradient_key
from npdl.study.trees import tupled

CACHES = ("cache", "caches", "ctx", "memory")       # an argument that is a cache, if it is first


class Unfit(InputError):
    """Code whose gradients can't be checked, although it may be right."""


def as_layer(thing):
    """Return a Layer for a layer, an object or a pair of functions; raise InputError for others."""
    if isinstance(thing, tuple) and len(thing) == 2 and all(map(callable, thing)):
        return functions(getattr(thing[0], "__name__", "f"), *thing)()
    if inspect.isclass(thing) or not is_layer_class(type(thing)):
        name = getattr(thing, "__name__", type(thing).__name__)
        how = "give the pair (f_forward, f_backward)" if inspect.isfunction(thing) else \
            "give an instance of a class with forward and backward"
        raise InputError(f"{name} is not a layer; {how}")
    if isinstance(thing, Layer):
        try:
            list(walk(thing))
        except RecursionError:
            raise InputError(f"{type(thing).__name__} contains itself; a layer may hold its parts, "
                             "but not the layer that it belongs to") from None
    own = type(thing).backward
    is_written = isinstance(thing, Adapter) or isinstance(thing, Layer) and (
        own is Layer.backward or len(gradient_arguments(own)) != 2)
    cls = type(thing)
    return thing if is_written else named(InSelf, cls.__name__, cls, forward_of(thing))(thing)


def is_layer_class(cls):
    """Return True for a class with a forward, or a `__call__`, and a backward."""
    return issubclass(cls, Layer) or inspect.isfunction(
        getattr(cls, "backward", None)) and inspect.isfunction(forward_of(cls))


def forward_of(thing):
    """Return the forward of a class or an object, which may be its __call__."""
    return getattr(thing, "forward", None) or getattr(thing, "__call__", None)  # noqa: B004


def gradient_arguments(backward):
    """Return the positional arguments of a backward, flags left out: gradients and a cache."""
    return [p for p in inspect.signature(backward).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
            and not isinstance(p.default, bool)]


def takes_cache(backward):
    """Return True if an argument of a bound backward is, by its name, a cache and no gradient."""
    names = [p.name for p in gradient_arguments(backward)]
    return len(names) > 1 and (names[0] in CACHES or not (
        names[-1].startswith(("d", "g")) or names[-1].endswith("_grad")))


def split(returned, name):
    """Return (outputs, cache) of what a forward returned; raise Unfit if there is no cache."""
    if not isinstance(returned, tuple) or len(returned) < 2:
        raise Unfit(f"{name} must return its output and a cache, which backward "
                    "takes: return out, cache")
    *outputs, cache = returned
    return outputs[0] if len(outputs) == 1 else tuple(outputs), cache


def by_names(returned, forward, inputs):
    """Return a dict of gradients as a tuple in the order of forward's arguments.

    The gradient of an argument that is a dict is a dict. What is left over is a dict at the end.
    """
    rest = {key: value for key, value in returned.items() if value is not None}

    def taken(name):
        return rest.pop(name if name in rest else gradient_key(name, rest), None)

    names = list(inspect.signature(forward).parameters)[: len(inputs)]
    found = [{key: taken(key) for key in value} if isinstance(value, dict) else taken(name)
             for name, value in zip(names, inputs, strict=False)]
    return (*found, rest) if rest else tuple(found)


class Adapter(Layer):
    """Code made a Layer. `original` is its forward, `called` its backward.

    `bound(cache)` returns the backward of one run and a tuple of the cache to hand it, or ().
    `is_loss` is True if backward may be called without an upstream gradient, which is then 1.
    """

    is_loss = False

    def prepare(self, inputs, options):
        """Run forward once, to find out what backward takes."""
        _, cache = self.forward(*inputs, **options)
        self.is_loss = self.wanted(cache) < 1 or gradient_arguments(
            self.called)[0].default in (1, 1.0)

    def wanted(self, cache):
        """Return the number of upstream gradients that backward takes."""
        backward, given = self.bound(cache)
        return len(gradient_arguments(backward)) - len(given)

    def call_backward(self, dout, cache):
        """Return what backward returns, handed the gradients and the cache as it takes them."""
        backward, given = self.bound(cache)
        wanted = self.wanted(cache)
        if wanted < 1:
            if isinstance(dout, tuple) or np.size(dout) > 1:
                raise Unfit(f"{backward.__qualname__} takes no upstream gradient, but "
                            "the output is more than one number: write backward(self, dout)")
            return backward(*given)
        douts = dout if isinstance(dout, tuple) and wanted > 1 else (dout,)
        first = gradient_arguments(backward)[0].name in CACHES
        return backward(*given, *douts) if first else backward(*douts, *given)


class Functions(Adapter):
    """Two functions as a Layer without parameters: each array that forward takes is an input."""

    @property
    def called(self):
        return self.undo

    @property
    def original(self):
        return self.run

    def bound(self, cache):
        return self.undo, (cache,)

    def forward(self, *inputs, **options):
        self.given = inputs
        return split(self.run(*inputs, **options), self.run.__name__)

    def backward(self, dout, cache):
        returned = self.call_backward(dout, cache)
        if isinstance(returned, dict):
            returned = by_names(returned, self.run, self.given)
        return returned if isinstance(returned, list) else tupled(returned)


def functions(name, forward, backward, sample=None):
    """Return a Layer class for two functions; `sample()` returns the arguments of forward."""
    cls = named(Functions, name, forward, forward)
    cls.run, cls.undo = staticmethod(forward), staticmethod(backward)
    if sample is not None:
        cls.sample = classmethod(lambda cls: (cls(), tupled(sample()), {}))
    return cls


def named(base, name, thing, forward):
    """Return an Adapter class with the docstring and the module of a thing.

    Its forward has the signature of another forward.
    """
    def run(self, /, *inputs, **options):
        return base.forward(self, *inputs, **options)

    own = inspect.Parameter("_", inspect.Parameter.POSITIONAL_ONLY)     # a function may have a self
    signature = inspect.signature(forward)
    run.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])
    return type(name, (base,), {"forward": run, "__doc__": thing.__doc__,
                                "__module__": getattr(thing, "__module__", None) or "__main__"})


class ObjectRun:
    """One run of an object that keeps its cache in self: a copy of it, and the map to the copy."""

    def __init__(self, made, twin_of):
        self.made, self.twin_of, self.cache = made, twin_of, ()


class InSelf(Adapter):
    """An object that keeps its cache in self, or its parameters in plain arrays, as a Layer.

    Each forward runs on a copy of the object, which is the cache. So nothing that the object
    remembers of other runs is in it.
    """

    def __init__(self, made):
        if not hasattr(made, "__dict__"):
            raise InputError(f"{type(made).__name__} has __slots__ and no __dict__, so its "
                             "parameters can't be found; remove __slots__")
        self.made, self.missing = made, set()
        self._find()

    def _find(self, also=()):
        """Find the arrays of the object; those with a known name, or in `also`, are parameters."""
        self.candidates, self.constants = candidates(self.made), constants(self.made)
        self.parameters = {path: one.value if isinstance(one.value, Param) else Param(one.value)
                           for path, one in self.candidates.items()
                           if one.is_known or path in also}

    @property
    def called(self):
        return self.made.backward

    @property
    def original(self):
        return forward_of(self.made)

    def bound(self, run):
        return run.made.backward, run.cache

    def params(self, frozen=False):
        return iter(self.parameters.items())

    def _new_run(self):
        """Return an ObjectRun of a copy that shares the parameters."""
        memo = {id(value): value for param in self.parameters.values()
                for value in (param, param.data)} | self.constants
        with contextlib.suppress(Exception):            # it may hold what can't be copied
            return ObjectRun(copy.deepcopy(self.made, memo), lambda one: memo.get(id(one), one))
        return ObjectRun(self.made, lambda one: one)

    def forward(self, *inputs, **options):
        self.given, run = inputs, self._new_run()
        name = type(self.made).__name__
        returned = forward_of(run.made)(*inputs, **options)
        if returned is None:
            returned = getattr(run.made, "output", None)
        if returned is None:
            raise Unfit(f"{name}.forward returned nothing; return the output, or set "
                        "self.output")
        if takes_cache(self.called):
            returned, cache = split(returned, f"{name}.forward")
            run.cache = (cache,)
        elif isinstance(returned, tuple) and isinstance(returned[-1], Cache):
            raise Unfit(f"{name}.forward returns a Cache, and its backward takes "
                        "none: write backward(self, dy, cache)")
        return returned, run

    def backward(self, dout, run):
        for one in self.candidates.values():
            gradient = one.gradient(run.twin_of)
            if isinstance(gradient, np.ndarray) and gradient.flags.writeable:
                gradient[...] = 0                       # some backwards write into it, some add
        returned = self.call_backward(dout, run)
        self.missing = set()
        for path, param in self.parameters.items():
            if self.candidates[path].value is param:    # a Param: backward has added to it
                continue
            gradient = self.candidates[path].gradient(run.twin_of)
            if gradient is None:
                self.missing.add(path)
                continue
            gradient = np.asarray(gradient)
            if gradient.shape == param.grad.shape and gradient.dtype.kind in "fiu":
                param.grad += gradient
            else:
                param.grad = gradient
        if returned is None:                            # it may have left self.dx
            names = list(inspect.signature(self.original).parameters)[: len(self.given)]
            held = vars(run.made)
            found = [held.get(gradient_key(name, held)) for name in names]
            returned = tuple(found) if any(g is not None for g in found) else None
        return returned

    def prepare(self, inputs, options):
        """Set up what the first forward makes, such as parameters."""
        with contextlib.suppress(Exception):            # it may hold what can't be copied
            self.made = after_first_forward(self.made, forward_of, inputs, options)
        self._find()
        super().prepare(inputs, options)

    def learn(self, dout, run):
        """Find which arrays get a gradient by a backward."""
        with contextlib.suppress(Exception):
            self.backward(dout, run)
        self._find([path for path, one in self.candidates.items()
                    if one.gradient(run.twin_of) is not None])

    def unplaced(self, run):
        """Return {path: Candidate} of the arrays without a gradient that forward does not set."""
        return {path: one for path, one in self.candidates.items() if path not in self.parameters
                and np.array_equal(one.at(run.twin_of), one.value)}

    def _copy(self, copy_param, memo, copy_array=lambda array: array):
        found = dict(self.constants)
        for path, param in self.parameters.items():
            twin, value = copy_param(param), self.candidates[path].value
            found[id(value)] = twin if value is param else twin.data
        twin = type(self)(copy.deepcopy(self.made, found))
        twin._find(self.parameters)
        twin.is_loss = self.is_loss
        return twin
