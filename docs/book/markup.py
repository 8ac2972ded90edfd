"""Pieces of HTML and Markdown that several modules of the book use."""

import re
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name


def colour_code(code, language="python"):
    """Return code as HTML with syntax colours, without an enclosing element."""
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return highlight(code, lexer, HtmlFormatter(nowrap=True))


def text_to_html(text):
    """Return plain text as HTML: `code` in backquotes becomes <code>."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def html_block(html):
    """Return Markdown (MyST) that contains this HTML unchanged."""
    ticks = "`" * max([7, *(len(run) for run in re.findall(r"`+", html))])
    return f"\n{ticks}`{{raw}} html\n{html}\n{ticks}`\n"


def make_folded_block(summary, body, kind, is_open=False):
    """Return a <details> element of class `kind`, which shows `summary` and opens on a click."""
    opened = " open" if is_open else ""
    return f'<details class="{kind}"{opened}><summary>{summary}</summary>\n{body}\n</details>'
