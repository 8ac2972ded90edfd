"""All pairs of an npdl layer and its PyTorch counterpart, and the layers without one."""

from tests.layers import (
    torch_pairs,
    torch_pairs_attention,
    torch_pairs_llama,
    torch_pairs_recurrent,
)

PAIRS = (torch_pairs.PAIRS + torch_pairs_recurrent.PAIRS + torch_pairs_attention.PAIRS
         + torch_pairs_llama.PAIRS)
LIMIT = 1e-10

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
    "ResetBeforeGRU": "its cell has a pair",
    "ResetBeforeGRULayer": "its cell has a pair",
    "Replace": "an update of the message-passing layer, which torch has not",
    "Same": "hands on what it is given",
    "Sequential": "its layers have pairs of their own",
    "SinusoidalPositions": "torch has none; test_torch_reference.py has their formula",
    "ThresholdNeuron": "its gradient is zero",
    "XOR": "made of threshold neurons",
}
