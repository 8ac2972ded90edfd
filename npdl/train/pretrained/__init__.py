"""Real models: GPT-2 and the Llama family, from files on the disk.

    pretrained = load("SmolLM2-135M")               # a folder, or a .gguf file
    pretrained.model                                # a GPT2 or Llama of npdl
    to_huggingface(pretrained, "tuned")             # a folder for the library transformers
"""

from npdl.train.pretrained.folder import Pretrained, hash_model, is_real_model, load, to_huggingface
from npdl.train.pretrained.tokenizer import read_tokenizer

__all__ = ["Pretrained", "hash_model", "is_real_model", "load", "read_tokenizer", "to_huggingface"]
