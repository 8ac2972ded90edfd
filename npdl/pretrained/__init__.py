"""Real models: GPT-2 and the Llama family from the files that people have on disk.

    model = load("SmolLM2-135M").model              # a folder, or a .gguf file
    to_huggingface(pretrained, "tuned")             # and back, for transformers and others
"""

from npdl.pretrained.folder import Pretrained, digest, load, to_huggingface

__all__ = ["Pretrained", "digest", "load", "to_huggingface"]
