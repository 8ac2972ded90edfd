"""Convert layers of other forms into npdl's Layer. These forms are known:

    y, cache = layer.forward(x)           dx = layer.backward(dy, cache)         npdl's Layer
    y = layer.forward(x)                  dx = layer.backward(dy)                cache in self
    layer.forward(x)                      layer.backward(dy)     set self.output and self.dx
    y, cache = f_forward(x, w)            dx, dw = f_backward(dy, cache)         two functions

A class may define `__call__` in place of `forward`. The backward of a loss may take no gradient. A
function may return its gradients in a dict, such as {"dx": dx}. The module `learned` finds the
parameters of an object.
"""

import contextlib
import copy
import inspect

import numpy as np

from npdl.core import Layer, Param, walk
from npdl.errors import InputError
from npdl.study.check.learned import (
    copy_with_lazy_attributes,
    find_constants,
    find_gradient_key,
    find_parameter_candidates,
    walk_attributes,
)
from npdl.study.trees import as_tuple


class Uncheckable(InputError):
    """The gradients of some code can't be checked, although the code may be right."""


def as_layer(thing):
    """Return a Layer that calls `thing`: an object with forward and backward, or two functions.

    Functions are given as a pair (f_forward, f_backward). A Layer is returned unchanged. Raises
    InputError for anything else.
    """
    if isinstance(thing, tuple) and len(thing) == 2 and all(map(callable, thing)):
        return make_function_layer(getattr(thing[0], "__name__", "f"), *thing)()
    cls = type(thing)
    if not is_layer_class(cls):
        name = getattr(thing, "__name__", cls.__name__)
        raise InputError(f"{name} is not a layer; give an instance of a class with forward and "
                         "backward, or the pair (f_forward, f_backward)")
    if isinstance(thing, Layer):
        try:
            list(walk(thing))
        except RecursionError:
            raise InputError(f"{cls.__name__} contains itself; a layer may hold its parts, but not "
                             "the layer that it belongs to") from None
    if isinstance(thing, Adapter) or isinstance(thing, Layer) and (
            cls.backward is Layer.backward or len(get_backward_arguments(cls.backward)) != 2):
        return thing
    return _make_subclass(ObjectAdapter, cls.__name__, cls, get_forward(thing))(thing)


def is_layer_class(cls):
    """Return True for a class with a backward and with a forward or a `__call__`."""
    return inspect.isfunction(getattr(cls, "backward", None)) and inspect.isfunction(
        get_forward(cls))


def get_forward(thing):
    """Return the forward of a class or an object, or its `__call__` if it has no forward."""
    return getattr(thing, "forward", None) or getattr(thing, "__call__", None)  # noqa: B004


def get_backward_arguments(backward):
    """Return the positional arguments of a backward, a list of inspect.Parameter.

    Arguments whose default is True or False are options and are left out.
    """
    return [p for p in inspect.signature(backward).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
            and not isinstance(p.default, bool)]


def split_cache(returned, name):
    """Return (outputs, cache) for the value that a forward returned, or raise Uncheckable."""
    if not isinstance(returned, tuple) or len(returned) < 2:
        raise Uncheckable(f"{name} must return its output and a cache, which backward "
                          "takes: return out, cache")
    *outputs, cache = returned
    return outputs[0] if len(outputs) == 1 else tuple(outputs), cache


class Adapter(Layer):
    """The base class of Layers that call a student's code.

    A subclass defines bind_backward(cache), which returns the student's backward and the arguments
    that follow the upstream gradients in its call, (cache,) or ().

    is_loss  True if backward may be called without an upstream gradient, which is then 1
    """

    is_loss = False

    def prepare(self, inputs, options):
        """Run forward once, and set `is_loss`."""
        _, cache = self.forward(*inputs, **options)
        self.is_loss = self.count_upstreams(cache) < 1 or get_backward_arguments(
            self.bind_backward(cache)[0])[0].default == 1

    def count_upstreams(self, cache):
        """Return the number of upstream gradients that backward takes."""
        backward, given = self.bind_backward(cache)
        return len(get_backward_arguments(backward)) - len(given)

    def backward(self, dout, cache):
        """Call the student's backward with as many arguments as it takes; return its result."""
        backward, given = self.bind_backward(cache)
        wanted = self.count_upstreams(cache)
        if wanted < 1:
            return backward(*given)
        return backward(*(dout if isinstance(dout, tuple) and wanted > 1 else (dout,)), *given)


class FunctionAdapter(Adapter):
    """A Layer that calls two functions. It has no parameters: all arrays are inputs."""

    def bind_backward(self, cache):
        return self.undo, (cache,)

    def forward(self, *inputs, **options):
        return split_cache(self.run(*inputs, **options), self.run.__name__)


def make_function_layer(name, forward, backward, sample=None):
    """Return a Layer class that calls two functions.

    name               the name of the class
    forward, backward  the functions
    sample             a function that returns the arguments of forward, or None
    """
    cls = _make_subclass(FunctionAdapter, name, forward, forward)
    cls.run, cls.undo = staticmethod(forward), staticmethod(backward)
    if sample is not None:
        cls.sample = classmethod(lambda cls: (cls(), *as_tuple(sample())))
    return cls


def _make_subclass(base, name, thing, forward):
    """Return a subclass of the Adapter class `base` with the docstring and module of `thing`.

    The forward of the subclass has the signature of `forward`.
    """
    def run(self, /, *inputs, **options):
        return base.forward(self, *inputs, **options)

    own = inspect.Parameter("_", inspect.Parameter.POSITIONAL_ONLY)     # a function may have a self
    signature = inspect.signature(forward)
    run.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])
    return type(name, (base,), {"forward": run, "__doc__": thing.__doc__,
                                "__module__": getattr(thing, "__module__", None) or "__main__"})


class ObjectAdapter(Adapter):
    """A Layer for an object that keeps its cache in self, or its parameters in plain arrays.

    Each forward runs on a new copy of the object, so a run can't change the next one. The cache is
    a pair (this copy, (cache that the object's forward returned,) or ()).
    """

    def __init__(self, original):
        if not hasattr(original, "__dict__"):
            raise InputError(f"{type(original).__name__} has __slots__ and no __dict__, so its "
                             "parameters can't be found; remove __slots__")
        self.original, self.missing = original, set()
        self._set_parameters()

    def _set_parameters(self, learned=()):
        """Set `parameters`, {path: Param}: all Params, and the arrays at paths in `learned`."""
        self.candidates = find_parameter_candidates(self.original)
        self.constants = find_constants(self.original)
        self.parameters = {path: one.value if isinstance(one.value, Param) else Param(one.value)
                           for path, one in self.candidates.items()
                           if isinstance(one.value, Param) or path in learned}

    def bind_backward(self, cache):
        return cache[0].backward, cache[1]

    def params(self, frozen=False):
        return iter(self.parameters.items())

    def _copy_object(self):
        """Return a copy of the object that shares the parameters."""
        memo = {id(value): value for param in self.parameters.values()
                for value in (param, param.data)} | self.constants
        return copy.deepcopy(self.original, memo)

    def forward(self, *inputs, **options):
        twin = self._copy_object()
        returned = get_forward(twin)(*inputs, **options)
        if returned is None:
            returned = getattr(twin, "output", None)
        last = get_backward_arguments(twin.backward)[1:]
        if last and not (last[-1].name.startswith(("d", "g")) or last[-1].name.endswith("_grad")):
            returned, cache = split_cache(returned, f"{type(self).__name__}.forward")
            return returned, (twin, (cache,))
        return returned, (twin, ())

    def backward(self, dout, cache):
        held = dict(walk_attributes(cache[0]))
        for one in self.candidates.values():
            gradient = one.find_gradient(held)
            if isinstance(gradient, np.ndarray) and gradient.flags.writeable:
                gradient[...] = 0                       # some code writes into it, some adds to it
        returned, held = super().backward(dout, cache), dict(walk_attributes(cache[0]))
        self.missing = set()
        for path, param in self.parameters.items():
            if self.candidates[path].value is param:    # backward has added to a Param itself
                continue
            gradient = self.candidates[path].find_gradient(held)
            if gradient is None:
                self.missing.add(path)
            elif np.shape(gradient) == param.shape and np.asarray(gradient).dtype.kind in "fiu":
                param.grad += gradient
            else:
                param.grad = np.asarray(gradient)
        if returned is None:                            # the gradient may be in self.dx
            names = inspect.signature(get_forward(self.original)).parameters
            own = {key: value for key, value in vars(cache[0]).items() if key not in names}
            keys = {find_gradient_key(name, own) for name in names} - {None}
            return {key: own[key] for key in keys} or None
        return returned

    def prepare(self, inputs, options):
        """Run forward, which may create parameters; set `parameters` and `is_loss`."""
        with contextlib.suppress(Exception):            # forward may not accept other inputs
            self.original = copy_with_lazy_attributes(self.original, get_forward, inputs, options)
        self._set_parameters()
        super().prepare(inputs, options)

    def find_parameters(self, dout, cache):
        """Run backward; the arrays for which the object then has a gradient are the parameters.

        If backward raises an exception, every array that forward doesn't set is a parameter.
        """
        try:
            self.backward(dout, cache)
            held = dict(walk_attributes(cache[0]))
            self._set_parameters({path for path, one in self.candidates.items()
                                  if one.find_gradient(held) is not None})
        except Exception:
            self._set_parameters({*self.parameters, *self.find_other_arrays(cache)})

    def find_other_arrays(self, cache):
        """Return {path: array} of arrays that are not parameters and that forward doesn't set."""
        held = dict(walk_attributes(cache[0]))
        return {path: one.value for path, one in self.candidates.items()
                if path not in self.parameters and np.array_equal(held.get(path), one.value)}

    def _copy(self, copy_param, memo, copy_array=lambda array: array):
        found = dict(self.constants)
        for path, param in self.parameters.items():
            twin, value = copy_param(param), self.candidates[path].value
            found[id(value)] = twin if value is param else twin.data
        twin = type(self)(copy.deepcopy(self.original, found))
        twin._set_parameters(self.parameters)
        twin.is_loss = self.is_loss
        return twin
