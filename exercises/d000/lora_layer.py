"""A layer with LoRA or QLoRA of document 000, Question 4.4, that counts its multiplications."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from exercises.probes import learned
from npdl.adapt.linears import FrozenLinear, LoRALinear, QuantLinear
from npdl.layers.attention import attend
from npdl.layers.linear import Linear


@dataclass(frozen=True)
class Size:
    """n rows, width d, rank r, h heads."""

    n: int
    d: int
    r: int
    h: int


class Multiplier:
    """Matrix products that count their multiplications by kind."""

    def __init__(self):
        self.counts = {}

    def matmul(self, kind, a, b):
        self.add(kind, a.shape[0] * a.shape[1] * b.shape[1])
        return a @ b

    def add(self, kind, number):
        self.counts[kind] = self.counts.get(kind, 0) + number

    @property
    def total(self):
        return sum(self.counts.values())


class LowRankLayer:
    """The question's layer out of npdl's maps: Q, K, V for each head, O, and F.

    bits    {"MHA": None or m, "FFN": None or m}: m-bit frozen matrices, None for float32
    """

    def __init__(self, size, mha_bits=None, ffn_bits=None, seed=0):
        self.size, d, h = size, size.d, size.h
        rng = np.random.default_rng(seed)

        def frozen(d_in, bits):
            linear = Linear(d_in, d, bias=False, rng=rng)
            return FrozenLinear(linear) if bits is None else QuantLinear(linear, bits)

        def adapted(bits):
            layer = LoRALinear(frozen(d, bits), size.r, rng=rng)
            layer.B.data[...] = 0.1 * rng.standard_normal(layer.B.shape)
            return layer

        self.heads = [{name: adapted(mha_bits) for name in "QKV"} for _ in range(h)]
        self.O, self.F = frozen(d * h, mha_bits), adapted(ffn_bits)

    def maps(self, part):
        """The linear maps of "MHA" or "FFN"."""
        if part == "FFN":
            return [self.F]
        return [layer for head in self.heads for layer in head.values()] + [self.O]

    def trainable(self, part):
        return sum(learned(layer) for layer in self.maps(part))

    def frozen_bytes(self, part):
        return sum(param.data.nbytes for layer in self.maps(part)
                   for _, param in layer.params(frozen=True) if not param.trainable)

    def forward(self, X, adapter_first=False):
        """((n, d) output, Multiplier) by the question's formulas, X (n, d).

        adapter_first: X (A B^T) instead of (X A) B^T.
        """
        count = Multiplier()
        heads = [self._head(head, X, count, adapter_first) for head in self.heads]
        joined = np.concatenate(heads, 1)                   # (n, d h)
        H = count.matmul("output", joined, self._weight(self.O, count))
        count.add("softmax", self.size.h * len(X) ** 2)     # the quotients of the softmax
        return self._adapted(self.F, H, count, adapter_first, "FFN "), count

    def _head(self, head, X, count, adapter_first):
        Q, K, V = (self._adapted(head[name], X, count, adapter_first, "MHA ") for name in "QKV")
        count.matmul("attention", Q, K.T)
        count.add("scale", len(X) ** 2)
        y, cache = attend(Q, K, V)
        count.matmul("attention", cache.A, V)
        return y

    def _adapted(self, layer, X, count, adapter_first, part):
        base = count.matmul(part + "base", X, self._weight(layer.base, count, part))
        A, B = layer.A.data, layer.B.data
        if adapter_first:
            return base + count.matmul(part + "adapter", X,
                                       count.matmul(part + "adapter", A, B.T))
        return base + count.matmul(part + "adapter", count.matmul(part + "adapter", X, A), B.T)

    def _weight(self, layer, count, part="MHA "):
        if isinstance(layer, QuantLinear):
            count.add(part + "dequantization", layer.sizes[0] * layer.sizes[1])
        return layer.weight()

    def library_forward(self, X):
        """The same output by the layers' own forward."""
        heads = []
        for head in self.heads:
            q, k, v = (head[name].forward(X[None, None])[0] for name in "QKV")
            heads.append(attend(q, k, v)[0][0, 0])
        H, _ = self.O.forward(np.concatenate(heads, 1))
        return self.F.forward(H)[0]


def counted(size, part=None, quantized=False, adapter_first=False):
    """{kind: multiplications} of a forward, all of it or the kinds of one part."""
    bits = 4 if quantized else None
    layer = LowRankLayer(size, bits, bits)
    X = np.random.default_rng(1).standard_normal((size.n, size.d)).astype("float32")
    counts = layer.forward(X, adapter_first)[1].counts
    if part is None:
        return counts
    return {kind: n for kind, n in counts.items() if kind.startswith("FFN") == (part == "FFN")}


def exact(size, part, quantized=False, merged=False):
    """The same totals as a formula of n, d, r, h; `merged`: no adapter to run."""
    n, d, r, h = size.n, size.d, 0 if merged else size.r, size.h
    if part == "FFN":
        return n * d * d + 2 * n * d * r + (d * d if quantized else 0)
    own = h * (3 * n * d * d + 6 * n * d * r + 2 * n * n * d + 2 * n * n) + n * d * h * d
    return own + (4 * h * d * d if quantized else 0)


def printed(size, part):
    """What the document writes inside its O()."""
    n, d, r, h = size.n, size.d, size.r, size.h
    if part == "FFN":
        return n * d * d + n * d * r
    return h * (n * d * d + n * n * d) + n * d * d * h


def ratios(part, quantized, sizes=None):
    """Smallest and largest exact / printed over many sizes: O() holds if they stay bounded."""
    grid = (1, 4, 32, 256, 2048)
    sizes = sizes or [Size(n, d, r, h) for n, d, r, h in product(grid, grid, grid, (1, 8, 64))
                      if r <= d]
    found = [exact(size, part, quantized) / printed(size, part) for size in sizes]
    return min(found), max(found)


def choices(size, bits=4):
    """{(MHA, FFN): (frozen bytes, extra multiplications of a forward)} for the four choices.

    The adapters are merged where LoRA is chosen, and computed where QLoRA is.
    """
    n, d, r, h = size.n, size.d, size.r, size.h
    extra = {"MHA": 4 * h * d * d + 6 * h * n * d * r, "FFN": d * d + 2 * n * d * r}
    found = {}
    for chosen in product(("LoRA", "QLoRA"), repeat=2):
        kind = dict(zip(("MHA", "FFN"), chosen, strict=True))
        layer = LowRankLayer(size, *(bits if k == "QLoRA" else None for k in chosen))
        found[chosen] = (sum(layer.frozen_bytes(part) for part in kind),
                         sum(extra[part] for part in kind if kind[part] == "QLoRA"))
    return found
