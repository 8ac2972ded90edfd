"""Nests of tuples, lists and dicts, as forwards take and return them, and their float arrays."""

import contextlib

import numpy as np

from npdl.core import Cache, rebuilt


def is_float(value):
    return value is not None and np.issubdtype(np.asarray(value).dtype, np.floating)


def leaves(nest, path=""):
    """Yield (path, array) for the float arrays of a nest of tuples, lists, dicts and Caches."""
    if isinstance(nest, Cache):
        for name, item in vars(nest).items():
            yield from leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(nest, (tuple, list, dict)):
        names = getattr(nest, "_fields", nest if isinstance(nest, dict) else range(len(nest)))
        items = nest.values() if isinstance(nest, dict) else nest
        for name, item in zip(names, items, strict=True):
            yield from leaves(item, f"{path}.{name}" if path else str(name))
    elif is_float(nest):
        yield path or "0", nest


def tupled(value):
    """A tuple of what a function returned, one thing or several."""
    return value if isinstance(value, tuple) else (value,)


def mapped(nest, change):
    """The same nest with change(leaf) in the place of each leaf."""
    if isinstance(nest, (tuple, list)):
        return rebuilt(nest, [mapped(item, change) for item in nest])
    if isinstance(nest, dict):
        return rebuilt(nest, [mapped(item, change) for item in nest.values()])
    return change(nest)


def copied(nest):
    """A nest of arrays, copied."""
    return mapped(nest, lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf)


def by_input(returned, floats):
    """(what a backward returned, one item for each input, the inputs that its items are of).

    `floats` says of each input whether it is a float array: a backward may leave the others out.
    [dx, dW] and (dx, [dW, db]) are (dx, dW) and (dx, dW, db).
    """
    several = isinstance(returned, (tuple, list)) and len(returned) > 1
    flat = tuple(part for item in (returned if several else ()) for part in (
        item if isinstance(item, (tuple, list)) else (item,)))
    if len(floats) > 1 and len(flat) == len(floats):
        returned = flat if isinstance(returned, list) or len(returned) != len(floats) else returned
    elif len(floats) > 1 and isinstance(returned, list) and len(returned) == sum(floats):
        returned = tuple(returned)
    found = returned if isinstance(returned, tuple) else (returned,)
    if len(found) == len(floats) or len(found) != sum(floats):
        return returned, range(len(found))
    given = iter(found)                                 # none for integers: dW for (ids, W)
    return (tuple(next(given) if own else None for own in floats),
            [i for i, own in enumerate(floats) if own])


def upstream(nest, rng):
    """Random gradients in the nest of the outputs; None for what is not a float array."""
    return mapped(nest, lambda y: rng.standard_normal(np.shape(y)) if is_float(y) else None)


def only_paths(nest, used, zeros=False, path=""):
    """The same nest with None, or zeros, in place of every leaf whose path is not in `used`."""
    if not isinstance(nest, (tuple, list)):
        empty = np.zeros_like(nest) if zeros and nest is not None else None
        return nest if (path or "0") in used else empty
    names = getattr(nest, "_fields", range(len(nest)))
    return rebuilt(nest, [only_paths(item, used, zeros, f"{path}.{name}" if path else str(name))
                          for name, item in zip(names, nest, strict=True)])


def dout_of(layer, run, dout, used):
    """`dout` with the outputs of the paths `used` alone: None for the others, as npdl's own layers
    take it; zeros for a layer of another's whose backward does not take None."""
    bare = only_paths(dout, used)
    if type(layer).__module__.startswith("npdl."):
        return bare
    try:
        with np.errstate(all="ignore"):
            _, cache = run()
            returned = layer.backward(only_paths(cast(dout, "float64"), used), cache)
        found = [a for _, a in leaves(returned if isinstance(returned, tuple) else (returned,))]
        found += [param.grad for _, param in layer.params()]
        takes = bool(found) and all(np.isfinite(array).all() for array in found)
    except Exception:
        takes = False
    return bare if takes else only_paths(dout, used, zeros=True)


@contextlib.contextmanager
def restored(params, inputs):
    """Put Params and inputs, of whole numbers too, back at the end, whatever wrote into them."""
    params, found = [(param, param.data) for param in params], []
    mapped(inputs, found.append)
    arrays = [*(data for _, data in params), *(x for x in found if isinstance(x, np.ndarray))]
    copies = [array.copy() for array in arrays]
    try:
        yield
    finally:
        for array, copy in zip(arrays, copies, strict=True):
            if array.flags.writeable:
                array[...] = copy
        for param, data in params:
            param.data = data


def cast(nest, dtype):
    """A copy of a nest whose float arrays have another dtype; strided ones stay strided."""
    def change(leaf):
        if not isinstance(leaf, np.ndarray) or not is_float(leaf):
            return leaf
        copy = leaf.astype(dtype)                   # keeps the order of the axes, but no gaps
        if copy.flags.c_contiguous and not leaf.flags.c_contiguous:
            gaps = np.zeros((*copy.shape, 2), dtype)
            gaps[..., 0] = copy
            copy = gaps[..., 0]
        return copy

    return mapped(nest, change)


def same(a, b):
    """Whether two values, arrays or nests of them, are equal."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    floats = isinstance(a, (np.ndarray, np.floating, float)) and np.asarray(a).dtype.kind == "f"
    return type(a) is type(b) and np.array_equal(a, b, equal_nan=floats)
