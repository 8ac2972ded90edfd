"""A third hand: what npdl's layers and functions compute, written again as plain loops in float64.

Each takes what npdl's own takes, a layer first, and shares no line with it: sums of products in
place of matrix products, one step, row and head at a time. exercises.witness holds npdl to them.
"""

from exercises.references import data, decoding, layers, losses, models
from exercises.references.table import MOVED, OF_FUNCTIONS, OF_LAYERS, SHOWN, forward

__all__ = ["MOVED", "OF_FUNCTIONS", "OF_LAYERS", "SHOWN", "data", "decoding", "forward", "layers",
           "losses", "models"]
