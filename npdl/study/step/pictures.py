"""Summarise an array by a few numbers and some of its entries."""

from dataclasses import dataclass

import numpy as np

FEW, SIDE = 48, 16          # if an array has more than FEW entries (also in page/draw.js), at most
                            # SIDE rows and columns are kept


@dataclass
class ArraySummary:
    """The summary of an array. Only finite entries count for norm, low and high."""

    shape: tuple
    dtype: str
    norm: float                 # the Euclidean norm
    low: float                  # the smallest entry
    high: float                 # the largest entry
    nan: int                    # the number of entries that are NaN
    inf: int                    # the number of infinite entries
    entries: np.ndarray         # the entries as a matrix; a sample of them if the array is large

    @classmethod
    def from_array(cls, array):
        array = np.asarray(array)
        rows = np.atleast_1d(array)
        matrix = rows.reshape(-1, rows.shape[-1]) if array.size else np.zeros((0, 0))
        places = [np.rint(np.linspace(0, n - 1, min(n, SIDE))).astype(int) for n in matrix.shape]
        entries = matrix[np.ix_(*places)] if array.size > FEW else matrix.copy()
        good = array[np.isfinite(array)]
        low, high = (float(good.min()), float(good.max())) if good.size else (np.nan, np.nan)
        return cls(array.shape, str(array.dtype), float(np.sqrt(good @ good)), low, high,
                   int(np.isnan(array).sum()), int(np.isinf(array).sum()), entries)

    def format_line(self):
        """Return one line of text, such as "(3, 5)  norm 4.7, min -1.2, max 2.1"."""
        if 0 in self.shape:
            return f"{self.shape}  empty"
        counts = [f"{count} {what}" for count, what in ((self.nan, "NaN"), (self.inf, "infinite"))
                  if count]
        return ", ".join([f"{self.shape}  norm {self.norm:.3g}", f"min {self.low + 0.0:.3g}",
                          f"max {self.high + 0.0:.3g}", *counts])

    def format_brief(self):
        """Return the shape and the norm, such as "(3, 5) norm 4.7", or the value of one number."""
        if self.entries.size == 1:
            return f"= {self.entries.item():.4g}"
        return f"{self.shape} norm {self.norm:.3g}"


def find_float_arrays(sequences, path="", depth=8):
    """Return [(path, array)] of the float arrays in nested tuples and lists; a path is "[0][1]"."""
    if isinstance(sequences, (np.ndarray, np.floating)):
        return [(path, sequences)] if sequences.dtype.kind == "f" else []
    inner = enumerate(sequences) if isinstance(sequences, (tuple, list)) and depth else ()
    return [pair for i, item in inner
            for pair in find_float_arrays(item, f"{path}[{i}]", depth - 1)]


def summarise_float_arrays(sequences):
    """Return [(path, ArraySummary)] of the float arrays in nested tuples and lists."""
    return [(path, ArraySummary.from_array(array)) for path, array in find_float_arrays(sequences)]
