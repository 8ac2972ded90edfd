"""Run the gradient checks of a chapter's layers while the book is built."""

import functools

from npdl.backend import stream
from npdl.errors import InputError
from npdl.study.check.gradcheck import gradcheck
from npdl.study.check.samples import make_sample_builders
from npdl.study.check.target import find_npdl_class

HEAD = """| layer | gradient checks | largest relative error | gradient |
|---|--:|--:|---|"""
LEGEND = ("Each layer is checked on every example of `npdl/study/check/examples.py`: all options, "
          "random parameters and inputs, [finite differences](../../study-tools.md) in "
          "float64. A relative error of at most 1e-7 is accepted. Layers that PyTorch has are also "
          "compared with PyTorch's outputs and gradients, to 1e-10, by `tests/layers`.")


@functools.cache
def check_examples(name):
    """Check a layer on all its examples; return (number of examples, largest error, its gradient).

    Raises InputError if a gradient is wrong, or if npdl has no layer of that name.
    """
    examples = make_sample_builders(find_npdl_class(name))
    rows = []
    for seed, build in enumerate(examples.values()):
        layer, inputs, options = build(stream(seed))
        checked = gradcheck(layer, *inputs, entries=20, **options)
        if not checked.ok():
            raise InputError(str(checked))
        rows += checked.rows
    worst = max(rows, key=lambda row: row.error)
    return len(examples), worst.error, worst.name


def make_table(names):
    """Return a Markdown table with a row of results for each layer."""
    rows = [f"| {name} | {count} | {error:.1e} | {gradient} |"
            for name in names for count, error, gradient in [check_examples(name)]]
    return "\n".join(["", HEAD, *rows, "", LEGEND, ""])
