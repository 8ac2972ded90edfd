"""What the tests of all cases share: building a case and running it."""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from npdl.backend import stream
from npdl.study.check.samples import find_layer_classes
from npdl.study.check.subjects import randomise
from npdl.study.trees import cast_tree, is_float, leaves, map_leaves


def case_rng(case):
    """The generator from which a case's layer and inputs are drawn."""
    return stream(zlib.crc32(str(case).encode()))


@dataclass
class Built:
    """A case's layer with random parameters, its inputs, and how it is run."""

    case: Any
    layer: Any
    inputs: tuple
    options: dict

    def forward(self, layer=None, inputs=None):
        layer, inputs = layer or self.layer, inputs or self.inputs
        return layer.forward(*inputs, **self.options)

    def astype(self, dtype):
        """The same in another dtype: the same numbers, rounded."""
        options = {name: cast_tree(value, dtype) for name, value in self.options.items()}
        return Built(self.case, self.layer.astype(dtype), cast_tree(self.inputs, dtype), options)

    def upstream(self, outputs, dtype="float64"):
        """Random gradients in the nest of `outputs`."""
        rng = case_rng(self.case)
        return map_floats(outputs,
                          lambda a: np.asarray(rng.standard_normal(np.shape(a)), dtype)[()])

    def gradients(self, dout, cache, layer=None):
        """{name: gradient} of every parameter and float input after one backward."""
        layer = layer or self.layer
        returned = layer.backward(dout, cache)
        found = {name: param.grad.copy() for name, param in layer.params()}
        returned = returned if isinstance(returned, tuple) else (returned,)
        return found | {f"input {path}": array for path, array in leaves(returned)}


def build(case):
    """The case in float64, parameters drawn at random (gains and biases too)."""
    layer, inputs, options = case.build(case_rng(case))
    layer = layer.astype("float64")
    randomise(layer, case_rng(case))
    return Built(case, layer, cast_tree(inputs, "float64"), options)


def map_floats(nest, function, keep=False):
    """`function` of every float array of a nest; everything else is None, or kept as it is."""
    return map_leaves(
        nest, lambda leaf: function(leaf) if is_float(leaf) else leaf if keep else None)


def arrays_in(nest):
    """Every array of a nest of tuples, lists and dicts."""
    if isinstance(nest, np.ndarray):
        yield nest
    elif isinstance(nest, (tuple, list, dict)):
        for item in nest.values() if isinstance(nest, dict) else nest:
            yield from arrays_in(item)


def npdl_layers():
    """Return every layer of npdl."""
    return list(find_layer_classes().values())


def covers(checked, cls):
    """Whether a case of the class `checked` runs the forward and the backward of `cls`."""
    if checked is cls:
        return True
    return (issubclass(checked, cls) and checked.forward is cls.forward
            and checked.backward is cls.backward)
