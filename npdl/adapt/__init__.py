"""LoRA, QLoRA and quantization: of arrays, of linear layers, and of whole models."""

from npdl.adapt.models import (
    add_lora,
    count_multiplications,
    merge_lora,
    merged_linear,
    quantize_linears,
    report,
)

__all__ = [
    "add_lora", "count_multiplications", "merge_lora", "merged_linear", "quantize_linears",
    "report",
]
