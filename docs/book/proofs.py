"""Run the gradient checks of a chapter's layers while the book is built."""

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


def make_table(names):
    """Check layers on all their examples; return a Markdown table with a row for each layer.

    Raises InputError if a gradient is wrong, or if npdl has no layer of a name.
    """
    rows = []
    for name in names:
        examples, found = make_sample_builders(find_npdl_class(name)), []
        for seed, build in enumerate(examples.values()):
            layer, inputs, options = build(stream(seed))
            verdict = gradcheck(layer, *inputs, entries=20, **options)
            if verdict.wrong:
                raise InputError(str(verdict))
            found += verdict.rows
        worst = max(found, key=lambda row: row.error)
        rows.append(f"| {name} | {len(examples)} | {worst.error:.1e} | {worst.name} |")
    return "\n".join(["", HEAD, *rows, "", LEGEND, ""])
