"""Pages: tables as Markdown, and prose by hand whose numbers the records fill in.

A page is written by hand in experiments/pages, with {{names}} where its numbers and tables go.
Programs give these; they write no sentence.
"""

import dataclasses
import re
import textwrap
from collections.abc import Sequence

from npdl.errors import InputError

NAME = re.compile(r"\{\{([^{}]+)\}\}")     # a name may be broken over two lines


@dataclasses.dataclass(frozen=True)
class Table:
    """A table; every row has as many cells as the heading. Cells are Markdown.

    left     how many columns, from the left, hold words; the others are aligned as numbers
    """

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1

    def __post_init__(self):
        for row in self.rows:
            if len(row) != len(self.heading):
                raise InputError(f"table {' '.join(self.heading)[:40]!r}: a row has {len(row)} "
                                 f"cells, the heading {len(self.heading)}; give as many")

    def __str__(self):
        marks = ["---" if i < self.left else "---:" for i in range(len(self.heading))]
        return "\n".join("| " + " | ".join(map(cell, line)) + " |"
                         for line in (self.heading, marks, *self.rows))


def cell(text):
    """Text as a table's cell: one line, bars escaped."""
    return " ".join(str(text).split()).replace("|", "\\|")


def fill(text, values):
    """A page with its {{names}} replaced, its paragraphs in lines of 100 columns; InputError for a
    name that `values` lacks."""
    def value(match):
        name = " ".join(match[1].split())
        if name not in values:
            raise InputError(f"the page has {{{{{name}}}}}, which no record gives; one of "
                             f"{', '.join(values)}")
        return str(values[name])

    return "\n\n".join(block if block.startswith(("#", "|", "!", "```", "- ")) else textwrap.fill(
        block, 100, break_long_words=False, break_on_hyphens=False)
        for block in NAME.sub(value, text).strip().split("\n\n")) + "\n"
