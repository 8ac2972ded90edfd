"""LoRA, QLoRA and quantization: the numbers, the linear maps made of them, whole models."""

from npdl.adapt.models import (
    add_lora,
    merge_lora,
    merged_linear,
    multiplies,
    quantize_linears,
    report,
)

__all__ = ["add_lora", "merge_lora", "merged_linear", "multiplies", "quantize_linears", "report"]
