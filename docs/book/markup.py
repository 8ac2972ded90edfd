"""Pieces of HTML and Markdown that several pages use."""

import re
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name


def coloured(code, language="python"):
    """Return code as coloured HTML, without an element around it."""
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return highlight(code, lexer, HtmlFormatter(nowrap=True))


def words(text):
    """Return plain words as HTML: `code` in backquotes becomes <code>."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def raw(html):
    """Return HTML as a block of MyST."""
    ticks = "`" * max([7, *(len(run) for run in re.findall(r"`+", html))])
    return f"\n{ticks}`{{raw}} html\n{html}\n{ticks}`\n"


def fold(summary, body, kind, is_open=False):
    """Return a part of a page that opens on a click."""
    opened = " open" if is_open else ""
    return f'<details class="{kind}"{opened}><summary>{summary}</summary>\n{body}\n</details>'
