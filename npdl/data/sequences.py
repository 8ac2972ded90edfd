"""Padding: sequences of different lengths as one array."""

import numpy as np

from npdl.errors import InputError


def pad_with_lengths(sequences, value=0):
    """Return B sequences (S_b, ...) as an array (B, S, ...) padded with `value`, and their lengths.

        ids, lengths = pad_with_lengths([[3, 1, 4], [1, 5]])   # [[3, 1, 4], [1, 5, 0]], [3, 2]
        tags, _ = pad_with_lengths([[0, 2, 2], [1, 0]], value=-1)   # for CrossEntropy(ignored=-1)

    The layers LSTM and Bidirectional take the lengths (B,), and npdl.functions.length_mask makes a
    mask of them. CrossEntropy can ignore targets with the padding value. Raises InputError if there
    is no sequence, and if sequences differ in another axis than the first.
    """
    arrays = [np.asarray(sequence) for sequence in sequences]
    filled = [array for array in arrays if array.size]
    shapes = {array.shape[1:] for array in filled}
    if not filled or len(shapes) > 1 or any(array.ndim == 0 for array in arrays):
        raise InputError(f"pad_with_lengths: got {len(arrays)} sequences, of shapes "
                         f"{sorted({array.shape for array in arrays})}; give one or more "
                         "sequences (S, ...) that differ only in S")
    lengths = np.array([len(array) for array in arrays])
    padded = np.full((len(arrays), lengths.max(), *shapes.pop()), value, np.result_type(*filled))
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded, lengths
