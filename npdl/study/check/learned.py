"""Find the parameters of a student's object (left) and their gradients (right).

    self.W                   self.dW, self.dw, self.d_W, self.grad_W or self.W_grad
    self.W                   self.grads["W"] or self.grads["dW"]
    self.params["W"]         self.grads["W"] or self.grads["dW"], or in self.gradients
    self.params[0]           self.grads[0]
    self.W.data              self.W.grad

Each attribute of an object and of its parts has a dotted path, such as "W", "params.0" or
"layers.1.params.W". Upper and lower case are distinguished only if both spellings occur.
"""

import copy
import functools
import inspect
from dataclasses import dataclass

import numpy as np

from npdl.core import Layer, Param, flatten_items
from npdl.study.trees import is_equal

PARAMETERS = ("params", "parameters")
GRADIENTS = ("grads", "gradients", "grad", "gradient")


@functools.cache
def list_gradient_names(name):
    """Return the names that the gradient of an array may have, such as "dW" for "W"."""
    return f"d{name}", f"d_{name}", f"grad_{name}", f"{name}_grad"


def find_gradient_key(name, attributes):
    """Return the key of the named array's gradient in the dict `attributes`, or None."""
    return _find_first_numeric_path((*list_gradient_names(name), name), attributes)


@functools.cache
def list_gradient_paths(path):
    """Return the paths at which an object may hold the gradient of the array at `path`."""
    *owner, name = path.split(".")
    if name == "data":
        return (".".join([*owner, "grad"]),)
    at = next((i for i in reversed(range(len(owner))) if owner[i] in PARAMETERS), len(owner))
    owner, inside = owner[:at], owner[at + 1:]
    nests = [[*owner, nest, *inside] for nest in GRADIENTS]
    return tuple(".".join([*way, one]) for way in ([*owner, *inside], *nests)
                 for one in (*list_gradient_names(name), *[name] * (way in nests)))


def _find_first_numeric_path(paths, attributes):
    """Return the first path whose value in `attributes` is a number or an array, or None."""
    lower = {str(path).lower(): path for path in attributes}
    keys = [*paths, *(lower.get(path.lower()) for path in paths)]
    return next((key for key in keys if isinstance(
        attributes.get(key), (np.ndarray, np.number, float))), None)


@dataclass
class ParameterCandidate:
    """An array or a Param that may be a parameter.

    value  the array or the Param
    paths  the dotted paths at which the object holds it
    """

    value: object
    paths: list

    def find_gradient(self, attributes):
        """Return the gradient of this array in an object's attributes {path: value}, or None."""
        keys = (_find_first_numeric_path(list_gradient_paths(path), attributes)
                for path in self.paths)
        return next((attributes[key] for key in keys if key is not None), None)


def find_parameter_candidates(owner):
    """Return {path: ParameterCandidate} for the float arrays and the Params of an object.

    An array with several paths occurs once. Constants, gradients and frozen Params are left out.
    """
    attributes, found = list(walk_attributes(owner)), {}
    gradients = {one.lower() for path, _ in attributes for one in list_gradient_paths(path)}
    for path, value in attributes:
        is_array = isinstance(value, np.ndarray) and value.dtype.kind == "f" \
            and value.flags.writeable
        if isinstance(value, Param) and value.trainable or is_array and not (
                path.lower() in gradients or {*path.lower().split(".")} & {*GRADIENTS}):
            found.setdefault(id(value), ParameterCandidate(value, [])).paths.append(path)
    return {one.paths[0]: one for one in found.values()}


def walk_attributes(owner, path="", enclosing=()):
    """Yield (dotted path, value) for all attributes of an object and of its parts."""
    for name, value in list(vars(owner).items()):
        for at, item in flatten_items(value, f"{path}{name}"):
            if isinstance(item, Layer):
                yield from ((f"{at}.{n}", param) for n, param in item.params())
            elif has_backward_or_arrays(item) and item is not owner and not any(
                    item is other for other in enclosing):
                yield from walk_attributes(item, f"{at}.", (owner, *enclosing))
            else:
                yield at, item


def has_backward_or_arrays(item):
    """Return True for an object that has a backward, or that holds arrays and isn't callable."""
    if isinstance(item, (Layer, Param)) or not hasattr(item, "__dict__"):
        return False
    return hasattr(item, "backward") or not (callable(item) or inspect.ismodule(item)) and any(
        isinstance(value, np.ndarray) for value in vars(item).values())


def copy_object(owner, replacements=None):
    """Return a deep copy of an object.

    replacements  {id of a value: the copy to use}; all other values are copied here
    Read-only arrays are shared, because a copy would not be read-only.
    """
    shared = {id(value): value for _, value in walk_attributes(owner)
              if isinstance(value, np.ndarray) and not value.flags.writeable}
    return copy.deepcopy(owner, shared | (replacements or {}))


def copy_equal_attributes(target, once, twice):
    """Copy attributes that are equal in `once` and `twice` into `target`; return `target`.

    These are three copies of one object: before forward ran, and after it ran once and twice. Their
    parts are treated in the same way.
    """
    attributes, second = vars(target), vars(twice)
    for name, value in vars(once).items():
        parts = [[item for _, item in flatten_items(one, "") if has_backward_or_arrays(item)]
                 for one in (attributes.get(name), value, second.get(name))]
        if parts[0] and len(parts[0]) == len(parts[1]) == len(parts[2]):
            for three in zip(*parts, strict=True):
                copy_equal_attributes(*three)
        elif not is_equal(attributes.get(name), value) and is_equal(value, second.get(name)):
            attributes[name] = value
    return target
