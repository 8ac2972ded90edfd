"""Of what an edit can be made: what a function holds, and what its forward says."""

import ast
from dataclasses import dataclass, field

import numpy as np

from npdl_study.trace.patch import function_of
from npdl_study.trace.record import kind_of
from npdl_study.trace.syntax import header

LONGEST = 15                    # nodes of an expression of the forward that is looked for again


@dataclass
class Vocabulary:
    """What a statement may be made of.

    names    {local name: kind of its value}; those of one kind are likelier to be confused
    fields   what could stand for one beside the names: "cache.x_hat", 'cache["x"]', "self.W.data"
    numbers  what the function holds of numbers: "N", "self.stride", "x.shape[1]"
    known    expressions of the forward; what a statement has in common with these is likelier
    keys     the names under which the forward keeps something in caches
    """

    names: dict = field(default_factory=dict)
    fields: list = field(default_factory=list)
    numbers: list = field(default_factory=list)
    known: set = field(default_factory=set)
    keys: list = field(default_factory=list)

    def local(self, *kinds):
        """The local names of these kinds."""
        return [name for name, kind in self.names.items() if kind in kinds]

    @property
    def arrays(self):
        return [*self.local("array"), *self.fields]


class Forward:
    """What the forward's statements say.

    expressions  its sums and products, as source
    tuples       its tuples, each as the sources of its items
    keys         the names under which it keeps something in caches
    """

    def __init__(self, recording):
        functions = {id(call.function): call.function for call in recording.calls
                     if call.phase == "forward"}
        nodes = [node for function in functions.values() for statement in function.statements
                 for node in ast.walk(header(statement.node))]
        self.expressions = {ast.unparse(node) for node in nodes if isinstance(node, ast.BinOp)
                            and sum(1 for _ in ast.walk(node)) <= LONGEST}
        self.tuples = {tuple(map(ast.unparse, node.elts)) for node in nodes
                       if isinstance(node, ast.Tuple)}
        self.keys = sorted({key for node in nodes for key in kept_under(node)})

    def unpacked_by(self, statement):
        """Whether a statement takes a tuple apart into the names of which the forward made it."""
        node = statement.node
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple) or \
                not isinstance(node.value, (ast.Name, ast.Attribute)):
            return False
        names = [ast.unparse(item) for item in node.targets[0].elts]
        return any(_is_made_of(made, names) for made in self.tuples)


def _is_made_of(made, names):
    """Whether most names stand where they stood in a tuple, and none stood elsewhere in it."""
    if len(made) != len(names):
        return False
    same = [a == b for a, b in zip(names, made, strict=True)]
    return 2 * sum(same) > len(names) and all(
        at_place or name not in made for at_place, name in zip(same, names, strict=True))


def kept_under(node):
    """The names under which a part of a statement keeps values: {"c": c}, Cache(c=c),
    cache["c"] = c."""
    if isinstance(node, ast.Dict):
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("dict", "Cache"):
        keys = [keyword.arg for keyword in node.keywords]
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and \
            isinstance(node.ctx, ast.Store):
        keys = [node.slice.value]
    else:
        keys = []
    return [key for key in keys if isinstance(key, str)]


def vocabulary(call, region, forward, missing=""):
    """The Vocabulary of a call's function; `missing` is a name that it lacked."""
    names = {name: "other" for s in call.function.statements for name in s.binds}
    names |= {name: kind for name, kind in call.kinds.items() if name not in ("self", "cache")}
    module = getattr(function_of(call.code), "__globals__", {})
    names |= {name: kind_of(module[name]) for name in call.code.co_names
              if type(module.get(name)) in (int, float)}
    if missing:
        names.setdefault(missing, "other")
    names = dict(sorted(names.items()))
    inside = held_inside(call)
    fields = [text for text, item in inside.items() if hasattr(item, "shape")]
    return Vocabulary(names, fields, _numbers(call, names, inside, region),
                      forward.expressions, forward.keys)


def held_inside(call):
    """{source: value} of what a call's object, caches and dicts hold: "self.W.data"."""
    held = call.arguments if call.owner is None else {"self": call.owner, **call.arguments}
    inside = {}
    for name, value in held.items():
        if isinstance(value, dict):
            inside |= {f"{name}[{key!r}]": item for key, item in value.items()
                       if isinstance(key, str)}
        elif hasattr(value, "__dict__"):
            inside |= {f"{name}.{key}" + ".data" * _is_param(item): item
                       for key, item in vars(value).items()}
    return inside


def _is_param(value):
    return hasattr(value, "data") and hasattr(value, "grad")


def _numbers(call, names, inside, region):
    """What a call holds of numbers, those of its loops last, and one name of each length."""
    turns = {name for s in call.function.statements if s.loops or s.kind == "for"
             for name in s.binds}
    found = sorted((name for name, kind in names.items() if kind in ("index", "number")),
                   key=turns.__contains__)
    found += [text for text, item in inside.items()
              if isinstance(item, (int, float)) and not isinstance(item, bool)]
    shapes = {name: np.shape(value) for name, value in call.arguments.items()
              if isinstance(value, np.ndarray)}
    shapes |= {text: np.shape(item) for text, item in inside.items() if hasattr(item, "shape")}
    for step in region:
        shapes |= {w.name: np.shape(w.value) for w in step.writes if step.call is call
                   and w.name in names and isinstance(w.value, np.ndarray)}
    lengths = {}
    for name, shape in shapes.items():
        for i, n in enumerate(shape):
            lengths.setdefault(n, f"{name}.shape[{i}]")
    return found + [text for n, text in lengths.items() if n > 1]
