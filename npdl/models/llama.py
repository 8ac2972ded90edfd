"""Llama, and models with the same architecture: logits over the vocabulary."""

from npdl.core import Cache, Layer
from npdl.errors import checked_tokens
from npdl.init import generator
from npdl.layers.attention import causal_mask
from npdl.layers.embedding import Embedding, Unembedding
from npdl.layers.layer_norm import RMSNorm
from npdl.layers.linear import Linear
from npdl.layers.llama import LlamaBlock
from npdl.layers.transformer import expand_mask
from npdl.options import require_bool, require_positive


class Llama(Layer):
    """logits = norm(blocks(embedding(ids))) W, with LlamaBlocks and RMSNorm.

    forward(ids, key_mask) maps ids (B, S) to logits (B, S, V). `key_mask` (B, S) is True for valid
    tokens and False for padding, to which no query attends. The positions are used only in the
    rotation of queries and keys (Rotary), which takes `rope_theta` and `scaling`. With `tied`, the
    classifier uses the embedding matrix. The default sizes are those of SmolLM2-135M. Use
    `qkv_bias` for Qwen2, and `qk_norm` for Qwen3. Raises InputError for ids out of range, and for
    sequences longer than `max_len`. Touvron et al. 2023, arXiv:2302.13971.
    """

    def __init__(self, vocab_size, d_model=576, num_layers=30, num_heads=9, num_kv_heads=3,
                 d_inner=1536, max_len=2048, *, tied=True, rope_theta=10000.0, scaling=None,
                 eps=1e-5, qkv_bias=False, qk_norm=False, d_head=None, rng=0, dtype="float32"):
        require_positive(num_layers=num_layers, max_len=max_len)
        require_bool(tied=tied)
        rng = generator(rng)
        self.embedding = Embedding(vocab_size, d_model, rng=rng, dtype=dtype)
        self.blocks = [LlamaBlock(d_model, num_heads, num_kv_heads, d_inner, rope_theta=rope_theta,
                                  scaling=scaling, eps=eps, qkv_bias=qkv_bias, qk_norm=qk_norm,
                                  d_head=d_head, rng=rng, dtype=dtype)
                       for _ in range(num_layers)]
        self.norm = RMSNorm(d_model, eps=eps, dtype=dtype)
        self.classifier = (Unembedding(self.embedding) if tied
                           else Linear(d_model, vocab_size, bias=False, rng=rng, dtype=dtype))
        self.max_len = max_len

    def forward(self, ids, key_mask=None):
        ids = checked_tokens(ids, "Llama", self.max_len)
        mask = causal_mask(ids.shape[1])                                # mask (S, S)
        if key_mask is not None:
            mask = mask & expand_mask(key_mask, ids.shape, "Llama")[:, None]    # (B, 1, 1, S, S)
        x, c_embedding = self.embedding.forward(ids)                    # x (B, S, D)
        c_blocks = []
        for block in self.blocks:
            x, c_block = block.forward(x, mask)
            c_blocks.append(c_block)
        x, c_norm = self.norm.forward(x)
        logits, c_classifier = self.classifier.forward(x)               # logits (B, S, V)
        return logits, Cache(embedding=c_embedding, blocks=c_blocks, norm=c_norm,
                             classifier=c_classifier)

    def backward(self, dlogits, cache):
        dx = self.classifier.backward(dlogits, cache.classifier)
        dx = self.norm.backward(dx, cache.norm)
        for block, c_block in zip(self.blocks[::-1], cache.blocks[::-1], strict=True):
            dx = block.backward(dx, c_block)
        return self.embedding.backward(dx, cache.embedding)
