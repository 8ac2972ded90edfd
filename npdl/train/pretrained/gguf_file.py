"""GGUF files: their settings and arrays, with the names and layouts of Hugging Face's folders.

This module validates the header. The package `gguf` converts quantized blocks to floats.

Source: the specification of GGUF, versions 2 and 3 (ggml, docs/gguf.md).
"""

import math
import mmap
import os
import re
import struct

import numpy as np

from npdl.errors import CheckpointError, InputError
from npdl.files import is_file, reason
from npdl.layers.rotary import Llama3Scaling
from npdl.train.pretrained.tokenizer import require_package

SCALARS = {0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "?", 10: "<Q", 11: "<q",
           12: "<d"}
STRING, ARRAY = 8, 9
UNPACKED = {"F32": "<f4", "F16": "<f2"}     # types that are plain numbers
AT_ONCE = 1 << 17           # entries that are converted to floats together
MOST = 1 << 21              # limit of list items, settings and arrays; all models have fewer
NAMES = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head",
         "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj"}
SIZES = {"hidden_size": "embedding_length", "num_hidden_layers": "block_count",
         "intermediate_size": "feed_forward_length", "num_attention_heads": "attention.head_count",
         "num_key_value_heads": "attention.head_count_kv", "head_dim": "attention.key_length",
         "max_position_embeddings": "context_length"}

# Settings that change the result, and the only value of each that npdl supports.
UNUSUAL = {"rope.scale_linear": 1.0, "attention.sliding_window": 0, "attention.clamp_kqv": 0.0,
           "attention.max_alibi_bias": 0.0, "attention.causal": True, "expert_count": 0,
           "logit_scale": 1.0, "residual_scale": 1.0, "embedding_scale": 1.0}

FREQUENCIES = "rope_freqs.weight"
LLAMA3 = {"low": 1.0, "high": 4.0, "original_length": 8192}


class GGUFWeights:
    """The arrays of a GGUF file: `shapes` is {name: shape}, and `read_array` returns an array.

    `metadata` has the file's settings, and `config` has them in the form of a config.json.
    Raises InputError if the package is missing, and CheckpointError if the file is damaged.
    """

    def __init__(self, path):
        require_package("gguf", "a GGUF file", "use a folder with model.safetensors")
        import gguf

        self.path, self.files, self.library = path, [path], gguf
        try:
            if not is_file(path):
                raise ValueError("it is not a file")
            self.size = os.path.getsize(path)
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0,
                                                     access=mmap.ACCESS_READ) as data:
                self.metadata, arrays, start = _read_header(data)
            self._arrays = {}
            for name, shape, kind, offset in arrays:
                place = self._locate_array(name, shape, kind, start + offset)
                self._arrays[_to_hugging_face_name(name)] = (shape, *place)
        except (OSError, ValueError, struct.error, IndexError, OverflowError) as error:
            raise CheckpointError(f"{path} cannot be read as GGUF ({reason(error)}); download it "
                                  "again, or check its name") from error
        self.shapes = {name: shape for name, (shape, *_) in self._arrays.items()
                       if name != FREQUENCIES}
        self.config = self._make_config()

    def _locate_array(self, name, shape, type_number, offset):
        """Return (type, bytes per row, `offset`) of an array. Raise ValueError if it is invalid."""
        type_number = self.library.GGMLQuantizationType(type_number)
        block, size = self.library.GGML_QUANT_SIZES[type_number]
        if shape[-1] % block:
            raise ValueError(f"array {name!r} has rows of {shape[-1]} values, not a multiple of "
                             f"{block}")
        row = shape[-1] // block * size
        end = offset + math.prod(shape[:-1]) * row
        if end > self.size:
            raise ValueError(f"array {name!r} ends at byte {end:,} of {self.size:,}: the file is "
                             "cut short, or its header is wrong")
        return type_number, row, offset

    def read_array(self, name, dtype, mapped=False):
        """Return the array as floats of `dtype`. Arrays in this format are never memory-mapped."""
        shape, kind, row, start = self._arrays[name]
        values = np.empty((math.prod(shape[:-1]), shape[-1]), dtype)
        step = max(1, AT_ONCE // shape[-1])
        with open(self.path, "rb") as file:
            file.seek(start)
            for first in range(0, len(values), step):
                part = values[first : first + step]
                packed = np.fromfile(file, "u1", len(part) * row)
                if packed.size < len(part) * row:
                    raise CheckpointError(f"{self.path} was cut short while it was read; download "
                                          "it again")
                packed = packed.reshape(-1, row).view(UNPACKED.get(kind.name, "u1"))
                part[...] = self.library.dequantize(packed, kind)
        self._reorder_rotary_rows(name, values)
        return values.reshape(shape)

    def _reorder_rotary_rows(self, name, W):
        """Reorder the rows of W, a W_Q or W_K, from llama.cpp's order to Hugging Face's, in place.

        In a head of d rows, RoPE rotates row 2i with row 2i + 1 in llama.cpp's order, and row i
        with row i + d/2 in Hugging Face's. Any other W is unchanged.
        """
        part = re.search(r"self_attn\.([qk])_proj", name)
        if part is None or self.metadata["general.architecture"] != "llama":
            return
        heads = self.config["num_attention_heads"]
        if part[1] == "k":
            heads = self.config.get("num_key_value_heads") or heads
        W[...] = W.reshape(heads, -1, 2, W.shape[1]).swapaxes(1, 2).reshape(W.shape)

    def _make_config(self):
        """Return the file's settings with the names and values of a config.json."""
        about, kind = self.metadata, self.metadata.get("general.architecture")
        if kind not in ("llama", "qwen2"):
            raise InputError(f"{self.path}: the architecture is {str(kind)[:40]!r}; npdl reads "
                             "GGUF files of llama and qwen2")
        config = {theirs: about[f"{kind}.{name}"] for theirs, name in SIZES.items()
                  if f"{kind}.{name}" in about}
        eps = about.get(f"{kind}.attention.layer_norm_rms_epsilon")
        if eps is None:
            raise InputError(f"{self.path}: {kind}.attention.layer_norm_rms_epsilon is missing; "
                             "convert the model again")
        return config | {
            "architectures": ["LlamaForCausalLM" if kind == "llama" else "Qwen2ForCausalLM"],
            "model_type": kind, "hidden_act": "silu",
            "vocab_size": self.shapes.get("embed_tokens.weight", (None,))[0],
            "tie_word_embeddings": "lm_head.weight" not in self.shapes,
            "rope_theta": _round_to_shortest_decimal(about.get(f"{kind}.rope.freq_base", 10000.0)),
            "rope_scaling": self._find_rope_scaling(kind),
            "rms_norm_eps": _round_to_shortest_decimal(eps),
            "bos_token_id": about.get("tokenizer.ggml.bos_token_id"),
            "eos_token_id": about.get("tokenizer.ggml.eos_token_id"),
        }

    def _find_rope_scaling(self, kind):
        """Return the setting rope_scaling in the form of a config.json.

        The file of a Llama 3.1 to 3.3 contains only the divisors of the rotary frequencies. Raises
        InputError unless a Llama3Scaling with the settings of these models has the same divisors.
        """
        factor = self.metadata.get(f"{kind}.rope.scaling.factor")
        scaling = self.metadata.get(f"{kind}.rope.scaling.type", "linear" if factor else "none")
        if FREQUENCIES not in self._arrays:
            return None if scaling == "none" else {"rope_type": scaling, "factor": factor}
        divisors = self.read_array(FREQUENCIES, "float64").reshape(-1)
        base = self.metadata.get(f"{kind}.rope.freq_base", 10000.0)
        is_known = scaling == "none" and type(base) is float and base > 0 and divisors.min() >= 1
        if is_known:
            f = base ** -(np.arange(len(divisors)) / len(divisors))
            expected = Llama3Scaling(float(divisors.max()), **LLAMA3)
            is_known = np.allclose(f / divisors, expected.scale_frequencies(f), 1e-5, 0)
        if not is_known:
            raise InputError(f"{self.path}: {FREQUENCIES} scales the rotary frequencies in another "
                             "way than Llama 3.1 to 3.3; use a folder with config.json")
        return {"rope_type": "llama3", "factor": expected.factor,
                "low_freq_factor": expected.low, "high_freq_factor": expected.high,
                "original_max_position_embeddings": expected.original_length}

    def reject_unsupported_settings(self, d_head):
        """Raise InputError for a setting that changes the result and that npdl doesn't support."""
        usual = UNUSUAL | {"rope.dimension_count": d_head,
                           "attention.scale": float(np.float32(d_head ** -0.5))}
        for name, plain in usual.items():
            name = f"{self.config['model_type']}.{name}"
            value = self.metadata.get(name, plain)
            if value != plain:
                raise InputError(f"{self.path}: {name} is {str(value)[:40]!r}; supported: {plain}; "
                                 "use another model")


def _round_to_shortest_decimal(value):
    """Round a float32 to the float with the shortest decimal, such as 1e-05."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _to_hugging_face_name(name):
    """Return Hugging Face's name: layers.3.self_attn.q_proj.weight for blk.3.attn_q.weight."""
    match = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
    if match is None or match[2] not in NAMES:
        return name
    block = "" if match[1] is None else f"layers.{int(match[1])}."
    return f"{block}{NAMES[match[2]]}.{match[3]}"


def _read_header(data):
    """Return the settings in a file's header, a description of each array, and the arrays' offset.

    A description is (name, shape, type, offset), where offset counts bytes from the first array.
    """
    if data[:4] != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version, arrays, values = struct.unpack_from("<IQQ", data, 4)
    if version not in (2, 3):
        raise ValueError(f"it has version {version} of GGUF; supported: 2, 3")
    check_item_count(arrays, "arrays")
    check_item_count(values, "settings")
    metadata, at = {}, 24
    for _ in range(values):
        key, at = _read_string(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        metadata[key], at = _read_value(data, at + 4, kind)
    entries = []
    for _ in range(arrays):
        name, at = _read_string(data, at)
        (axes,) = struct.unpack_from("<I", data, at)
        if not 1 <= axes <= 4:
            raise ValueError(f"array {name!r} has {axes} axes; supported: 1 to 4")
        *shape, kind, offset = struct.unpack_from(f"<{axes}QIQ", data, at + 4)
        if not all(shape):
            raise ValueError(f"array {name!r} is empty")
        entries.append((name, tuple(shape[::-1]), kind, offset))
        at += 16 + 8 * axes
    unit = metadata.get("general.alignment", 32)
    if type(unit) is not int or unit < 1:
        raise ValueError(f"its alignment is {unit!r}, not an integer above 0")
    return metadata, entries, -(-at // unit) * unit


def check_item_count(count, item_kind):
    """Raise ValueError for a `count` above MOST. `item_kind` names the items in the message."""
    if count > MOST:
        raise ValueError(f"its header has {count:,} {item_kind}, more than {MOST:,}")


def _read_string(data, offset):
    """Return the text that begins at byte `offset`, and the byte where the next value begins."""
    (length,) = struct.unpack_from("<Q", data, offset)
    if length > len(data) - offset - 8:
        raise ValueError("a text is longer than the file, which is cut short or has a wrong header")
    return data[offset + 8 : offset + 8 + length].decode(), offset + 8 + length


def _read_value(data, offset, type_number):
    """Return the value of a type that begins at byte `offset`, and where the next one begins."""
    if type_number == STRING:
        return _read_string(data, offset)
    if type_number != ARRAY:
        [value], offset = _read_scalars(data, offset, type_number, 1)
        return value, offset
    type_number, length = struct.unpack_from("<IQ", data, offset)
    check_item_count(length, "items in a list")
    offset += 12
    if type_number != STRING:
        return _read_scalars(data, offset, type_number, length)
    items = []
    for _ in range(length):
        text, offset = _read_string(data, offset)
        items.append(text)
    return items, offset


def _read_scalars(data, offset, type_number, count):
    """Return a list of `count` scalars of a type from byte `offset`, and where it ends."""
    if type_number not in SCALARS:
        raise ValueError(f"a value has the unknown type {type_number}")
    dtype = np.dtype(SCALARS[type_number])
    return np.frombuffer(data, dtype, count, offset).tolist(), offset + count * dtype.itemsize
