"""The nodes of an expression. A chain of relations is ((op, left, right), ...)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """`places` are those after the point that are printed."""

    value: float
    places: int = 0


@dataclass(frozen=True)
class Symbol:
    """`low` and `high` are its scripts, each (what it is called in a name, its tokens), or None."""

    base: str
    low: tuple = None
    high: tuple = None
    attribute: str = ""

    @property
    def bare(self):
        return not (self.low or self.high or self.attribute)


@dataclass(frozen=True)
class Entry:
    """An entry of what is no symbol; `script` are tokens."""

    array: object
    script: tuple


@dataclass(frozen=True)
class Call:
    function: object
    arguments: tuple


@dataclass(frozen=True)
class Apply:
    """An operation of values.py on its parts."""

    operation: str
    parts: tuple


@dataclass(frozen=True)
class Where:
    """1 where the relations hold, 0 elsewhere."""

    chain: tuple


@dataclass(frozen=True)
class Cases:
    """((value, chain of relations), ...)."""

    rows: tuple


@dataclass(frozen=True)
class Big:
    """A sum, prod, max or min of `body` over indices: from start to high, or of members, or of
    all for which the condition, a chain, holds."""

    kind: str
    names: tuple
    start: object
    high: object
    members: object
    condition: tuple
    body: object


def children(node):
    """Return the nodes directly below one; for a Big, only those of its body."""
    match node:
        case Apply():
            return node.parts
        case Call():
            return (node.function, *node.arguments)
        case Entry():
            return (node.array,)
        case Big():
            return (node.body,)
        case Where():
            return tuple(side for _, *sides in node.chain for side in sides)
        case Cases():
            return tuple(part for value, chain in node.rows for part in (value, Where(chain)))
    return ()


def bound(node):
    """Return the indices of all sums, products, maxima and minima in a tree."""
    own = set(node.names) if isinstance(node, Big) else set()
    return own.union(*map(bound, children(node)))


def indexed(node):
    """Return the letters in a tree that have an index, without hats."""
    own = {node.base.partition("_")[0]} if isinstance(node, Symbol) and node.low else set()
    return own.union(*map(indexed, children(node)))
