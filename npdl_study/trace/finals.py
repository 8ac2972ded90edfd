"""Every gradient that a backward gives, of parameters and inputs, against its numerical value."""

from dataclasses import dataclass

import numpy as np

from npdl_study.trace.nudge import LIMIT
from npdl_study.trees import leaves


@dataclass
class Final:
    """One gradient that the whole backward gives: of a parameter or of an input."""

    name: str
    value: object
    right: bool
    error: float
    kink: bool = False
    note: str = ""


def finals(oracle, returned, before, dout):
    """A Final for every parameter and float input, from a backward's results.

    `before` is {parameter name: what its grad held}, to which the backward had to add.
    """
    found = []
    got = {f"input {path}": a for path, a in leaves(returned if isinstance(returned, tuple)
                                                    else (returned,))}
    params = dict(oracle.layer.params())
    for name in oracle.arrays:
        value = params[name].grad - before[name] if name in params else got.get(name)
        if value is None:
            nothing = np.zeros(oracle.shape(name))
            error = oracle.error(name, nothing, dout)
            found.append(Final(name, None, False, error, note="backward returned no gradient"))
            continue
        error = oracle.error(name, value, dout)
        kink = error >= LIMIT and oracle.shape(name) == np.shape(value) and oracle.slope(name).kink
        found.append(Final(name, np.array(value), error < LIMIT, error, kink))
    return found
