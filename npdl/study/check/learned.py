"""Find the parameters of an object that keeps its cache in self, and their gradients.

    self.W                   self.dW, self.dw, self.d_W, self.grad_W or self.W_grad
    self.W                   self.grads["W"] or self.grads["dW"]
    self.params["W"]         self.grads["W"] or self.grads["dW"], or in self.gradients
    self.params[0]           self.grads[0]
    self.W.data              self.W.grad

What an object and its parts hold has a dotted path: "W", "params.0", "layers.1.params.W". Upper and
lower case are told apart only if both occur.
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


def named_gradient(name, held):
    """Return the gradient of W in {name or path: value}, or None."""
    return _first(gradient_names(name), held)


@functools.cache
def gradient_paths(path):
    """Return the paths at which the gradient of an array may be."""
    *owner, name = path.split(".")
    if name == "data":
        return (".".join([*owner, "grad"]),)
    at = next((i for i in reversed(range(len(owner))) if owner[i] in PARAMETERS), len(owner))
    owner, inside = owner[:at], owner[at + 1:]
    nests = [[*owner, nest, *inside] for nest in GRADIENTS]
    return tuple(".".join([*way, one]) for way in ([*owner, *inside], *nests)
                 for one in (*gradient_names(name), *[name] * (way in nests)))


def _first(paths, held):
    """Return the first number or array in {path: value} at one of some paths, or None."""
    lower = {str(path).lower(): value for path, value in held.items()}
    found = [*map(held.get, paths), *(lower.get(path.lower()) for path in paths)]
    return next((v for v in found if isinstance(v, (np.ndarray, np.number, float))), None)


@dataclass
class Candidate:
    """An array, or a Param, that may be a parameter.

    paths     where the object holds it; the first is its name
    is_known  True if its name alone says that it is a parameter
    """

    value: object
    paths: list = field(default_factory=list)
    is_known: bool = False

    def gradient(self, held):
        """Return its gradient in {path: value} of what a copy of the object holds, or None."""
        return next((found for path in self.paths
                     if (found := _first(gradient_paths(path), held)) is not None), None)


def candidates(made):
    """Return {path: Candidate} of an object's float arrays and Params, each array once.

    Constants, gradients and frozen Params are left out.
    """
    held, found = list(held_by(made)), {}
    paths = {path for path, _, _ in held}
    gradients = {one.lower() for path in paths for one in gradient_paths(path)}
    for path, value, owner in held:
        is_array = isinstance(value, np.ndarray) and value.dtype.kind == "f" \
            and value.flags.writeable
        parts = path.lower().split(".")
        if isinstance(value, Param) and value.trainable or is_array and not (
                path.lower() in gradients or {*parts} & {*GRADIENTS}):
            one = found.setdefault(id(value), Candidate(value))
            one.paths.append(path)
            named = {*gradient_paths(path), *gradient_names(path.rpartition(".")[2])}
            one.is_known |= not is_array or bool(
                {*parts} & {*PARAMETERS} or named & (paths | mentioned(type(owner))))
    return {one.paths[0]: one for one in found.values()}


@functools.cache
def mentioned(cls):
    """Return the names that the methods of a class use."""
    return {name for base in cls.__mro__ for f in vars(base).values() if inspect.isfunction(f)
            for name in f.__code__.co_names}


def held_by(made, path="", around=()):
    """Yield (dotted path, value, owner) of what an object and its parts hold."""
    for name, value in list(vars(made).items()):
        for at, item in items_of(value, f"{path}{name}"):
            if isinstance(item, Layer):
                yield from ((f"{at}.{n}", param, made) for n, param in item.params())
            elif is_part(item) and not any(item is other for other in (made, *around)):
                yield from held_by(item, f"{at}.", (made, *around))
            else:
                yield at, item, made


def paths_in(made):
    """Return {path: value} of what an object and its parts hold."""
    return {path: value for path, value, _ in held_by(made)}


def is_part(item):
    """Return True for an object with a backward, or one that only holds arrays."""
    if isinstance(item, (Layer, Param)) or not hasattr(item, "__dict__"):
        return False
    return hasattr(item, "backward") or not (callable(item) or inspect.ismodule(item)) and any(
        isinstance(value, np.ndarray) for value in vars(item).values())


def constants(made):
    """Return {id: array} of the arrays that are declared constant, as a memo for deepcopy."""
    return {id(value): value for _, value, _ in held_by(made)
            if isinstance(value, np.ndarray) and not value.flags.writeable}


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
