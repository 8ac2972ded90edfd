"""Small edits of one statement, the likeliest slip first.

An edit changes one thing: an operator, a number, a name, a transpose, the axis of a sum, a slice, a
bracket; or it takes a factor or a term away, or adds one that the function holds.
"""

import ast
import contextlib
import itertools
import re
from dataclasses import dataclass

from npdl_study.blame import node_edits
from npdl_study.blame.node_edits import AXES
from npdl_study.blame.weights import DEAD, FACTOR, FORMULA, PAIRED, STAGES, TERM, TOKEN, UNUSED
from npdl_study.trace.syntax import (
    exchanged,
    header,
    indexed,
    indices,
    names_of,
    number,
    parsed,
)

ALIKE = [("sum", "mean", "max"), ("max", "min"), ("sin", "cos"), ("maximum", "minimum"),
         ("zeros_like", "ones_like"), ("zeros", "ones"), ("exp", "log", "tanh"),
         ("add", "subtract", "multiply", "divide"), ("argmax", "argmin"), ("outer", "multiply"),
         ("dot", "multiply"), ("repeat", "tile"), ("cumsum", "sum"), ("sqrt", "square")]
COMPARISONS = (ast.Gt, ast.Lt, ast.GtE, ast.LtE, ast.Eq, ast.NotEq)
SUMS = (".sum(0)", ".sum(1)", ".sum(-1)", ".sum(0, keepdims=True)", ".sum(1, keepdims=True)",
        ".sum(-1, keepdims=True)", ".sum()", ".sum((0, 1))", ".sum(2)", ".sum((0, 2, 3))",
        ".sum(-2, keepdims=True)", ".mean(0)", ".mean()", ".mean(-1, keepdims=True)")
SLOPES = ("{a} * (1 - {a})", "(1 - {a} ** 2)", "(1 - {a})", "({a} > 0)", "{a} ** 2", "(1 + {a})",
          "np.sqrt({a})", "np.exp({a})", "{a} ** 3", "2 * {a}", "(1 - 2 * {a})", "np.sign({a})")
FUNCTIONS = ("np.sqrt({a})", "np.exp({a})")     # of a name: rather where it is bound
SIZE = "size"                   # beside True, in an index: what an array is made as large as
ENDLESS = ("np.r_", "np.c_")    # to be indexed: NumPy asks them for items without an end
SIZED = ("zeros", "ones", "empty", "full", "eye", "arange", "range", "linspace")
LEFT = ("name", "otherwise")    # that leaves such, of these kinds
TURNS = ("number", "step", "count", "reversed", "sign", "order", "extra part", "part", "window",
         "comparison", "operator")      # what may be wrong with the turns of a loop
BODIES = ("body", "orelse", "handlers", "finalbody")


@dataclass
class Edit:
    """A change of a statement: `new`, a node or its source, in the place of `part`; or of the whole
    statement, and `new` are statements. `value` where what it computes alone changes."""

    cost: float
    kind: str
    part: object
    new: object
    statement: object
    whole: object = None        # None: `new` are whole statements, with their bodies
    value: bool = False
    around: tuple = ()          # what holds the part: (a node, the name of its field)
    span: int = 1               # statements in whose place the new ones stand
    also: tuple = ()            # the last of them, as (old, new) source

    @contextlib.contextmanager
    def made(self):
        """The statements that take the place of the statement, while the block runs."""
        if self.part is None:
            yield _with_body(self.new, self.statement) if self.whole is not None else self.new
            return
        new = parsed(self.new) if isinstance(self.new, str) else self.new
        ast.fix_missing_locations(new)
        parent, name = self.around[:2]
        held = getattr(parent, name)
        items = [new if item is self.part else item for item in held] if isinstance(
            held, list) else new
        bodies = {part: getattr(self.whole, part) for part in BODIES if hasattr(self.whole, part)}
        try:
            setattr(parent, name, items)
            yield _with_body([self.whole], self.statement)
        finally:
            setattr(parent, name, held)
            vars(self.whole).update(bodies)


def edits(statement, scope, values=True, most=STAGES[-1], least=0.0):
    """The Edits of a statement that cost less than `most`, and no less than `least`, the cheapest
    first; without `values` those alone that change more than what it computes."""
    whole = header(statement)
    value = getattr(whole, "value", None) if isinstance(
        whole, (ast.Assign, ast.AugAssign, ast.Return, ast.AnnAssign)) else None
    inner = set() if value is None or isinstance(value, (
        ast.Tuple, ast.Dict)) else set(ast.walk(value))
    found = [(cost, kind, None, body, ()) for cost, kind, body in node_edits.statement_edits(whole)]
    if isinstance(getattr(whole, "value", None), ast.Tuple):
        found += _factor_of_each(whole, scope)
    if value is not None:
        found += _name_everywhere(whole, scope)
    for part, around in _parts(whole):
        if values or part not in inner:
            found += [(cost, kind, part, new, around) for cost, kind, new in
                      _node_edits(part, around, value, scope)]
    if isinstance(whole, (ast.For, ast.While)):         # of whole numbers, or lists
        found = [f for f in found if f[1] in TURNS or f[1] == "name" and f[3] in scope.counts]
    found = [(_adjusted_cost(cost, kind, part, new, scope) - DEAD * (
                  kind == "overwritten" and scope.dead), kind, part, new, around)
             for cost, kind, part, new, around in found]
    seen = set()
    for cost, kind, part, new, around in sorted(found, key=lambda f: f[0]):
        if cost >= most:
            return
        key = (part, new if isinstance(new, str) else id(new))
        if cost >= least and key not in seen:
            yield Edit(cost, kind, part, new, statement, whole, part in inner, around)
        seen.add(key)


def _factor_of_each(whole, scope):
    """A factor that every part of a tuple lacks."""
    parts = [ast.unparse(e) for e in whole.value.elts]
    for a in scope.all if parts.count("None") < len(parts) - 1 else ():
        new = ", ".join(t if t == "None" else f"({t}) * {a}" for t in parts)
        yield FACTOR, "missing factor", whole.value, f"({new})", (whole, "value", False)


def _name_everywhere(whole, scope):
    """Another array in the place of what is read more than once, or its transpose."""
    read = [ast.unparse(n) for n in ast.walk(whole.value) if isinstance(
        n, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))]
    for text in (t for t in dict.fromkeys(read) if read.count(t) > 1 and t not in ("np", "self")):
        own = text in scope.arrays
        for other in [*(t for t in scope.arrays if own and t != text), f"{text}.T"]:
            yield FACTOR, "name" if own else "transposed", whole.value, exchanged(
                whole.value, text, other), (whole, "value", False)


def _adjusted_cost(cost, kind, part, new, scope):
    """The cost of an edit by the names that nothing reads: those it reads, those it leaves."""
    cost -= UNUSED * bool(scope.unused and scope.unused & names_read_by(new))
    return cost + UNUSED * bool(kind in LEFT and scope.once & (names_of(part) - names_read_by(new)))


def names_read_by(new):
    """The names in an edit's new expression or statements."""
    if isinstance(new, str):
        return set(re.findall(r"[A-Za-z_]\w*", new))
    return names_of(*(new if isinstance(new, list) else [new]))


def _with_body(body, statement):
    """Statements of which the heads of loops and choices have their own bodies again."""
    for node in (n for n in body if isinstance(n, type(statement))):
        for part in BODIES:
            if hasattr(statement, part):
                setattr(node, part, getattr(statement, part))
    return body


def nests_itself(body):
    """Whether a list is put into itself, of which NumPy makes an array without an end."""
    return any(isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
               and call.func.attr in ("append", "insert", "extend")
               and any(ast.unparse(call.func.value) == ast.unparse(a) for a in call.args)
               for node in (body if isinstance(body, list) else [body]) for call in ast.walk(node))


def _parts(node, index=False):
    """(expression, (what is around it, as which field, whether in an index, or a size)) of
    everything in a statement."""
    sized = isinstance(node, ast.Call) and getattr(
        node.func, "attr", getattr(node.func, "id", "")) in SIZED
    for name, value in ast.iter_fields(node):
        inside = index or isinstance(node, ast.Subscript) and name == "slice" and ast.unparse(
            node.value) not in ENDLESS or SIZE * (sized and name == "args")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, (ast.expr, ast.keyword, ast.Slice)):
                yield child, (node, name, inside)
                yield from _parts(child, inside)
            elif isinstance(child, ast.comprehension):
                yield from _parts(child, inside)


def _node_edits(node, around, value, scope):
    """(cost, kind, new node or its source) for one part of a statement."""
    parent, field, index = around
    if isinstance(node, ast.keyword):
        yield from node_edits.of_keyword(node)
    elif isinstance(node, ast.Slice):
        yield from node_edits.of_slice(node, scope)
    elif isinstance(getattr(node, "ctx", None), ast.Store):
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and field != "value":
            yield from ((TERM, "name", _as_target(t)) for t in scope.targets
                        if t != ast.unparse(node))
        if isinstance(node, ast.Subscript):
            yield from _index_edits(node, scope)
        yield from node_edits.of_tuple(node)
    elif isinstance(parent, ast.Subscript) and ast.unparse(node) in ENDLESS:
        pass
    elif isinstance(parent, ast.Call) and field == "func":
        own = scope.helpers.get(ast.unparse(node))
        holder = ast.unparse(getattr(node, "value", node)) * isinstance(node, ast.Attribute)
        for name, helper in scope.helpers.items() if own and own.pure else ():
            if helper.needs == own.needs and helper is not own and helper.pure and \
                    name.rpartition(".")[0] == holder:
                yield TOKEN, "function", name
        for group in ALIKE:
            if isinstance(node, ast.Attribute) and node.attr in group:
                for other in (o for o in group if o != node.attr):
                    kind = "factor" if {node.attr, other} == {"sum", "mean"} else "operator"
                    yield TOKEN, kind, ast.Attribute(node.value, other, ast.Load())
    else:
        yield from _expression_edits(node, parent, index, value, scope)


def _index_edits(node, scope):
    """Other indices in the brackets of an array."""
    own = index_source(node)
    for place in scope.places:
        if place != own and place.count(",") == own.count(","):
            new = parsed(f"x[{place}]").slice
            yield TERM, "window", ast.Subscript(node.value, new, node.ctx)


def index_source(node):
    """The source of what stands between the brackets of a subscript."""
    return ast.unparse(ast.Subscript(ast.Name("x"), node.slice, ast.Load()))[2:-1]


def _as_target(text):
    new = parsed(text)
    new.ctx = ast.Store()
    return new


def _expression_edits(node, parent, index, value, scope):
    text = ast.unparse(node)
    if isinstance(node, ast.Constant):
        yield from ((TOKEN, "number", t) for names, own in scope.forwards.items()
                    if names <= {"np", "xp", "math"} for t in own)
        yield from node_edits.of_constant(node, parent, scope)
        if not isinstance(node.value, (int, float)) or isinstance(node.value, bool):
            return
    if text in ("np", "xp", "self") or isinstance(node, (ast.Name, ast.Attribute)) and isinstance(
            parent, ast.Attribute) and text not in scope.all:
        return
    if text in scope.counts or index and isinstance(node, (ast.Name, ast.BinOp)):
        cost = TOKEN if index or isinstance(parent, ast.Call) else FACTOR
        yield from ((cost, "step", f"({text}) {sign} 1") for sign in "+-")
        yield from ((TERM, "count", other) for other in scope.counts if other != text)
    yield from _operator_edits(node, scope)
    if index == SIZE:
        yield from _size_edits(node, parent, text, scope)
        return
    if index and isinstance(node, (ast.Name, ast.Constant)):
        yield from ((FORMULA, "name", t) for t in scope.arrays)
        return
    if isinstance(node, ast.Compare):
        if len(node.ops) == 1:
            for op in COMPARISONS:
                yield FACTOR if isinstance(parent, ast.While) else TOKEN, "comparison", ast.Compare(
                    node.left, [op()], node.comparators)
        yield TERM, "comparison", f"~({text})"
        return
    if isinstance(node, (ast.Tuple, ast.List, ast.Dict, ast.Slice)) or index:
        if isinstance(parent, (ast.Call, ast.keyword)) and all(isinstance(
                e, ast.Constant) and type(e.value) is int for e in getattr(node, "elts", [None])):
            yield from ((TOKEN, "axis", axis) for axis in AXES)
        return
    yield from node_edits.of_sign(node, text)
    yield from _name_edits(node, text, scope)
    for names in (names_of(node), names_of(node) | {"np"}):     # tanh(c) of c, and another of x
        yield from ((FACTOR, "otherwise", other) for other in scope.forwards.get(
            frozenset(names), ()) if other != text and ("np" not in names or text in other))
    product = isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Div))
    if text in scope.shapes:
        yield from _shape_edits(parent, text)
        return
    if isinstance(parent, (ast.BinOp, ast.Call, ast.UnaryOp, ast.AugAssign, ast.Attribute,
                           ast.Tuple, ast.List, ast.Dict, ast.Return, ast.Assign, ast.keyword)):
        divides = isinstance(getattr(parent, "op", None), ast.Div)
        yield from _missing_parts(text, product, node is value, scope, divides)
        if node is value:
            yield from node_edits.terms_alike(node, text, scope)
    elif isinstance(parent, ast.Subscript) and isinstance(node, ast.Name):  # (a * b)[:, None]
        for a in scope.all:
            yield FACTOR, "missing factor", f"({text}) * {a}"
            yield FACTOR, "missing factor", f"({text}) / {a}"


def _size_edits(node, parent, text, scope):
    """Another shape or count; no value, of which NumPy might make an array without an end."""
    others = sorted(scope.shapes) if text in scope.shapes else scope.counts if isinstance(
        node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)) else ()
    yield from ((TOKEN, "name", other) for other in others if other != text)
    if text in scope.shapes:
        yield from _shape_edits(parent, text)


def _shape_edits(parent, text):
    if isinstance(parent, (ast.Call, ast.Starred)):
        yield FACTOR, "order", f"np.argsort({text})"
        yield from ((FACTOR, "part", f"{text}[{i}]") for i in ("0", "1", "1:", "2:", ":2"))


def _name_edits(node, text, scope):
    """Another name in the place of one; the slope of a function in the place of its value."""
    if text in scope.shapes:
        yield from ((TOKEN, "name", other) for other in sorted(scope.shapes) if other != text)
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Constant)):
        number = text in scope.numbers or isinstance(node, ast.Constant)
        alike = scope.numbers if number else scope.arrays
        for other in scope.all:
            if other != text:
                yield TOKEN if other in alike else FACTOR, "name", other
    elif text.startswith("len("):
        yield from ((TOKEN, "number", other) for other in scope.numbers)
    elif isinstance(node, (ast.Call, ast.BinOp)):
        blank = "ones" in text or "zeros" in text
        yield from ((TOKEN if blank else FACTOR, "name", other) for other in scope.arrays)
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        for form in SLOPES:
            yield FORMULA if form in FUNCTIONS else TERM, "slope", form.format(a=text)
        for name in (n for n, helper in scope.helpers.items() if helper.needs == helper.pure):
            yield TERM, "function", f"{name}({text})"
            if "log" in name:
                yield TERM, "function", f"np.exp({name}({text}))"
        for axis in ("-1", "0"):
            yield TERM, "missing factor", f"{text} / {text}.sum({axis}, keepdims=True)"


def _missing_parts(text, product, whole, scope, divides):
    """A factor, a term or a sum that is missing."""
    for n in ("2", "3", "0.5") if not product else ():
        yield FACTOR, "factor", f"({text}) * {n}"
    for a in scope.all if not product else ():
        yield FACTOR, "missing factor", f"({text}) * {a}"
        yield FORMULA if divides else FACTOR, "missing factor", f"({text}) / {a}"
        yield FORMULA, "missing factor", f"({text}) / np.sqrt({a})"
        yield FORMULA, "missing factor", f"({text}) * np.sqrt({a})"
        yield FORMULA, "missing factor", f"({text}) / {a} ** 2"
        for form in SLOPES:
            yield FORMULA, "missing factor", f"({text}) * {form.format(a=a)}"
    for a in scope.arrays[:PAIRED] if not product else ():
        for sign, total in itertools.product("/*", (".sum()", ".sum(-1, keepdims=True)")):
            yield TERM + FORMULA, "missing factor", f"({text}) {sign} {a}{total}"
    for names, own in scope.forwards.items() if not product else ():
        for a in own if names <= {"np", "xp", "math", "self"} else ():
            yield FORMULA, "missing factor", f"({text}) / {a}"
            yield FORMULA, "missing factor", f"({text}) * {a}"
    for total in SUMS:
        yield TERM, "missing sum", f"({text}){total}"
    yield from ((TERM, "eps", f"({text} + {eps})") for eps in scope.eps if text in scope.arrays)
    if not product or whole or text.isidentifier():
        for a in scope.all:
            yield TERM, "missing term", f"({text}) + {a}"
            yield TERM, "missing term", f"({text}) - {a}"
    if whole:
        for place in ("[:, None]", "[..., None]", "[None]"):
            yield FORMULA, "axis", f"({text}){place}"
        for name in ("exp", "log", "sqrt", "tanh", "sign"):
            yield TERM, "function", f"np.{name}({text})"
        for a, b in itertools.permutations(scope.arrays[:PAIRED], 2):
            yield FORMULA, "missing term", f"({text}) + {a} * {b}"
            yield FORMULA, "missing term", f"({text}) + {a} @ {b}"
            yield FORMULA, "missing term", f"({text}) + {a} @ {b}.T"
            yield FORMULA, "missing factor", f"({text}) * ({a} - {b})"
            if a < b:
                yield FORMULA, "missing term", f"({text}) - {a} * {b}"
                yield FORMULA, "missing factor", f"({text}) * {a} * {b}"


def _operator_edits(node, scope):
    """Operators, operands and calls exchanged or taken away."""
    if isinstance(node, ast.BinOp):
        yield from node_edits.of_operator(node)
    elif isinstance(node, ast.Subscript):
        if ast.unparse(node.value) not in ENDLESS:
            yield TERM, "part", node.value
        yield from _index_edits(node, scope)
        items = indices(node)
        for i, item in enumerate(items):
            if isinstance(item, ast.Slice) and item.lower is item.upper is None:
                turned = ast.Slice(None, None, number(-1) if item.step is None else None)
                yield FACTOR, "reversed", indexed(node, [*items[:i], turned, *items[i + 1 :]])
        if isinstance(node.slice, ast.Constant) and node.slice.value in scope.keys:
            for key in scope.keys:
                yield TOKEN, "name", ast.Subscript(node.value, ast.Constant(key), node.ctx)
    elif isinstance(node, ast.IfExp):
        yield TOKEN, "part", node.body
        yield TOKEN, "part", node.orelse
    elif isinstance(node, ast.Call):
        yield from node_edits.of_call(node)
        own = scope.helpers.get(ast.unparse(node.func))
        given = {k.arg for k in node.keywords}
        for i, (name, default) in enumerate(own.takes.items() if own else ()):
            for value in node_edits.optional(name, default, scope) if len(
                    node.args) <= i and name not in given else ():
                yield TOKEN, "argument", ast.Call(node.func, node.args, [
                    *node.keywords, ast.keyword(name, parsed(value))])
    else:
        yield from node_edits.of_tuple(node)
