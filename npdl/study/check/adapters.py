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
import inspect

import numpy as np

from npdl.core import Layer, Param, walk
from npdl.errors import InputError
from npdl.study.check.learned import (
    copy_equal_attributes,
    copy_object,
    find_gradient_key,
    find_parameter_candidates,
    walk_attributes,
)
from npdl.study.trees import as_tuple, copy_tree, shift_values


class Uncheckable(InputError):
    """The gradients of some code can't be checked, although the code may be right."""


class FunctionPair:
    """The base of classes whose forward and backward are two functions, without parameters."""


def make_function_pair_class(name, forward, backward, sample=None):
    """Return a class whose forward and backward are two functions, a subclass of FunctionPair.

    name               the name of the class
    forward, backward  the functions
    sample             a function that returns the arguments of forward, or None
    """
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if sample is not None:
        members["sample"] = classmethod(lambda cls: (cls(), *as_tuple(sample())))
    return type(name, (FunctionPair,), members)


def as_layer(thing):
    """Return a Layer that calls `thing`: an object with forward and backward, or two functions.

    Functions are given as a pair (f_forward, f_backward). A Layer is returned unchanged. Raises
    InputError for anything else.
    """
    if isinstance(thing, tuple) and len(thing) == 2 and all(map(callable, thing)):
        thing = make_function_pair_class(getattr(thing[0], "__name__", "f"), *thing)()
    cls = type(thing)
    if not isinstance(thing, FunctionPair) and not is_layer_class(cls):     # not only functions
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
            cls.backward is Layer.backward or len(inspect_backward_arguments(thing)) != 1):
        return thing
    return type(cls.__name__, (Adapter,), {})(thing)


def is_layer_class(cls):
    """Return True for a class with a backward and with a forward or a `__call__`."""
    return inspect.isfunction(getattr(cls, "backward", None)) and inspect.isfunction(
        get_forward(cls))


def get_forward(thing):
    """Return the forward of a class or an object, or its `__call__` if it has no forward."""
    return getattr(thing, "forward", None) or getattr(thing, "__call__", None)  # noqa: B004


def unwrap_adapter(layer):
    """Return the student's object if a layer is an Adapter, else the layer itself."""
    return layer.original if isinstance(layer, Adapter) else layer


def get_forward_argument_names(layer):
    """Return the names of the positional arguments of a layer's forward."""
    forward = get_forward(unwrap_adapter(layer))
    return [p.name for p in inspect.signature(forward).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def inspect_backward_arguments(thing):
    """Return the positional arguments of an object's backward, a list of inspect.Parameter.

    Arguments whose default is True or False are options and are left out.
    """
    return [p for p in inspect.signature(thing.backward).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
            and not isinstance(p.default, bool)]


class Adapter(Layer):
    """A Layer that calls a student's object or a FunctionPair.

    original       the object, which may keep its cache in self, or its parameters in plain arrays
    has_cache      True if backward takes a cache as its last argument
    num_upstreams  the number of upstream gradients that backward takes
    is_loss        True if backward may be called without an upstream gradient, which is then 1
    candidates     {path: ParameterCandidate} of the object
    parameters     {path: Param}: all Params, and the arrays at the paths in the argument `learned`
    missing        the paths of the parameters for which backward has left no gradient

    Each forward runs on a new copy of the object, so a run can't change the next one. The cache is
    a pair: this copy, and a tuple with the cache that the object's forward returned, if any.
    """

    def __init__(self, original, learned=()):
        if not hasattr(original, "__dict__"):
            raise InputError(f"{type(original).__name__} has __slots__ and no __dict__, so its "
                             "parameters can't be found; remove __slots__")
        taken = inspect_backward_arguments(original)
        self.original, self.missing = original, set()
        self.has_cache = isinstance(original, FunctionPair) or len(taken) > 1 and not (
            taken[-1].name.startswith(("d", "g")) or taken[-1].name.endswith("_grad"))
        self.num_upstreams = len(taken) - self.has_cache
        self.is_loss = self.num_upstreams < 1 or taken[0].default == 1
        self.candidates = find_parameter_candidates(original)
        self.parameters = {path: one.value if isinstance(one.value, Param) else Param(one.value)
                           for path, one in self.candidates.items()
                           if isinstance(one.value, Param) or path in learned}

    def params(self, with_frozen=False):
        return iter(self.parameters.items())

    def forward(self, *inputs, **options):
        params = self.parameters.values()
        twin = copy_object(self.original, {
            id(value): value for param in params for value in (param, param.data)})
        returned = get_forward(twin)(*inputs, **options)
        if returned is None:
            returned = getattr(twin, "output", None)
        if not self.has_cache:
            return returned, (twin, ())
        if not isinstance(returned, tuple) or len(returned) < 2:
            name = getattr(get_forward(twin), "__qualname__", f"{type(self).__name__}.forward")
            raise Uncheckable(f"{name} must return its output and a cache, which backward takes: "
                              "return out, cache")
        *outputs, cache = returned
        return outputs[0] if len(outputs) == 1 else tuple(outputs), (twin, (cache,))

    def backward(self, dout, cache):
        twin, given = cache
        held = dict(walk_attributes(twin))
        for one in self.candidates.values():
            gradient = one.find_gradient(held)
            if isinstance(gradient, np.ndarray) and gradient.flags.writeable:
                gradient[...] = 0                       # some code writes into it, some adds to it
        upstreams = dout if isinstance(dout, tuple) and self.num_upstreams > 1 else (dout,)
        returned = twin.backward(*(upstreams if self.num_upstreams > 0 else ()), *given)
        self._collect_gradients(dict(walk_attributes(twin)))
        if returned is None:                            # the gradient may be in self.dx
            names = get_forward_argument_names(self)
            own = {key: value for key, value in vars(twin).items() if key not in names}
            keys = {find_gradient_key(name, own) for name in names} - {None}
            return {key: own[key] for key in keys} or None
        return returned

    def _collect_gradients(self, attributes):
        """Add the gradients in `attributes`, {path: value}, to each param.grad. Set `missing`."""
        self.missing = set()
        for path, param in self.parameters.items():
            if self.candidates[path].value is param:    # backward has added to a Param itself
                continue
            gradient = self.candidates[path].find_gradient(attributes)
            if gradient is None:
                self.missing.add(path)
            elif np.shape(gradient) == param.shape and np.asarray(gradient).dtype.kind in "fiu":
                param.grad += gradient
            else:
                param.grad = np.asarray(gradient)

    def copy_with_lazy_parameters(self, inputs, options):
        """Return an Adapter for the object with the parameters that its first forward creates.

        Forward runs twice, with different inputs. New attributes that are equal after both runs are
        kept. An attribute that differs is a cache.
        """
        once = copy_object(self.original)
        with contextlib.suppress(Exception):            # forward may not accept other inputs
            get_forward(once)(*copy_tree(inputs), **options)
            twice = copy_object(once)
            get_forward(twice)(*shift_values(inputs), **options)
            return type(self)(copy_equal_attributes(copy_object(self.original), once, twice))
        return self

    def copy_with_learned_parameters(self, dout, cache):
        """Run backward; return an Adapter whose parameters are the arrays that have a gradient now.

        If backward raises an exception, every array that forward doesn't set counts as one.
        """
        try:
            self.backward(dout, cache)
            held = dict(walk_attributes(cache[0]))
            learned = {path for path, one in self.candidates.items()
                       if one.find_gradient(held) is not None}
        except Exception:
            learned = self.find_constant_arrays(cache)
        return type(self)(self.original, learned)

    def find_constant_arrays(self, cache):
        """Return {path: array} of arrays that are not parameters and that forward doesn't set."""
        held = dict(walk_attributes(cache[0]))
        return {path: one.value for path, one in self.candidates.items()
                if path not in self.parameters and np.array_equal(held.get(path), one.value)}

    def _copy(self, copy_param, memo, copy_array=lambda array: array):
        found = {}
        for path, param in self.parameters.items():
            twin, value = copy_param(param), self.candidates[path].value
            found[id(value)] = twin if value is param else twin.data
        return type(self)(copy_object(self.original, found), self.parameters)
