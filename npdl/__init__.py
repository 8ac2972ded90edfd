"""npdl: layers for sequence models in NumPy, with every backward pass written by hand.

    from npdl import LSTM, GPT, AdamW, gradcheck, step, blame

A module is imported only when one of its names is first used.
"""

import importlib

__version__ = "0.3.0"

_NAMES = {
    "npdl.core": "Cache Layer Param",
    "npdl.exceptions": "InputError",
    "npdl.layers.activation": "GELU ReLU Sigmoid Softmax Tanh",
    "npdl.layers.attention": "AdditiveAttention DotAttention MultiHeadAttention "
                             "ScaledDotAttention causal_mask",
    "npdl.layers.bidirectional": "Bidirectional",
    "npdl.layers.dropout": "Dropout",
    "npdl.layers.embedding": "Embedding LearnedPositions SinusoidalPositions Unembedding",
    "npdl.layers.graph": "GraphAttention MessagePassing",
    "npdl.layers.grouped": "GroupedQueryAttention",
    "npdl.layers.linear": "Linear",
    "npdl.layers.llama": "SwiGLU",
    "npdl.layers.layer_norm": "LayerNorm RMSNorm",
    "npdl.layers.batch_norm": "BatchNorm GroupNorm InstanceNorm",
    "npdl.layers.recurrent": "GRU GRUCell LSTM LSTMCell RNN RNNCell",
    "npdl.layers.rotary": "Rotary",
    "npdl.layers.sequential": "Sequential",
    "npdl.layers.transformer": "Block Decoder Encoder FeedForward PreNormBlock",
    "npdl.losses": "CrossEntropy KLDivergence SequenceLoss SquaredError",
    "npdl.models.attentive_rnn": "AttentiveRNN",
    "npdl.models.autoencoder": "Autoencoder",
    "npdl.models.birnn": "BiRNN",
    "npdl.models.gpt": "GPT GPT2",
    "npdl.models.llama": "Llama",
    "npdl.models.lstm_lm": "LSTMLM",
    "npdl.models.lstm_seq2seq": "LSTMSeq2Seq",
    "npdl.models.mlp": "MLP",
    "npdl.models.seq2seq": "Seq2Seq",
    "npdl.optim": "Adam AdamW Grokfast Muon NesterovSGD RMSprop SGD clip_by_global_norm",
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
