"""Handle nested structures of tuples, lists, dicts and dataclasses with float arrays in them."""

import contextlib
import dataclasses

import numpy as np

from npdl.core import Cache
from npdl.core import rebuild as rebuild_container


def is_float(value):
    """Return True for a float array or number."""
    return isinstance(value, float) or (
        isinstance(value, (np.ndarray, np.floating)) and value.dtype.kind == "f")


def leaves(nest, path=""):
    """Yield (path, array) for the float arrays of a nested structure, which may contain Caches."""
    if is_nest(nest) or isinstance(nest, Cache):
        for name, item in _items(nest):
            yield from leaves(item, f"{path}.{name}" if path else str(name))
    elif is_float(nest):
        yield path or "0", nest


def is_nest(value):
    """Return True for a tuple, a list, a dict or an instance of a dataclass."""
    return isinstance(value, (tuple, list, dict)) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type))


def _items(nest):
    """Return the (name, item) pairs of one level of a nested structure."""
    if isinstance(nest, (dict, Cache)):
        return (nest if isinstance(nest, dict) else vars(nest)).items()
    if dataclasses.is_dataclass(nest):
        return [(field.name, getattr(nest, field.name)) for field in dataclasses.fields(nest)]
    return zip(getattr(nest, "_fields", range(len(nest))), nest, strict=True)


def rebuild(nest, items):
    """Return a copy of a tuple, list, dict or dataclass `nest` with other items in it."""
    if not dataclasses.is_dataclass(nest):
        return rebuild_container(nest, items)
    names = [field.name for field in dataclasses.fields(nest)]
    return dataclasses.replace(nest, **dict(zip(names, items, strict=True)))


def as_tuple(value):
    """Return a value as a tuple: itself if it is a tuple, else (value,)."""
    return value if isinstance(value, tuple) else (value,)


def map_leaves(nest, change):
    """Return a copy of a nested structure with change(leaf) in place of each leaf."""
    if is_nest(nest):
        return rebuild(nest, [map_leaves(item, change) for _, item in _items(nest)])
    return change(nest)


def copy_tree(nest):
    """Return a copy of a nested structure with copies of its arrays."""
    return map_leaves(nest, lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf)


def shift_values(nest):
    """Return a copy of a nested structure whose float arrays have slightly larger numbers."""
    def change(leaf):
        if not isinstance(leaf, np.ndarray) or not is_float(leaf):
            return leaf
        return leaf + 0.1 + 0.1 * np.cos(np.arange(leaf.size)).reshape(leaf.shape)

    return map_leaves(nest, change)


def match_inputs(returned, floats):
    """Return a tuple with one gradient for each input.

    returned  the value that backward returned: a gradient, a tuple or a list
    floats    a list with True for each input that has float arrays; backward may leave the
              gradients of the other inputs out
    """
    if isinstance(returned, list) and len(floats) > 1:
        returned = tuple(returned)
    found = as_tuple(returned)
    if len(found) == len(floats) or len(found) != sum(floats):
        return found
    given = iter(found)
    return tuple(next(given) if is_given else None for is_given in floats)


def random_upstream(nest, rng):
    """Return a structure like the outputs, with random gradients for float arrays, else None."""
    return map_leaves(nest, lambda y: rng.standard_normal(np.shape(y)) if is_float(y) else None)


def select_paths(nest, used, zeros=False, path=""):
    """Return a copy of a nested structure that keeps only the leaves at the paths in `used`.

    The other leaves are replaced by None, or by zeros if `zeros` is True.
    """
    if not is_nest(nest):
        unused = np.zeros_like(nest) if zeros and nest is not None else None
        return nest if (path or "0") in used else unused
    return rebuild(nest, [select_paths(item, used, zeros, f"{path}.{name}" if path else str(name))
                          for name, item in _items(nest)])


@contextlib.contextmanager
def restore_values(params, inputs):
    """Restore the values of Params and inputs at the end of the block."""
    params, found = [(param, param.data) for param in params], []
    map_leaves(inputs, found.append)
    arrays = [*(data for _, data in params), *(x for x in found if isinstance(x, np.ndarray))]
    before = [array.copy() for array in arrays]
    try:
        yield
    finally:
        for array, own in zip(arrays, before, strict=True):
            if array.flags.writeable:
                array[...] = own
        for param, data in params:
            param.data = data


def cast_tree(nest, dtype):
    """Return a copy of a nested structure whose float arrays have the given dtype."""
    return map_leaves(nest, lambda leaf: leaf.astype(dtype) if is_float(leaf) and isinstance(
        leaf, np.ndarray) else leaf)


def is_equal(a, b):
    """Return True if two values, or nested structures, have the same type and are equal."""
    if type(a) is not type(b):
        return False
    if is_nest(a):
        one, two = list(_items(a)), list(_items(b))
        return len(one) == len(two) and all(
            x == y and is_equal(v, w) for (x, v), (y, w) in zip(one, two, strict=True))
    return np.array_equal(a, b, equal_nan=is_float(a))
