"""Folders of real models: read one into a model of npdl, or write one.

    config.json, model.safetensors (or shards, model-00001-of-00002.safetensors, ...)
    tokenizer.json, or vocab.json and merges.txt (npdl.train.pretrained.tokenizer)

Nothing is downloaded, no code of a folder is executed, and all files are validated.
"""

import hashlib
import math
import os
import re
import shutil
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from npdl import safetensors
from npdl.adapt import merged_linear, quantize_linears
from npdl.adapt.linears import FrozenLinear, LoRALinear
from npdl.backend import to_device, to_host
from npdl.cli.folders import create_folder_atomically
from npdl.cli.process import total_memory_bytes
from npdl.core import Layer, named_layers
from npdl.errors import InputError
from npdl.files import is_file, read_json, reason, write_json
from npdl.layers.linear import Linear
from npdl.options import require_dtype
from npdl.train.pretrained.config import Architecture
from npdl.train.pretrained.gguf_file import GGUFWeights
from npdl.train.pretrained.tokenizer import FILES, read_tokenizer

ONE, SHARDS = "model.safetensors", "model-*-of-*.safetensors"
BUFFERS = re.compile(r"(h|layers)\.\d+\.(attn\.(bias|masked_bias)|self_attn\.rotary_emb\.inv_freq)")


@dataclass
class Pretrained:
    """A real model and its files: `path` is a folder or a GGUF file.

    `weights` reads the arrays (FolderWeights, GGUFWeights). `model` is None until `load` sets it.
    """

    path: Path
    architecture: Architecture
    weights: object
    model: Layer | None = None

    @cached_property
    def tokenizer(self):
        """Read the tokenizer. Raise InputError if the package or the file is missing."""
        return read_tokenizer(self.path, self.architecture, self.weights)


def load(path, dtype="float32", bits=None, block=64, rounding="nearest", double=False,
         tokenizer=False):
    """Load the model in a folder or a GGUF file, and return a Pretrained.

    All parameters are frozen; model.set_trainable(True) unfreezes them. Arrays that a folder stores
    in `dtype` are memory-mapped, and others are converted one by one. With `bits`, each linear
    layer is quantized while it is read (QuantLinear explains `block`, `rounding` and `double`), so
    the layers are never all in memory in full precision. With `tokenizer`, the tokenizer is read
    first, so that the arrays can use the memory that reading it releases. Raises InputError or
    CheckpointError for files that are damaged or not supported.
    """
    require_dtype(dtype)
    pretrained = open_model(path)
    specs = _list_checked_specs(pretrained.architecture, pretrained.weights,
                                np.dtype(dtype).itemsize if bits is None else 0)
    if tokenizer:
        pretrained.tokenizer  # noqa: B018  (reads it, or raises)
    model = pretrained.model = pretrained.architecture.make_model(dtype)
    model.set_trainable(False)
    params = dict(model.params(with_frozen=True))
    for param in params.values():
        param.data = None                                   # set below; saves memory until then
    linears = {f"{name}.W" for name, layer in named_layers(model) if isinstance(layer, Linear)}
    for spec in specs:
        is_quantized = bits is not None and linears.issuperset(spec.npdl_names)
        array = pretrained.weights.read_array(spec.hf_name, dtype, mapped=not is_quantized)
        if not (math.isfinite(array.min()) and math.isfinite(array.max())):
            raise InputError(f"{path}: {spec.hf_name} holds NaN or infinity; get another copy")
        parts = [array.T] if spec.transposed else np.split(array, len(spec.npdl_names), -1)
        for name, part in zip(spec.npdl_names, parts, strict=True):
            params[name].data = to_device(part)
        del array, parts, part
        for name in spec.npdl_names if is_quantized else ():
            quantize_linears(model, bits, rounding=rounding, block=block, double=double,
                             where=name.removesuffix(".W"))
            del params[name]                                # releases its float array
    return pretrained


def is_real_model(path):
    """Return True for a GGUF file or a model's folder, False for a run's folder.

    Raises InputError if the path does not exist.
    """
    path = Path(path)
    if not os.path.lexists(path):
        raise InputError(f"{path}: there is no such folder or file; give a run's folder, or a real "
                         "model's folder or .gguf file (npdl downloads nothing: "
                         "docs/real-models.md)")
    if path.suffix.lower() == ".gguf":
        return True
    try:
        return "config" not in read_json(path / "config.json")      # only a run's file has it
    except (OSError, ValueError, TypeError):
        return any(path.glob("*.safetensors"))


def open_model(path):
    """Return the Pretrained in a model folder or a GGUF file. No array is read yet."""
    path = Path(path)
    if path.suffix.lower() == ".gguf" and not path.is_dir():
        weights = GGUFWeights(path)
        architecture = Architecture(weights.config, path)
        weights.reject_unsupported_settings(architecture.options["d_head"])
        return Pretrained(path, architecture, weights)
    config = path / "config.json"
    try:
        values = read_json(config)
    except FileNotFoundError:
        raise InputError(f"{path} holds no model (config.json is missing); give a folder with "
                         f"config.json and {ONE}, or a .gguf file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{config} cannot be used ({reason(error)}); download it again") from error
    if not isinstance(values, dict):
        raise InputError(f"{config} is not a JSON object; download it again")
    architecture = Architecture(values, config)
    tied = {"lm_head.weight": architecture.embedding} if architecture.tied else {}
    return Pretrained(path, architecture, FolderWeights(path, tied))


class FolderWeights:
    """The arrays of the safetensors files in a folder.

    `shapes` is {name without prefix: shape}. `files` are the paths that determine the model. `tied`
    is {name: other name}, two names of one array, which is then listed only under the other name.
    """

    def __init__(self, folder, tied):
        paths, self._files = _find_weight_files(folder), {}
        self.files = [folder / "config.json", *paths]
        for path in paths:
            file = safetensors.SafetensorsFile(path)
            for name in file.entries:
                short = name.removeprefix("transformer.").removeprefix("model.")
                if short in self._files:
                    other, twin = self._files[short]
                    raise InputError(f"{folder}: {name} of {path.name} and {twin} of "
                                     f"{other.path.name} are the same parameter; remove one")
                self._files[short] = file, name
        for name, needed in tied.items():
            if name in self._files:
                self._files.setdefault(needed, self._files.pop(name))
        self.shapes = {short: file.entries[name].shape
                       for short, (file, name) in self._files.items()}

    def read_array(self, name, dtype, mapped=False):
        """Return the array as floats of `dtype`.

        With `mapped`, an array that is stored in this dtype is memory-mapped from its file.
        """
        file, name = self._files[name]
        entry = file.entries[name]
        if entry.dtype not in safetensors.FLOATS:
            raise InputError(f"{file.path}: {name} has the dtype {entry.dtype}; npdl reads "
                             f"{', '.join(safetensors.FLOATS)}, and no arrays that another "
                             "library has quantized")
        if mapped and entry.stored_dtype == np.dtype(dtype):
            return file.map_array(name)
        return file.read(name, dtype)


def _find_weight_files(folder):
    """Return the paths of a folder's safetensors files: one file, or several shards."""
    if is_file(folder / ONE):
        return [folder / ONE]
    shards = sorted(folder.glob(SHARDS))
    if not shards and (folder / "pytorch_model.bin").exists():
        raise InputError(f"{folder} holds pytorch_model.bin, a pickle, which can execute code; "
                         "save the model as safetensors (save_pretrained)")
    if not shards:
        raise InputError(f"{folder} holds no {ONE} and no {SHARDS}; download them")
    return shards


def _list_checked_specs(architecture, weights, itemsize):
    """Return the architecture's ArraySpecs. Raise InputError if the files don't fit them.

    The files must have arrays with the names and shapes of the ArraySpecs. The parameters, with
    `itemsize` bytes for each entry, must fit into this machine's memory.
    """
    where, shapes, specs = architecture.where, weights.shapes, []
    for spec in architecture.make_array_specs():
        if spec.hf_name not in shapes:
            raise InputError(f"{where}: the array {spec.hf_name} is not in the files; download "
                             "them again")
        if shapes[spec.hf_name] != spec.shape:
            raise InputError(f"{where}: {spec.hf_name} has shape {shapes[spec.hf_name]} in the "
                             f"files; the settings need {spec.shape}; download the model again")
        specs.append(spec)
    extra = [name for name in shapes.keys() - {spec.hf_name for spec in specs}
             if not BUFFERS.fullmatch(name)]
    if extra:
        raise InputError(f"{where}: {min(extra)[:60]} is an array that npdl's {architecture.kind} "
                         f"does not have (unknown arrays: {len(extra)}); use another model")
    need, have = itemsize * sum(math.prod(spec.shape) for spec in specs), total_memory_bytes()
    if have is not None and need > have:
        raise InputError(f"{where}: the parameters take {need / 2**30:,.0f} GiB of memory, but "
                         f"this machine has {have / 2**30:,.0f}; use a smaller model")
    return specs


def hash_model(path):
    """Return the SHA-256 of a folder's settings and arrays, or of a GGUF file, in hexadecimal."""
    files = open_model(path).weights.files
    status = [os.stat(file) for file in files]
    return _compute_sha256(tuple(files), tuple((stat.st_size, stat.st_mtime_ns) for stat in status))


@lru_cache
def _compute_sha256(files, stamps):
    """Return the SHA-256 of files, cached until their `stamps` (sizes and times) change."""
    sha256 = hashlib.sha256()
    for name in files:
        with open(name, "rb") as file:
            hashlib.file_digest(file, lambda: sha256)       # adds the file to the digest
    return sha256.hexdigest()


def to_huggingface(pretrained, folder):
    """Write a folder for the library transformers: config.json, model.safetensors, tokenizer.

    In the files, adapters are merged, and quantized layers are floats. The model itself does not
    change. Raises InputError unless `folder` is new or empty.
    """
    architecture, layers = pretrained.architecture, dict(named_layers(pretrained.model))
    arrays = {}
    for spec in architecture.make_array_specs():
        prefix = "" if spec.hf_name == "lm_head.weight" else architecture.prefix
        arrays[prefix + spec.hf_name] = lambda spec=spec: _get_float_array(spec, layers)
    dtype = str(next(iter(pretrained.model.params(with_frozen=True)))[1].data.dtype)
    with create_folder_atomically(folder) as new:
        write_json(new / "config.json", {**architecture.values, "dtype": dtype,
                                         "torch_dtype": dtype})
        safetensors.write(new / ONE, arrays, {"format": "pt"})
        if pretrained.path.is_dir():
            for name in FILES:
                if is_file(pretrained.path / name):
                    shutil.copyfile(pretrained.path / name, new / name)
        else:
            pretrained.tokenizer.save(new)


def _get_float_array(spec, layers):
    """Return the array of an ArraySpec as floats. Adapters are merged.

    `layers` are the model's layers, {name: layer}.
    """
    parts = []
    for name in spec.npdl_names:
        path, param = name.rsplit(".", 1)
        layer = layers[path]
        if isinstance(layer, LoRALinear):
            layer = merged_linear(layer)
        is_frozen = isinstance(layer, FrozenLinear) and param == "W"
        parts.append(to_host(layer.weight() if is_frozen else getattr(layer, param).data))
    array = parts[0] if len(parts) == 1 else np.concatenate(parts, -1)
    return array.T if spec.transposed else array
