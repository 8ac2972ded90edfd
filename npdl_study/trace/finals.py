"""Every gradient that a backward gives, of parameters and inputs, judged by npdl_study.check."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Final:
    """One gradient that the whole backward gives: of a parameter or of an input."""

    name: str
    value: object
    right: bool
    error: float
    kink: bool = False
    note: str = ""


def finals(prepared, returned, dout):
    """A Final for every parameter and float input, from a backward's results; `prepared` holds what
    each param.grad was before, to which the backward had to add. `dout` is one of its
    upstream gradients, or a multiple of it."""
    gradients = prepared.subject.returned(returned)
    gradients |= {name: p.grad - prepared.before[name] for name, p in prepared.layer.params()}
    weights = prepared.weights(dout)
    used = [path for path, d in zip(prepared.subject.paths, weights, strict=True)
            if d is not None and np.any(d)]
    whole = prepared.weights(prepared.upstreams[0])
    times = next((d.flat[0] / w.flat[0] for d, w in zip(map(np.asarray, weights), map(
        np.asarray, whole), strict=True) if d.dtype.kind == "f" and np.any(d)), 1.0)
    found = []
    for name in prepared.subject.arrays:
        value = gradients.get(name)
        scaled = None if value is None else np.asarray(value) / times
        row = prepared.check.compare(name, scaled, used).row
        unknown = row.right is None or bool(row.right) and prepared.check.flat
        found.append(Final(name, None if value is None else np.array(value),
                           row.right is True and not unknown, row.error, unknown, row.diagnosis))
    return found
