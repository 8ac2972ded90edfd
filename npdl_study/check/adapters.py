"""Backwards that are not written as npdl's are, made into Layers.

    y, cache = layer.forward(x)           dx = layer.backward(dy, cache)         a Layer, as it is
    y = layer.forward(x)                  dx = layer.backward(dy)                cache in self
    y, cache = f_forward(x, w)            dx, dw = f_backward(dy, cache)         two functions
    y, back = f_forward(x, w)             dx, dw = back(dy)                      a closure

A class that is no Layer, or whose cache is in self, may keep what it learns as Params, in objects
with `data` and `grad`, in lists or dicts `params` and `grads`, or as W beside dW, d_W, grad_W or
W_grad, in its parts too.
"""

import copy
import inspect

import numpy as np

from npdl.core import Cache, Layer, Param, items_of, walk
from npdl.errors import InputError
from npdl_study.trees import tupled


def as_layer(thing):
    """A Layer of what can be checked. Raises InputError for anything else."""
    if isinstance(thing, tuple) and len(thing) == 2 and all(map(callable, thing)):
        return functions(getattr(thing[0], "__name__", "f"), *thing)()
    if not inspect.isclass(thing) and keeps_cache_in_self(type(thing)):
        return thing if isinstance(thing, InSelf) else in_self(type(thing))(thing, made=True)
    if not isinstance(thing, Layer):
        raise InputError(f"a layer is needed, not {type(thing).__name__}; give an instance of a "
                         "class such as class Mine(Layer)")
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
        return tupled(in_order(self.undo(*douts, cache), self.run))


def in_order(returned, forward):
    """Gradients that a backward returned by the names of forward's arguments, as a tuple."""
    names = [(name, *gradient_names(name)) for name in inspect.signature(forward).parameters]
    if not isinstance(returned, dict) or not returned.keys() & {n for own in names for n in own}:
        return returned
    return tuple(next((returned[name] for name in own if name in returned), None) for own in names)


def pulled(dout, back):
    """The backward of a forward that returned what it made as its cache."""
    if not callable(back):
        raise InputError("forward must return its output and a function: return out, backward")
    return back(dout)


def functions(name, forward, backward=pulled, sample=None):
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
        several = isinstance(returned, tuple) and len(returned) > 1
        if _takes_cache(self.made.backward) and (several or _needs(self.made.backward) > 1):
            if not several:
                raise InputError(f"{type(self.made).__name__}.forward must return its output and "
                                 "a cache: return out, cache")
            *outputs, cache = returned
            return (outputs[0] if len(outputs) == 1 else tuple(outputs)), cache
        if isinstance(returned, tuple) and isinstance(returned[-1], Cache):
            raise InputError(f"{type(self.made).__name__}.forward returns a cache, and its "
                             "backward takes none: write backward(self, dy, cache)")
        return returned, self.made

    def backward(self, dout, cache):
        given = () if cache is self.made else (cache,)
        several = isinstance(dout, tuple) and _needs(self.made.backward) > 1 + len(given)
        bare = {name: read for name, (value, read) in
                ({} if isinstance(self.made, Layer) else learned(self.made)).items()
                if not isinstance(value, Param)}
        for read in bare.values():
            gradient = read({})
            if isinstance(gradient, np.ndarray):
                gradient[...] = 0                       # some write into it, some add
        own = getattr(self.made, "grads", None)
        before = copy.copy(own)
        try:
            return self._collected(bare, self.made.backward(
                *(dout if several else (dout,)), *given))
        finally:                                        # whatever was put in their places
            if isinstance(own, dict):
                own.update(before)
            elif isinstance(own, list):
                own[:] = before

    def _collected(self, bare, returned):
        """What a backward returned, less the gradients of what it learns, which are added up."""
        given = [g for g in tupled(returned) if isinstance(g, dict)]
        for name, read in bare.items():
            gradient = read(given[0] if given else {})
            if gradient is None:
                raise InputError(f"{type(self.made).__name__}.backward leaves no gradient of "
                                 f"{name}: write self.d{name} = ..., or self.grads as self.params")
            self.held[name].grad += gradient
        returned = in_order(returned, self.made.forward)
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
            return lambda given: _at(getattr(made, "grads", None), key, given.get(
                key, getattr(made, f"d{key}", None)))
        named = isinstance(values, dict)
        return {str(key) if named else f"params[{key}]": (array, read(key))
                for key, array in (values.items() if named else enumerate(values))}
    found = {}
    for path, owner, name, value in attributes(made):
        if isinstance(value, Param):
            found[path] = value, None
        elif isinstance(getattr(value, "data", None), np.ndarray) and hasattr(value, "grad"):
            found[path] = value.data, _attribute(value, "grad")
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and not any(
                name in gradient_names(other) for other in vars(owner)):
            named = {*_named_in(type(owner)), *vars(owner)}
            gradient = next((n for n in gradient_names(name) if n in named), "")
            if gradient:
                found[path] = value, _attribute(owner, gradient)
    return {path: held for i, (path, held) in enumerate(found.items())
            if not any(held[0] is other for other, _ in list(found.values())[:i])}


def gradient_names(name):
    """What the gradient of a W may be called: dW, d_W, grad_W, W_grad."""
    return f"d{name}", f"d_{name}", f"grad_{name}", f"{name}_grad"


def _attribute(owner, name):
    return lambda given: getattr(owner, name, None)


def _at(nest, key, otherwise):
    try:
        return nest[key]
    except (KeyError, IndexError, TypeError):
        return otherwise


def attributes(made, path="", around=()):
    """(dotted path, owner, name, value) of an object's attributes and those of its parts."""
    for name, value in list(vars(made).items()):
        for at, item in items_of(value, f"{path}{name}"):
            if isinstance(item, Layer):
                yield from ((f"{at}.{n}", made, name, p) for n, p in item.params())
            elif hasattr(item, "backward") and hasattr(item, "__dict__"):
                if not any(item is other for other in (made, *around)):
                    yield from attributes(item, f"{at}.", (made, *around))
            else:
                yield at, made, name, item


def holders(layer):
    """A layer and its parts; of what was made a Layer, the objects that it was made of."""
    if not isinstance(layer, InSelf) or isinstance(layer.made, Layer):
        return list(walk(layer.made if isinstance(layer, InSelf) else layer))
    found = {id(layer.made): layer.made}
    for _, owner, _, item in attributes(layer.made):
        found |= {id(part): part for part in (owner, item) if part is owner or hasattr(
            item, "grad") and hasattr(item, "__dict__")}
    return list(found.values())


def _named_in(cls):
    """The attributes of self that a class's methods name."""
    return {name for base in cls.__mro__ for value in vars(base).values()
            if inspect.isfunction(value) for name in value.__code__.co_names}


def keeps_cache_in_self(cls):
    """Whether a class needs to be made a Layer: its backward takes a gradient alone; or it is no
    Layer, and has a forward and a backward."""
    if issubclass(cls, InSelf):
        return True
    backward = getattr(cls, "backward", None)
    if issubclass(cls, Functions) or not inspect.isfunction(backward) or backward is Layer.backward:
        return False
    return _needs(backward) == 2 or not issubclass(cls, Layer) and callable(
        getattr(cls, "forward", None))


def _takes_cache(backward):
    """Whether the last argument of a bound backward is no gradient, by its name (dh_next, dc)."""
    names = [p.name for p in inspect.signature(backward).parameters.values()
             if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(names) > 1 and not (names[-1].startswith(("d", "g")) or names[-1].endswith(
        ("_grad", "_bar")))


def _needs(function):
    """How many positional arguments a function needs."""
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
               for p in inspect.signature(function).parameters.values())
