"""What is known of a layer: its rows of gradients.md, parity.md, mutation.md in docs/generated."""

import functools
import re
from dataclasses import dataclass

from docs.book.sources import ROOT

GENERATED = ROOT / "docs" / "generated"


@dataclass
class Proof:
    """Rows of the three tables, as {column: cell}; None where a table has no such layer.

    `without` says why torch has no counterpart; `survived` are the mutants not caught.
    """

    name: str
    gradient: dict | None
    parity: dict | None
    without: str
    mutants: dict | None
    survived: list


def table(file, first):
    """{first cell: {column: cell}} of the table whose first column is called `first`."""
    rows, heads = {}, None
    for line in _lines(file):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            heads = None
        elif heads is None:
            heads = cells if cells[0] == first else None
        elif heads and not set(cells[0]) <= set(":- "):
            rows[cells[0]] = dict(zip(heads, cells, strict=False))
    return rows


@functools.lru_cache(maxsize=8)
def _lines(file):
    return (GENERATED / file).read_text(encoding="utf-8").split("\n")


def proof(name):
    """The Proof of a layer; LookupError when no table knows it."""
    found = Proof(name, table("gradients.md", "layer").get(name),
                  table("parity.md", "layer").get(name), "",
                  table("mutation.md", "backward of").get(name), [])
    for line in _lines("parity.md"):
        match = re.match(rf"\* {name}: (.*)", line)
        found.without = match[1] if match else found.without
    for line in _lines("mutation.md"):
        if re.search(rf"\] {name}(\.backward)?: ", line):
            found.survived.append(line.strip())
    if not (found.gradient or found.parity or found.mutants):
        raise LookupError(f"{name} is in none of gradients.md, parity.md, mutation.md")
    return found
