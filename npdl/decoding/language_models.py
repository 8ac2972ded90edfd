"""Scorers of language models, which continue a prompt.

The state of a Scorer holds the keys and values of earlier tokens, or the state (h, c) of an LSTM.
So a step computes only one new token for each hypothesis, with all hypotheses in one batch. Most
Scorers call the forward of the model's layers. Llama's layers are written here a second time,
without the checks and the caches for backward, which would take most of the time for one token.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from npdl.backend import to_device, to_host, xp
from npdl.core import NoBias
from npdl.decoding.kv_cache import KVCache
from npdl.decoding.scorer import Scorer, checked_prompt
from npdl.functions import infinity_to_nan, log_softmax
from npdl.layers.attention import attend, causal_mask
from npdl.layers.layer_norm import RMSNorm
from npdl.layers.linear import Linear
from npdl.layers.rotary import rotate
from npdl.layers.transformer import PreNormBlock
from npdl.options import checked_integer, require_positive

LARGE = 2**19       # entries; two threads read a larger matrix faster than one thread
ROOM = 256          # new tokens for which memory is allocated at first
AT_ONCE = 64        # tokens of a prompt that are computed together; the attention weights need
                    # memory for each pair of a token in this part and an earlier one


class ModelScorer(Scorer):
    """Base class of the Scorers of models.

    `prompt` is (S,), or (B, S) for B prompts of one length. It holds the tokens that the Scorer
    continues. `scores` converts logits (B, V) to log-probabilities.
    """

    def __init__(self, model, prompt):
        self.model = model
        self.prompt = checked_prompt(prompt)                # prompt (B, S)

    def scores(self, logits):
        return log_probabilities(logits)


class Recomputed(ModelScorer):
    """The Scorer of any language model. It computes the whole sequence again at each step.

    If `window` is given, the model gets only the last `window` tokens. Raises InputError for a
    window below 1.
    """

    def __init__(self, model, prompt, window=None):
        if window is not None:
            require_positive(window=window)
        super().__init__(model, prompt)
        self.window = window

    def start(self):
        return self._score(np.arange(len(self.prompt)), self.prompt)

    def advance(self, state, parents, tokens):
        rows, ids = state
        return self._score(rows[parents], np.concatenate([ids[parents], tokens[:, None]], 1))

    def _score(self, prompt_indices, ids):
        """Return the scores of the tokens after `ids`, and a state. See `run_model`."""
        return self.scores(self.run_model(prompt_indices, ids)[:, -1]), (prompt_indices, ids)

    def run_model(self, prompt_indices, ids):
        """Return the logits of `ids` (n, S). Row i continues prompt prompt_indices[i]."""
        out, _ = self.model.forward(ids if self.window is None else ids[:, -self.window :])
        return out[0] if isinstance(out, tuple) else out


class Tokens(NamedTuple):
    """The ids (B, P) of the tokens so far, and the KVCache with their keys and values."""

    ids: np.ndarray
    kv: KVCache


class CachedGPT(ModelScorer):
    """The Scorer of a GPT, with a KV cache.

    A GPT has max_len positions. When they are used up, the last `keep` tokens become the first
    tokens of the window, and are computed again. With keep = max_len - 1, the default, this happens
    at every further step, so the result is the same as without a KV cache. With a smaller `keep`,
    such as max_len // 2, it happens less often, but then the context becomes shorter. If a prompt
    is longer than max_len, only its last max_len tokens are used.
    """

    one_thread = True

    def __init__(self, model, prompt, keep=None):
        super().__init__(model, prompt)
        self.stack = getattr(model, "decoder", model)       # it has the blocks and the last norm
        most = model.max_len - 1
        self.keep = most if keep is None else checked_integer("keep", keep, 0, most)

    def start(self):
        return self._append_tokens(self.prompt[:, -self.model.max_len :], None)

    def advance(self, state, parents, tokens):
        max_len, ids, new = self.model.max_len, state.ids[parents], tokens[:, None]
        if ids.shape[1] == max_len:
            window = np.concatenate([ids[:, max_len - self.keep :], new], 1)
            return self._append_tokens(window, None)
        kv = state.kv.select_sequences(ids.shape[1], parents, max_len)
        return self._append_tokens(new, Tokens(ids, kv))

    def _append_tokens(self, new_ids, past):
        """Append `new_ids` (B, R) to `past` (Tokens or None); return the scores and a state."""
        R = new_ids.shape[1]
        if past is None:
            capacity = min(R + ROOM, self.model.max_len)
            past = Tokens(new_ids[:, :0], KVCache(len(self.stack.blocks), capacity))
        kv, ids = past.kv, np.concatenate([past.ids, new_ids], 1)
        for start in range(0, R, AT_ONCE):
            part = new_ids[:, start : start + AT_ONCE]
            x = self.run_blocks(part, kv)
            kv.filled += part.shape[1]
        x, _ = self.stack.norm.forward(x[:, -1])
        logits, _ = self.model.classifier.forward(x)
        return self.scores(logits), Tokens(ids, kv)

    def run_blocks(self, new_ids, kv):
        """Return the last block's output (B, R, D) for tokens `new_ids` (B, R) after those in `kv`.

        The keys and values of the new tokens are added to `kv`.
        """
        model, seen, R = self.model, kv.filled, new_ids.shape[1]
        x, _ = model.embedding.forward(new_ids)
        x, _ = model.positions.forward(x, np.arange(seen, seen + R))
        mask = causal_mask(seen + R)[seen:] if R > 1 else None      # mask (R, P + R)
        for i, block in enumerate(self.stack.blocks):
            pre = isinstance(block, PreNormBlock)
            n, append = norm_if(block.norm1, x, pre), functools.partial(kv.append, i)
            a = cached_attention(block.attention, n, mask, append)
            u = norm_if(block.norm1, x + a, not pre)
            m = norm_if(block.norm2, u, pre)
            x = norm_if(block.norm2, u + block.ffn.forward(m)[0], not pre)
        return x


class CachedLlama(CachedGPT):
    """The Scorer of a Llama, with a KV cache. Its arguments are those of CachedGPT."""

    @property
    def one_thread(self):
        """Return False if a linear layer of the feed-forward networks has LARGE or more entries.

        The file of a real model stores the weights of one output contiguously. Several threads
        read such large matrices faster than one thread.
        """
        return math.prod(self.model.blocks[0].ffn.up.sizes) < LARGE

    def run_blocks(self, new_ids, kv):
        model, seen, (B, R) = self.model, kv.filled, new_ids.shape
        attention = model.blocks[0].attention
        n = attention.W_Q.sizes[1] // attention.W_K.sizes[1]        # heads in a group
        mask = xp.tile(causal_mask(seen + R)[seen:], (n, 1)) if R > 1 else None     # (n R, P + R)
        x, _ = model.embedding.forward(new_ids.reshape(-1))         # x (B R, D)
        angles = attention.rotary.cos_and_sin(np.arange(seen, seen + R), x.dtype)
        for i, block in enumerate(model.blocks):
            n, append = rms_norm(block.norm1, x), functools.partial(kv.append, i)
            x = x + cached_grouped_attention(block.attention, n, B, mask, angles, append)
            x = x + swiglu(block.ffn, rms_norm(block.norm2, x))
        return x.reshape(B, R, -1)


class CarriedLSTM(ModelScorer):
    """The Scorer of an LSTMLM. Each step continues from the state (h, c) of the step before."""

    one_thread = True

    def start(self):
        return self._append_tokens(self.prompt, None)

    def advance(self, state, parents, tokens):
        rows = to_device(np.asarray(parents))
        return self._append_tokens(tokens[:, None], tuple(part[:, rows] for part in state))

    def _append_tokens(self, new_ids, state):
        model = self.model
        x, _ = model.embedding.forward(new_ids)
        (y, state), _ = model.lstm.forward(x, state)
        logits, _ = model.classifier.forward(y[:, -1])
        return self.scores(logits), state


def norm_if(norm, x, condition):
    """Return norm(x) if `condition` is True, else x."""
    return norm.forward(x)[0] if condition else x


def cached_attention(attention, x, mask, append_to_cache):
    """Compute MultiHeadAttention.forward for x (B, R, D), the R new positions of B sequences.

    `append_to_cache` adds the new keys and values to the KV cache, and returns all keys and values.
    """
    q, k, v = (attention.split_heads(W.forward(x)[0])
               for W in (attention.W_Q, attention.W_K, attention.W_V))
    heads, _ = attend(q, *append_to_cache(k, v), mask)
    return attention.W_O.forward(attention.join_heads(heads))[0]


def cached_grouped_attention(attention, x, B, mask, angles, append_to_cache):
    """Compute GroupedQueryAttention.forward for x (B * R, D), R new positions of B sequences.

    `angles` are the results of Rotary.cos_and_sin. `append_to_cache` adds the new keys and
    values to the KV cache, and returns all keys and values.
    """
    q, k, v = (apply_linear(W, x) for W in (attention.W_Q, attention.W_K, attention.W_V))
    G, d, R = attention.num_kv_heads, attention.rotary.d, len(x) // B
    if isinstance(attention.norm_q, RMSNorm):
        q = rms_norm(attention.norm_q, q.reshape(-1, d)).reshape(len(x), -1)
        k = rms_norm(attention.norm_k, k.reshape(-1, d)).reshape(len(x), -1)
    qk = xp.concatenate([q, k], 1).reshape(B, R, -1, d).swapaxes(1, 2)
    qk = rotate(qk, *angles)                                # qk (B, H + G, R, d)
    k, v = append_to_cache(qk[:, -G:], v.reshape(B, R, G, d).swapaxes(1, 2))
    q = qk[:, :-G].reshape(B, G, -1, d)                     # q (B, G, n R, d): n heads share k
    heads = attend(q, k, v, mask)[0].reshape(B, -1, R, d)       # heads (B, H, R, d)
    return apply_linear(attention.W_O, heads.swapaxes(1, 2).reshape(len(x), -1))


def rms_norm(norm, x):
    """Compute RMSNorm.forward for rows, without the cache for backward."""
    mean_square = infinity_to_nan((x * x).sum(-1, keepdims=True) / x.shape[1])
    return x / xp.sqrt(mean_square + norm.eps) * norm.gain.data


def swiglu(ffn, x):
    """Compute SwiGLU.forward for rows, without the cache for backward."""
    h, u = 0.5 * apply_linear(ffn.gate, x), apply_linear(ffn.up, x)
    return apply_linear(ffn.down, (h * xp.tanh(h) + h) * u)       # silu(2 h) = h (1 + tanh h)


def apply_linear(layer, x):
    """Compute layer.forward for rows (N, D). For a Linear, the checks and the cache are left out.

    The product is computed as (W^T x^T)^T. Then OpenBLAS uses each part of W right after it has
    copied this part, which is faster.
    """
    if type(layer) is not Linear:
        return layer.forward(x)[0]
    y = (layer.W.data.T @ x.T).T if len(x) > 1 else x @ layer.W.data
    return y if isinstance(layer.b, NoBias) else y + layer.b.data


def log_probabilities(logits):
    """Return the log-probabilities of logits (B, V) on the host, in double precision."""
    return to_host(log_softmax(logits.astype(float)))
