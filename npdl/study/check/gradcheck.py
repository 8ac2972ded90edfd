"""Compare the backward of a layer with finite differences, in float64.

    report = gradcheck(LSTM(3, 5, num_layers=2), x)
    print(report)                       # the worst entry of every gradient
    assert report.ok()

Parameters are random, gains and biases too: with special values a wrong backward can look right (a
gain of 1 hides a missing multiplication). The gradients of every parameter, float input and initial
state are compared, for random upstream gradients of all outputs and of each output alone. Each
param.grad is filled with random numbers before backward runs, so a backward that overwrites them
instead of adding is found.
"""

from npdl.backend import is_host
from npdl.errors import InputError, NpdlError
from npdl.study.check.adapters import as_layer
from npdl.study.check.side_effects import describe_side_effects
from npdl.study.check.subjects import Subject
from npdl.study.check.verdicts import Check
from npdl.study.containment import describe_exception, is_npdl_class


def gradcheck(layer, *inputs, entries=None, seed=0, **options):
    """Compare every gradient of `layer` with finite differences and return a Verdict.

    layer    a Layer, an object that keeps its cache in self, or a pair (f_forward, f_backward)
    inputs   the positional arguments of forward: arrays, or tuples of arrays such as the state of
             an LSTM; integer arrays and None get no gradient
    entries  compare at most this many entries of each array, chosen at random; 0 compares the
             derivative of each array along one random direction, which depends on all entries
    seed     the seed of the random numbers
    options  the keyword arguments of forward
    The layer and the inputs are copied to float64. Each output is also checked alone; then the
    other outputs get the upstream gradient 0, or None if the layer belongs to npdl. A student's
    backward that raises an exception counts as wrong. Raises InputError if the layer can't be
    checked, or if the backend is 'cupy'.
    """
    if not is_host():
        raise InputError("gradcheck needs the backend 'numpy', not 'cupy'; check with NumPy, and "
                         "compare the gradients of the GPU with those of NumPy (docs/gpu.md)")
    subject = Subject(as_layer(layer), inputs, options, seed)
    found = Check(subject, entries).compute_verdict()
    if found.error is not None:
        if isinstance(found.error, NpdlError) or is_npdl_class(type(subject.layer)):
            raise found.error
        found.faults = [f"backward raised {describe_exception(found.error)}; blame shows the "
                        "values that this line read"]
    elif not found.wrong_rows:
        found.faults = describe_side_effects(found.check)
    return found
