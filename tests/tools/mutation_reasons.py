"""Why known mutants of npdl's backwards survive every gradient check.

They change a gradient, but on inputs or machines that no gradient check can have; another test
sees them.
"""

PADDING = ("the row of padding_id gets no gradient by definition, though it has a slope; "
           "tests/layers/test_layers.py checks it")
DEVICE = "a device alone runs it; tests/gpu/test_gpu_more.py compares it with NumPy"
REASONS = {                                     # (function, a part of the line) -> why
    ("Embedding.backward", "self.padding_id is not None"): PADDING,
    ("Embedding.backward", "ids == self.padding_id"): PADDING,
    ("sum_by_index", "_sum_on_device("): DEVICE,
}


def reason(mutant):
    """The reason for a survivor, or None when there is none yet."""
    return next((why for (name, line), why in REASONS.items()
                 if name == mutant.function.__qualname__ and line in mutant.text), None)
