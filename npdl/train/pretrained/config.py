"""The architecture that a config.json describes, and the names of its arrays."""

import math
from dataclasses import dataclass

from npdl.cli.options import Range
from npdl.errors import InputError
from npdl.init import BLANK
from npdl.layers.dropout import Dropout
from npdl.layers.rotary import LinearScaling, Llama3Scaling
from npdl.models.gpt import GPT2
from npdl.models.llama import Llama

LONGEST = 32768             # tokens of a context; tables for a longer one would take much memory
# The values that settings may have. All widths and vocabularies are below 2^24.
SIZE = Range(lambda n: type(n) is int and 1 <= n < 1 << 24,
             f"an integer, 1 or more, below {1 << 24:,}")
ABOVE_0 = Range(lambda x: type(x) in (int, float) and 0 < x < math.inf, "a finite number above 0")
RATE = Range(lambda x: type(x) in (int, float) and 0 <= x < 1, "a number from 0 to below 1")
BOOL = Range(lambda value: type(value) is bool, "true, false")
SILU = Range(lambda name: name in ("silu", "swish"), "silu")
KINDS = {"gpt2": "GPT-2", "llama": "Llama", "mistral": "Mistral without a sliding window",
         "qwen2": "Qwen2", "qwen3": "Qwen3"}
GPT2_ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu",
                    "relu": "relu"}


@dataclass(frozen=True)
class ArraySpec:
    """One array of a model folder, and the parameters of npdl that have its values.

    `hf_name` is Hugging Face's name without the prefix ("model."), and `shape` the array's shape.
    `npdl_names` are the parameters, whose values are concatenated along the last axis.
    `transposed` is True if the array is (out, in), the transpose of npdl's (in, out).
    """

    hf_name: str
    npdl_names: tuple
    shape: tuple
    transposed: bool = False


class Architecture:
    """The checked settings of a config.json, whose content is `values`.

    Raises InputError for architectures that npdl doesn't have, and for invalid numbers. `where` is
    the path that the messages name.
    """

    def __init__(self, values, where):
        self.values, self.where = values, where
        kind = values.get("model_type")
        if not isinstance(kind, str) or kind not in KINDS:
            raise InputError(f"{where}: model_type is {str(kind)[:40]!r}; npdl has "
                             f"{', '.join(f'{name} ({text})' for name, text in KINDS.items())}")
        self.kind = kind
        if (quantization := values.get("quantization_config")) is not None:
            self._reject("quantization_config", quantization, "weights that are not quantized")
        self.vocab_size = self._read("vocab_size", SIZE)
        self.tied = self._read("tie_word_embeddings", BOOL, kind == "gpt2")
        self.options = self._read_gpt2_settings() if kind == "gpt2" else self._read_llama_settings()

    prefix = property(lambda self: "transformer." if self.kind == "gpt2" else "model.")
    embedding = property(lambda self: "wte.weight" if self.kind == "gpt2"
                         else "embed_tokens.weight")

    def make_model(self, dtype="float32"):
        """Return the model. Its parameters are zeros, which take no memory until they are set."""
        make = GPT2 if self.kind == "gpt2" else Llama
        model = make(self.vocab_size, tied=self.tied, rng=BLANK, dtype=dtype, **self.options)
        if self.kind == "gpt2":
            model.dropout = Dropout(self._read("embd_pdrop", RATE, 0.1))
        return model

    def _read_gpt2_settings(self):
        D = self._read("n_embd", SIZE)
        inner = self._read("n_inner", SIZE, 4 * D)
        if inner % D:
            self._reject("n_inner", inner, f"multiples of n_embd {D}")
        activation = self.values.get("activation_function", "gelu_new")
        if not isinstance(activation, str) or activation not in GPT2_ACTIVATIONS:
            self._reject("activation_function", activation, ", ".join(GPT2_ACTIVATIONS))
        for name, usual in (("scale_attn_weights", True), ("add_cross_attention", False),
                            ("scale_attn_by_inverse_layer_idx", False)):
            self._require_value(name, usual)
        return {"d_model": D, "num_layers": self._read("n_layer", SIZE),
                "num_heads": self._read("n_head", SIZE), "multiplier": inner // D,
                "max_len": self._read("n_positions", SIZE, 1024),
                "eps": self._read("layer_norm_epsilon", ABOVE_0, 1e-5),
                "dropout": self._read("resid_pdrop", RATE, 0.1),
                "attention_dropout": self._read("attn_pdrop", RATE, 0.1),
                "activation": GPT2_ACTIVATIONS[activation]}

    def _read_llama_settings(self):
        D, heads = self._read("hidden_size", SIZE), self._read("num_attention_heads", SIZE)
        if self.kind == "qwen3" and self.values.get("head_dim") is None:
            self._reject("head_dim", None, "an integer, which Qwen3's configs have")
        self._read("hidden_act", SILU, "silu")
        for name, usual in (("attention_bias", False), ("mlp_bias", False),
                            ("partial_rotary_factor", 1.0)):
            self._require_value(name, usual)
        self._check_full_attention()
        theta, scaling = self._read_rope_settings()
        return {"d_model": D, "num_layers": self._read("num_hidden_layers", SIZE),
                "num_heads": heads, "d_head": self._read("head_dim", SIZE, D // heads),
                "num_kv_heads": self._read("num_key_value_heads", SIZE, heads),
                "d_inner": self._read("intermediate_size", SIZE), "scaling": scaling,
                "qkv_bias": self.kind == "qwen2", "qk_norm": self.kind == "qwen3",
                "max_len": min(self._read("max_position_embeddings", SIZE, 2048), LONGEST),
                "rope_theta": theta, "eps": self._read("rms_norm_eps", ABOVE_0, 1e-6)}

    def _read_rope_settings(self):
        """Return the base of the rotary frequencies, and their scaling (None: not scaled).

        A config.json has both in rope_parameters, or the base in rope_theta and the scaling in
        rope_scaling.
        """
        rope = {}
        for name in ("rope_parameters", "rope_scaling"):
            part = self.values.get(name) or {}
            if not isinstance(part, dict):
                self._reject(name, part, "an object")
            rope |= part
        self._require_value("partial_rotary_factor", 1.0, rope)
        theta = self._read("rope_theta", ABOVE_0, self._read("rope_theta", ABOVE_0, 1e4), rope)
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind == "default":
            return theta, None
        if kind not in ("linear", "llama3"):
            self._reject("rope_scaling", kind, "default, linear, llama3")
        factor = self._read("factor", ABOVE_0, None, rope)
        if kind == "linear":
            return theta, LinearScaling(factor)
        low, high = (self._read(f"{end}_freq_factor", ABOVE_0, None, rope)
                     for end in ("low", "high"))
        length = self._read("original_max_position_embeddings", SIZE, None, rope)
        return theta, Llama3Scaling(factor, low, high, length)

    def _check_full_attention(self):
        types = self.values.get("layer_types") or []
        other = next((kind for kind in types if kind != "full_attention"), None) if isinstance(
            types, list) else types
        window = self.values.get("sliding_window")
        used = self.kind == "mistral" or self.values.get("use_sliding_window")
        if other is not None or (window is not None and used and self.kind != "llama"):
            self._reject("layer_types" if other is not None else "sliding_window", other or window,
                         "attention over the whole context")

    def _read(self, name, allowed, default=None, settings=None):
        """Return the setting `name`, or `default` if it is missing or null.

        Raises InputError unless the value is in the Range `allowed`. If `settings` is given, the
        setting is read from this dict, an object inside the config.json.
        """
        value = (self.values if settings is None else settings).get(name, default)
        if value is None and allowed is not BOOL:       # transformers reads a null BOOL as false
            value = default
        if not allowed.holds(value):
            self._reject(name, value, allowed.words)
        return value

    def _require_value(self, name, supported, settings=None):
        """Raise InputError unless a setting has its usual value or is absent."""
        value = (self.values if settings is None else settings).get(name)
        if value not in (supported, None):
            self._reject(name, value, supported)

    def _reject(self, name, value, supported):
        given = "missing" if value is None else f"{str(value)[:40]!r}"
        raise InputError(f"{self.where}: {name} is {given}; supported: {supported}")

    def make_array_specs(self):
        """Yield the ArraySpec of every array, layer by layer, each bias before its matrix."""
        D, V = self.options["d_model"], self.vocab_size
        if self.kind == "gpt2":
            yield ArraySpec("wte.weight", ("embedding.W",), (V, D))
            yield ArraySpec("wpe.weight", ("positions.W",), (self.options["max_len"], D))
            yield from self._make_norm_specs("ln_f", "decoder.norm", D)
        else:
            yield ArraySpec("embed_tokens.weight", ("embedding.W",), (V, D))
            yield ArraySpec("norm.weight", ("norm.gain",), (D,))
        if not self.tied:
            yield ArraySpec("lm_head.weight", ("classifier.W",), (V, D), True)
        block = self._make_gpt2_block_specs if self.kind == "gpt2" else self._make_llama_block_specs
        for i in range(self.options["num_layers"]):
            yield from block(i)

    def _make_norm_specs(self, hf_name, npdl_name, D):
        yield ArraySpec(f"{hf_name}.weight", (f"{npdl_name}.gain",), (D,))
        yield ArraySpec(f"{hf_name}.bias", (f"{npdl_name}.bias",), (D,))

    def _make_gpt2_block_specs(self, i):
        D, inner = self.options["d_model"], self.options["d_model"] * self.options["multiplier"]
        hf_name, npdl_name = f"h.{i}", f"decoder.blocks.{i}"
        yield from self._make_norm_specs(f"{hf_name}.ln_1", f"{npdl_name}.norm1", D)
        yield from self._make_norm_specs(f"{hf_name}.ln_2", f"{npdl_name}.norm2", D)
        for name, linears, shape in (
            ("attn.c_attn", ("attention.W_Q", "attention.W_K", "attention.W_V"), (D, 3 * D)),
            ("attn.c_proj", ("attention.W_O",), (D, D)),
            ("mlp.c_fc", ("ffn.up",), (D, inner)), ("mlp.c_proj", ("ffn.down",), (inner, D)),
        ):
            names = [f"{npdl_name}.{linear}" for linear in linears]
            yield ArraySpec(f"{hf_name}.{name}.bias", tuple(f"{n}.b" for n in names), shape[1:])
            yield ArraySpec(f"{hf_name}.{name}.weight", tuple(f"{n}.W" for n in names), shape)

    def _make_llama_block_specs(self, i):
        o = self.options
        D, M, d = o["d_model"], o["d_inner"], o["d_head"]
        queries, keys = o["num_heads"] * d, o["num_kv_heads"] * d
        hf_name, npdl_name = f"layers.{i}", f"blocks.{i}"
        yield ArraySpec(f"{hf_name}.input_layernorm.weight", (f"{npdl_name}.norm1.gain",), (D,))
        yield ArraySpec(f"{hf_name}.post_attention_layernorm.weight",
                        (f"{npdl_name}.norm2.gain",), (D,))
        for name, linear, shape, bias in (
            ("self_attn.q_proj", "attention.W_Q", (queries, D), o["qkv_bias"]),
            ("self_attn.k_proj", "attention.W_K", (keys, D), o["qkv_bias"]),
            ("self_attn.v_proj", "attention.W_V", (keys, D), o["qkv_bias"]),
            ("self_attn.o_proj", "attention.W_O", (D, queries), False),
            ("mlp.gate_proj", "ffn.gate", (M, D), False),
            ("mlp.up_proj", "ffn.up", (M, D), False),
            ("mlp.down_proj", "ffn.down", (D, M), False),
        ):
            if bias:
                yield ArraySpec(f"{hf_name}.{name}.bias", (f"{npdl_name}.{linear}.b",), shape[:1])
            yield ArraySpec(f"{hf_name}.{name}.weight", (f"{npdl_name}.{linear}.W",), shape, True)
        if o["qk_norm"]:
            for part in "qk":
                yield ArraySpec(f"{hf_name}.self_attn.{part}_norm.weight",
                                (f"{npdl_name}.attention.norm_{part}.gain",), (d,))
