"""Make a Layer of code that is not written as npdl's layers are.

    y, cache = layer.forward(x)           dx = layer.backward(dy, cache)         a Layer, as it is
    y = layer.forward(x)                  dx = layer.backward(dy)                cache in self
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
from npdl.study.check.learned import (
    after_first_forward,
    attributes,
    candidates,
    gradient_names,
    is_constant,
)
from npdl.study.trees import by_input, is_float, leaves, mapped, restored, tupled

CACHES = ("cache", "caches", "ctx", "memory")       # an argument that is a cache, if it is first


class Unfit(InputError):
    """Code whose gradients can't be checked; `kind` is "unchecked", "aliasing" or "random"."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def as_layer(thing):
    """Return a Layer for a layer, an object or a pair of functions; raise InputError for others."""
    if isinstance(thing, tuple) and len(thing) == 2 and all(map(callable, thing)):
        return functions(getattr(thing[0], "__name__", "f"), *thing)()
    if isinstance(thing, InSelf):
        return thing
    if not inspect.isclass(thing) and keeps_cache_in_self(type(thing)):
        return in_self(type(thing))(thing, made=True)
    if not isinstance(thing, Layer):
        name = getattr(thing, "__name__", type(thing).__name__)
        how = "give the pair (f_forward, f_backward)" if inspect.isfunction(thing) else \
            "give an instance of a class with forward and backward"
        raise InputError(f"{name} is not a layer; {how}")
    try:
        list(walk(thing))
    except RecursionError:
        raise InputError(f"{type(thing).__name__} contains itself; a layer may hold its parts, but "
                         "not the layer that it belongs to") from None
    return thing


def keeps_cache_in_self(cls):
    """Return True for a class that has to be made a Layer.

    It has a forward and a backward and is no Layer, or its backward takes a gradient alone.
    """
    backward = getattr(cls, "backward", None)
    if issubclass(cls, (Functions, InSelf)) or not inspect.isfunction(
            backward) or backward is Layer.backward:
        return issubclass(cls, InSelf)
    if issubclass(cls, Layer):
        return len(gradient_arguments(backward)) == 2
    return inspect.isfunction(forward_of(cls))


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


def call_backward(backward, dout, cache):
    """Return what a backward returns; `cache` is a tuple of the cache, or empty."""
    arguments = gradient_arguments(backward)
    wanted = len(arguments) - len(cache)
    if wanted < 1:
        if isinstance(dout, tuple) or np.size(dout) > 1:
            raise Unfit("unchecked", f"{backward.__qualname__} takes no upstream gradient, but the "
                        "output is more than one number: write backward(self, dout)")
        return backward(*cache)
    douts = dout if isinstance(dout, tuple) and wanted > 1 else (dout,)
    first = arguments[0].name in CACHES
    return backward(*cache, *douts) if first else backward(*douts, *cache)


def by_names(returned, forward, inputs):
    """Return a dict of gradients as a tuple in the order of forward's arguments.

    The gradient of an argument that is a dict is a dict. What is left over is a dict at the end.
    """
    names = list(inspect.signature(forward).parameters)[: len(inputs)]
    if not isinstance(returned, dict):
        return returned
    rest = dict(returned)

    def taken(name):
        own = next((n for n in (name, *gradient_names(str(name))) if n in rest), None)
        return None if own is None else rest.pop(own)

    found = [{key: taken(key) for key in value} if isinstance(value, dict) else taken(name)
             for name, value in zip(names, inputs, strict=False)]
    return (*found, rest) if rest else tuple(found)


class Adapter(Layer):
    """Code made a Layer.

    count    how many of its outputs, the first ones, are differentiated; None for all
    dropped  notes on the outputs that are not
    is_loss  True if backward may be called without an upstream gradient, which is then 1
    """

    count, dropped, is_loss = None, (), False

    def prepare(self, inputs, options):
        """Run forward and backward once, to find out what backward takes."""
        self.choose_outputs(inputs, options)

    def choose_outputs(self, inputs, options):
        """Find out of which outputs backward takes the gradients: of all, or of the first ones."""
        outputs, cache = self.forward(*inputs, **options)
        arguments = gradient_arguments(self.called)
        wanted = len(arguments) - len(self.handed(cache))
        self.is_loss = wanted < 1 or arguments[0].default in (1, 1.0)
        if not isinstance(outputs, tuple) or len(outputs) < 2:
            return
        if wanted > 1:
            chosen = min(wanted, len(outputs))
        else:
            alone = self.is_loss or self._takes_first_alone(inputs, options, outputs)
            chosen = 1 if alone else len(outputs)
        if chosen < len(outputs):
            self.count = chosen
            only = "the first" if chosen == 1 else f"the first {chosen}"
            self.dropped = [f"forward returns {len(outputs)} outputs and backward takes the "
                            f"gradient of {only}: gradients of the others are not compared"]

    def _takes_first_alone(self, inputs, options, outputs):
        """Return True if backward takes the gradient of the first output, not those of all.

        If it raises the same exception with either, the form isn't the cause, and all outputs are
        checked; if it raises two different ones, this raises Unfit.
        """
        errors = []
        for given in (outputs, outputs[0]):
            _, cache = self.forward(*inputs, **options)
            dout = mapped(given, lambda y: np.ones(np.shape(y)) if is_float(y) else None)
            with restored([p for _, p in self.params()], inputs), np.errstate(all="ignore"):
                try:
                    found = self.backward(dout, cache)
                except Exception as error:
                    errors.append(error)
                    continue
            if fits(found, inputs):
                return given is not outputs
            errors.append(None)
        if None not in errors:
            if repr(errors[0]) == repr(errors[1]):
                return False
            raise Unfit("unchecked", f"forward returns {len(outputs)} outputs, and it is not known "
                        f"whether {self.called.__qualname__} takes a tuple of their gradients or "
                        f"the first gradient: with the tuple it raises {errors[0]!r}, with the "
                        f"first {errors[1]!r}. Give it one argument for each gradient")
        return errors[0] is not None

    def differentiated(self, outputs):
        """Return the outputs of which backward takes the gradients."""
        if self.count is None:
            return outputs
        return outputs[0] if self.count == 1 else outputs[: self.count]


def fits(gradients, inputs):
    """Return True if each gradient that a backward returned has the shape of its input."""
    found, _ = by_input(gradients, [any(True for _ in leaves(value)) for value in inputs])
    return all(np.shape(g) == x.shape for g, x in zip(tupled(found), inputs, strict=False)
               if g is not None and isinstance(x, np.ndarray))


class Functions(Adapter):
    """Two functions as a Layer without parameters: each array that forward takes is an input."""

    @property
    def called(self):
        return self.undo

    def handed(self, cache):
        return (cache,)

    def forward(self, *inputs, **options):
        self.given = inputs
        returned = self.run(*inputs, **options)
        if not isinstance(returned, tuple) or len(returned) < 2:
            raise Unfit("unchecked", f"{self.run.__name__} must return its output and a cache: "
                        "return out, cache")
        *outputs, cache = returned
        return self.differentiated(outputs[0] if len(outputs) == 1 else tuple(outputs)), cache

    def backward(self, dout, cache):
        returned = by_names(call_backward(self.undo, dout, (cache,)), self.run, self.given)
        if isinstance(returned, list) and len(self.given) > 1:
            returned = tuple(returned)
        return tupled(returned)


def functions(name, forward, backward, sample=None):
    """Return a Layer class for two functions; `sample()` returns the arguments of forward."""
    def run(self, /, *inputs, **options):
        return Functions.forward(self, *inputs, **options)

    own = inspect.Parameter("_", inspect.Parameter.POSITIONAL_ONLY)     # forward may have a self
    signature = inspect.signature(forward)
    run.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])
    body = {"forward": run, "run": staticmethod(forward), "undo": staticmethod(backward),
            "__module__": forward.__module__ or "__main__", "__doc__": forward.__doc__}
    if sample is not None:
        body["sample"] = classmethod(lambda cls: (cls(), *tupled(sample())))
    return type(name, (Functions,), body)


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
        self.candidates = {} if isinstance(self.made, Layer) else candidates(self.made)
        self.parameters = {path: one.value if isinstance(one.value, Param) else Param(one.value)
                     for path, one in self.candidates.items() if one.is_known or path in also}

    @property
    def called(self):
        return self.made.backward

    def handed(self, run):
        return run.cache

    def params(self, frozen=False):
        if isinstance(self.made, Layer):
            return self.made.params(frozen)
        return iter(self.parameters.items())

    def _new_run(self):
        """Return an ObjectRun of a copy that shares the parameters and the random generators."""
        memo = {id(value): value for param in self.parameters.values()
                for value in (param, param.data)}
        if not isinstance(self.made, Layer):
            memo |= {id(value): value for _, _, _, value in attributes(self.made)
                     if isinstance(value, np.random.Generator) or is_constant(value)}
            with contextlib.suppress(Exception):        # it may hold what can't be copied
                return ObjectRun(copy.deepcopy(self.made, memo), lambda one: memo.get(id(one), one))
        return ObjectRun(self.made, lambda one: one)

    def forward(self, *inputs, **options):
        self.given, run = inputs, self._new_run()
        name = type(self.made).__name__
        returned = forward_of(run.made)(*inputs, **options)
        if returned is None:
            raise Unfit("unchecked", f"{name}.forward returned nothing; return the output")
        if takes_cache(self.made.backward):
            if not isinstance(returned, tuple) or len(returned) < 2:
                raise Unfit("unchecked", f"{name}.backward takes a cache, and forward returned "
                            "none: return out, cache")
            *outputs, cache = returned
            run.cache = (cache,)
            returned = outputs[0] if len(outputs) == 1 else tuple(outputs)
        elif isinstance(returned, tuple) and isinstance(returned[-1], Cache):
            raise Unfit("unchecked", f"{name}.forward returns a Cache, and its backward takes "
                        "none: write backward(self, dy, cache)")
        return self.differentiated(returned), run

    def backward(self, dout, run):
        for one in self.candidates.values():
            gradient = one.gradient(run.twin_of)
            if isinstance(gradient, np.ndarray) and gradient.flags.writeable:
                gradient[...] = 0                       # some backwards write into it, some add
        returned = call_backward(run.made.backward, dout, run.cache)
        self.missing = set()
        for path, param in self.parameters.items():
            if self.candidates[path].value is param:         # a Param: backward has added to it
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
        return returned

    def prepare(self, inputs, options):
        """Set up what the first forward makes, and find which arrays get a gradient."""
        if not isinstance(self.made, Layer):
            with contextlib.suppress(Exception):        # it may hold what can't be copied
                self.made = after_first_forward(self.made, forward_of, inputs, options)
            self._find()
        self.choose_outputs(inputs, options)
        outputs, run = self.forward(*inputs, **options)
        with restored(self.parameters.values(), inputs), contextlib.suppress(Exception):
            self.backward(mapped(outputs, lambda y: np.ones(np.shape(y)) if is_float(y) else None),
                          run)
            self._find([path for path, one in self.candidates.items()
                        if one.gradient(run.twin_of) is not None])

    def unplaced(self, run):
        """Return {path: Candidate} of the arrays without a gradient that forward does not set."""
        return {path: one for path, one in self.candidates.items() if path not in self.parameters
                and np.array_equal(one.at(run.twin_of), one.value)}

    def _copy(self, copy_param, memo, copy_array=lambda array: array):
        if isinstance(self.made, Layer):
            return super()._copy(copy_param, memo, copy_array)
        found = {id(value): value for _, _, _, value in attributes(self.made) if is_constant(value)}
        for path, param in self.parameters.items():
            twin = copy_param(param)
            value = self.candidates[path].value
            found[id(value)] = twin if value is param else twin.data
        twin = type(self)(copy.deepcopy(self.made, found), made=True)
        twin._find(self.parameters)
        twin.count, twin.dropped, twin.is_loss = self.count, self.dropped, self.is_loss
        return twin


def in_self(cls):
    """Return a Layer class that runs a class that keeps its cache in self."""
    def __init__(self, *arguments, made=False, **keywords):
        InSelf.__init__(self, arguments[0] if made else cls(*arguments, **keywords))

    def forward(self, *inputs, **options):
        return InSelf.forward(self, *inputs, **options)

    __init__.__signature__ = inspect.signature(cls.__init__)
    forward.__signature__ = inspect.signature(forward_of(cls))
    body = {"__init__": __init__, "forward": forward, "__module__": cls.__module__,
            "__doc__": cls.__doc__}
    if hasattr(cls, "sample"):
        def sample(own):
            first, *rest = cls.sample()
            return (as_layer(first), *rest)
        body["sample"] = classmethod(sample)
    return type(cls.__name__, (InSelf,), body)


def holders(layer):
    """Return the layer and its parts; of an adapted object, the objects that it consists of."""
    if not isinstance(layer, InSelf) or isinstance(layer.made, Layer):
        return list(walk(layer.made if isinstance(layer, InSelf) else layer))
    found = {id(layer.made): layer.made}
    for _, owner, _, item in attributes(layer.made):
        found |= {id(part): part for part in (owner, item)
                  if part is owner or isinstance(item, Param)}
    return list(found.values())
