"""Backwards that are not written as npdl's are, made into layers that `blame` and `step` can run.

    out, cache = affine_forward(x, w, b)        dx, dw, db = affine_backward(dout, cache)
    out = layer.forward(x)                      dx = layer.backward(dout)

The first are `functions`; the second keep in self what backward needs, and their parameters
as Params, in lists `params` and `grads`, or as W beside dW (`in_self`).
"""

import copy
import inspect

import numpy as np

from npdl.core import Layer, Param
from npdl.errors import InputError
from npdl_study.trace.pairs import partners
from npdl_study.trees import is_float


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
        returned = self.undo(*douts, cache)
        return returned if isinstance(returned, tuple) else (returned,)


def functions(name, forward, backward, sample=None):
    """A Layer class of two functions; `sample()` returns forward's arguments."""
    def run(self, *inputs, **options):
        return Functions.forward(self, *inputs, **options)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(forward)
    run.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])
    body = {"forward": run, "run": staticmethod(forward), "undo": staticmethod(backward),
            "__module__": forward.__module__}
    if sample is not None:
        body["sample"] = classmethod(lambda cls: (cls(), sample()))
    return type(name, (Functions,), body)


class InSelf(Layer):
    """A layer that keeps its cache in itself: backward(dout), after a forward that returns out."""

    def __init__(self, made):
        self.made = made
        self.held = {} if isinstance(made, Layer) else dict(_held(made))

    def params(self, frozen=False):
        yield from self.made.params(frozen) if isinstance(self.made, Layer) else self.held.items()

    def forward(self, *inputs, **options):
        return self.made.forward(*inputs, **options), self.made

    def backward(self, dout, cache):
        several = isinstance(dout, tuple) and _needs(self.made.backward) > 1
        returned = self.made.backward(*(dout if several else (dout,)))
        for name, param in self.held.items():
            gradient = _gradient(self.made, name)
            if gradient is None:
                raise InputError(f"{type(self.made).__name__}.backward leaves no gradient of "
                                 f"{name}: write self.d{name} = ...")
            if gradient is not param.grad:
                param.grad += gradient
        return returned

    def _copy(self, copy_param, memo, copy_array=lambda array: array):
        if isinstance(self.made, Layer):
            return super()._copy(copy_param, memo, copy_array)
        found = {}
        for _, param in self.params():
            twin = copy_param(param)
            found |= {id(param.data): twin.data} if _is_bare(param) else {id(param): twin}
        return type(self)(copy.deepcopy(self.made, found), made=True)


def in_self(cls):
    """A Layer class that runs a class whose cache is in self."""
    def __init__(self, *arguments, made=False, **keywords):
        InSelf.__init__(self, arguments[0] if made else cls(*arguments, **keywords))

    def forward(self, *inputs, **options):
        return InSelf.forward(self, *inputs, **options)

    __init__.__signature__ = inspect.signature(cls.__init__)
    forward.__signature__ = inspect.signature(cls.forward)
    body = {"__init__": __init__, "forward": forward, "__module__": cls.__module__}
    if hasattr(cls, "sample"):
        def sample(own):
            first, *rest = cls.sample()
            return (own(first, made=True), *rest)
        body["sample"] = classmethod(sample)
    return type(cls.__name__, (InSelf,), body)


def _held(made):
    """(name, Param) of what a class that is no Layer learns; the Param has its own array."""
    if hasattr(made, "params") and hasattr(made, "grads"):
        for i, array in enumerate(made.params):
            yield f"params[{i}]", _bare(array)
        return
    for name, value in vars(made).items():
        if isinstance(value, Param):
            yield name, value
        elif isinstance(value, np.ndarray) and is_float(value) and not hasattr(made, name[1:]):
            if f"d{name}" in _assigned(type(made)) or hasattr(made, f"d{name}"):
                yield name, _bare(value)


def _bare(array):
    param = Param(array)
    param.bare = True
    return param


def _is_bare(param):
    return getattr(param, "bare", False)


def _gradient(made, name):
    if name.startswith("params["):
        return made.grads[int(name[7:-1])]
    value = getattr(made, name)
    return value.grad if isinstance(value, Param) else getattr(made, f"d{name}", None)


def _assigned(cls):
    """The attributes of self that a class's methods name."""
    return {name for base in cls.__mro__ for value in vars(base).values()
            if inspect.isfunction(value) for name in value.__code__.co_names}


def keeps_cache_in_self(cls):
    """Whether a class's backward takes a gradient alone; or, of a class that is no Layer, several,
    by their names (dh_next, dc_next)."""
    backward = getattr(cls, "backward", None)
    if not inspect.isfunction(backward):
        return False
    names = list(inspect.signature(backward).parameters)[1:]
    several = not issubclass(cls, Layer) and bool(names) and all(map(partners, names))
    return _needs(backward) == 2 or several


def _needs(function):
    """How many positional arguments a function needs."""
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
               for p in inspect.signature(function).parameters.values())
