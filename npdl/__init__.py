"""npdl: layers for sequence models in NumPy, with every backward pass written by hand.

    from npdl import LSTM, GPT, AdamW, gradcheck, step, blame

The module of a name is imported when the name is first used.
"""

import importlib

__version__ = "0.3.0"

_NAMES = {
    "npdl.core": "NoBias Cache Layer Param",
    "npdl.exceptions": "BackendError CheckpointError InputError NpdlError",
    "npdl.layers.activation": "GELU ReLU Sigmoid Softmax Tanh TanhGELU",
    "npdl.adapt.linears": "FrozenLinear LoRALinear QuantLinear",
    "npdl.layers.attention": "AdditiveAttention DotAttention MultiHeadAttention "
                             "ScaledDotAttention causal_mask",
    "npdl.layers.bidirectional": "Bidirectional BidirectionalStack",
    "npdl.layers.dropout": "Dropout",
    "npdl.layers.embedding": "Embedding LearnedPositions SinusoidalPositions Unembedding",
    "npdl.layers.encoder": "CrossDecoder DecoderBlock PreNormDecoderBlock",
    "npdl.layers.graph": "AddReLU GraphAttention MessagePassing Replace",
    "npdl.layers.gru": "ResetAfterGRU ResetAfterGRUCell ResetAfterGRULayer ResetBeforeGRU "
                       "ResetBeforeGRUCell ResetBeforeGRULayer",
    "npdl.layers.grouped": "GroupedQueryAttention",
    "npdl.layers.linear": "Linear",
    "npdl.layers.llama": "LlamaBlock SwiGLU",
    "npdl.layers.neuron": "ThresholdNeuron XOR",
    "npdl.layers.layer_norm": "LayerNorm RMSNorm",
    "npdl.layers.batch_norm": "BatchNorm GroupNorm InstanceNorm",
    "npdl.layers.recurrent": "Cell GRU GRUCell GRULayer LSTM LSTMCell LSTMLayer RNN RNNCell "
                             "RNNLayer Recurrent RecurrentLayer",
    "npdl.layers.rotary": "LinearScaling Llama3Scaling Rotary",
    "npdl.layers.sequential": "Sequential",
    "npdl.layers.transformer": "Block Decoder Encoder FeedForward PreNormBlock Same",
    "npdl.losses": "CrossEntropy KLDivergence SequenceLoss SquaredError StableMaxLoss",
    "npdl.layers.weighted_losses": "SoftCrossEntropy WeightedCrossEntropy",
    "npdl.models.attentive_rnn": "AttentiveRNN",
    "npdl.models.autoencoder": "Autoencoder AutoencoderLoss",
    "npdl.models.birnn": "BiRNN BiRNNLoss",
    "npdl.models.gpt": "GPT GPT2",
    "npdl.models.llama": "Llama",
    "npdl.models.lstm_lm": "LSTMLM",
    "npdl.models.lstm_seq2seq": "LSTMSeq2Seq",
    "npdl.models.mlp": "MLP",
    "npdl.models.seq2seq": "Seq2Seq",
    "npdl.optim": "Adam AdamW Grokfast Muon NesterovSGD RMSprop SGD clip_by_global_norm "
                  "orthogonal_gradient",
    "npdl.threads": "BLASThreads",
    "npdl.study.blame.blame": "assert_right blame",
    "npdl.study.check.gradcheck": "gradcheck",
    "npdl.study.step.step": "step",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module 'npdl' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})
