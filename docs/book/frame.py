"""Step pages: what `python -m npdl step NAME --html` writes, in a frame of the book's pages."""

from pathlib import Path

from docs.book.markup import fold, raw
from npdl.study.check.samples import sample
from npdl.study.check.target import find_npdl_class
from npdl.study.step.show_html import format_page
from npdl.study.step.step import step

HEAD = Path(__file__).parent / "static" / "step-frame.html"


def step_names(chapter):
    """Return the names of the chapter's layers that have a step page: those of its proof."""
    return [name for part in chapter.directives("proof") for name in part.given.split()]


def recorded(name):
    """Return the recorded run of a layer. Raises InputError if npdl has no such layer."""
    layer, inputs, options = sample(find_npdl_class(name))
    return step(layer, *inputs, **options)


def step_page(name):
    """Return the page that `python -m npdl step NAME --html` writes, for use in the book."""
    found = format_page(recorded(name))
    # its icon, which the page's policy would block
    found = found.replace("default-src 'none'", "default-src 'none'; img-src 'self' file:", 1)
    return found.replace("</head>", HEAD.read_text(encoding="utf-8") + "</head>")


def steps(names):
    """Return the step pages of some layers, folded."""
    return "".join(raw(fold(
        f"Step through <b>{name}</b>, line by line",
        f'<iframe class="step" loading="lazy" title="{name}, line by line" '
        f'src="../steps/{name}.html"></iframe>'
        f'<p><a href="../steps/{name}.html">On a page of its own</a>; in a terminal: '
        f"<code>python -m npdl step {name}</code></p>", "step")) for name in names)
