"""What an object that is no Layer may learn, and where it leaves the gradients, by their names.

    self.W                  self.dW, d_W, grad_W, W_grad, delta_W ..; self.grads["W"] or ["dW"]
    self.params["W"]        self.grads["W"], in whatever dicts with names of that kind
    self.params[0]          self.grads[0]
    self.W.data             self.W.grad
    self.W.value            self.W.value_diff, and all other names of the first row
    self.weights            self.dL_dw, d_c_w, dw, weight_grad: of the same shape, and of no other
"""

import functools
import inspect
from dataclasses import dataclass, field

import numpy as np

from npdl.core import Layer, Param, items_of

BEFORE = ("d", "d_", "grad_", "delta_", "nabla_", "gradient_", "g_")
AFTER = ("_grad", "_gradient", "_delta", "_update", "_derivative", "_diff", "grad")
# What a dict or a list of gradients is called, beside d and grad before its parameters' name.
GRADIENTS = ("grads", "gradients", "grad", "gradient", "g", "derivatives")
OF = {"dl", "dc", "de", "dj", "dloss"}          # as in dL_dw: the next word begins with d, too
WORDS = {"d", "delta", "nabla", "update", "diff", "deriv", "derivative", *OF, *GRADIENTS}


@functools.cache
def gradient_names(name):
    """What the gradient of a W may be called: dW, d_W, grad_W, W_grad .."""
    return (*(f"{word}{name}" for word in BEFORE), *(f"{name}{word}" for word in AFTER))


@dataclass
class Candidate:
    """An array, or a Param, that an object may learn: `value`, the attribute `name` of `owner`, or
    what stands at `key` in it. `is_known`: its gradient has a place, by its name."""

    value: object
    owner: object
    name: str
    key: str = ""
    is_known: bool = False
    also: list = field(default_factory=list)    # other Candidates of the same array

    @functools.cached_property
    def names(self):
        """What it, and then its gradient, may be called."""
        own = self.key.rpartition(".")[2] or self.name
        return own, *gradient_names(own)

    def at(self, now):
        """What stands in its place in a run."""
        held = getattr(now(self.owner), self.name, None)
        return _at(held, self.key) if self.key else held

    def left(self, now, given):
        """The gradient that a run has left for it, or a backward returned in the dict `given`;
        None where there is none, and of a Param."""
        found = (one._left(now, given) for one in (self, *self.also))
        return next((gradient for gradient in found if gradient is not None), None)

    def _left(self, now, given):
        owner = now(self.owner)
        if isinstance(self.value, Param):
            return None
        if self.name == "data" and hasattr(owner, "grad"):
            return owner.grad
        held = vars(owner)
        if not self.key or not self.key.isdigit():
            found = _first(self.names[1:], held) or _first(self.names[1:], {
                n.lower(): value for n, value in held.items() if n not in self.names}, str.lower)
            if found:
                return found[0]
        for name, value in held.items():
            if name in GRADIENTS or self.key and name in gradient_names(self.name):
                found = _first(self.names, value) if isinstance(value, dict) else [
                    _at(value, self.key)] if self.key else []
                if found and found[0] is not None:
                    return found[0]
        found = _first(self.names, given) or ([] if self.key else self._loosely_named(held))
        return found[0] if found else None

    def _loosely_named(self, held):
        """[the one array of its shape whose name says that it is the gradient of what begins so,
        as no other array of that shape does], or []."""
        alike = [name for name, value in held.items() if isinstance(value, np.ndarray)
                 and value.shape == np.shape(self.value)]
        found = [name for name in alike if (begins := meant(name)) and [
            n for n in alike if n.lower().startswith(begins) and n != name] == [self.name]]
        return [held[name] for name in found] if len(found) == 1 else []


def _first(names, held, change=str):
    """[the first number or array of a dict under one of these names], or []."""
    return [held[key] for key in map(change, names) if isinstance(
        held.get(key), (np.ndarray, np.number, float, list))][:1]


def meant(name):
    """How the name begins that an array's name says it is the gradient of: w for dL_dw, dw and d_w,
    kernel for kernel_grad; "" of another name."""
    words = name.lower().strip("_").split("_")
    left = [word for word in words if word not in WORDS]
    if left and left[-1].startswith("d") and (len(words) == 1 or words[0] in OF):
        return left[-1][1:]
    return left[-1] if left and len(left) < len(words) else ""


def _at(nest, key):
    try:
        for part in key.split("."):
            nest = nest[part] if isinstance(nest, dict) and part in nest else nest[int(part)]
        return nest
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def candidates(made):
    """{path: Candidate} of what an object may learn, each array once."""
    found, seen = {}, {}
    for path, owner, name, value in attributes(made):
        key = path.partition(f"{name}.")[2] if path.rpartition(".")[2] != name else ""
        one = Candidate(value, owner, name, key)
        if isinstance(getattr(value, "data", None), np.ndarray) and hasattr(
                value, "grad") and not isinstance(value, Param):
            one = Candidate(value.data, value, "data", is_known=True)
        elif not isinstance(value, (np.ndarray, Param)) or isinstance(value, np.ndarray) and (
                value.dtype.kind != "f" or is_constant(value) or _is_gradient(one)):
            continue
        one.is_known |= isinstance(value, Param) or _known(one)
        first = seen.setdefault(id(one.value), one)
        if first is not one:
            first.also.append(one)
            first.is_known |= one.is_known
            continue
        short = f"{name}[{key}]" if key.isdigit() else key
        short = path.removesuffix(f"{name}.{key}") + short
        found[short if key and short not in found else path] = one
    return found


def is_constant(value):
    """Whether an array says that it does not change: W.setflags(write=False)."""
    return isinstance(value, np.ndarray) and not value.flags.writeable


def _is_gradient(one):
    """Whether an array is, by its name, the gradient of another."""
    others = [name for name in vars(one.owner) if name != one.name]
    return one.key and one.name in GRADIENTS or any(
        one.name.lower() in map(str.lower, gradient_names(other)) for other in others)


def _known(one):
    """Whether its name alone says that it is learned."""
    if one.key:
        return one.name in ("params", "parameters")
    cls, owner = type(one.owner), vars(one.owner)
    named = {name for base in cls.__mro__ for value in vars(base).values()
             if inspect.isfunction(value) for name in value.__code__.co_names}
    return bool({*named, *owner}.intersection(gradient_names(one.name)))


def in_turn(paths, arrays, could):
    """The paths of Candidates of which these arrays are the gradients, in their order: by shape;
    as many as there are, where some have their shapes; [] where that is not known."""
    arrays = list(arrays)
    fitting, left = [], iter(paths)
    for array in arrays:
        path = next((p for p in left if could[p].value.shape == np.shape(array)), None)
        if path is not None:
            fitting.append(path)
    if arrays and len(fitting) == len(arrays):
        return fitting
    alike = any(could[path].value.shape == np.shape(array)
                for path, array in zip(paths, arrays, strict=False))
    return list(paths) if arrays and len(paths) == len(arrays) and alike else []


def attributes(made, path="", around=()):
    """(dotted path, owner, name, value) of an object's attributes and those of its parts."""
    for name, value in list(vars(made).items()):
        for at, item in items_of(value, f"{path}{name}"):
            if isinstance(item, Layer):
                yield from ((f"{at}.{n}", made, name, p) for n, p in item.params())
            elif hasattr(item, "__dict__") and (hasattr(item, "backward") or _is_record(item)):
                if not any(item is other for other in (made, *around)):
                    yield from attributes(item, f"{at}.", (made, *around))
            else:
                yield at, made, name, item


def _is_record(item):
    """Whether an object is one that holds arrays and computes nothing: of its own names, not those
    of a Param."""
    return not (callable(item) or inspect.ismodule(item) or hasattr(item, "data")) and any(
        isinstance(value, np.ndarray) for value in vars(item).values())
