"""Write small random models to disk: folders and GGUF files."""

import json
from pathlib import Path

import numpy as np

from npdl import safetensors
from npdl.train.pretrained import Pretrained, to_huggingface
from npdl.train.pretrained.config import Architecture
from npdl.train.pretrained.tokenizer import make_byte_level_bpe

LLAMA = {"model_type": "llama", "vocab_size": 320, "hidden_size": 32, "intermediate_size": 64,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 64, "rope_theta": 1000.0, "rms_norm_eps": 1e-5,
         "tie_word_embeddings": True, "eos_token_id": 0}
GPT2 = {"model_type": "gpt2", "vocab_size": 320, "n_embd": 16, "n_layer": 2, "n_head": 2,
        "n_positions": 64, "eos_token_id": 0}
KINDS = {
    "gpt2": GPT2, "gpt2 untied": GPT2 | {"tie_word_embeddings": False, "n_inner": 32},
    "llama": LLAMA, "llama untied": LLAMA | {"tie_word_embeddings": False, "head_dim": 12},
    "qwen2": LLAMA | {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 32},
    "mistral": LLAMA | {"model_type": "mistral", "sliding_window": None},
}
TEXT = "The quick brown fox jumps over the lazy dog, again and again. Ünïcode too: 日本語 😀!\n"
TEMPLATE = ("{% for m in messages %}<user>{{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}<answer>{% endif %}")


def make_random_model(values, seed=0, dtype="float32"):
    """The model that these settings describe, with random numbers."""
    rng = np.random.default_rng(seed)
    architecture = Architecture(values, "config.json")
    model = architecture.make_model(dtype)
    for name, param in model.params(with_frozen=True):
        about = 1.0 if name.endswith("gain") else 0.0
        param.data[...] = about + 0.3 * rng.standard_normal(param.shape)
    return Pretrained(Path("nowhere"), architecture, None, model)


def write_model_folder(path, values=LLAMA, tokenizer=True, **options):
    """A folder with a random model, and a small tokenizer if the library is there."""
    found = make_random_model(values, **options)
    found.path = path.with_name(path.name + "-tokenizer")
    found.path.mkdir()
    if tokenizer:
        make_small_tokenizer().save(str(found.path / "tokenizer.json"))
        (found.path / "tokenizer_config.json").write_text(json.dumps(
            {"eos_token": "<|endoftext|>", "chat_template": TEMPLATE}))
    to_huggingface(found, path)
    return found


def make_small_tokenizer():
    """A byte-level BPE tokenizer with some merges."""
    import tokenizers
    from tokenizers import trainers

    made = make_byte_level_bpe(tokenizers.models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=310, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    made.train_from_iterator([TEXT] * 5, trainer)
    return made


def read_model_arrays(folder):
    """{name: array} of a folder's model.safetensors."""
    file = safetensors.SafetensorsFile(folder / "model.safetensors")
    return {name: file.read(name) for name in file.entries}


def rewrite_arrays(folder, change):
    """Write a folder's arrays again after change({name: array})."""
    arrays = read_model_arrays(folder)
    arrays = change(arrays) or arrays
    safetensors.write(folder / "model.safetensors", arrays, {"format": "pt"})


def change_settings(folder, **changes):
    """Change a folder's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def write_gguf(path, folder, kind="F32", divisors=None):
    """Write the Llama of a folder as a GGUF file, in which RoPE rotates neighbouring entries.

    `divisors` are the array that scales the rotary frequencies of Llama 3.1 and later.
    """
    import gguf

    values = json.loads((folder / "config.json").read_text())
    arch = values["model_type"] if values["model_type"] == "qwen2" else "llama"
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(values["max_position_embeddings"])
    writer.add_embedding_length(values["hidden_size"])
    writer.add_block_count(values["num_hidden_layers"])
    writer.add_feed_forward_length(values["intermediate_size"])
    writer.add_head_count(values["num_attention_heads"])
    if values["num_key_value_heads"] != values["num_attention_heads"]:      # else it may be missing
        writer.add_head_count_kv(values["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(values["rms_norm_eps"])
    writer.add_rope_freq_base(values["rope_theta"])
    if divisors is not None:
        writer.add_tensor("rope_freqs.weight", divisors.astype("float32"))
    made = json.loads((folder / "tokenizer.json").read_text())["model"]
    tokens = sorted(made["vocab"], key=made["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token == "<|endoftext|>" else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in made["merges"]])
    writer.add_eos_token_id(0)
    writer.add_chat_template(TEMPLATE)
    kind = getattr(gguf.GGMLQuantizationType, kind)
    for name, array in read_model_arrays(folder).items():
        array = reorder_rows_for_gguf(name, array, values) if arch == "llama" else array
        this = gguf.GGMLQuantizationType.F32 if array.ndim == 1 else kind
        array = gguf.quants.quantize(array, this)
        writer.add_tensor(to_gguf_name(name), array, raw_dtype=this)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def reorder_rows_for_gguf(name, W, values):
    """llama.cpp's order of the rows of W_Q and W_K."""
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    part = next((heads[part] for part in heads if part in name), None)
    if part is None:
        return W
    return W.reshape(values[part], 2, -1, W.shape[1]).swapaxes(1, 2).reshape(W.shape)


def to_gguf_name(name):
    for theirs, ours in (("model.", ""), ("layers.", "blk."), ("embed_tokens", "token_embd"),
                         ("input_layernorm", "attn_norm"), ("lm_head", "output"),
                         ("post_attention_layernorm", "ffn_norm"), ("self_attn.o_proj",
                                                                    "attn_output"),
                         ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
                         ("self_attn.v_proj", "attn_v"), ("mlp.gate_proj", "ffn_gate"),
                         ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down")):
        name = name.replace(theirs, ours)
    return "output_norm.weight" if name == "norm.weight" else name
