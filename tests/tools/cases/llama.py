"""Cases of rotary positions, grouped-query attention, SwiGLU, Llama and GPT-2."""

import numpy as np

from npdl.layers.grouped import GroupedQueryAttention
from npdl.layers.llama import LlamaBlock
from npdl.layers.rotary import Rotary
from npdl.models.gpt import GPT2
from npdl.models.llama import Llama
from npdl.study.check.examples import ids
from tests.tools.cases import case
from tests.tools.cases.attention import BLIND, CAUSAL, SEEN, TOKENS

PADDED = CAUSAL & SEEN[:, None, None, None, :]                      # (B, 1, 1, S, S)
BIASED = {"qkv_bias": True}
CASES = [
    case(Rotary, "positions with a gap, another base", (6, {"rope_theta": 50.0}), (3, 6),
         positions=np.array([2, 3, 70])),
    case(GroupedQueryAttention, "one key for all, biases", (4, 2, 1, BIASED), (2, 3, 4)),
    case(GroupedQueryAttention, "a key for each, one query sees nothing", (4, 2, 2), (2, 3, 4),
         mask=PADDED),
    case(GroupedQueryAttention, "heads of their own width, another base",
         (3, 2, 1, {"d_head": 4, "rope_theta": 20.0}), (2, 3, 3), mask=CAUSAL),
    case(LlamaBlock, "biases, a large eps, one query sees nothing", (4, 2, 2, 3, {
        **BIASED, "eps": 0.1}), (2, 3, 4), mask=PADDED),
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
    llama("a classifier of its own, biases", tied=False, qkv_bias=True),
    llama("padding, a sequence that sees nothing", seen=BLIND, **SMALL),
    case(GPT2, "a classifier of its own, another eps, padding",
         ({**GPT2_SMALL, "tied": False, "eps": 0.1},), ids(4, 2, 3), key_mask=SEEN, entries=4),
]
