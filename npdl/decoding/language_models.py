"""Language models as Scorers: what npdl.decoding needs to continue a prompt.

A state keeps what later tokens need of the earlier ones: keys and values, or an LSTM's (h, c). So a
step computes one token for each hypothesis, and all hypotheses in one batch. This module runs only
the forward pass, with the library's layers, for new tokens only. Llama's layers are written here a
second time, without checks and caches, because decoding one token is mostly overhead.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from npdl.backend import to_device, to_host, xp
from npdl.core import NoBias
from npdl.decoding.kv_cache import KVCache
from npdl.decoding.scorer import Scorer
from npdl.errors import InputError, checked_ids, is_integer, require_positive
from npdl.functions import log_softmax, not_infinite
from npdl.layers.attention import attend, causal_mask
from npdl.layers.layer_norm import RMSNorm
from npdl.layers.linear import Linear
from npdl.layers.rotary import turned
from npdl.layers.transformer import PreNormBlock
from npdl.threads import ONE_BLAS_THREAD

LARGE = 2**19       # entries of a matrix from which two threads read it faster than one
ROOM = 256          # for so many new tokens memory is made at first, if nothing is said
AT_ONCE = 64        # a prompt's tokens go through the model in parts of so many: its attention's
                    # weights, a number for each pair of tokens, would be what takes most memory


class ModelScorer(Scorer):
    """A model's Scorer. `prompt` (B, S) are the tokens before the new ones, and `scores` computes
    log-probabilities from logits (B, V)."""

    def scores(self, logits):
        return log_probabilities(logits)


class Recomputed(ModelScorer):
    """Any language model, run on the whole sequence at each step; for comparison.

    prompt (S,) tokens, or (B, S) for B prompts of one length. With `window`, the model sees the
    last `window` tokens only. Raises InputError for a window below 1.
    """

    def __init__(self, model, prompt, window=None):
        if window is not None:
            require_positive(window=window)
        self.model = model
        self.prompt = checked_prompt(prompt)
        self.window = window

    def start(self):
        return self._score(self.prompt)

    def advance(self, state, parents, tokens):
        return self._score(np.concatenate([state[parents], tokens[:, None]], 1))

    def _score(self, ids):
        seen = ids if self.window is None else ids[:, -self.window :]
        out, _ = self.model.forward(seen)
        logits = out[0] if isinstance(out, tuple) else out
        return self.scores(logits[:, -1]), ids


class StepByStep(ModelScorer):
    """A model that computes only the new tokens; for one sequence, each layer gets one row."""

    def settings(self, rows):
        """Return a context of one BLAS thread for one row, else the default context.

        The products of one row take as long as reading their matrices. Two threads are slower
        because they wait for each other.
        """
        return ONE_BLAS_THREAD if rows == 1 else super().settings(rows)


class Tokens(NamedTuple):
    """The ids (B, P) in the window, and the KVCache whose first P places are theirs."""

    ids: np.ndarray
    kv: KVCache


class CachedGPT(StepByStep):
    """A GPT with a key/value cache; prompt (S,) or (B, S).

    Positions end at the model's max_len. When they are used up, the last `keep` tokens move to
    the front of the window and are computed again: with the default max_len - 1 at every further
    step, as a model without a cache would; with max_len // 2, seldom, but with a shorter context
    after each move. Of a prompt longer than max_len the last max_len tokens are seen. `capacity`
    says for how many tokens, the prompt's and the new ones, memory is made at first; when they
    become more, it is made again, twice as large.
    """

    def __init__(self, model, prompt, keep=None, capacity=None):
        self.model = model
        self.prompt = checked_prompt(prompt)
        self.keep = model.max_len - 1 if keep is None else keep
        if not is_integer(self.keep) or not 0 <= self.keep < model.max_len:
            raise InputError(f"keep = {keep!r}; it must be from 0 to {model.max_len - 1}, below "
                             "the model's max_len")
        if capacity is not None:
            require_positive(capacity=capacity)
        self.capacity = capacity or self.prompt.shape[1] + ROOM

    def start(self):
        return self._feed(self.prompt[:, -self.model.max_len :], None)

    def advance(self, state, parents, tokens):
        most, before, new = self.model.max_len, state.ids[parents], tokens[:, None]
        if before.shape[1] == most:
            return self._feed(np.concatenate([before[:, most - self.keep :], new], 1), None)
        kv = state.kv.after(before.shape[1], parents, most)
        return self._feed(new, Tokens(before, kv))

    def _feed(self, new, past):
        """Return the log-probabilities after the tokens `new` (B, R), which follow `past`."""
        B, R = new.shape
        if past is None:
            capacity = min(max(R, self.capacity), self.model.max_len)
            past = Tokens(new[:, :0], self.empty(B, capacity))
        kv, ids = past.kv, np.concatenate([past.ids, new], 1)
        for start in range(0, R, AT_ONCE):
            part = new[:, start : start + AT_ONCE]
            x = self.after(part, kv)
            kv.filled += part.shape[1]
        x, _ = self.norm.forward(x[:, -1])
        logits, _ = self.model.classifier.forward(x)
        return self.scores(logits), Tokens(ids, kv)

    @property
    def norm(self):
        """Return the norm after the last block."""
        return self.model.decoder.norm

    def empty(self, B, capacity):
        """Return an empty KVCache for B sequences."""
        blocks, table = self.model.decoder.blocks, self.model.embedding.W.data
        H = blocks[0].attention.num_heads
        return KVCache(len(blocks), B, H, capacity, table.shape[1] // H, table.dtype)

    def after(self, new, kv):
        """Return the last block's output (B, R, D) for the tokens `new` (B, R).

        `new` follows the tokens in `kv`, to which its keys and values are added.
        """
        model, seen, R = self.model, kv.filled, new.shape[1]
        x, _ = model.embedding.forward(new)
        x, _ = model.positions.forward(x, np.arange(seen, seen + R))
        mask = causal_mask(seen + R)[seen:] if R > 1 else None      # mask (R, P + R)
        for i, block in enumerate(model.decoder.blocks):
            pre = isinstance(block, PreNormBlock)
            n = normed(block.norm1, x, pre)
            kept = kv.put(i, *keys_values(block.attention, n))
            u = normed(block.norm1, x + attention_after(block.attention, n, mask, kept), not pre)
            m = normed(block.norm2, u, pre)
            x = normed(block.norm2, u + block.ffn.forward(m)[0], not pre)
        return x


class CachedLlama(CachedGPT):
    """A Llama with a key/value cache, of one key and value for each group of heads."""

    def settings(self, rows):
        """Return a context with every BLAS thread if the linear layers are LARGE.

        The file of a real model stores the weights of one output contiguously, and two threads read
        them faster.
        """
        small = math.prod(self.model.blocks[0].ffn.up.sizes) < LARGE
        return (super() if small else super(StepByStep, self)).settings(rows)

    @property
    def norm(self):
        return self.model.norm

    def empty(self, B, capacity):
        blocks = self.model.blocks
        attention = blocks[0].attention
        return KVCache(len(blocks), B, attention.num_kv_heads, capacity, attention.rotary.d,
                      self.model.embedding.W.data.dtype)

    def after(self, new, kv):
        model, seen, (B, R) = self.model, kv.filled, new.shape
        attention = model.blocks[0].attention
        n = attention.W_Q.sizes[1] // attention.W_K.sizes[1]        # heads in a group
        mask = xp.tile(causal_mask(seen + R)[seen:], (n, 1)) if R > 1 else None     # (n R, P + R)
        x, _ = model.embedding.forward(new.reshape(-1))             # x (B R, D)
        turn = attention.rotary.turn(np.arange(seen, seen + R), x.dtype)
        for i, block in enumerate(model.blocks):
            put = functools.partial(kv.put, i)
            x = x + grouped_after(block.attention, rms_norm(block.norm1, x), B, mask, turn, put)
            x = x + swiglu(block.ffn, rms_norm(block.norm2, x))
        return x.reshape(B, R, -1)


class CarriedLSTM(StepByStep):
    """An LSTM language model whose state (h, c) is carried along; prompt (S,) or (B, S)."""

    def __init__(self, model, prompt):
        self.model = model
        self.prompt = checked_prompt(prompt)

    def start(self):
        return self._feed(self.prompt, None)

    def advance(self, state, parents, tokens):
        rows = to_device(np.asarray(parents))
        return self._feed(tokens[:, None], tuple(part[:, rows] for part in state))

    def _feed(self, new, state):
        model = self.model
        x, _ = model.embedding.forward(new)
        (y, state), _ = model.lstm.forward(x, state)
        logits, _ = model.classifier.forward(y[:, -1])
        return self.scores(logits), state


def normed(norm, x, here):
    """Return norm(x) if the norm is `here`, else x."""
    return norm.forward(x)[0] if here else x


def keys_values(attention, x, past=None):
    """Return the keys and values of x (B, S, D), (B, H, S, d) each, after those of `past`."""
    k, v = (attention.split(W.forward(x)[0]) for W in (attention.W_K, attention.W_V))
    if past is None:
        return k, v
    return xp.concatenate([past[0], k], 2), xp.concatenate([past[1], v], 2)


def attention_after(attention, x, mask, kept):
    """Compute MultiHeadAttention.forward of the queries x (B, R, D) with cached keys and values."""
    q = attention.split(attention.W_Q.forward(x)[0])
    heads, _ = attend(q, *kept, mask)
    return attention.W_O.forward(attention.join(heads))[0]


def grouped_after(attention, x, B, mask, turn, put):
    """Compute GroupedQueryAttention.forward of rows x (B R, D).

    `put` adds the new keys and values to the cached ones and returns all of them.
    """
    q, k, v = (mapped(W, x) for W in (attention.W_Q, attention.W_K, attention.W_V))
    G, d, R = attention.num_kv_heads, attention.rotary.d, len(x) // B
    if isinstance(attention.norm_q, RMSNorm):
        q = rms_norm(attention.norm_q, q.reshape(-1, d)).reshape(len(x), -1)
        k = rms_norm(attention.norm_k, k.reshape(-1, d)).reshape(len(x), -1)
    qk = xp.concatenate([q, k], 1).reshape(B, R, -1, d).swapaxes(1, 2)
    qk = turned(qk, *turn)                                  # qk (B, H + G, R, d)
    k, v = put(qk[:, -G:], v.reshape(B, R, G, d).swapaxes(1, 2))
    q = qk[:, :-G].reshape(B, G, -1, d)                     # q (B, G, n R, d): n heads read one k
    heads = attended(q, k, v, mask).reshape(B, -1, R, d)    # (B, H, R, d)
    return mapped(attention.W_O, heads.swapaxes(1, 2).reshape(len(x), -1))


def attended(q, k, v, mask):
    """Compute `attend` without the cache for backward."""
    if mask is not None:
        return attend(q, k, v, mask)[0]
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]))
    e = xp.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ v


def rms_norm(norm, x):
    """Compute RMSNorm.forward of rows without the cache for backward."""
    mean_square = not_infinite((x * x).sum(-1, keepdims=True) / x.shape[1])
    return x / xp.sqrt(mean_square + norm.eps) * norm.gain.data


def swiglu(ffn, x):
    """Compute SwiGLU.forward of rows without the cache for backward."""
    h, u = 0.5 * mapped(ffn.gate, x), mapped(ffn.up, x)
    return mapped(ffn.down, (h * xp.tanh(h) + h) * u)       # silu(2 h) = h (1 + tanh h)


def mapped(layer, x):
    """Compute layer.forward of rows (N, D); for a Linear without its checks and its cache.

    The product of a Linear is the one in which OpenBLAS uses each part of W as soon as it has
    copied it.
    """
    if type(layer) is not Linear:
        return layer.forward(x)[0]
    y = (layer.W.data.T @ x.T).T if len(x) > 1 else x @ layer.W.data
    return y if isinstance(layer.b, NoBias) else y + layer.b.data


def log_probabilities(logits):
    """Return the log-probabilities of logits (B, V) on the host, in double precision."""
    return to_host(log_softmax(logits.astype(float)))


def checked_prompt(prompt):
    """Return a prompt as an array (B, S). Raises InputError unless it has one integer or more."""
    try:
        ids = np.atleast_2d(np.asarray(prompt))
    except ValueError:
        raise InputError("the prompt has rows of different lengths; give prompts of one length, or "
                         "one at a time") from None
    if ids.ndim != 2 or 0 in ids.shape:
        raise InputError(f"prompt: shape {np.shape(prompt)}; it must be (S,) or (B, S), not empty")
    return checked_ids(ids, np.iinfo(np.int64).max, "the prompt's tokens").astype(np.int64)
