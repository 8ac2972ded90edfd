"""Build a test case (a layer with its inputs) and run it."""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from npdl.backend import make_rng
from npdl.study.check.samples import find_layer_classes
from npdl.study.check.subjects import randomise
from npdl.study.trees import cast_tree, is_float, leaves, map_leaves


def make_case_rng(case):
    """Return the generator for a case's parameters and inputs."""
    return make_rng(zlib.crc32(str(case).encode()))


@dataclass
class Built:
    """The layer of a case with random parameters, its inputs, and the options of its forward."""

    case: Any
    layer: Any
    inputs: tuple
    options: dict

    def forward(self, layer=None, inputs=None):
        layer, inputs = layer or self.layer, inputs or self.inputs
        return layer.forward(*inputs, **self.options)

    def astype(self, dtype):
        """Return the same case with its numbers converted to another dtype."""
        options = {name: cast_tree(value, dtype) for name, value in self.options.items()}
        return Built(self.case, self.layer.astype(dtype), cast_tree(self.inputs, dtype), options)

    def draw_upstream(self, outputs, dtype="float64"):
        """Return random upstream gradients with the structure of `outputs`."""
        rng = make_case_rng(self.case)
        return map_floats(outputs,
                          lambda a: np.asarray(rng.standard_normal(np.shape(a)), dtype)[()])

    def compute_gradients(self, upstream, cache, layer=None):
        """Return {name: gradient} of every parameter and float input after one backward."""
        layer = layer or self.layer
        returned = layer.backward(upstream, cache)
        found = {name: param.grad.copy() for name, param in layer.params()}
        returned = returned if isinstance(returned, tuple) else (returned,)
        return found | {f"input {path}": array for path, array in leaves(returned)}


def build(case):
    """Return the Built of a case in float64. All parameters are random, even gains and biases."""
    layer, inputs, options = case.build(make_case_rng(case))
    layer = layer.astype("float64")
    randomise(layer, make_case_rng(case))
    return Built(case, layer, cast_tree(inputs, "float64"), options)


def map_floats(structure, function, keep=False):
    """Return a structure with `function` applied to float arrays; others become None, or stay."""
    return map_leaves(
        structure, lambda leaf: function(leaf) if is_float(leaf) else leaf if keep else None)


def yield_arrays(structure):
    """Yield every array of nested tuples, lists and dicts."""
    if isinstance(structure, np.ndarray):
        yield structure
    elif isinstance(structure, (tuple, list, dict)):
        for item in structure.values() if isinstance(structure, dict) else structure:
            yield from yield_arrays(item)


def npdl_layers():
    """Return a list of the classes of all layers of npdl."""
    return list(find_layer_classes().values())
