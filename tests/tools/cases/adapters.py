"""Cases of adapters, alone and inside trained-model surgery."""

from npdl.adapt import add_lora, quantize_linears
from npdl.adapt.linears import FrozenLinear, LoRALinear, QuantLinear
from npdl.layers.linear import Linear
from npdl.layers.transformer import Block
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.models.seq2seq import Seq2Seq
from npdl.study.check.examples import ids
from tests.tools.cases import case


def over(cls, *sizes, bias=True, base_bits=None, **options):
    """An adapter over a Linear, quantized first if `base_bits` are given."""
    def make(rng):
        base = Linear(*sizes, bias=bias, rng=rng)
        base = base if base_bits is None else QuantLinear(base, base_bits)
        return cls(base, **options, **({"rng": rng} if cls is LoRALinear else {}))

    return make


def adapted(model, where=None, quantize=None, **lora):
    """A model after surgery; `model` of rng."""
    def make(rng):
        built = model(rng)
        if quantize:
            quantize_linears(built, bits=5, where=quantize)
        add_lora(built, where=where, rng=rng, **lora)
        return built

    return make


CASES = [
    case(FrozenLinear, "no bias, sizes of 1", over(FrozenLinear, 1, 1, bias=False), (1, 1)),
    case(QuantLinear, "no bias, 3 bits, nearest, blocks, sizes of 1", over(
        QuantLinear, 5, 2, bias=False, bits=3, rounding="nearest", block=4), (1, 5)),
    case(QuantLinear, "NF4 in blocks, double quantization", over(
        QuantLinear, 5, 3, rounding="nf4", block=4, double=True), (2, 5)),
    case(LoRALinear, "alpha, no bias", over(LoRALinear, 4, 3, bias=False, rank=3, alpha=5), (6, 4)),
    case(LoRALinear, "one vector", over(LoRALinear, 3, 2, rank=2), (3,)),
    case(LoRALinear, "over a quantized map (QLoRA)", over(
        LoRALinear, 4, 3, base_bits=4, rank=2), (2, 3, 4)),
    case(LoRALinear, "in a Block, one map quantized", adapted(
        lambda rng: Block(4, 2, rng=rng), ("W_Q", "W_V", "up"), "up", rank=2, alpha=3), (2, 3, 4)),
    case(LoRALinear, "in a GPT", adapted(
        lambda rng: GPT(5, 4, 1, 2, max_len=4, rng=rng), rank=1), ids(5, 2, 3)),
    case(LoRALinear, "in an LSTM's classifier", adapted(
        lambda rng: LSTMLM(5, 3, 1, rng=rng), "classifier", rank=2), ids(5, 2, 3),
         [(1, 2, 3)] * 2),
    case(LoRALinear, "in a Seq2Seq", adapted(
        lambda rng: Seq2Seq(5, 4, 4, 1, 2, 1, max_len=4, rng=rng), rank=1), ids(5, 2, 3),
         ids(4, 2, 2), entries=3),
]
