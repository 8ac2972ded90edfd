"""Models as Scorers: what npdl.decoding needs to continue a prompt.

    scorer = continuation(model, prompt)
    beam_search(scorer, width=5, max_len=20, eos=eos).best.tokens

A state keeps what later tokens need of the earlier ones - keys and values, or an LSTM's (h, c) -
so a step computes one token for each hypothesis, and all hypotheses in one batch.
"""

from typing import NamedTuple

import numpy as np

from npdl.backend import to_device, to_host, xp
from npdl.decoding.scorer import Scorer
from npdl.errors import InputError
from npdl.layers.activation import log_softmax
from npdl.layers.attention import causal_mask
from npdl.layers.embedding import checked_ids
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM


def continuation(model, prompt, **options):
    """The Scorer for this model: CachedGPT, CarriedLSTM, or Recomputed for any other."""
    kinds = {GPT: CachedGPT, LSTMLM: CarriedLSTM}
    kind = next((k for m, k in kinds.items() if isinstance(model, m)), Recomputed)
    return kind(model, prompt, **options)


class Recomputed(Scorer):
    """Any model with logits(ids, at), run on the whole sequence at each step; for comparison.

    prompt (S,) tokens, or (B, S) for B prompts of one length. With `window`, the model sees the
    last `window` tokens only.
    """

    def __init__(self, model, prompt, window=None):
        self.model = model
        self.prompt = checked_prompt(prompt)
        self.window = window

    def start(self):
        return self._score(self.prompt)

    def advance(self, state, parents, tokens):
        return self._score(np.concatenate([state[parents], tokens[:, None]], 1))

    def _score(self, ids):
        seen = ids if self.window is None else ids[:, -self.window :]
        logits, _ = self.model.logits(seen, at=np.array([seen.shape[1] - 1]))
        return log_probabilities(logits[:, -1]), ids


class GPTState(NamedTuple):
    """ids (B, P) in the window, and each block's keys and values, two arrays (B, H, P, d)."""

    ids: np.ndarray
    pasts: list


class CachedGPT(Scorer):
    """A GPT with a key/value cache; prompt (S,) or (B, S).

    Positions end at the model's max_len. When they are used up, the last `keep` tokens move to
    the front of the window and are computed again: with the default max_len - 1 at every further
    step, as a model without a cache would; with max_len // 2, seldom, but with a shorter context
    after each move. Of a prompt longer than max_len the last max_len tokens are seen.
    """

    def __init__(self, model, prompt, keep=None):
        self.model = model
        self.prompt = checked_prompt(prompt)
        self.keep = model.max_len - 1 if keep is None else keep
        if not 0 <= self.keep < model.max_len:
            raise InputError(f"keep = {keep!r}; it must be from 0 to {model.max_len - 1}, below "
                             "the model's max_len")

    def start(self):
        return self._feed(self.prompt[:, -self.model.max_len :], None)

    def advance(self, state, parents, tokens):
        new, before = tokens[:, None], state.ids[parents]
        if before.shape[1] == self.model.max_len:
            moved = np.concatenate([before[:, before.shape[1] - self.keep :], new], 1)
            return self._feed(moved, None)
        rows = to_device(np.asarray(parents))
        pasts = [(keys[rows], values[rows]) for keys, values in state.pasts]
        return self._feed(new, GPTState(before, pasts))

    def _feed(self, new, past):
        """The log-probabilities after the tokens `new` (B, R), which follow `past`."""
        model, R = self.model, new.shape[1]
        blocks = model.decoder.blocks
        seen = 0 if past is None else past.ids.shape[1]
        x, _ = model.embedding.forward(new)
        x, _ = model.positions.forward(x, xp.arange(seen, seen + R))
        mask = causal_mask(seen + R)[seen:] if R > 1 else None
        pasts = []
        for i, block in enumerate(blocks):
            at = xp.arange(R - 1, R) if block is blocks[-1] else None
            before = None if past is None else past.pasts[i]
            (x, _), cache = block.forward(x, mask, at, past=before)
            pasts.append(cache.attention.keys_values)
        if model.decoder.norm is not None:
            x, _ = model.decoder.norm.forward(x)
        logits, _ = model.classifier.forward(x[:, -1])
        ids = new if past is None else np.concatenate([past.ids, new], 1)
        return log_probabilities(logits), GPTState(ids, pasts)


class CarriedLSTM(Scorer):
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
        out, _ = self.model.forward(new, state, at=np.array([new.shape[1] - 1]))
        return log_probabilities(out.logits[:, -1]), out.state


class CachedSeq2Seq(Scorer):
    """A Seq2Seq model's target, from its first tokens on, given a source.

    source (S,) or (B, S), with source_mask of the same shape, True for real tokens; `first`
    (R,) or (B, R) are the target's first tokens, such as its start symbol. The encoder runs
    once, and so do the keys and values that cross-attention reads.
    """

    def __init__(self, model, source, first, source_mask=None):
        self.model = model
        self.source = checked_prompt(source)
        self.prompt = np.broadcast_to(checked_prompt(first),
                                      (len(self.source), np.shape(first)[-1]))
        self.mask = None if source_mask is None else np.atleast_2d(np.asarray(source_mask, bool))

    def start(self):
        (memory, _), _ = self.model.encode(self.source, self.mask)
        return self._feed(self.prompt, memory, self.mask, None)

    def advance(self, state, parents, tokens):
        mask, pasts = state
        rows = to_device(np.asarray(parents))
        pasts = [tuple((k[rows], v[rows]) for k, v in pair) for pair in pasts]
        mask = None if mask is None else mask[parents]
        return self._feed(tokens[:, None], None, mask, pasts)

    def _feed(self, new, memory, mask, pasts):
        logits, pasts = self.model.decode(new, memory, mask, pasts)
        return log_probabilities(logits), (mask, pasts)


def log_probabilities(logits):
    """(B, V) logits -> log-probabilities on the host, in double precision."""
    return to_host(log_softmax(logits.astype(float)))


def checked_prompt(prompt):
    """A prompt as an array (B, S); InputError unless it has integers, at least one."""
    ids = np.atleast_2d(np.asarray(prompt))
    if ids.ndim != 2 or 0 in ids.shape:
        raise InputError(f"prompt: shape {np.shape(prompt)}; it must be (S,) or (B, S), not empty")
    return to_host(checked_ids(ids, np.iinfo(np.int64).max, "the prompt's tokens"))
