"""Ask the author of a layer about arrays whose role is not known.

An array that forward reads and that has no gradient may be a parameter or a constant. An input for
which backward returned no gradient may be a target. Only the author knows, so no array is ignored.
"""

import numpy as np

from npdl.core import walk
from npdl.study.check.adapters import Adapter
from npdl.study.check.learned import find_parameter_candidates, list_gradient_paths
from npdl.study.containment import is_npdl_class
from npdl.study.trees import copy_tree, is_equal, preserve_values

# Inputs that need no gradient: targets, masks and running statistics.
TARGETS = {"t", "y", "target", "targets", "label", "labels", "mask", "ytrue", "ts", "ys", "lengths"}
MOVED = 1e-3                    # relative perturbation of an array, to see if forward reads it


def make_notes_and_questions(subject, missing):
    """Return (notes, questions) on the arrays for which no gradient was found.

    subject    a Subject (a layer with inputs) whose backward has run
    missing    the names of these arrays
    notes      {name: text} for the inputs that seem to need no gradient
    questions  a list of texts for the author of the layer, about arrays of unknown role
    """
    inputs = [name for name in missing if name not in subject.params]
    excused = {name: f"backward returns no gradient for {name}, so {name} is treated as a target "
               "or mask" for name in inputs if is_likely_target(subject, name)}
    found = [f"backward returned no gradient for {name}. If {name} needs a gradient, return it; "
             "if not, return None instead" for name in inputs if name not in excused]
    if subject.ambiguous:
        found.append(f"backward returns {', '.join(subject.ambiguous)} besides the gradients of "
                     "the inputs, and npdl can't tell which gradient this is. Set the gradients of "
                     "parameters as self.dW, or add them to Params: self.W.grad += dW")
    is_adapter = isinstance(subject.layer, Adapter)
    return excused, found + [
        f"{path} {array.shape}: forward reads this array, and no gradient of it was found; "
        + (f"set its gradient as self.{list_gradient_paths(path)[0]}, " if is_adapter else
           "make it a Param, ") + f"or declare it a constant: self.{path}.setflags(write=False)"
        for path, array in find_arrays_without_gradient(subject, missing).items()
        if is_read_by_forward(subject, array)]


def is_likely_target(subject, name):
    """Guess if an input is a target or mask, from its name, its values and a returned None."""
    plain = name.removeprefix("input ")
    last = plain.rpartition(".")[2].lower().replace("_", "")
    return (plain in subject.returned_none or last in TARGETS or last.startswith("running")
            or set(np.unique(subject.arrays[name])) == {0.0, 1.0})


def find_arrays_without_gradient(subject, missing):
    """Return {path: array} of the float arrays in a student's layer that have no gradient."""
    layer = subject.layer
    if isinstance(layer, Adapter):
        return layer.find_constant_arrays(subject.run_forward()[1]) | {
            name: subject.arrays[name] for name in missing if name in subject.params}
    return {path: one.value for part in walk(layer)
            if not is_npdl_class(type(part))
            for path, one in find_parameter_candidates(part).items()
            if isinstance(one.value, np.ndarray)
            and not any(np.shares_memory(one.value, array) for array in subject.arrays.values())}


def is_read_by_forward(subject, array):
    """Return True if forward reads an array: the outputs change when the array is changed."""
    with np.errstate(all="ignore"), preserve_values((), array):
        before = copy_tree(subject.run_forward()[0])
        array += MOVED * (1 + np.abs(array))
        try:
            return not is_equal(before, subject.run_forward()[0])
        except Exception:                               # forward accepts only some values
            return True
