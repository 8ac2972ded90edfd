"""LoRA, QLoRA and quantization for arrays, for linear layers, and for whole models."""

from npdl.adapt.models import (
    add_lora,
    count_multiplications,
    make_report,
    merge_lora,
    merged_linear,
    quantize_linears,
)

__all__ = ["add_lora", "count_multiplications", "make_report", "merge_lora", "merged_linear",
           "quantize_linears"]
