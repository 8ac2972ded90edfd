"""One layer of npdl beside PyTorch's: the same numbers in, and how far the results differ.

A Pair has npdl's layer and its inputs, and computes with torch what the layer should. Torch's
side starts from npdl's own arrays as leaves, so autograd's gradients have npdl's names and shapes.
The pairs are in tests.layers.torch_pairs and its neighbours.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from npdl.backend import stream
from npdl.study.check.samples import every_sample
from npdl.study.check.subjects import randomise
from npdl.study.deviation import deviation
from npdl.study.trees import leaves, mapped, only_paths, upstream


@dataclass
class Pair:
    """`build(rng)` gives (layer, inputs, options); `theirs(layer, P, *inputs, **options)` the
    outputs, by what the layer says of how it was made.

    P        {npdl's name: tensor} of the parameters, in npdl's layout
    torchs   what of torch it is compared with
    """

    layer_class: type
    what: str
    torchs: str
    build: Callable
    theirs: Callable

    def __str__(self):
        return f"{self.layer_class.__name__}: {self.what}"


def pairs_of(cls, torchs, theirs):
    """A Pair for all that npdl.study.check.examples tells of a class: sizes, options, masks; but
    of dropout, for which each library draws its own."""
    return [Pair(cls, what, torchs, build, theirs) for what, build in every_sample(cls).items()
            if "dropout" not in what]


def tensors(nest, grad=True):
    """Float arrays as leaves of torch's graph, integers as tensors, the rest as it is."""
    def change(leaf):
        if not isinstance(leaf, np.ndarray):
            return leaf
        tensor = torch.tensor(np.ascontiguousarray(leaf))
        return tensor.requires_grad_(grad and tensor.is_floating_point())

    return mapped(nest, change)


def tensor_leaves(nest, path=""):
    """`npdl.study.trees.leaves` for tensors."""
    if isinstance(nest, (tuple, list)):
        names = getattr(nest, "_fields", range(len(nest)))
        for name, item in zip(names, nest, strict=True):
            yield from tensor_leaves(item, f"{path}.{name}" if path else str(name))
    elif torch.is_tensor(nest) and nest.is_floating_point():
        yield path or "0", nest


def differences(pair, seed):
    """{"output 0" or a gradient's name: difference from torch} of one drawing, in float64."""
    rng = stream(zlib.crc32(str(pair).encode()), seed)
    layer, inputs, options = pair.build(rng)
    layer = layer.astype("float64")
    randomise(layer, rng)
    P = {name: tensors(p.data, p.trainable) for name, p in layer.params(frozen=True)}
    t_inputs = tensors(inputs)
    t_outputs = dict(tensor_leaves(pair.theirs(layer, P, *t_inputs, **options)))
    outputs, cache = layer.forward(*inputs, **options)
    own = dict(leaves(outputs))
    dout = upstream(outputs, rng)
    returned = layer.backward(only_paths(dout, t_outputs), cache)
    given = dict(leaves(dout))
    torch.autograd.backward(list(t_outputs.values()),
                            [torch.tensor(given[path]) for path in t_outputs])
    found = {f"output {path}": deviation(own[path], y.detach(), 1.0)
             for path, y in t_outputs.items()}
    wanted = {f"input {path}": x for path, x in tensor_leaves(t_inputs)}
    wanted |= {name: P[name] for name, _ in layer.params()}
    gradients = {f"input {path}": g for path, g in leaves(
        returned[: len(inputs)] if isinstance(returned, tuple) else (returned,))}
    gradients |= {name: p.grad for name, p in layer.params()}
    assert gradients.keys() == wanted.keys(), gradients.keys() ^ wanted.keys()
    for name, x in wanted.items():
        grad = torch.zeros_like(x) if x.grad is None else x.grad
        found[name] = deviation(gradients[name], grad, 1.0)
    return found


def sizes(rng, count, low=1, high=6):
    """`count` random sizes."""
    return [int(n) for n in rng.integers(low, high + 1, count)]
