"""An encoder-decoder of two LSTMs with attention: from a source sequence to a target sequence."""

from npdl.backend import xp
from npdl.core import Cache, Layer
from npdl.errors import checked_tokens
from npdl.functions import length_mask
from npdl.init import generator
from npdl.layers.activation import Tanh
from npdl.layers.attention import DotAttention
from npdl.layers.embedding import Embedding
from npdl.layers.linear import Linear
from npdl.layers.recurrent import LSTM


class LSTMSeq2Seq(Layer):
    """a_t = sum_s alpha_ts m_s,   alpha_t = softmax over s of h_t . m_s,
    u_t = tanh([a_t, h_t] W_c + b_c),   logits_t = u_t W_o + b_o.

    The encoder LSTM reads the source. Its outputs m_s are the memory, and its last state is the
    first state of the decoder LSTM. The decoder reads the target, with outputs h_t, and attends to
    the memory in each step t. forward(source, target, lengths, rng) maps source (B, S) and target
    (B, T) to logits (B, T, V). logits[:, t] predict the token after target[:, t], so in training
    all steps are computed in one call, with the correct target as input (teacher forcing). With
    `lengths` (B,), only the first lengths[b] tokens of source b have an effect. The function
    `attentions(cache)` of this module returns alpha. Raises InputError for tokens or lengths out of
    range. Luong et al. 2015, arXiv:1508.04025, "global attention" with the score "dot".
    """

    def __init__(self, source_vocab, target_vocab, d_model=128, num_layers=1, d_hidden=None, *,
                 bias=True, dropout=0.0, rng=0, dtype="float32"):
        rng = generator(rng)
        d_hidden = d_model if d_hidden is None else d_hidden
        self.source_embedding = Embedding(source_vocab, d_model, rng=rng, dtype=dtype)
        self.encoder = LSTM(d_model, d_hidden, num_layers, bias=bias, dropout=dropout, rng=rng,
                            dtype=dtype)
        self.target_embedding = Embedding(target_vocab, d_model, rng=rng, dtype=dtype)
        self.decoder = LSTM(d_model, d_hidden, num_layers, bias=bias, dropout=dropout, rng=rng,
                            dtype=dtype)
        self.attention = DotAttention()
        self.combine = Linear(2 * d_hidden, d_hidden, bias=bias, rng=rng, dtype=dtype)
        self.tanh = Tanh()
        self.classifier = Linear(d_hidden, target_vocab, bias=bias, rng=rng, dtype=dtype)

    def forward(self, source, target, lengths=None, rng=None):
        source, target = (checked_tokens(ids, "LSTMSeq2Seq") for ids in (source, target))
        x, c_source = self.source_embedding.forward(source)                 # x      (B, S, D)
        (memory, state), c_encoder = self.encoder.forward(x, None, rng, lengths)    # (B, S, H)
        y, c_target = self.target_embedding.forward(target)                 # y      (B, T, D)
        (h, _), c_decoder = self.decoder.forward(y, state, rng)             # h      (B, T, H)
        mask = None
        if lengths is not None:                                             # checked by the encoder
            mask = length_mask(lengths, source.shape[1])[:, None]           # mask   (B, 1, S)
        a, c_attention = self.attention.forward(h, memory, memory, mask)    # a      (B, T, H)
        z, c_combine = self.combine.forward(xp.concatenate([a, h], -1))     # z      (B, T, H)
        u, c_tanh = self.tanh.forward(z)
        logits, c_classifier = self.classifier.forward(u)                   # logits (B, T, V)
        return logits, Cache(source=c_source, encoder=c_encoder, target=c_target, decoder=c_decoder,
                             attention=c_attention, combine=c_combine, tanh=c_tanh,
                             classifier=c_classifier)

    def backward(self, dlogits, cache):
        du = self.classifier.backward(dlogits, cache.classifier)
        dz = self.tanh.backward(du, cache.tanh)                             # u = tanh(z)
        da, dh = xp.split(self.combine.backward(dz, cache.combine), 2, -1)  # z = [a, h] W_c
        dq, dk, dv = self.attention.backward(da, cache.attention)           # a = attention(h, m, m)
        dh = dh + dq
        dmemory = dk + dv
        dy, dstate = self.decoder.backward((dh, None), cache.decoder)
        dx, _ = self.encoder.backward((dmemory, dstate), cache.encoder)
        dtarget = self.target_embedding.backward(dy, cache.target)
        dsource = self.source_embedding.backward(dx, cache.source)
        return dsource, dtarget                                         # None: ids have no gradient


def attentions(cache):
    """Return the attention weights alpha (B, T, S) from the cache of LSTMSeq2Seq.forward."""
    return cache.attention.A
