"""Data sets and the order in which training sees them."""

from npdl.data.arithmetic import Examples, ModularArithmetic, Vocabulary, batch_indices
from npdl.data.sequences import pad

__all__ = ["Examples", "ModularArithmetic", "Vocabulary", "batch_indices", "pad"]
