"""GPT, a causal transformer with many options, and GPT-2: logits over the vocabulary."""

from npdl.backend import xp
from npdl.core import Cache, Layer
from npdl.errors import checked_tokens
from npdl.init import generator
from npdl.layers.attention import causal_mask
from npdl.layers.dropout import Dropout
from npdl.layers.embedding import Embedding, Unembedding, make_positions
from npdl.layers.layer_norm import LayerNorm
from npdl.layers.linear import Linear
from npdl.layers.transformer import BLOCKS, Decoder, attention_weights, expand_mask
from npdl.options import require_bool, require_choice, require_positive


class GPT(Layer):
    """logits = blocks(embedding(ids) + positions) W + b. Blocks have post-norm and GELU by default.

    forward(ids, key_mask, rng) maps ids (B, S) to logits (B, S, V). `key_mask` (B, S) is True for
    valid tokens and False for padding, to which no query attends. The functions
    `hidden_states(cache)` and `attentions(cache)` of this module return the outputs and the
    attention weights of all blocks. If `rng` is given, `dropout` acts on the embeddings and in the
    blocks, and `attention_dropout` on the attention weights. `bias`, `ffn_bias`, `norm_bias` and
    `classifier_bias` add biases to the attention, the feed-forward networks, the LayerNorms and the
    classifier. With `tied`, the classifier uses the embedding matrix. `positions` is "k/d", "2k/d"
    or "learned" (see npdl.layers.embedding). Raises InputError for ids out of range, and for
    sequences longer than `max_len`. Radford et al. 2018, "Improving language understanding by
    generative pre-training".
    """

    def __init__(self, vocab_size, d_model=128, num_layers=2, num_heads=4, multiplier=4, max_len=64,
                 *, bias=True, norm="post", activation="gelu", dropout=0.0, attention_dropout=0.0,
                 positions="k/d", tied=False, padding_id=None, rng=0, dtype="float32",
                 norm_bias=True, ffn_bias=False, eps=1e-5, classifier_bias=True):
        require_bool(tied=tied, classifier_bias=classifier_bias)
        require_positive(num_layers=num_layers)
        require_choice("norm", norm, BLOCKS)
        rng = generator(rng)
        self.embedding = Embedding(vocab_size, d_model, padding_id=padding_id, rng=rng, dtype=dtype)
        self.positions = make_positions(positions, max_len, d_model, rng=rng, dtype=dtype)
        blocks = [BLOCKS[norm](d_model, num_heads, multiplier, bias=bias, activation=activation,
                               dropout=dropout, attention_dropout=attention_dropout,
                               ffn_bias=ffn_bias, rng=rng, dtype=dtype, norm_bias=norm_bias,
                               eps=eps) for _ in range(num_layers)]
        self.decoder = Decoder(blocks, None if norm == "post" else LayerNorm(
            d_model, eps=eps, dtype=dtype, bias=norm_bias))
        self.classifier = Unembedding(self.embedding) if tied else Linear(
            d_model, vocab_size, bias=classifier_bias, rng=rng, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.max_len = max_len

    def forward(self, ids, key_mask=None, rng=None):
        ids = checked_tokens(ids, "GPT", self.max_len)
        mask = causal_mask(ids.shape[1])                            # mask (S, S)
        if key_mask is not None:
            mask = mask & expand_mask(key_mask, ids.shape, "GPT")   # mask (B, 1, S, S)
        x, c_embedding = self.embedding.forward(ids)                # x (B, S, D)
        x, c_positions = self.positions.forward(x)
        x, c_drop = self.dropout.forward(x, rng)
        x, c_decoder = self.decoder.forward(x, mask, rng)
        logits, c_classifier = self.classifier.forward(x)           # logits (B, S, V)
        return logits, Cache(embedding=c_embedding, positions=c_positions, drop=c_drop,
                             decoder=c_decoder, classifier=c_classifier)

    def backward(self, dlogits, cache):
        dx = self.classifier.backward(dlogits, cache.classifier)
        dx = self.decoder.backward(dx, cache.decoder)
        dx = self.dropout.backward(dx, cache.drop)
        dx = self.positions.backward(dx, cache.positions)
        return self.embedding.backward(dx, cache.embedding)


class GPT2(GPT):
    """A GPT with pre-norm blocks, trainable positions, TanhGELU, and biases in the blocks.

    The default sizes are those of the smallest GPT-2. Radford et al. 2019, "Language models are
    unsupervised multitask learners".
    """

    def __init__(self, vocab_size=50257, d_model=768, num_layers=12, num_heads=12, multiplier=4,
                 max_len=1024, *, eps=1e-5, activation="gelu-tanh", dropout=0.0,
                 attention_dropout=0.0, tied=True, rng=0, dtype="float32"):
        super().__init__(vocab_size, d_model, num_layers, num_heads, multiplier, max_len,
                         norm="pre", activation=activation, dropout=dropout,
                         attention_dropout=attention_dropout, positions="learned", tied=tied,
                         rng=rng, dtype=dtype, ffn_bias=True, eps=eps,
                         classifier_bias=False)


def hidden_states(cache):
    """Return the outputs (B, L, S, D) of the L blocks, from the cache of GPT.forward."""
    return xp.stack([c.y for c in cache.decoder.blocks], 1)


def attentions(cache):
    """Return the attention weights (B, L, H, S, S) of the blocks, from the cache of GPT.forward."""
    return attention_weights(cache.decoder.blocks)
