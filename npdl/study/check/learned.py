"""Find the parameters of an object that keeps its cache in self, and their gradients.

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
from npdl.study.trees import copied, same, shifted

PARAMETERS = ("params", "parameters")
GRADIENTS = ("grads", "gradients", "grad", "gradient")


@functools.cache
def gradient_names(name):
    """Return what the gradient of W may be called."""
    return f"d{name}", f"d_{name}", f"grad_{name}", f"{name}_grad"


def gradient_key(name, held):
    """Return the key under which a dict holds the gradient of W, or None.

    Upper and lower case are told apart only if both occur.
    """
    names, lower = gradient_names(name), {str(key).lower(): key for key in held}
    keys = [*names, *(lower.get(each.lower()) for each in names)]
    return next((key for key in keys if isinstance(
        held.get(key), (np.ndarray, np.number, float, list))), None)


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
    def short(self):
        """Return the name by which its gradient is called: W of self.W and of self.params["W"]."""
        return self.key.rpartition(".")[2] or self.name

    @property
    def is_known(self):
        """Return True if its name alone says that it is a parameter."""
        if isinstance(self.value, Param) or self.name == "data" and hasattr(self.owner, "grad"):
            return True
        if self.key:
            return self.name in PARAMETERS
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
        nests = [held[name] for name in GRADIENTS if name in held]
        if self.short.isdigit():
            found = [_item(nest, self.key) for nest in nests]
        else:
            found = [held.get(gradient_key(self.short, held))]
            for nest in (nest for nest in nests if isinstance(nest, dict)):
                found += [nest.get(self.short), nest.get(gradient_key(self.short, nest))]
        return next((gradient for gradient in found if gradient is not None), None)


def _item(nest, key):
    """Return the item of a nest of dicts and lists at "W" or "0.W", or None."""
    try:
        for part in key.split("."):
            nest = nest[part] if isinstance(nest, dict) and part in nest else nest[int(part)]
        return nest
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def candidates(made):
    """Return {path: Candidate} of an object's float arrays and Params, each array once.

    Constants, gradients and frozen Params are left out.
    """
    found, seen = {}, {}
    for path, *fields in attributes(made):
        one = Candidate(*fields)
        if _may_be_parameter(one):
            first = seen.setdefault(id(one.value), one)
            if first is one:
                found[path] = one
            else:
                first.also.append(one)
    return found


def _may_be_parameter(one):
    if isinstance(one.value, Param):
        return one.value.trainable
    return (isinstance(one.value, np.ndarray) and one.value.dtype.kind == "f"
            and not is_constant(one.value) and not _is_gradient(one))


def is_constant(value):
    """Return True for an array that is declared constant: W.setflags(write=False)."""
    return isinstance(value, np.ndarray) and not value.flags.writeable


def _is_gradient(one):
    """Return True if an array is, by its name, the gradient of another."""
    others = (name for name in vars(one.owner) if name != one.name)
    return one.name in GRADIENTS or any(
        one.name.lower() in map(str.lower, gradient_names(other)) for other in others)


def attributes(made, path="", around=()):
    """Yield (dotted path, value, owner, name, key) of what an object and its parts hold."""
    for name, value in list(vars(made).items()):
        for at, item in items_of(value, name):
            key = at[len(name) + 1:]
            if isinstance(item, Layer):
                yield from ((f"{path}{at}.{n}", p, made, name, n) for n, p in item.params())
            elif is_part(item) and not any(item is other for other in (made, *around)):
                yield from attributes(item, f"{path}{at}.", (made, *around))
            else:
                yield f"{path}{at}", item, made, name, key


def is_part(item):
    """Return True for an object with a backward, or one that only holds arrays."""
    if isinstance(item, (Layer, Param)) or not hasattr(item, "__dict__"):
        return False
    return hasattr(item, "backward") or not (callable(item) or inspect.ismodule(item)) and any(
        isinstance(value, np.ndarray) for value in vars(item).values())


def constants(made):
    """Return {id: array} of the arrays that are declared constant, as a memo for deepcopy."""
    return {id(value): value for _, value, *_ in attributes(made) if is_constant(value)}


def after_first_forward(made, forward, inputs, options):
    """Return a copy of an object with what its first forward sets up, such as its parameters.

    Forward runs twice, on different numbers. What the first run sets and the second leaves alone
    is set up; what differs is a cache, and is left out.
    """
    memo = constants(made)
    once = copy.deepcopy(made, dict(memo))
    forward(once)(*copied(inputs), **options)
    twice = copy.deepcopy(once, dict(memo))
    forward(twice)(*shifted(inputs), **options)
    return _set_up(copy.deepcopy(made, dict(memo)), once, twice)


def _set_up(before, once, twice):
    """Return `before` with what is the same in `once` and `twice`; its parts likewise."""
    held, second = vars(before), vars(twice)
    for name, value in vars(once).items():
        parts = [[item for _, item in items_of(one, "") if is_part(item)]
                 for one in (held.get(name), value, second.get(name))]
        if parts[0] and len(parts[0]) == len(parts[1]) == len(parts[2]):
            for three in zip(*parts, strict=True):
                _set_up(*three)
        elif not same(held.get(name), value) and same(value, second.get(name)):
            held[name] = value
    return before
