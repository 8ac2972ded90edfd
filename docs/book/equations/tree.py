"""The nodes of an expression, and of a relation: Apply("<=", (left, right))."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Number:
    """A number that is printed with `places` digits after the point."""

    parts = ()                                          # the nodes below this one
    value: float
    places: int = 0


@dataclass(frozen=True)
class Symbol:
    """A name with scripts. `low` and `high` are (form in a variable's name, Tokens), or None."""

    parts = ()
    base: str
    low: tuple = None
    high: tuple = None
    attribute: str = ""

    @property
    def bare(self):
        return not (self.low or self.high or self.attribute)


@dataclass(frozen=True)
class Apply:
    """An operation of values.py on operands: a product, a call, an entry, a relation."""

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

    @property
    def parts(self):
        return (self.body,)


def walk(node):
    """Yield a node and all nodes below it."""
    yield node
    for part in node.parts:
        yield from walk(part)


def symbols(node):
    """Return the Symbols of a tree, without those in scripts."""
    return [one for one in walk(node) if isinstance(one, Symbol)]
