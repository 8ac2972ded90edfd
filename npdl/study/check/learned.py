"""Find the parameters of an object that is no npdl Layer, and where it keeps their gradients.

    self.W                   self.dW, self.dw, self.d_W, self.grad_W or self.W_grad
    self.W                   self.grads["W"] or self.grads["dW"]
    self.params["W"]         self.grads["W"] or self.grads["dW"], or in self.gradients
    self.params[0]           self.grads[0]
    self.W.data              self.W.grad, of an object with both
"""

import copy
import functools
import inspect
from dataclasses import dataclass, field

import numpy as np

from npdl.core import Layer, Param, items_of
from npdl.study.trees import copied, mapped, same

PARAMETERS = ("params", "parameters")
GRADIENTS = ("grads", "gradients", "grad", "gradient")
MOVED = 0.1                     # added to the inputs of a second forward


@functools.cache
def gradient_names(name):
    """Return what the gradient of W may be called."""
    return f"d{name}", f"d_{name}", f"grad_{name}", f"{name}_grad"


@dataclass
class Candidate:
    """An array, or a Param, that may be a parameter.

    It is the attribute `name` of `owner`, or the item `key` of that attribute. `also` are other
    Candidates of the same array.
    """

    value: object
    owner: object
    name: str
    key: str = ""
    also: list = field(default_factory=list)

    @property
    def names(self):
        """Return the names under which its gradient may be found in a dict."""
        own = self.key.rpartition(".")[2] or self.name
        return own, *gradient_names(own)

    @property
    def is_known(self):
        """Return True if its name alone says that it is a parameter."""
        if self.name == "data" and hasattr(self.owner, "grad"):
            return True
        if isinstance(self.value, Param) or self.key:
            return isinstance(self.value, Param) or self.name in PARAMETERS
        functions = (f for cls in type(self.owner).__mro__ for f in vars(cls).values())
        used = {name for f in functions if inspect.isfunction(f) for name in f.__code__.co_names}
        return bool({*used, *vars(self.owner)} & {*gradient_names(self.name)})

    def at(self, twin_of):
        """Return the value in its place in a copy of the object."""
        held = getattr(twin_of(self.owner), self.name, None)
        return _item(held, self.key) if self.key else held

    def gradient(self, twin_of):
        """Return the gradient that a copy of the object holds for it, or None."""
        found = (one._gradient(vars(twin_of(one.owner))) for one in (self, *self.also))
        return next((gradient for gradient in found if gradient is not None), None)

    def _gradient(self, held):
        if self.name == "data" and "grad" in held:
            return held["grad"]
        if not self.key.isdigit():
            attributes = {name.lower(): value for name, value in held.items()}
            named = _first(self.names[1:], held) or _first(map(str.lower, self.names[1:]), {
                name: value for name, value in attributes.items() if name != self.name.lower()})
            if named:
                return named[0]
        for nest in (held[name] for name in GRADIENTS if name in held):
            found = _first(self.names, nest) if isinstance(nest, dict) else [_item(nest, self.key)]
            if found and found[0] is not None:
                return found[0]
        return None


def _first(names, held):
    """Return [the first array or number of a dict under one of these names], or []."""
    return [held[name] for name in names
            if isinstance(held.get(name), (np.ndarray, np.number, float, list))][:1]


def _item(nest, key):
    """Return the item of a nest of dicts and lists at "W" or "0.W", or None."""
    try:
        for part in key.split("."):
            nest = nest[part] if isinstance(nest, dict) and part in nest else nest[int(part)]
        return nest
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def candidates(made):
    """Return {path: Candidate} of the float arrays and Params of an object, each array once."""
    found, seen = {}, {}
    for path, owner, name, value in attributes(made):
        key = path.partition(f"{name}.")[2] if path.rpartition(".")[2] != name else ""
        one = Candidate(value, owner, name, key)
        is_array = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        if not isinstance(value, Param) and (not is_array or is_constant(value)
                                             or _is_gradient(one)):
            continue
        first = seen.setdefault(id(value), one)
        if first is not one:
            first.also.append(one)
            continue
        found[path] = one
    return found


def is_constant(value):
    """Return True for an array that is declared constant: W.setflags(write=False)."""
    return isinstance(value, np.ndarray) and not value.flags.writeable


def _is_gradient(one):
    """Return True if an array is, by its name, the gradient of another."""
    others = (name for name in vars(one.owner) if name != one.name)
    return one.name in GRADIENTS or any(
        one.name.lower() in map(str.lower, gradient_names(other)) for other in others)


def attributes(made, path="", around=()):
    """Yield (dotted path, owner, name, value) of the attributes of an object and of its parts."""
    for name, value in list(vars(made).items()):
        for at, item in items_of(value, f"{path}{name}"):
            if isinstance(item, Layer):
                yield from ((f"{at}.{n}", made, name, p) for n, p in item.params())
            elif is_part(item) and not any(item is other for other in (made, *around)):
                yield from attributes(item, f"{at}.", (made, *around))
            else:
                yield at, made, name, item


def is_part(item):
    """Return True for an object with a backward, or one that only holds arrays."""
    if isinstance(item, (Layer, Param)) or not hasattr(item, "__dict__"):
        return False
    return hasattr(item, "backward") or not (callable(item) or inspect.ismodule(item)) and any(
        isinstance(value, np.ndarray) for value in vars(item).values())


def after_first_forward(made, forward, inputs, options):
    """Return a copy of an object with what its first forward sets up, such as its parameters.

    Forward runs twice, on different numbers. What the first run sets and the second leaves alone
    is set up; what differs is a cache, and is removed again.
    """
    other = mapped(inputs, lambda x: x + MOVED if getattr(
        getattr(x, "dtype", None), "kind", "") == "f" else x)
    constants = {id(value): value for *_, value in attributes(made) if is_constant(value)}
    once = copy.deepcopy(made, dict(constants))
    forward(once)(*copied(inputs), **options)
    twice = copy.deepcopy(once, dict(constants))
    forward(twice)(*copied(other), **options)
    return _set_up(copy.deepcopy(made, dict(constants)), once, twice)


def _set_up(before, once, twice):
    """Return `before` with what is the same in `once` and `twice`; parts and dicts likewise."""
    held, first, second = (
        one if isinstance(one, dict) else vars(one) for one in (before, once, twice))
    for name, value in first.items():
        old, new = held.get(name), second.get(name)
        nested = isinstance(value, dict) or is_part(value)
        if nested and type(old) is type(value) is type(new):
            _set_up(old, value, new)
        elif isinstance(value, (list, tuple)) and isinstance(old, (list, tuple)) and len(
                old) == len(value) == len(new) and any(map(is_part, value)):
            for parts in zip(old, value, new, strict=True):
                if all(map(is_part, parts)):
                    _set_up(*parts)
        elif name not in held or not _equal(old, value):
            if _equal(value, new):
                held[name] = value
    return before


def _equal(a, b):
    try:
        return same(a, b)
    except Exception:                               # objects that can't be compared
        return False
