"""What a gradient check of one backward cannot see: how a backward treats what it is handed.

`manners(check)` runs the backward of a GradientCheck in other ways, and compares: with an upstream
gradient that is strided, a second time on one cache, after another forward, in float32; and it
looks whether the backward writes into what it was given. Each fault is a sentence.
"""

import numpy as np

from npdl_study.check.guard import message
from npdl_study.check.subjects import InSelf
from npdl_study.trees import cast, kept, leaves, same

CLOSE = 1e-9
CLOSE_32 = 2e-3                 # float32 against float64, relative to the largest entry
ROUNDING = 1e-13                # a gradient smaller than the largest by this is a zero
HANDED = "the gradient that it is handed"
TINY = 1e-10                    # a gradient below this is rounding to a central difference


def manners(check):
    """(faults, what could not be checked), sentences about a GradientCheck's layer."""
    faults = [f"backward changes {what} in place: write into a new array"
              for what in _written(check, check.dout)]
    wrong, unchecked = other_ways(check)
    return faults + wrong, unchecked


def other_ways(check, tiny=TINY):
    """The same of the gradients alone, of a GradientCheck or a Check: (where they are wrong, which
    are smaller than `tiny`)."""
    dout, faults = check.dout, []
    plain = _gradients(check, _copied(dout))
    ways = {"the upstream gradient is not contiguous (a transpose, a slice)":
            lambda: _gradients(check, _strided(dout))}
    if not isinstance(check.layer, InSelf):             # its cache is in self: it has only one
        if set(_written(check, dout)) <= {HANDED}:      # else that is the same fault
            ways["it runs a second time on one cache: it changes the cache"] = \
                lambda: _gradients(check, _copied(dout), times=2)
        ways["forward ran again in between, on other inputs: it reads from self what belongs in "
             "the cache"] = lambda: _gradients(check, _copied(dout), between=_other_inputs)
    ways["all is float32 (right in float64)"] = lambda: _in_float32(check)
    for how, gradients in ways.items():
        try:
            found = gradients()
            wrong = found and _differ(plain, found, CLOSE_32 if "float32" in how else CLOSE)
        except Exception as error:
            faults.append(f"it raises {message(error)} when {how}")
            continue
        if wrong:
            faults.append(f"the gradient of {', '.join(wrong)} is wrong when {how}")
    largest = max((np.abs(array).max(initial=0) for array in plain.values()), default=0)
    unchecked = [f"the gradient of {name} is below {tiny:g} everywhere: too small to be checked; "
                 "scale the inputs or parameters" for name, array in plain.items()
                 if ROUNDING * largest < np.abs(array).max(initial=0) < tiny]
    return faults, unchecked


def _backward(layer, dout, cache, times=1):
    """{name: gradient} of the last of so many backwards."""
    for handed in (*[_copied(dout) for _ in range(times - 1)], dout):   # it may write into it
        for _, param in layer.params():
            param.grad[...] = 0
        returned = layer.backward(handed, cache)
    returned = returned if isinstance(returned, tuple) else (returned,)
    found = {name: param.grad.copy() for name, param in layer.params()}
    return found | {f"input {path}": np.array(a) for path, a in leaves(returned)}


def _gradients(check, dout, times=1, between=None):
    with kept(check.layer, check.inputs):
        _, cache = check.run()
        if between is not None and not between(check):
            return None
        return _backward(check.layer, dout, cache, times)


def _other_inputs(check):
    """Whether a forward runs on inputs that are a little different; it may refuse them."""
    arrays = [a for _, a in leaves(check.inputs) if isinstance(a, np.ndarray)]
    before = [a.copy() for a in arrays]
    for array in arrays:
        array += 0.1 + 0.1 * np.cos(np.arange(array.size)).reshape(array.shape)
    try:
        check.run()
    except Exception:
        return False
    finally:
        for array, held in zip(arrays, before, strict=True):
            array[...] = held
    return True


def _written(check, dout):
    """What the backward changes of what it was handed: "its dout", "input 0", "parameter W"."""
    arrays = {f"input {path}": a for path, a in leaves(check.inputs) if isinstance(a, np.ndarray)}
    arrays |= {f"parameter {name}": param.data for name, param in check.layer.params()}
    before = {name: a.copy() for name, a in arrays.items()}
    handed = _copied(dout)
    _, cache = check.run()
    _backward(check.layer, handed, cache)
    found = [name for name, a in arrays.items() if not same(a, before[name])]
    for name in found:
        arrays[name][...] = before[name]
    kept_whole = all(same(a, b) for (_, a), (_, b)
               in zip(leaves(handed), leaves(dout), strict=True))
    return found if kept_whole else [HANDED, *found]


def _in_float32(check):
    """Every gradient, with everything in float32."""
    layer, inputs = check.layer.astype("float32"), cast(check.inputs, "float32")
    options = {name: cast(value, "float32") for name, value in check.options.items()}
    with np.errstate(all="ignore"):
        _, cache = check.forward(layer, *inputs, **options)
        return _backward(layer, cast(_copied(check.dout), "float32"), cache)


def _differ(plain, other, limit=CLOSE):
    """The names of the gradients that differ."""
    found = []
    largest = max(np.abs(array).max(initial=0) for array in plain.values())
    floor = 1e-3 * max(1, largest) if limit > CLOSE else 1e-12      # some are zero in theory
    for name, array in plain.items():
        size = max(np.abs(array).max(initial=0), floor)
        if name not in other or np.shape(other[name]) != array.shape or not (
                np.abs(other[name] - array) <= limit * size).all():
            found.append(name)
    return found


def _strided(nest):
    """The same numbers in arrays with gaps, their axes in the other order in memory."""
    if isinstance(nest, (tuple, list)):
        return tuple(_strided(item) for item in nest)
    if not isinstance(nest, np.ndarray) or not nest.ndim:
        return nest
    gaps = np.full((*nest.shape[::-1], 2), np.nan)
    view = gaps[..., 0].transpose()
    view[...] = nest
    return view


def _copied(nest):
    if isinstance(nest, (tuple, list)):
        return tuple(_copied(item) for item in nest)
    return nest.copy() if isinstance(nest, np.ndarray) else nest
