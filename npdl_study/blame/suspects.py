"""What a statement computes, as what may be the mistake, and how likely it is."""

import ast
from dataclasses import dataclass, field, replace

import numpy as np

from npdl_study.blame import weights
from npdl_study.blame.weights import CLOSE, SLIGHT, ZERO
from npdl_study.trace.syntax import names_of

PROMISED, NOTHING, SOMETHING, PROVEN, PASSES_ON = range(-1, 4)
OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call)
ODDS = {PROMISED: 0, NOTHING: weights.NOTHING}      # of the others weights.SOMETHING


@dataclass(eq=False)
class Suspect:
    """What a statement computes, or one argument that it hands over, in all its turns.

    values   {(place, turn): array}, in the order in which they were computed; `at` are the moments
    could    whether other values make every gradient right; None: not known
    wanted   such values; sure[key] tells which entries have to be so
    level    PROMISED: not the gradient that its name promises, which would mend all; NOTHING: the
             gradient of nothing in forward; SOMETHING; PROVEN: right, or no gradient; PASSES_ON
    """

    line: object
    argument: bool = False
    values: dict = field(default_factory=dict)
    at: dict = field(default_factory=dict)
    could: bool | None = None
    wanted: dict = field(default_factory=dict)
    sure: dict = field(default_factory=dict)
    level: int = SOMETHING
    order: int = 0
    known: bool = True
    effect: object = None
    error: object = None
    name: str = ""
    follows: int = 0
    widened: bool = False
    in_library: bool = False
    nonlinear: bool = False     # made of forward's values alone
    mends_many: bool = False    # that are few and mend many
    argument_name: str = ""     # the name of an argument of the backward
    collects: set = ()          # the names of the parameters that it alone adds to
    J: object = None
    base: object = None

    def again(self):
        """The same, to be weighed for another goal."""
        return replace(self, name="", known=True, values=dict(self.values),
                       wanted=dict(self.wanted), sure=dict(self.sure))

    @property
    def keys(self):
        return list(self.values)

    @property
    def works(self):
        """How many operations its statement is made of."""
        return sum(isinstance(n, OPERATIONS) for n in ast.walk(self.line.node))

    @property
    def odds(self):
        """How unlikely it is the mistake, as the cost of a change: by what it computes, what it
        reads, the axes that it would have to have, and whether what it has to be is the gradient
        of nothing either."""
        own = weights.BENT if self.nonlinear and self.level == SOMETHING else ODDS.get(
            self.level, weights.SOMETHING)
        unknown = not self.known and not self.nonlinear
        return own + weights.FOLLOWS * (self.follows + 2 * self.widened + self.in_library + unknown)

    @property
    def rank(self):
        """What to sort by, the likeliest suspect first: by level; within one, of what is no
        gradient the statement that ran first, of gradients the one that ran last."""
        return self.level, not self.known, self.order if self.level <= NOTHING else -self.order

    def gives(self, value):
        """Whether the first value of this suspect could be this one, whatever the others are."""
        key = self.keys[0]
        if self.effect is None:
            return bool(np.allclose(value, self.wanted[key], 10 * CLOSE, 10 * ZERO))
        change = np.broadcast_to(value, self.values[key].shape) - self.values[key]
        left = self.error - self.effect @ change.ravel()
        return bool((np.abs(left) <= CLOSE * max(1.0, np.abs(self.error).max())).all())

    @property
    def solved(self):
        """Whether it is known what it has to be."""
        return self.effect is not None or bool(self.sure) and all(
            s.all() for s in self.sure.values())

    @property
    def changed(self):
        """The keys of the values that have to be others."""
        return [k for k in self.keys if k in self.wanted and np.abs(
            self.wanted[k] - self.values[k]).max(initial=0) > CLOSE * max(
                np.abs(self.wanted[k]).max(initial=0), SLIGHT)]

    def first_wrong_key(self):
        """The key of the first value that has to be another."""
        return (self.changed or self.keys)[0]


def called_names(node):
    """The names of the functions that a statement calls."""
    return {getattr(n.func, "attr", getattr(n.func, "id", "")) for n in ast.walk(node)
            if isinstance(n, ast.Call)}


def only_passes_on(node, parts=None):
    """Whether a statement only returns, or unpacks, what is there; of a part of its values."""
    value = getattr(node, "value", None)
    if isinstance(node, ast.Return) or isinstance(node, ast.Assign) and not isinstance(
            node.targets[0], ast.Name):
        parts = parts or (value.elts if isinstance(value, ast.Tuple) else [value])
        return all(isinstance(p, (ast.Name, ast.Constant, ast.Attribute)) for p in parts)
    return False


def factors(node):
    """The names of which an expression is the product."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return set()
    names = names_of(node)
    return names if 4 * len(names) - 2 == sum(1 for _ in ast.walk(node)) else set()


def frame_near(frames, places, line):
    """The locals at a Line, or at one near it in its function."""
    keys = [k for k in frames if k[1] == 0 and places[k[0]].function is line.function]
    keys.sort(key=lambda k: (abs((places[k[0]].line or line.function.lines[0]).first - line.first),
                             places[k[0]].line is None, -k[0]))
    return frames[keys[0]] if keys else {}
