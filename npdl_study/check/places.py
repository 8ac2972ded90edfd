"""Where in an array the wrong entries are, in the words of the layer: gate, step, sequence."""

import numpy as np

from npdl_study.trees import leaves

FEW = 6


def axis_names(layer, ndim):
    """What the axes of an input or output with `ndim` axes are called, each in the singular."""
    if hasattr(layer, "channels"):                  # (N, C, L) or (N, C)
        return ["sample", "channel", *["place"] * (ndim - 2)][:ndim]
    if ndim == 3:
        return ["sequence", "time step", "feature"]
    if ndim <= 2:
        return ["row", "feature"][:ndim]
    return [f"index of axis {axis}:" for axis in range(ndim)]


def lengths(check):
    """{number: what it is} of the lengths that a factor may come from."""
    found = {}
    for _, array in leaves(check.inputs):
        names = axis_names(check.layer, array.ndim)
        for length, name in zip(array.shape, names, strict=True):
            found.setdefault(length, f"the number of {name}s")
        if array.ndim > 2:
            found.setdefault(int(np.prod(array.shape[:-1])), "the number of rows")
    return {number: name for number, name in found.items() if number > 1}


def place(check, found, wrong):
    """The wrong part of a gradient: "b[3:6], the forget gate"; "input 0, time steps 0 to 1"."""
    if wrong.all():
        return f"{found.name}, all of it" if wrong.size > 1 else found.name
    indices = np.array(found.indices)
    text, notes = [], []
    for axis in range(indices.shape[1]):
        bad, seen = np.unique(indices[wrong, axis]), np.unique(indices[:, axis])
        text.append(_range(bad, seen))
        notes += _axis_notes(check, found.name, axis, bad, seen)
    box = f"[{', '.join(text)}]" if any(part != ":" for part in text) else ""
    within = np.prod([len(np.unique(indices[wrong, a])) for a in range(indices.shape[1])])
    some = "" if wrong.sum() == within else f", {int(wrong.sum())} entries of it"
    return ", ".join([f"{found.name}{box}", *notes]) + some


def _range(bad, seen):
    """The indices along one axis as slices; ":" when they are all that were seen."""
    if len(bad) == len(seen):
        return ":"
    if len(bad) == 1:
        return str(bad[0])
    ranks = np.searchsorted(seen, bad)
    runs = np.split(bad, np.flatnonzero(np.diff(ranks) > 1) + 1)
    shown = [str(r[0]) if len(r) == 1 else f"{r[0]}:{r[-1] + 1}" for r in runs[:FEW]]
    return " and ".join(shown) + (" and more" if len(runs) > FEW else "")


def _axis_notes(check, name, axis, bad, seen):
    """What the indices along one axis mean: gates of a parameter, steps of an input."""
    from npdl_study.check.explain import gates_of
    if len(bad) == len(seen):
        return []
    shape = check.arrays[name].shape
    _, gates = gates_of(check, name)
    if gates and axis == len(shape) - 1:
        width = shape[-1] // len(gates)
        hit = [gates[i] for i in sorted({int(b) // width for b in bad})]
        return [] if len(hit) == len(gates) else [_listed(hit, "gate")]
    if is_sequence(check, name, shape) and axis < 2:
        return [_counted(bad, axis_names(check.layer, 3)[axis], shape[axis])]
    return []


def is_sequence(check, name, shape):
    """Whether a gradient is that of an input (B, S, D), not of a stack's state (L, B, H)."""
    state = hasattr(check.layer, "layers") and not name == "input 0"
    return name.startswith("input") and len(shape) == 3 and not state


def _listed(names, what):
    if len(names) == 1:
        return f"the {names[0]} {what}"
    return f"the {', '.join(names[:-1])} and {names[-1]} {what}s"


def _counted(bad, name, length):
    """time step 2 of 0 to 3; time steps 0 to 1 of 0 to 3."""
    bad = [int(b) for b in bad]
    if len(bad) == 1:
        which = f"{name} {bad[0]}"
    elif bad == list(range(bad[0], bad[-1] + 1)):
        which = f"{name}s {bad[0]} to {bad[-1]}"
    else:
        which = f"{name}s {', '.join(map(str, bad[:FEW]))}"
    return f"{which} of 0 to {length - 1}"
