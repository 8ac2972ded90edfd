"""Real models: GPT-2 and the Llama family, from files on the disk.

    model = load("SmolLM2-135M").model              # a folder, or a .gguf file
    to_huggingface(pretrained, "tuned")             # a folder for transformers
"""

from npdl.train.pretrained.folder import Pretrained, digest, is_model, load, to_huggingface
from npdl.train.pretrained.tokenizer import read_tokenizer

__all__ = ["Pretrained", "digest", "is_model", "load", "read_tokenizer", "to_huggingface"]
