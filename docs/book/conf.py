"""Sphinx's settings for the book; `python -m docs.book` writes the pages that Sphinx reads."""

from pathlib import Path

import ziamath
from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from sphinx.errors import ExtensionError

import npdl
from docs.book.formulas import to_mathml

project = "npdl"
author = copyright = "the npdl authors"
version = release = npdl.__version__
extensions = ["myst_parser", "sphinx.ext.githubpages"]
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
suppress_warnings = ["myst.header", "toc.not_included"]  # a skipped level; sources, measurements
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "npdl: the book"
# STIX Two Math (SIL Open Font License): without it, many browsers set indices badly
FONT = Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf"
html_static_path = ["static", "../gallery/grokking.webp", "../gallery/grokking-curves.png",
                    str(FONT)]
html_favicon = "static/favicon.svg"
templates_path = ["templates"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_search_scorer = str(Path(__file__).parent / "static" / "scorer.js")
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_show_search_summary = False        # on a disk a browser forbids it; book.js: where it may
html_theme_options = {"navigation_with_keys": True,
                      "dark_css_variables": {"color-foreground-muted": "#8f959c"}}


def _make_math_visitor(is_block):
    def visit_math(self, node):
        try:
            formula = to_mathml(node.astext(), is_block)
        except MathError as error:
            raise ExtensionError(f"{node.source}:{node.line}: {error}") from error
        self.body.append(f'<div class="equation"><div class="parts">{formula}</div></div>'
                         if is_block else formula)
        raise SkipNode
    return visit_math


def _add_caption_levels(app, pagename, templatename, context, doctree):
    """Give the captions of the side bar a heading level for screen readers."""
    for name in ("furo_navigation_tree", "body"):
        if name in context:
            context[name] = context[name].replace('class="caption" role="heading"',
                                                  'class="caption" role="heading" aria-level="2"')


def setup(app):
    app.connect("html-page-context", _add_caption_levels,
                priority=900)         # after the theme's own
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_make_math_visitor(False), lambda self, node: None),
                               block_renderers=(_make_math_visitor(True), lambda self, node: None))
