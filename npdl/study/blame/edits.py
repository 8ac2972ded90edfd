"""Make the single edits of a statement. They have four ranks, which `repair` tries in this order:

    TOKEN       change or remove one token, such as an operator, a sign, a name, a number, an axis,
                a transpose or an index; exchange `=` and `+=`
    FACTOR      add or remove one factor, sum or transpose
    DERIVATIVE  add or change a derivative, a root or a square, such as (1 - y ** 2)
    TERM        add one term, use another function, or remove the statement

An edit is a tuple (rank, kind, new). `kind` is the diagnosis that `blame` prints, such as "wrong
sign". `new` is the source that replaces the statement or a part of it.
"""

import ast

import numpy as np

from npdl.study.blame.vocabulary import DERIVATIVES
from npdl.study.trace.syntax import (
    clone_tree,
    make_swapped_copies,
    parse_expression,
    walk_subexpressions,
)

TOKEN, FACTOR, DERIVATIVE, TERM = RANKS = range(4)
# {operator: the signs that are tried in its place}
OTHER_SIGNS = {ast.Add: "-*", ast.Sub: "+*", ast.Mult: "/+-@", ast.Div: "*-", ast.MatMult: "*",
               ast.Pow: "*", ast.FloorDiv: "*"}
COMPARISONS = (ast.Gt, ast.Lt, ast.GtE, ast.LtE, ast.Eq, ast.NotEq)
SIMILAR = [("sum", "mean", "max"), ("max", "min"), ("sin", "cos"), ("maximum", "minimum"),
           ("zeros_like", "ones_like"), ("zeros", "ones"), ("exp", "log", "tanh"),
           ("add", "subtract", "multiply", "divide"), ("dot", "multiply", "outer"),
           ("repeat", "tile"), ("sqrt", "square")]
AXES = ("0", "1", "-1", "-2", "2", "None", "(0, 1)", "(0, 2)", "(0, 2, 3)", "(1, 2)", "(2, 3)")
SUMS = (".sum(0)", ".sum(1)", ".sum(-1)", ".sum(0, keepdims=True)", ".sum(1, keepdims=True)",
        ".sum(-1, keepdims=True)", ".sum()", ".sum((0, 1))", ".sum((0, 2, 3))",
        ".sum(-2, keepdims=True)")
REDUCTIONS = ("sum", "mean", "max", "min", "cumsum")


def make_statement_edits(node):
    """Yield edits (rank, kind, new statement) of a whole statement, such as += instead of =."""
    target = node.target if isinstance(node, ast.AugAssign) else node.targets[0] if isinstance(
        node, ast.Assign) and len(node.targets) == 1 else None
    value = getattr(node, "value", None)
    name, new = (one and ast.unparse(one) for one in (target, value))
    if isinstance(node, ast.AugAssign):
        for op, sign in ((ast.Sub, "-="), (ast.Add, "+=")):
            if not isinstance(node.op, op):
                yield TOKEN, "wrong sign", f"{name} {sign} {new}"
        yield TOKEN, "accumulated (+=), must be assigned (=)", f"{name} = {new}"
    elif isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
        kind = "overwritten (=), must be accumulated (+=)"
        yield TOKEN, kind, f"{name} += {new}"
        if isinstance(target, ast.Name):
            yield TOKEN, kind, f"{name} = {name} + ({new})"
    if isinstance(target, ast.Subscript) and not any(
            isinstance(n, ast.Slice) for n in ast.walk(target.slice)):
        array, index = ast.unparse(target.value), ast.unparse(target.slice)
        yield TOKEN, "a repeated index is added only once", f"np.add.at({array}, {index}, {new})"
    if isinstance(node, ast.For):
        backwards = parse_expression(f"reversed({ast.unparse(node.iter)})")
        yield TOKEN, "wrong direction of the loop", _unparse_replaced(node, node.iter, backwards)
    for items in (value, target):
        if isinstance(items, ast.Tuple):
            yield from ((TOKEN, "wrong order", _unparse_replaced(node, items, ast.Tuple(new)))
                        for new in make_swapped_copies(items.elts))
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)):
        yield TERM, "this line should not be here", "pass"


def _unparse_replaced(node, old, new):
    """Return the source of a statement after the syntax node `new` replaces a part of it."""
    return ast.unparse(ast.fix_missing_locations(clone_tree(node, old, new)))


def make_edits_by_part(expression, vocabulary):
    """Yield (part, its edits) for each part of an expression, with values from a Vocabulary."""
    for node, parent, is_index in walk_subexpressions(expression):
        changes = _make_part_edits(node, parent, is_index, node is expression, vocabulary)
        yield node, ((rank, kind, new if isinstance(new, str) else ast.unparse(new))
                     for rank, kind, new in changes)


def _make_part_edits(node, parent, is_index, is_whole, vocabulary):
    """Yield edits (rank, kind, new) of the part `node` of an expression.

    `new` is source or a syntax node. `is_whole` is True if the part is the whole expression.
    """
    text, word = ast.unparse(node), getattr(node, "attr", "")
    if isinstance(node, (ast.Starred, ast.Slice, ast.keyword)) or isinstance(
            parent, ast.Starred) or text in ("np", "xp", "self", "numpy") or isinstance(
            parent, ast.Attribute) and isinstance(
            node, (ast.Name, ast.Attribute)) and text not in vocabulary.arrays:
        return
    if isinstance(parent, ast.keyword):
        is_flag = isinstance(getattr(node, "value", None), bool)
        others = AXES if parent.arg == "axis" else [str(not node.value)] if is_flag else ()
        yield from ((TOKEN, "wrong axis", other) for other in others)
    if isinstance(parent, ast.Call) and node is parent.func:
        yield from ((TOKEN, "wrong operation", text.removesuffix(word) + other)
                    for group in SIMILAR if word in group for other in group if other != word)
    elif isinstance(node, (ast.Tuple, ast.List)):
        around = "[{}]" if isinstance(node, ast.List) else "{}"         # an index may be "i, :"
        yield from ((TOKEN, "wrong order", around.format(", ".join(map(ast.unparse, new))))
                    for new in make_swapped_copies(node.elts))
    else:
        yield from _make_syntax_edits(node, is_index)
        is_constant = isinstance(node, ast.Constant)
        if is_constant and type(node.value) not in (int, float):
            return
        if text in vocabulary.integers or is_index and isinstance(node, (ast.Name, ast.BinOp)):
            yield from ((TOKEN, "off by one", f"({text}) {sign} 1") for sign in "+-")
        if is_index:
            yield from ((TOKEN, "wrong variable", o) for o in vocabulary.integers if o != text)
        else:
            yield from _make_value_edits(node, text, parent, is_whole, vocabulary)


def _make_syntax_edits(node, is_index):
    """Yield edits that depend only on the syntax of a node, and not on the values."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        v = node.value
        for new in (v + 1, v - 1, -v, 2 * v, v / 2, 0, 1, 2, 0.5):
            if new != v and not (is_index and new != int(new)):
                yield TOKEN, "wrong number", repr(int(new) if new == int(new) else new)
    elif isinstance(node, ast.BinOp):
        left, op, right = node.left, node.op, node.right
        for sign in "" if is_index else OTHER_SIGNS.get(type(op), ""):
            is_sign = isinstance(op, (ast.Add, ast.Sub)) and sign in "+-"
            kind = "wrong sign" if is_sign else "wrong operation"
            yield TOKEN, kind, f"({ast.unparse(left)}) {sign} ({ast.unparse(right)})"
        yield TOKEN, "extra factor or term", left
        yield TOKEN, "extra factor or term", right
        yield TOKEN, "wrong order", ast.BinOp(right, op, left)
        if isinstance(op, ast.MatMult):
            yield FACTOR, "missing transpose", (
                f"{_format_transpose(right)} @ {_format_transpose(left)}")
        if isinstance(left, ast.BinOp):
            inner = ast.BinOp(left.right, op, right)
            yield FACTOR, "misplaced parentheses", ast.BinOp(left.left, left.op, inner)
        if isinstance(right, ast.BinOp):
            inner = ast.BinOp(left, op, right.left)
            yield FACTOR, "misplaced parentheses", ast.BinOp(inner, right.op, right.right)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from ((TOKEN, "wrong comparison", ast.Compare(node.left, [op()], node.comparators))
                    for op in COMPARISONS if not isinstance(node.ops[0], op))
    elif isinstance(node, ast.Call):
        yield from _make_call_edits(node)


def _format_transpose(node):
    """Return the source of the transpose of an expression. For x.T this is x."""
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return f"({ast.unparse(node.value)})"
    return f"({ast.unparse(node)}).T"


def _make_value_edits(node, text, parent, is_whole, vocabulary):
    """Yield edits that replace a node by another value, or combine the node with another value."""
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Call)):
        is_number = text in vocabulary.numbers or isinstance(node, ast.Constant)
        own = vocabulary.numbers if is_number else vocabulary.arrays
        rank = FACTOR if isinstance(node, ast.Call) else TOKEN
        yield from ((rank if other in own else TERM, "wrong variable", other)
                    for other in vocabulary.operands if other != text)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield TOKEN, "wrong sign", node.operand
    elif not (text.startswith("-") and isinstance(node, ast.BinOp) and isinstance(
            node.op, (ast.Mult, ast.MatMult, ast.Div))):    # another edit removes this minus
        yield TOKEN, "wrong sign", f"-({text})"
    is_turned = "T" in (getattr(node, "attr", ""), getattr(parent, "attr", ""))
    yield TOKEN, "extra transpose" if is_turned else "missing transpose", _format_transpose(node)
    yield FACTOR, "missing transpose", f"({text}).swapaxes(-1, -2)"
    is_factor = isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Div))
    if not is_factor:
        yield from ((FACTOR, "missing factor", f"({text}) {sign} ({a})")
                    for a in [*vocabulary.operands, "2"] for sign in "*/")
        yield from ((DERIVATIVE, "missing factor (a derivative)", f"({text}) {sign} ({a})")
                    for a in vocabulary.derivative_sources for sign in "*/")
    if is_whole or not is_factor:
        yield from ((TERM, "missing term", f"({text}) {sign} ({a})")
                    for a in vocabulary.operands for sign in "+-")
    yield from ((FACTOR, "missing sum", f"({text}){total}") for total in SUMS)
    is_power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    if is_power or isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        if getattr(vocabulary.arrays.get(text), "dtype", None) is not np.dtype(bool):
            yield from ((DERIVATIVE, "wrong derivative", form.format(a=text))
                        for form in DERIVATIVES)
        yield from ((DERIVATIVE, "wrong variable", a) for a in vocabulary.derivative_sources)


def _make_call_edits(node):
    """Yield edits of a call: without the call, with swapped arguments, or along another axis."""
    func, word = node.func, getattr(node.func, "attr", "")
    is_library = isinstance(func, ast.Attribute) and ast.unparse(func.value) in (
        "np", "xp", "numpy")
    if isinstance(func, ast.Attribute) and not is_library:
        yield FACTOR, "extra sum" if word in REDUCTIONS else "extra factor or term", func.value
    for arg in node.args[:2]:
        if not isinstance(arg, ast.Starred):
            yield FACTOR, "extra factor or term", arg
    yield from ((TOKEN, "wrong order", ast.Call(func, new, node.keywords))
                for new in make_swapped_copies(node.args))
    if word in REDUCTIONS:
        named = {k.arg for k in node.keywords}
        own = node.args[:1] if is_library else []
        added = [*(("axis", axis, own) for axis in AXES), ("keepdims", "True", node.args)]
        for name, text, args in added:
            if name not in named:
                keyword = ast.keyword(name, parse_expression(text))
                yield TOKEN, "wrong axis", ast.Call(func, args, [*node.keywords, keyword])
        for i in range(len(node.keywords)):
            yield FACTOR, "wrong axis", ast.Call(func, node.args,
                                           node.keywords[:i] + node.keywords[i + 1 :])
