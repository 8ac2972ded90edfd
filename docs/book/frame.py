"""Step pages: the output of `python -m npdl step NAME --html`, embedded in the book's pages."""

from pathlib import Path

from docs.book.markup import html_block, make_fold
from npdl.study.check.samples import sample
from npdl.study.check.target import find_npdl_class
from npdl.study.step.show_html import format_page
from npdl.study.step.step import step

HEAD = Path(__file__).parent / "static" / "step-frame.html"


def record_layer(name):
    """Run a layer on a sample, and return the result of npdl.step. InputError for unknown names."""
    layer, inputs, options = sample(find_npdl_class(name))
    return step(layer, *inputs, **options)


def make_step_page(name):
    """Return the HTML page that `python -m npdl step NAME --html` writes, for use in the book."""
    page = format_page(record_layer(name))
    # its icon, which the page's policy would block
    page = page.replace("default-src 'none'", "default-src 'none'; img-src 'self' file:", 1)
    return page.replace("</head>", HEAD.read_text(encoding="utf-8") + "</head>")


def embed_step_pages(names):
    """Return HTML that shows the step pages of these layers, folded."""
    return "".join(html_block(make_fold(
        f"Step through <b>{name}</b>, line by line",
        f'<iframe class="step" loading="lazy" title="{name}, line by line" '
        f'src="../steps/{name}.html"></iframe>'
        f'<p><a href="../steps/{name}.html">On a page of its own</a>; in a terminal: '
        f"<code>python -m npdl step {name}</code></p>", "step")) for name in names)
