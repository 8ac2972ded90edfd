"""Scorers of encoder-decoders, which continue a target token by token, given a source."""

import numpy as np

from npdl.backend import to_device
from npdl.decoding.language_models import (
    StepByStep,
    cached_attention,
    checked_prompt,
    keys_values,
    norm_if,
)
from npdl.errors import InputError, checked_tokens
from npdl.layers.attention import causal_mask
from npdl.layers.encoder import PreNormDecoderBlock
from npdl.layers.transformer import padding_mask


class CachedSeq2Seq(StepByStep):
    """The Scorer of a Seq2Seq: it continues the target that begins with the tokens `first`.

    source is (S,) or (B, S). source_mask has the same shape, and is True for valid tokens. `first`
    (R,) or (B, R) are the first tokens of the target, for example a start token. The encoder's
    output, and its keys and values for cross-attention, are computed once.
    """

    def __init__(self, model, source, first, source_mask=None):
        self.model = model
        self.source = checked_prompt(source)
        first = checked_prompt(first)
        if len(first) not in (1, len(self.source)):
            raise InputError(f"first has {len(first)} rows for {len(self.source)} sources; give "
                             "one row, or one row for each source")
        self.prompt = np.broadcast_to(first, (len(self.source), first.shape[1]))
        self.mask = source_mask if source_mask is None else np.atleast_2d(source_mask)

    def start(self):
        memory, _ = self.model.encode(self.source, self.mask)
        crosses = [keys_values(block.cross, memory) for block in self.model.decoder.blocks]
        return self._feed(self.prompt, self.mask, [(None, cross) for cross in crosses])

    def advance(self, state, parents, tokens):
        mask, pasts = state
        rows = to_device(np.asarray(parents))
        pasts = [tuple((k[rows], v[rows]) for k, v in pair) for pair in pasts]
        mask = None if mask is None else mask[parents]
        return self._feed(tokens[:, None], mask, pasts)

    def _feed(self, new, source_mask, pasts):
        model, R = self.model, new.shape[1]
        P = 0 if pasts[0][0] is None else pasts[0][0][0].shape[2]       # earlier positions
        checked_tokens(np.broadcast_to(new[:, :1], (len(new), P + R)), "Seq2Seq", model.max_len)
        x, _ = model.target_embedding.forward(new)
        x, _ = model.target_positions.forward(x, np.arange(P, P + R))
        mask, memory_mask = causal_mask(P + R)[P:], padding_mask(source_mask)
        new_pasts = []
        for block, (past, cross) in zip(model.decoder.blocks, pasts, strict=True):
            x, past = cached_decoder_block(block, x, mask, past, cross, memory_mask)
            new_pasts.append((past, cross))
        x, _ = model.decoder.norm.forward(x[:, -1])
        logits, _ = model.classifier.forward(x)
        return self.scores(logits), (source_mask, new_pasts)


class CarriedSeq2Seq(CachedSeq2Seq):
    """The Scorer of an LSTMSeq2Seq. It passes the state of the decoder from step to step.

    `lengths` (B,) are the lengths of the sources.
    """

    def __init__(self, model, source, first, lengths=None):
        super().__init__(model, source, first)
        self.lengths = lengths

    def start(self):
        (memory, state), _ = self.model.encode(self.source, self.lengths)
        return self._feed(self.prompt, self.lengths, memory, state)

    def advance(self, state, parents, tokens):
        lengths, memory, state = state
        rows = to_device(np.asarray(parents))
        lengths = None if lengths is None else np.asarray(lengths)[parents]
        return self._feed(tokens[:, None], lengths, memory[rows], tuple(p[:, rows] for p in state))

    def _feed(self, new, lengths, memory, state):
        (logits, state), _ = self.model.decode(new, memory, state, lengths)
        return self.scores(logits[:, -1]), (lengths, memory, state)


def cached_decoder_block(block, x, mask, past, cross, memory_mask):
    """Compute DecoderBlock.forward or PreNormDecoderBlock.forward for new positions x (B, R, D).

    `past` holds the keys and values (B, H, P, d) of P earlier positions, or is None if P is 0.
    `cross` holds the keys and values of the memory. Returns y (B, R, D), and the keys and values of
    all P + R positions.
    """
    pre = isinstance(block, PreNormDecoderBlock)
    n = norm_if(block.norm1, x, pre)
    past = keys_values(block.attention, n, past)
    u = norm_if(block.norm1, x + cached_attention(block.attention, n, mask, past), not pre)
    m = norm_if(block.norm2, u, pre)
    w = norm_if(block.norm2, u + cached_attention(block.cross, m, memory_mask, cross), not pre)
    p = norm_if(block.norm3, w, pre)
    return norm_if(block.norm3, w + block.ffn.forward(p)[0], not pre), past
