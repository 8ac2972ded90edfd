"""The nodes of an expression, and of a relation: Apply("<=", (left, right))."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A number that is printed with `places` digits after the point."""

    value: float
    places: int = 0


@dataclass(frozen=True)
class Symbol:
    """A name with scripts. `low` and `high` are (form in a variable's name, Tokens), or None."""

    base: str
    low: tuple = None
    high: tuple = None
    attribute: str = ""

    @property
    def bare(self):
        return not (self.low or self.high or self.attribute)


@dataclass(frozen=True)
class Entry:
    """An entry, given by the Tokens `script`, of an expression that is not a symbol."""

    array: object
    script: tuple


@dataclass(frozen=True)
class Apply:
    """An operation of values.py on operands: a product, a call, a relation, a choice of cases."""

    operation: str
    parts: tuple


@dataclass(frozen=True)
class Big:
    """A sum, prod, max or min of `body` over `names`, which may have `members` or a `condition`."""

    kind: str
    names: tuple
    members: object
    condition: tuple
    body: object


def children(node):
    """Return the nodes directly below one; for a Big, only those of its body."""
    match node:
        case Apply():
            return node.parts
        case Entry():
            return (node.array,)
        case Big():
            return (node.body,)
    return ()


def walk(node):
    """Yield a node and all nodes below it."""
    yield node
    for part in children(node):
        yield from walk(part)


def symbols(node):
    """Return the Symbols of a tree, without those in scripts."""
    return [one for one in walk(node) if isinstance(one, Symbol)]
