"""Find the parameters of an object with its cache in self (left) and their gradients (right).

    self.W                   self.dW, self.dw, self.d_W, self.grad_W or self.W_grad
    self.W                   self.grads["W"] or self.grads["dW"]
    self.params["W"]         self.grads["W"] or self.grads["dW"], or in self.gradients
    self.params[0]           self.grads[0]
    self.W.data              self.W.grad

Each attribute of an object and of its parts has a dotted path, such as "W", "params.0" or
"layers.1.params.W". Upper and lower case are distinguished only if both occur.
"""

import copy
import functools
import inspect
from dataclasses import dataclass

import numpy as np

from npdl.core import Layer, Param, get_items
from npdl.study.trees import copy_tree, is_equal, shift_values

PARAMETERS = ("params", "parameters")
GRADIENTS = ("grads", "gradients", "grad", "gradient")


@functools.cache
def gradient_names(name):
    """Return the names that the gradient of an array W may have, such as dW."""
    return f"d{name}", f"d_{name}", f"grad_{name}", f"{name}_grad"


def gradient_key(name, held):
    """Return the key of the gradient of the array `name` in the dict `held`, or None."""
    return _first_known_path((*gradient_names(name), name), held)


@functools.cache
def gradient_paths(path):
    """Return the paths at which an object may keep the gradient of the array at `path`."""
    *owner, name = path.split(".")
    if name == "data":
        return (".".join([*owner, "grad"]),)
    at = next((i for i in reversed(range(len(owner))) if owner[i] in PARAMETERS), len(owner))
    owner, inside = owner[:at], owner[at + 1:]
    nests = [[*owner, nest, *inside] for nest in GRADIENTS]
    return tuple(".".join([*way, one]) for way in ([*owner, *inside], *nests)
                 for one in (*gradient_names(name), *[name] * (way in nests)))


def _first_known_path(paths, held):
    """Return the first path in `paths` that is a number or an array in the dict `held`, or None."""
    lower = {str(path).lower(): path for path in held}
    keys = [*paths, *(lower.get(path.lower()) for path in paths)]
    return next((key for key in keys if isinstance(
        held.get(key), (np.ndarray, np.number, float))), None)


@dataclass
class Candidate:
    """An array or a Param that may be a parameter.

    value  the array or the Param
    paths  the dotted paths at which the object holds it
    """

    value: object
    paths: list

    def gradient(self, held):
        """Return the gradient of this array, or None; `held` is the {path: value} of an object."""
        return next((held[found] for path in self.paths
                     if (found := _first_known_path(gradient_paths(path), held)) is not None), None)


def find_candidates(made):
    """Return {path: Candidate} for the float arrays and the Params of an object.

    An array with several paths occurs once. Constants, gradients and frozen Params are left out.
    """
    held, found = list(walk_attributes(made)), {}
    gradients = {one.lower() for path, _ in held for one in gradient_paths(path)}
    for path, value in held:
        is_array = isinstance(value, np.ndarray) and value.dtype.kind == "f" \
            and value.flags.writeable
        if isinstance(value, Param) and value.trainable or is_array and not (
                path.lower() in gradients or {*path.lower().split(".")} & {*GRADIENTS}):
            found.setdefault(id(value), Candidate(value, [])).paths.append(path)
    return {one.paths[0]: one for one in found.values()}


def walk_attributes(made, path="", around=()):
    """Yield (dotted path, value) for all attributes of an object and of its parts."""
    for name, value in list(vars(made).items()):
        for at, item in get_items(value, f"{path}{name}"):
            if isinstance(item, Layer):
                yield from ((f"{at}.{n}", param) for n, param in item.params())
            elif is_part(item) and not any(item is other for other in (made, *around)):
                yield from walk_attributes(item, f"{at}.", (made, *around))
            else:
                yield at, item


def is_part(item):
    """Return True for an object that has a backward, or that holds arrays and isn't callable."""
    if isinstance(item, (Layer, Param)) or not hasattr(item, "__dict__"):
        return False
    return hasattr(item, "backward") or not (callable(item) or inspect.ismodule(item)) and any(
        isinstance(value, np.ndarray) for value in vars(item).values())


def find_constants(made):
    """Return {id: array} of the read-only arrays. With it as memo, deepcopy doesn't copy them."""
    return {id(value): value for _, value in walk_attributes(made)
            if isinstance(value, np.ndarray) and not value.flags.writeable}


def after_first_forward(made, forward, inputs, options):
    """Return a copy of an object with the attributes that its first forward makes.

    Forward runs twice, with different numbers. An attribute that is equal after both runs, such as
    a parameter, is in the copy. An attribute that differs is a cache, and isn't in the copy.
    """
    memo = find_constants(made)
    once = copy.deepcopy(made, dict(memo))
    forward(once)(*copy_tree(inputs), **options)
    twice = copy.deepcopy(once, dict(memo))
    forward(twice)(*shift_values(inputs), **options)
    return _set_up(copy.deepcopy(made, dict(memo)), once, twice)


def _set_up(before, once, twice):
    """Copy the attributes that are equal in `once` and `twice` into `before`, and return it.

    The same is done for the parts of the objects.
    """
    held, second = vars(before), vars(twice)
    for name, value in vars(once).items():
        parts = [[item for _, item in get_items(one, "") if is_part(item)]
                 for one in (held.get(name), value, second.get(name))]
        if parts[0] and len(parts[0]) == len(parts[1]) == len(parts[2]):
            for three in zip(*parts, strict=True):
                _set_up(*three)
        elif not is_equal(held.get(name), value) and is_equal(value, second.get(name)):
            held[name] = value
    return before
