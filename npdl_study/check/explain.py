"""Where a gradient is wrong, and in what way: the words for it, in one place.

`compare(computed, wanted)` tells of two arrays how they differ: sign, factor, transposed, missing
sum. `explain(check, comparison)` says the same of a wrong gradient, and more, as it may run the
backward again and knows what each output adds to the numerical gradient: overwritten, the gradient
of another array or gate, a time step that is left out of a sum.
"""

import math

import numpy as np

from npdl.core import walk
from npdl_study.deviation import deviation
from npdl_study.trees import leaves

CLOSE = 1e-5
SMALL = 1e-3                    # of the right value: an error below is no slip of a factor
FEW = 6                         # places that are listed
MOST = 64                       # wrong entries whose parts are looked at
UNKNOWN = ("unknown", "a term is missing, or wrong: no simple pattern fits")


def explain(check, found):
    """(place, kind, sentence) for a Comparison that is wrong."""
    seen = _Seen(check, found)
    if not seen.bad.any():
        return f"{found.name}, at entries that were not looked at one by one", *UNKNOWN
    for look in (_broken, _overwritten, _values, _transposed, _gates, _elsewhere, _left_out):
        verdict = look(seen)
        if verdict is not None:
            return place(seen), *verdict
    return place(seen), *UNKNOWN


class _Seen:
    """The entries of a Comparison that were looked at one by one; `bad` says which are wrong."""

    def __init__(self, check, found):
        single = np.array([isinstance(point, tuple) for point in found.points])
        self.check, self.name, self.used = check, found.name, found.used
        self.indices = [p for p in found.points if isinstance(p, tuple)]
        self.all_computed, self.all_wanted = found.computed[single], found.numerical[single]
        self.bad = found.wrong[single]
        self.allowed = found.allowed[single][self.bad]
        self.computed, self.wanted = self.all_computed[self.bad], self.all_wanted[self.bad]
        self.columns = [check.paths.index(path) for path in self.used]

    @property
    def layer(self):
        return self.check.subject.layer

    @property
    def shape(self):
        return self.check.arrays[self.name].shape

    def full(self, values):
        """Values of all entries in the array's shape, or None when only some were looked at."""
        return np.reshape(values, self.shape) if len(values) == np.prod(self.shape) else None

    def pick(self, array):
        """The entries of an array where the gradient is wrong."""
        return np.array([array[i] for i, bad in zip(self.indices, self.bad, strict=True) if bad])


def similar(a, b):
    """Whether two arrays of one shape agree."""
    return deviation(a, b) < CLOSE


def compare(computed, wanted):
    """(kind, sentence) for two arrays that differ in a known way, else None."""
    if not (isinstance(computed, np.ndarray) and isinstance(wanted, np.ndarray) and computed.size):
        return None
    if not np.isfinite(computed).all():
        return "not finite", "it has entries that are not finite, or never written"
    if similar(computed, -wanted) and np.abs(wanted).max() > 0:
        return "sign", "the sign is wrong"
    if computed.ndim >= 2 and similar(computed.swapaxes(-1, -2), wanted):
        return "transposed", "it is transposed"
    if computed.size > wanted.size:
        for axis in range(computed.ndim):
            if any(similar(computed.sum(axis, keepdims=k), wanted) for k in (False, True)):
                return "missing sum", f"a sum over axis {axis} is missing"
    if computed.shape != wanted.shape:
        return "shape", f"its shape is {computed.shape}; it must be {wanted.shape}"
    off = deviation(computed, wanted)
    if off < SMALL:
        return "small", (f"it is off by {off:.1g} of its size: an eps that one of the two passes "
                         "does not have, or a constant that is rounded?")
    ratio = factor(computed, wanted)
    return None if ratio is None else ("factor", f"it is {ratio} times what it should be")


def factor(computed, wanted):
    """The one number by which two arrays differ, in a readable form, or None."""
    top = np.abs(wanted).argmax()
    if wanted.flat[top] == 0 or computed.flat[top] == 0:
        return None
    ratio = float(computed.flat[top] / wanted.flat[top])
    if not similar(computed, ratio * wanted) or math.isclose(ratio, 1, rel_tol=SMALL):
        return None
    for whole in range(1, 65):
        if math.isclose(ratio, whole, rel_tol=1e-6):
            return str(whole)
        if math.isclose(ratio, 1 / whole, rel_tol=1e-6):
            return f"1/{whole}"
    return f"{ratio:.4g}"


def _broken(seen):
    bad = ~np.isfinite(seen.computed)
    if bad.any():
        return "not finite", f"{int(bad.sum())} of its entries are NaN or infinite"
    if not seen.computed.any():
        return "all zero", "it is zero where it should not be: nothing arrives here"
    if (np.abs(seen.wanted) <= seen.allowed).all():
        return "not zero", "it should be zero here"
    return None


def _overwritten(seen):
    """The same result, whatever the gradient held before."""
    if seen.name not in dict(seen.layer.params()):
        return None
    first, second = (seen.pick(seen.check.backward(seen.used, turn)[1][seen.name])
                     for turn in (0, 1))
    if not np.array_equal(first, second):
        return None
    says = "the gradient is overwritten where it must be added to (= for +=)"
    if similar(first, seen.wanted):
        return "overwritten", says
    left = compare(first, seen.wanted)
    return "overwritten", f"{says}; {left[1] if left else 'only the last of several is left'}"


def _values(seen):
    """A sign or a factor, from the wrong entries alone."""
    kind, says = compare(seen.computed, seen.wanted) or ("", "")
    if kind != "factor":
        return (kind, says) if kind in ("sign", "small") else None
    top = np.abs(seen.wanted).argmax()
    ratio = seen.computed[top] / seen.wanted[top]
    hint = _length_hint(seen, ratio)
    if len(seen.wanted) < 2 and not (hint or np.isclose(ratio, (2, 0.5), rtol=1e-5).any()):
        return None                                     # one number is always some multiple
    return kind, says + hint


def _length_hint(seen, ratio):
    """What a factor of N, 1/N, sqrt N or 1/sqrt N may come from."""
    lengths = {}
    for _, array in leaves(seen.check.subject.inputs):
        for length, name in zip(array.shape, axis_names(seen.layer, array.ndim), strict=True):
            lengths.setdefault(length, f"the number of {name}s")
        if array.ndim > 2:
            lengths.setdefault(int(np.prod(array.shape[:-1])), "the number of rows")
    size = max(abs(ratio), 1 / abs(ratio))
    for number, name in lengths.items():
        if number > 1 and np.isclose(size, number, rtol=1e-5):
            return f" ({number} is {name}: a mean and a sum mixed up, perhaps)"
    square = round(size**2)
    is_root = np.isclose(size, square**0.5, rtol=1e-5) and not np.isclose(size, round(size))
    return f" (the square root of {square})" if is_root else ""


def _transposed(seen):
    computed, wanted = seen.full(seen.all_computed), seen.full(seen.all_wanted)
    if computed is None or computed.ndim < 2:
        return None
    verdict = compare(computed, wanted)
    return verdict if verdict is not None and verdict[0] == "transposed" else None


def _gates(seen):
    """One gate's gradient in the place of another's."""
    names, wanted = gates_of(seen), seen.full(seen.all_wanted)
    if not names or wanted is None:
        return None
    own = np.split(seen.full(seen.all_computed), len(names), -1)
    right = np.split(wanted, len(names), -1)
    swaps = [(a, b) for a, have, want in zip(names, own, right, strict=True)
             for b, other in zip(names, right, strict=True)
             if a != b and not similar(have, want) and similar(have, other)]
    return ("swapped gates", ", ".join(f"the {a} gate has the gradient of the {b} gate"
                                       for a, b in swaps)) if swaps else None


def gates_of(seen):
    """The gate_names of the cell that has this parameter, packed by gate, or ()."""
    param = dict(seen.layer.params()).get(seen.name)
    for part in walk(seen.layer):
        names = getattr(part, "gate_names", ())
        if param is not None and len(names) > 1 and any(p is param for p in vars(part).values()):
            if param.shape[-1] % len(names) == 0:
                return names
    return ()


def _elsewhere(seen):
    """The gradient of another array of the same shape."""
    computed = seen.full(seen.all_computed)
    if computed is None or computed.size < 2:
        return None
    for name, array in seen.check.arrays.items():
        if name != seen.name and array.shape == computed.shape:
            other = seen.full(seen.check.numerical(name, seen.used))
            if other.any() and similar(computed, other):
                return "swapped", f"it is the gradient of {name}"
    return None


def _left_out(seen):
    """Some outputs, or some rows or time steps of one, are not in the sum, or are alone in it."""
    picked = np.flatnonzero(seen.bad)
    picked = picked[:: -(-len(picked) // MOST)]
    if len(picked) < 2:
        return None
    indices = [seen.indices[i] for i in picked]
    parts = [seen.check.parts(seen.name, index) for index in indices]
    computed, total = seen.all_computed[picked], seen.all_wanted[picked]
    for column in seen.columns:
        own = np.array([entry[column] for entry in parts])
        rest = total - own.reshape(len(picked), -1).sum(1)
        if len(seen.columns) > 1 and similar(computed, rest):
            path = seen.check.paths[column]
            return "missing output", f"what comes from output {path} is left out"
        verdict = (_same_step(seen, indices, computed, own, rest)
                   or _along_axes(seen, computed, own, rest, total))
        if verdict is not None:
            return verdict
    return None


def _same_step(seen, indices, computed, own, rest):
    """An input (B, S, D) whose every step is given the gradient of its own output step only."""
    if not is_sequence(seen) or own.shape[1:3] != seen.shape[:2]:
        return None
    terms = own.sum(tuple(range(3, own.ndim)))
    own_step = np.array([term[index[:2]] for term, index in zip(terms, indices, strict=True)])
    if not similar(computed, own_step + rest):
        return None
    return "missing carry", ("each time step has the gradient of its own output only: nothing "
                             "comes back from later steps")


def _along_axes(seen, computed, own, rest, total):
    """Along the leading axes of one output: own is (entries, *output shape)."""
    names = axis_names(seen.layer, own.ndim - 1)
    leading = range(1, max(own.ndim - 1, 2)) if own.ndim > 1 else ()
    for axes in [(axis,) for axis in leading] + [tuple(leading)]:
        terms = own.sum(tuple(a for a in range(1, own.ndim) if a not in axes))
        if not axes or terms[0].size < 2:
            continue
        for k in np.ndindex(terms.shape[1:]):
            term = terms[(slice(None), *k)]
            at = ", ".join(f"{names[a - 1]} {i}" for a, i in zip(axes, k, strict=True))
            if similar(computed, term + rest):
                over = " and ".join(f"{names[a - 1]}s" for a in axes)
                return "missing sum", f"it is not summed over the {over}: only {at} is in it"
            if similar(computed, total - term):
                return "missing part", f"{at} of the output is left out of it"
    return None


def axis_names(layer, ndim):
    """What the axes of an input or output with `ndim` axes are called, each in the singular."""
    if hasattr(layer, "channels"):                  # (N, C, L) or (N, C)
        return ["sample", "channel", *["place"] * (ndim - 2)][:ndim]
    if ndim == 3:
        return ["sequence", "time step", "feature"]
    return ["row", "feature"][:ndim] if ndim <= 2 else [f"index of axis {a}:" for a in range(ndim)]


def is_sequence(seen):
    """Whether a gradient is that of an input (B, S, D), not of a stack's state (L, B, H)."""
    state = hasattr(seen.layer, "layers") and seen.name != f"input {seen.check.subject.names[0]}"
    return seen.name.startswith("input ") and len(seen.shape) == 3 and not state


def place(seen):
    """The wrong part of a gradient: "b[3:6], the forget gate"; "input x, time steps 0 to 1"."""
    if seen.bad.all():
        return f"{seen.name}, all of it" if seen.bad.size > 1 else seen.name
    indices = np.array(seen.indices)
    text, notes, within = [], [], 1
    for axis in range(indices.shape[1]):
        bad, whole = np.unique(indices[seen.bad, axis]), np.unique(indices[:, axis])
        text.append(":" if len(bad) == len(whole) else _range(bad, whole))
        if text[-1] != ":":
            notes += _axis_notes(seen, axis, bad)
        within *= len(bad)
    box = f"[{', '.join(text)}]" if any(part != ":" for part in text) else ""
    some = "" if seen.bad.sum() == within else f", {int(seen.bad.sum())} entries of it"
    return ", ".join([f"{seen.name}{box}", *notes]) + some


def _range(bad, whole):
    """The indices along one axis as slices, in steps of those that were looked at."""
    if len(bad) == 1:
        return str(bad[0])
    runs = np.split(bad, np.flatnonzero(np.diff(np.searchsorted(whole, bad)) > 1) + 1)
    shown = [str(r[0]) if len(r) == 1 else f"{r[0]}:{r[-1] + 1}" for r in runs[:FEW]]
    return " and ".join(shown) + (" and more" if len(runs) > FEW else "")


def _axis_notes(seen, axis, bad):
    """What the indices along one axis mean: gates of a parameter, steps of an input."""
    gates = gates_of(seen)
    if gates and axis == len(seen.shape) - 1:
        hit = [gates[i] for i in sorted({int(b) * len(gates) // seen.shape[-1] for b in bad})]
        return [] if len(hit) == len(gates) else [
            f"the {hit[0]} gate" if len(hit) == 1 else
            f"the {', '.join(hit[:-1])} and {hit[-1]} gates"]
    if not is_sequence(seen) or axis > 1:
        return []
    name, bad = axis_names(seen.layer, 3)[axis], [int(b) for b in bad]
    if len(bad) == 1:
        which = f"{name} {bad[0]}"
    elif bad == list(range(bad[0], bad[-1] + 1)):
        which = f"{name}s {bad[0]} to {bad[-1]}"
    else:
        which = f"{name}s {', '.join(map(str, bad[:FEW]))}"
    return [f"{which} of 0 to {seen.shape[axis] - 1}"]
