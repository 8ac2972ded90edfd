"""Cases of rotary positions, grouped-query attention, SwiGLU, Llama and GPT-2."""

import numpy as np

from npdl.layers.grouped import GroupedQueryAttention, Rotary
from npdl.layers.llama import LlamaBlock, SwiGLU
from npdl.models.gpt import GPT2
from npdl.models.llama import Llama
from tests.tools.cases import case, ids
from tests.tools.cases.attention import BLIND, CAUSAL, SEEN, TOKENS

PADDED = CAUSAL & SEEN[:, None, None, None, :]                      # (B, 1, 1, S, S)
BIASED = {"qkv_bias": True}
CASES = [
    case(Rotary, "(B, G, n, S, d)", (4,), (2, 1, 2, 3, 4)),
    case(Rotary, "positions with a gap, another base", (6, {"rope_theta": 50.0}), (3, 6),
         positions=np.array([2, 3, 70])),
    case(Rotary, "one pair, one position", (2,), (1, 2)),
    case(GroupedQueryAttention, "a key for two heads", (8, 4, 2), (2, 3, 8), mask=CAUSAL),
    case(GroupedQueryAttention, "one key for all, biases", (4, 2, 1, BIASED), (2, 3, 4)),
    case(GroupedQueryAttention, "a key for each, one query sees nothing", (4, 2, 2), (2, 3, 4),
         mask=PADDED),
    case(GroupedQueryAttention, "heads of their own width, another base",
         (3, 2, 1, {"d_head": 4, "rope_theta": 20.0}), (2, 3, 3), mask=CAUSAL),
    case(GroupedQueryAttention, "one head, one pair, one position", (2, 1, 1), (1, 1, 2)),
    case(SwiGLU, "(B, S, D)", (3, 5), (2, 3, 3)),
    case(SwiGLU, "sizes of 1", (1, 1), (1, 1)),
    case(LlamaBlock, "causal", (4, 2, 1, 6), (2, 3, 4), mask=CAUSAL),
    case(LlamaBlock, "biases, a large eps, one query sees nothing", (4, 2, 2, 3, {
        **BIASED, "eps": 0.1}), (2, 3, 4), mask=PADDED),
    case(LlamaBlock, "no mask, the smallest", (2, 1, 1, 1), (1, 1, 2)),
]


def llama(what, entries=4, tokens=TOKENS, seen=None, **sizes):
    sizes = {"vocab_size": 4, "d_model": 8, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2,
             "d_inner": 6, "max_len": 4, **sizes}
    options = {} if seen is None else {"key_mask": seen}
    return case(Llama, what, (sizes,), tokens, entries=entries, **options)


SMALL = {"d_model": 4, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1}
GPT2_SMALL = {"vocab_size": 4, "d_model": 4, "num_layers": 2, "num_heads": 2, "multiplier": 2,
              "max_len": 4}
CASES += [
    llama("tied"),
    llama("a classifier of its own, biases", tied=False, qkv_bias=True),
    llama("one block, every entry", entries=None, **SMALL),
    llama("padding, a sequence that sees nothing", seen=BLIND, **SMALL),
    llama("one token, the smallest", tokens=np.array([[0]]), vocab_size=1, d_model=2, num_layers=1,
          num_heads=1, num_kv_heads=1, d_inner=1),
    case(GPT2, "tied", (GPT2_SMALL,), TOKENS, entries=4),
    case(GPT2, "a classifier of its own, another eps, padding",
         ({**GPT2_SMALL, "tied": False, "eps": 0.1},), ids(4, 2, 3), key_mask=SEEN, entries=4),
    case(GPT2, "one token, the smallest", (1, 1, 1, 1, 1, 1), np.array([[0]])),
]
