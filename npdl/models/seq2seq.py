"""An encoder-decoder transformer: from a source sequence to a target sequence."""

from typing import NamedTuple

from npdl.backend import xp
from npdl.core import Cache, Layer, gradients_of
from npdl.errors import InputError
from npdl.init import generator
from npdl.layers.attention import causal_mask
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, LearnedPositions, SinusoidalPositions
from npdl.layers.encoder import CrossDecoder, Encoder, padding_mask
from npdl.layers.linear import Linear

POSITIONS = ("k/d", "2k/d", "learned")


class Seq2SeqOutput(NamedTuple):
    """logits (B, T, V) and the weights of each block, stacked: encoder (B, L, H, S, S),
    decoder (B, L, H, T, T), cross (B, L, H, T, S)."""

    logits: object
    encoder_attentions: object = None
    attentions: object = None
    cross_attentions: object = None


class Seq2Seq(Layer):
    """Encoder over the source, causal decoder over the target that reads the encoder's output.

    forward(source, target, source_mask, target_mask, rng) -> Seq2SeqOutput.
    source, target            (B, S) and (B, T) tokens
    source_mask, target_mask  the same shapes, True for real tokens, False for padding
    logits[:, t] belongs to the token after target[:, t], so training feeds the target without
    its last token and compares with the target without its first.
    Vaswani et al. 2017, arXiv:1706.03762. Raises InputError as GPT does.
    """

    def __init__(self, source_vocab, target_vocab, d_model=128, num_layers=2, num_heads=4,
                 multiplier=4, max_len=64, bias=True, norm="post", activation="gelu",
                 dropout=0.0, positions="2k/d", padding_id=None, rng=0, dtype="float32"):
        if positions not in POSITIONS:
            raise InputError(f"positions = {positions!r}; choose one of: {', '.join(POSITIONS)}")
        rng = generator(rng)

        def position_table():
            if positions == "learned":
                return LearnedPositions(max_len, d_model, rng, dtype)
            return SinusoidalPositions(max_len, d_model, positions, dtype)

        stack = dict(multiplier=multiplier, bias=bias, norm=norm, activation=activation,
                     dropout=dropout, ffn_bias=True, rng=rng, dtype=dtype)
        self.source_embedding = Embedding(source_vocab, d_model, padding_id, rng, dtype)
        self.source_positions = position_table()
        self.encoder = Encoder(num_layers, d_model, num_heads, **stack)
        self.target_embedding = Embedding(target_vocab, d_model, padding_id, rng, dtype)
        self.target_positions = position_table()
        self.decoder = CrossDecoder(num_layers, d_model, num_heads, **stack)
        self.classifier = Linear(d_model, target_vocab, True, rng, dtype)
        self.dropout = Dropout(dropout)
        self.max_len = max_len

    def forward(self, source, target, source_mask=None, target_mask=None, rng=None):
        (memory, weights), c_encode = self.encode(source, source_mask, rng)
        x, c_target = self._embed(self.target_embedding, self.target_positions, target, None, rng)
        mask = causal_mask(x.shape[1])
        if target_mask is not None:
            tokens = padding_mask(target_mask)          # tokens (B, 1, 1, T)
            if tokens.shape[::3] != target.shape:
                raise InputError(f"Seq2Seq: target_mask has shape {target_mask.shape}; it must "
                                 f"have the target's, {target.shape}")
            mask = mask & tokens
        (y, A, A_cross), c_decoder = self.decoder.forward(x, memory, mask,
                                                          padding_mask(source_mask), rng)
        logits, c_classifier = self.classifier.forward(y)
        out = Seq2SeqOutput(logits, *(xp.stack(parts, 1) for parts in (weights, A, A_cross)))
        return out, Cache(encode=c_encode, target=c_target, decoder=c_decoder,
                          classifier=c_classifier)

    def backward(self, dout, cache):
        dlogits, *dweights = gradients_of(dout, 4)
        dencoder, dA, dA_cross = (None if d is None else d.swapaxes(0, 1) for d in dweights)
        dy = None if dlogits is None else self.classifier.backward(dlogits, cache.classifier)
        dx, dmemory = self.decoder.backward((dy, dA, dA_cross), cache.decoder)
        self._embed_backward(self.target_embedding, self.target_positions, dx, cache.target)
        self.encode_backward((dmemory, dencoder), cache.encode)
        return None, None                                   # integers have no gradient

    def encode(self, source, source_mask=None, rng=None):
        """(memory (B, S, D), every block's weights) of a source (B, S), and a cache."""
        x, c_source = self._embed(self.source_embedding, self.source_positions, source, None, rng)
        out, c_encoder = self.encoder.forward(x, source_mask, rng)
        return out, Cache(source=c_source, encoder=c_encoder)

    def encode_backward(self, dout, cache):
        """Add the gradients of everything below the memory, from those of `encode`'s output."""
        dx = self.encoder.backward(dout, cache.encoder)
        self._embed_backward(self.source_embedding, self.source_positions, dx, cache.source)

    def decode(self, target, memory, source_mask=None, pasts=None):
        """The logits (B, V) after the last of the new tokens `target` (B, R); for generation.

        `pasts` is what the call before returned; then `memory` may be None: its keys and values
        are among them. Returns (logits, pasts).
        """
        seen = 0 if pasts is None else pasts[0][0][0].shape[2]
        R = target.shape[1]
        if pasts is not None:
            memory = xp.zeros((len(target), 0, self.classifier.W.shape[0]), pasts[0][0][0].dtype)
        x, _ = self._embed(self.target_embedding, self.target_positions, target, seen, None)
        mask = causal_mask(seen + R)[seen:]
        (y, _, _), cache = self.decoder.forward(x, memory, mask, padding_mask(source_mask),
                                                pasts=pasts)
        logits, _ = self.classifier.forward(y[:, -1])
        return logits, [(c.attention.keys_values, c.cross.keys_values) for c in cache.blocks]

    def _embed(self, embedding, positions, ids, first, rng):
        """Embedding plus positions first, first + 1, ... (0, 1, ... if None), with dropout."""
        if len(ids.shape) != 2 or 0 in ids.shape:
            raise InputError(f"Seq2Seq: ids have shape {ids.shape}; they must be (B, S), "
                             "neither of them 0")
        length = (first or 0) + ids.shape[1]
        if length > self.max_len:
            raise InputError(f"Seq2Seq: sequences of {length} tokens are longer than max_len = "
                             f"{self.max_len}")
        places = None if first is None else xp.arange(first, length)
        x, c_embedding = embedding.forward(ids)
        x, c_positions = positions.forward(x, places)
        x, c_drop = self.dropout.forward(x, rng)
        return x, Cache(embedding=c_embedding, positions=c_positions, drop=c_drop)

    def _embed_backward(self, embedding, positions, dx, cache):
        dx = self.dropout.backward(dx, cache.drop)
        dx = positions.backward(dx, cache.positions)
        embedding.backward(dx, cache.embedding)
