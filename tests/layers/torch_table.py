"""Every layer's worst difference from PyTorch, for parity.md (tests.tools.pages). Needs torch.

Both sides compute in float64 from the same numbers; sizes and numbers are drawn anew for each of
SEEDS drawings of every pair.
"""

from tests.layers import (
    torch_pairs,
    torch_pairs_attention,
    torch_pairs_llama,
    torch_pairs_recurrent,
)
from tests.layers.torch_compare import differences
from tests.tools.running import npdl_layers

PAIRS = (torch_pairs.PAIRS + torch_pairs_recurrent.PAIRS + torch_pairs_attention.PAIRS
         + torch_pairs_llama.PAIRS)
LIMIT = 1e-10
SEEDS = 12

# Layers without a counterpart in torch, and why.
WITHOUT = {
    "AddReLU": "an update of the message-passing layer, which torch has not",
    "AdditiveAttention": "torch's attention scores by dot products only",
    "Autoencoder": "document 001's own",
    "AutoencoderLoss": "document 001's own",
    "Dropout": "each library draws its own masks",
    "FrozenLinear": "a Linear without gradients",
    "GraphAttention": "torch has no graph layers",
    "LoRALinear": "torch has no adapters",
    "MessagePassing": "torch has no graph layers",
    "QuantLinear": "torch quantizes otherwise",
    "Replace": "an update of the message-passing layer, which torch has not",
    "Same": "hands on what it is given",
    "Sequential": "its layers have pairs of their own",
    "SinusoidalPositions": "torch has none; test_torch_reference.py has their formula",
    "ThresholdNeuron": "its gradient is zero",
    "XOR": "made of threshold neurons",
}


def worst_of(pairs, seeds=SEEDS):
    """(worst output, worst gradient), each (difference, name) over all drawings of some pairs."""
    found = {True: (0.0, "-"), False: (0.0, "-")}
    for pair in pairs:
        for seed in range(seeds):
            for name, value in differences(pair, seed).items():
                kind = name.startswith("output")
                found[kind] = max(found[kind], (value, f"{name}, {pair.what}"))
    return found[True], found[False]


def rows(seeds=SEEDS):
    """Yield (class, its pairs, worst output, worst gradient) for every layer that torch has."""
    for cls in npdl_layers():
        own = [pair for pair in PAIRS if pair.layer_class is cls]
        if own:
            yield cls, own, *worst_of(own, seeds)
