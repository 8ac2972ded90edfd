"""What a wrong gradient has to say: which part of it is wrong, and in what way.

`explain` looks at one comparison of a gradient check. Besides the two arrays it may use the
layer: a second backward tells what overwrites, and the parts that each output adds to the
numerical gradient tell what was left out of a sum over time or over the batch.
"""

import numpy as np

from npdl.core import walk
from npdl_study.check.diagnose import compare, similar
from npdl_study.check.places import axis_names, is_sequence, lengths, place

ZERO = 1e-9
MOST_ENTRIES = 64               # wrong entries whose parts are looked at
UNKNOWN = ("unknown", "a term is missing, or wrong: no simple pattern fits")


def explain(check, found):
    """(place, kind, sentence) for a Comparison that is wrong."""
    from npdl_study.check.gradcheck import LIMIT
    wrong = found.errors > LIMIT
    where = place(check, found, wrong)
    for look in (_broken, _overwritten, _values, _transposed, _gates, _elsewhere, _left_out):
        verdict = look(check, found, wrong)
        if verdict is not None:
            return where, *verdict
    return where, *UNKNOWN


def _broken(check, found, wrong):
    """NaN, zero, and what should be zero."""
    computed, wanted = found.computed[wrong], found.numerical[wrong]
    bad = ~np.isfinite(computed)
    if bad.any():
        return "not finite", f"{int(bad.sum())} of its entries are NaN or infinite"
    if not computed.any():
        return "all zero", "it is zero where it should not be: nothing arrives here"
    if np.abs(wanted).max() < ZERO:
        return "not zero", "it should be zero here"
    return None


def _overwritten(check, found, wrong):
    """The same result, whatever the gradient held before."""
    if found.name not in dict(check.layer.params()):
        return None
    pick = _picker(found, wrong)
    first, second = (pick(check.backward(found.used, turn)[1][found.name]) for turn in (0, 1))
    if not np.array_equal(first, second):
        return None
    says = "the gradient is overwritten where it must be added to (= for +=)"
    wanted = found.numerical[wrong]
    if similar(first, wanted):
        return "overwritten", says
    left = compare(first, wanted)
    return "overwritten", f"{says}; {left[1] if left else 'only the last of several is left'}"


def _values(check, found, wrong):
    """A sign or a factor, from the wrong entries alone."""
    computed, wanted = found.computed[wrong], found.numerical[wrong]
    verdict = compare(computed, wanted)
    if verdict is None or verdict[0] not in ("sign", "factor"):
        return None
    kind, says = verdict
    if kind == "factor":
        ratio = computed[np.abs(wanted).argmax()] / wanted[np.abs(wanted).argmax()]
        hint = _length_hint(check, ratio)
        if len(wanted) < 2 and not (hint or ratio in (2.0, 0.5)):
            return None                                 # one number is always some multiple
        return kind, says + hint
    return kind, says


def _length_hint(check, ratio):
    """What a factor of N, 1/N, sqrt N or 1/sqrt N may come from."""
    size = max(abs(ratio), 1 / abs(ratio))
    for number, name in lengths(check).items():
        if np.isclose(size, number, rtol=1e-5):
            return f" ({number} is {name}: a mean and a sum mixed up, perhaps)"
    square = round(size**2)
    is_root = np.isclose(size, square**0.5, rtol=1e-5) and not np.isclose(size, round(size))
    return f" (the square root of {square})" if is_root else ""


def _full(check, name, values):
    """Values of all entries in the array's shape, or None when only some were checked."""
    shape = check.arrays[name].shape
    return np.reshape(values, shape) if len(values) == np.prod(shape) else None


def _transposed(check, found, wrong):
    computed = _full(check, found.name, found.computed)
    wanted = _full(check, found.name, found.numerical)
    if computed is None or computed.ndim < 2:
        return None
    verdict = compare(computed, wanted)
    return verdict if verdict is not None and verdict[0] == "transposed" else None


def _gates(check, found, wrong):
    """One gate's gradient in the place of another's."""
    owner, names = gates_of(check, found.name)
    wanted = _full(check, found.name, found.numerical)
    if owner is None or wanted is None:
        return None
    computed = _full(check, found.name, found.computed)
    H = wanted.shape[-1] // len(names)
    blocks = [(computed[..., i * H : (i + 1) * H], wanted[..., i * H : (i + 1) * H])
              for i in range(len(names))]
    swaps = [(names[i], names[j]) for i, (own, right) in enumerate(blocks)
             for j, (_, other) in enumerate(blocks)
             if i != j and not similar(own, right) and similar(own, other)]
    if not swaps:
        return None
    says = ", ".join(f"the {a} gate has the gradient of the {b} gate" for a, b in swaps)
    return "swapped gates", says


def gates_of(check, name):
    """(the cell, its gate_names) when `name` is one of its parameters, packed by gate."""
    param = dict(check.layer.params()).get(name)
    for part in walk(check.layer):
        names = getattr(part, "gate_names", ())
        if param is not None and len(names) > 1 and any(p is param for p in vars(part).values()):
            if param.shape[-1] % len(names) == 0:
                return part, names
    return None, ()


def _elsewhere(check, found, wrong):
    """The gradient of another array of the same shape."""
    computed = _full(check, found.name, found.computed)
    if computed is None or computed.size < 2:
        return None
    columns = [check.paths.index(path) for path in found.used]
    for name, array in check.arrays.items():
        if name != found.name and array.shape == computed.shape:
            slopes = [s[columns].sum() for s in check.slopes[name].values()]
            other = _full(check, name, slopes)
            if other is not None and other.any() and similar(computed, other):
                return "swapped", f"it is the gradient of {name}"
    return None


def _left_out(check, found, wrong):
    """Some outputs, or some rows or time steps of one, are not in the sum, or are alone in it."""
    picked = np.flatnonzero(wrong)
    picked = picked[:: -(-len(picked) // MOST_ENTRIES)]
    count = len(picked)
    if count < 2:
        return None
    indices = [found.indices[i] for i in picked]
    parts = [check.parts(found.name, index) for index in indices]
    columns = [check.paths.index(path) for path in found.used]
    by_output = {check.paths[i]: np.array([entry[i] for entry in parts]) for i in columns}
    computed, total = found.computed[picked], found.numerical[picked]
    for path, own in by_output.items():
        rest = total - own.reshape(count, -1).sum(1)
        if len(by_output) > 1 and similar(computed, rest):
            return "missing output", f"what comes from output {path} is left out"
        verdict = (_same_step(check, found.name, indices, computed, own, rest)
                   or _along_axes(check, computed, own, rest, total))
        if verdict is not None:
            return verdict
    return None


def _same_step(check, name, indices, computed, own, rest):
    """An input (B, S, D) whose every step is given the gradient of its own output step only."""
    shape = check.arrays[name].shape
    if not is_sequence(check, name, shape) or own.shape[1:3] != shape[:2]:
        return None
    terms = own.sum(tuple(range(3, own.ndim)))
    own_step = np.array([term[index[:2]] for term, index in zip(terms, indices, strict=True)])
    if not similar(computed, own_step + rest):
        return None
    return "missing carry", ("each time step has the gradient of its own output only: nothing "
                             "comes back from later steps")


def _along_axes(check, computed, own, rest, total):
    """Along the leading axes of one output: own is (entries, *output shape)."""
    names = axis_names(check.layer, own.ndim - 1)
    leading = range(1, max(own.ndim - 1, 2)) if own.ndim > 1 else ()
    for axes in [(axis,) for axis in leading] + [tuple(leading)]:
        others = tuple(a for a in range(1, own.ndim) if a not in axes)
        terms = own.sum(others)
        if not axes or terms[0].size < 2:
            continue
        for k in np.ndindex(terms.shape[1:]):
            term = terms[(slice(None), *k)]
            at = ", ".join(f"{names[a - 1]} {i}" for a, i in zip(axes, k, strict=True))
            over = " and ".join(f"{names[a - 1]}s" for a in axes)
            if similar(computed, term + rest):
                return "missing sum", f"it is not summed over the {over}: only {at} is in it"
            if similar(computed, total - term):
                return "missing part", f"{at} of the output is left out of it"
    return None


def _picker(found, wrong):
    indices = [index for index, bad in zip(found.indices, wrong, strict=True) if bad]
    return lambda array: np.array([array[index] for index in indices])
