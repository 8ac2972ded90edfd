"""Run a chapter's layers while the book is built: gradient checks, step pages, recorded runs.

A step page is the output of `python -m npdl step NAME --html`, embedded in the page of a chapter.
"""

from pathlib import Path

from docs.book.markup import html_block, make_folded_block
from npdl.backend import make_rng
from npdl.errors import InputError
from npdl.study.check.gradcheck import gradcheck
from npdl.study.check.samples import make_example_call, make_sample_builders
from npdl.study.check.target import find_npdl_class
from npdl.study.step.show_html import format_page
from npdl.study.step.step import PHASES, step

STEP_HEAD = Path(__file__).parent / "static" / "step-frame.html"
TABLE_HEAD = """| layer | gradient checks | largest relative error | gradient |
|---|--:|--:|---|"""
LEGEND = ("Each layer is checked on every example of `npdl/study/check/examples.py`: all options, "
          "random parameters and inputs, [finite differences](../../study-tools.md) in "
          "float64. A relative error of at most 1e-7 is accepted. Layers that PyTorch has are also "
          "compared with PyTorch's outputs and gradients, to 1e-10, by `tests/layers`.")


def make_check_table(names):
    """Check layers on all their examples; return a Markdown table with a row for each layer.

    Raises InputError if a gradient is wrong, or if npdl has no layer of a name.
    """
    rows = []
    for name in names:
        examples, found = make_sample_builders(find_npdl_class(name)), []
        for seed, build in enumerate(examples.values()):
            layer, inputs, options = build(make_rng(seed))
            verdict = gradcheck(layer, *inputs, entries=20, **options)
            if verdict.wrong_rows:
                raise InputError(str(verdict))
            found += verdict.rows
        worst = max(found, key=lambda row: row.error)
        rows.append(f"| {name} | {len(examples)} | {worst.error:.1e} | {worst.name} |")
    return "\n".join(["", TABLE_HEAD, *rows, "", LEGEND, ""])


def record_layer(name):
    """Run a layer on a sample, and return the result of npdl.step. InputError for unknown names."""
    layer, inputs, options = make_example_call(find_npdl_class(name))
    return step(layer, *inputs, **options)


def make_step_page(name):
    """Return the HTML page that `python -m npdl step NAME --html` writes, for use in the book."""
    page = format_page(record_layer(name), PHASES)
    # its icon, which the page's policy would block
    page = page.replace("default-src 'none'", "default-src 'none'; img-src 'self' file:", 1)
    return page.replace("</head>", STEP_HEAD.read_text(encoding="utf-8") + "</head>")


def embed_step_pages(names):
    """Return HTML that shows the step pages of these layers, folded."""
    return "".join(html_block(make_folded_block(
        f"Step through <b>{name}</b>, line by line",
        f'<iframe class="step" loading="lazy" title="{name}, line by line" '
        f'src="../steps/{name}.html"></iframe>'
        f'<p><a href="../steps/{name}.html">On a page of its own</a>; in a terminal: '
        f"<code>python -m npdl step {name}</code></p>", "step")) for name in names)
