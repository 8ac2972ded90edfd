"""Data sets, their batches, and padding."""

from npdl.data.arithmetic import Examples, ModularArithmetic, Vocabulary, batch_indices
from npdl.data.sequences import pad_with_lengths

__all__ = ["Examples", "ModularArithmetic", "Vocabulary", "batch_indices", "pad_with_lengths"]
