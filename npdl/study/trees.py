"""Handle nested structures of tuples, lists, dicts and dataclasses with float arrays in them."""

import contextlib
import dataclasses

import numpy as np

from npdl.core import rebuild as rebuild_container


def is_float(value):
    """Return True for a float array or number."""
    return isinstance(value, float) or (
        isinstance(value, (np.ndarray, np.floating)) and value.dtype.kind == "f")


def leaves(nested, path=""):
    """Yield (path, array) for the float arrays in nested containers, with paths such as "1.W"."""
    if is_nested(nested):
        for name, item in _top_level_items(nested):
            yield from leaves(item, f"{path}.{name}" if path else str(name))
    elif is_float(nested):
        yield path or "0", nested


def is_nested(value):
    """Return True for a tuple, a list, a dict or an instance of a dataclass."""
    return isinstance(value, (tuple, list, dict)) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type))


def _top_level_items(nested):
    """Return pairs (name, item) of a tuple, list, dict or dataclass."""
    if isinstance(nested, dict):
        return nested.items()
    if dataclasses.is_dataclass(nested):
        return [(field.name, getattr(nested, field.name)) for field in dataclasses.fields(nested)]
    return zip(getattr(nested, "_fields", range(len(nested))), nested, strict=True)


def rebuild(nested, items):
    """Return a tuple, list, dict or dataclass like `nested`, but with these items in it."""
    if not dataclasses.is_dataclass(nested):
        return rebuild_container(nested, items)
    names = [field.name for field in dataclasses.fields(nested)]
    return dataclasses.replace(nested, **dict(zip(names, items, strict=True)))


def as_tuple(value):
    """Return a value as a tuple: itself if it is a tuple, else (value,)."""
    return value if isinstance(value, tuple) else (value,)


def map_leaves(nested, function):
    """Return a copy of a nested structure with function(leaf) in place of each array or number."""
    if is_nested(nested):
        return rebuild(nested, [map_leaves(item, function) for _, item in _top_level_items(nested)])
    return function(nested)


def map_arrays(nested, function):
    """Return a copy of a nested structure with function(array) in place of each array."""
    return map_leaves(nested, lambda leaf: function(leaf) if isinstance(leaf, np.ndarray) else leaf)


def copy_tree(nested):
    """Return a copy of a nested structure with copies of its arrays."""
    return map_arrays(nested, lambda a: a.copy())


def shift_values(nested):
    """Return a copy of a nested structure whose float arrays have slightly larger numbers."""
    return map_arrays(nested, lambda a: a + 0.1 + 0.1 * np.cos(np.arange(a.size)).reshape(a.shape)
                      if is_float(a) else a)


def match_gradients_to_inputs(returned, inputs_have_floats):
    """Return a tuple with one gradient for each input, made of the value that backward returned.

    returned            this value: a gradient, a tuple or a list
    inputs_have_floats  a list with True for each input that has float arrays. Backward may leave
                        out the gradients of all other inputs; the tuple then has None in their
                        place.
    """
    if isinstance(returned, list) and len(inputs_have_floats) > 1:
        returned = tuple(returned)
    found = as_tuple(returned)
    if len(found) == len(inputs_have_floats) or len(found) != sum(inputs_have_floats):
        return found
    given = iter(found)
    return tuple(next(given) if is_given else None for is_given in inputs_have_floats)


def draw_upstream(nested, rng):
    """Return random upstream gradients for nested outputs, nested alike; None for integers."""
    return map_leaves(nested, lambda y: rng.standard_normal(np.shape(y)) if is_float(y) else None)


def select_paths(nested, selected, zeros=False, path=""):
    """Return a copy of a nested structure that has only the arrays at the selected paths.

    Other arrays become None, or zeros if `zeros` is True. A path is a text such as "1.W" (see
    `leaves`); `path` is that of `nested` itself.
    """
    if not is_nested(nested):
        unused = np.zeros_like(nested) if zeros and nested is not None else None
        return nested if (path or "0") in selected else unused
    return rebuild(nested, [
        select_paths(item, selected, zeros, f"{path}.{name}" if path else str(name))
        for name, item in _top_level_items(nested)])


@contextlib.contextmanager
def preserve_values(params, inputs):
    """Restore the values of Params and inputs at the end of the `with` block."""
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


def cast_tree(nested, dtype):
    """Return a copy of a nested structure whose float arrays have the given dtype."""
    return map_arrays(nested, lambda a: a.astype(dtype) if is_float(a) else a)


def is_equal(a, b):
    """Return True if two values, or nested structures, have the same type and are equal."""
    if type(a) is not type(b):
        return False
    if is_nested(a):
        one, two = list(_top_level_items(a)), list(_top_level_items(b))
        return len(one) == len(two) and all(
            x == y and is_equal(v, w) for (x, v), (y, w) in zip(one, two, strict=True))
    return np.array_equal(a, b, equal_nan=is_float(a))
