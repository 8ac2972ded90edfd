"""Compare outputs and gradients of layers with those of PyTorch, in float64.

The leaves of autograd are npdl's arrays, so its gradients have npdl's names and shapes.
"""

import numpy as np
import pytest

from npdl.backend import make_rng
from npdl.study.check.subjects import randomise
from npdl.study.relative_error import relative_error
from npdl.study.trees import draw_upstream, leaves, map_leaves, select_paths
from tests.layers.cases import find_sample_builders
from tests.tools.running import npdl_layers

LIMIT = 1e-10
# Layers without a counterpart in torch, and why.
WITHOUT = {
    **dict.fromkeys(("ReLUUpdate", "MessagePassing", "GraphAttention", "ReplaceUpdate"),
                    "torch has no graph layers"),
    "AdditiveAttention": "torch's attention scores by dot products only",
    **dict.fromkeys(("Autoencoder", "AutoencoderLoss"), "document 001's own"),
    "Dropout": "each library draws its own masks", "FrozenLinear": "a Linear without gradients",
    "LoRALinear": "torch has no adapters", "QuantLinear": "torch quantizes otherwise",
    **dict.fromkeys(("AttentiveRNN", "BiRNN", "BiRNNLoss", "GPT", "GPT2", "LSTMLM", "LSTMSeq2Seq",
                     "LlamaBlock", "Llama", "Seq2Seq"), "made of layers that are compared"),
    **dict.fromkeys(("FeedForward", "RecurrentLayer"), "a part of layers that are compared"),
    **dict.fromkeys(("ResetBeforeGRU", "ResetBeforeGRUCell"), "torch has the other kind"),
    "Identity": "returns its input", "Sequential": "its layers are compared",
    "SinusoidalPositions": "torch has none", "ThresholdNeuron": "its gradient is zero",
    "XOR": "made of threshold neurons",
}
LAYERS = {cls.__name__: cls for cls in npdl_layers() if cls.__name__ not in WITHOUT}
SAMPLES = {f"{name}: {what}": (cls, build) for name, cls in LAYERS.items()
           for what, build in find_sample_builders(cls).items() if "dropout" not in what}


@pytest.fixture(scope="module")
def torch_functions():
    """Return {layer: what PyTorch computes}; PyTorch takes a second to be imported."""
    pytest.importorskip("torch", reason="parity with PyTorch needs torch")
    from tests.layers import torch_layers, torch_recurrent

    return torch_layers.THEIRS | torch_recurrent.THEIRS


def to_tensors(nested, requires_grad=True):
    """Convert the arrays in a nested structure to tensors. Other values stay the same."""
    import torch

    def to_tensor(leaf):
        if not isinstance(leaf, np.ndarray):
            return leaf
        tensor = torch.tensor(np.ascontiguousarray(leaf))
        return tensor.requires_grad_(requires_grad and tensor.is_floating_point())

    return map_leaves(nested, to_tensor)


def tensor_leaves(nested):
    """Return {path: float tensor}, with the paths of `npdl.study.trees.leaves`."""
    import torch

    found = []
    map_leaves(nested, found.append)
    tensors = [leaf for leaf in found if torch.is_tensor(leaf) and leaf.is_floating_point()]
    arrays = map_leaves(nested, lambda x: x.detach().numpy() if torch.is_tensor(x) else x)
    return dict(zip([path for path, _ in leaves(arrays)], tensors, strict=True))


@pytest.mark.parametrize("name", SAMPLES)
def test_outputs_and_gradients_match_torch(name, torch_functions):
    import torch

    cls, build = SAMPLES[name]
    if cls not in torch_functions:
        pytest.skip("not compared with torch, as another test says")
    rng = make_rng(5)
    layer, inputs, options = build(rng)
    layer = layer.astype("float64")
    randomise(layer, rng)
    P = {what: to_tensors(p.data, p.trainable) for what, p in layer.params(with_frozen=True)}
    t_inputs = to_tensors(inputs)
    wanted = tensor_leaves(torch_functions[cls](layer, P, *t_inputs, **options))
    outputs, cache = layer.forward(*inputs, **options)
    found, dout = dict(leaves(outputs)), draw_upstream(outputs, rng)
    for path, y in wanted.items():
        assert relative_error(found[path], y.detach(), 1.0) < LIMIT, f"output {path}"
    given = dict(leaves(dout))
    torch.autograd.backward(list(wanted.values()), [torch.tensor(given[path]) for path in wanted])
    returned = layer.backward(select_paths(dout, wanted), cache)
    returned = returned[: len(inputs)] if isinstance(returned, tuple) else (returned,)
    gradients = {f"input {path}": g for path, g in leaves(returned)}
    gradients |= {what: p.grad for what, p in layer.params()}
    compared = {f"input {path}": x for path, x in tensor_leaves(t_inputs).items()}
    compared |= {what: P[what] for what, _ in layer.params()}
    assert gradients.keys() == compared.keys()
    for what, x in compared.items():
        grad = torch.zeros_like(x) if x.grad is None else x.grad
        assert relative_error(gradients[what], grad, 1.0) < LIMIT, what


def test_every_layer_is_compared_or_has_a_reason(torch_functions):
    left = LAYERS.keys() ^ {cls.__name__ for cls in torch_functions}
    assert not left, f"{left}: each is computed in torch_layers.py, or has a reason in WITHOUT"
    assert WITHOUT.keys() <= {cls.__name__ for cls in npdl_layers()}
