"""An encoder-decoder transformer: from a source sequence to a target sequence."""

from npdl.backend import xp
from npdl.core import Cache, Layer
from npdl.errors import checked_tokens
from npdl.init import generator
from npdl.layers.attention import causal_mask
from npdl.layers.cross_attention import CROSS_BLOCKS, CrossDecoder
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, make_positions
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.transformer import BLOCKS, Encoder, attention_weights, expand_mask
from npdl.options import require_choice, require_positive


class Seq2Seq(Layer):
    """memory = encoder(source),   logits = decoder(target, memory) W + b.

    The encoder attends to the whole source. The decoder is causal, and attends to the memory.
    forward(source, target, source_mask, target_mask, rng) maps source (B, S) and target (B, T) to
    logits (B, T, V). The masks have the shapes of source and target, and are True for valid tokens
    and False for padding. logits[:, t] predict the token after target[:, t]. So in training, the
    input is the target without its last token, and the loss compares with the target without its
    first token. This module's function `attentions(cache)` returns all attention weights. Raises
    InputError for ids out of range, and for sequences longer than `max_len`. Vaswani et al. 2017.
    """

    def __init__(self, source_vocab, target_vocab, d_model=128, num_layers=2, num_heads=4,
                 multiplier=4, max_len=64, *, bias=True, norm="post", activation="gelu",
                 dropout=0.0, positions="2k/d", padding_id=None, rng=0, dtype="float32"):
        require_positive(num_layers=num_layers)
        require_choice("norm", norm, BLOCKS)
        rng = generator(rng)

        def make_stack(stack_class, block_class):
            blocks = [block_class(d_model, num_heads, multiplier, bias=bias, activation=activation,
                                  dropout=dropout, ffn_bias=True, rng=rng, dtype=dtype)
                      for _ in range(num_layers)]
            return stack_class(blocks, None if norm == "post" else LayerNorm(d_model, dtype=dtype))

        self.source_embedding = Embedding(source_vocab, d_model, padding_id=padding_id, rng=rng,
                                          dtype=dtype)
        self.source_positions = make_positions(positions, max_len, d_model, rng=rng, dtype=dtype)
        self.encoder = make_stack(Encoder, BLOCKS[norm])
        self.target_embedding = Embedding(target_vocab, d_model, padding_id=padding_id, rng=rng,
                                          dtype=dtype)
        self.target_positions = make_positions(positions, max_len, d_model, rng=rng, dtype=dtype)
        self.decoder = make_stack(CrossDecoder, CROSS_BLOCKS[norm])
        self.classifier = Linear(d_model, target_vocab, rng=rng, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.max_len = max_len

    def forward(self, source, target, source_mask=None, target_mask=None, rng=None):
        source, target = (checked_tokens(ids, "Seq2Seq", self.max_len) for ids in (source, target))
        memory_mask = expand_mask(source_mask, source.shape, "Seq2Seq")     # (B, 1, 1, S)
        s, c_source = self.source_embedding.forward(source)             # s (B, S, D)
        s, c_source_positions = self.source_positions.forward(s)
        s, c_source_drop = self.dropout.forward(s, rng)
        memory, c_encoder = self.encoder.forward(s, source_mask, rng)   # memory (B, S, D)
        mask = causal_mask(target.shape[1])                             # mask (T, T)
        if target_mask is not None:
            mask = mask & expand_mask(target_mask, target.shape, "Seq2Seq")     # (B, 1, T, T)
        x, c_target = self.target_embedding.forward(target)             # x (B, T, D)
        x, c_target_positions = self.target_positions.forward(x)
        x, c_target_drop = self.dropout.forward(x, rng)
        y, c_decoder = self.decoder.forward(x, memory, mask, memory_mask, rng)
        logits, c_classifier = self.classifier.forward(y)
        return logits, Cache(source=c_source, source_positions=c_source_positions,
                             source_drop=c_source_drop, encoder=c_encoder, target=c_target,
                             target_positions=c_target_positions, target_drop=c_target_drop,
                             decoder=c_decoder, classifier=c_classifier)

    def backward(self, dlogits, cache):
        dy = self.classifier.backward(dlogits, cache.classifier)
        dx, dmemory = self.decoder.backward(dy, cache.decoder)
        dx = self.dropout.backward(dx, cache.target_drop)
        dx = self.target_positions.backward(dx, cache.target_positions)
        dtarget = self.target_embedding.backward(dx, cache.target)
        ds = self.encoder.backward(dmemory, cache.encoder)
        ds = self.dropout.backward(ds, cache.source_drop)
        ds = self.source_positions.backward(ds, cache.source_positions)
        dsource = self.source_embedding.backward(ds, cache.source)
        return dsource, dtarget                                         # None: ids have no gradient


def attentions(cache):
    """Return the attention weights of every block, from the cache of Seq2Seq.forward.

    Returns three arrays: the weights of the encoder (B, L, H, S, S), the self-attention weights of
    the decoder (B, L, H, T, T), and its cross-attention weights (B, L, H, T, S).
    """
    blocks = cache.decoder.blocks
    return (attention_weights(cache.encoder.blocks), attention_weights(blocks),
            xp.stack([c.cross.attend.A for c in blocks], 1))
