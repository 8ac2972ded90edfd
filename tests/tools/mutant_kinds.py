"""More mistakes that a person makes in a backward, beside the single tokens of tests.tools.mutants.

A dropped term, factor, transpose, sum or statement; one gate's name for another's; a wrong axis or
number; a sign; `=` for `+=`; a loop over time that runs the wrong way; a condition turned round.
Each is a small replacement in the real source, found in its syntax tree. Checks are left alone:
tests/layers/test_contract.py sees that a wrong gradient is refused.
"""

import ast
import functools
import linecache
from dataclasses import dataclass

from tests.tools.mutants import Mutant, compiled, mutants

GROUPS = [
    ("i", "f", "o", "g"), ("di", "df", "do", "dg"), ("dz_i", "dz_f", "dz_o", "dz_g"),
    ("z", "r", "h_hat"), ("dz", "dr", "dh_hat"), ("dz", "du"), ("da", "du", "da_h"),
    ("q", "k", "v"), ("dq", "dk", "dv"), ("Q", "K", "V"), ("dQ", "dK", "dV"),
    ("W_Q", "W_K", "W_V", "W_O"), ("W_q", "W_k"), ("W_x", "W_h"), ("V_f", "V_b"),
    ("h", "c"), ("dh", "dc"), ("dh_prev", "dc_prev"), ("tanh_c", "c_prev"), ("u_h", "h_prev"),
    ("x_hat", "std", "dx_hat"), ("shift", "stretch"), ("gain", "bias"), ("steps", "dxs"),
    ("norm1", "norm2", "norm3"), ("drop1", "drop2", "drop3"), ("ahead", "back"), ("up", "down"),
    ("dx_a", "dx_b"), ("dlast_a", "dlast_b"), ("dy", "dA"), ("dp_logits", "dq_logits"),
    ("A", "B"), ("e", "f"), ("dh", "dm"), ("du", "dw"), ("dn", "dm", "dp"), ("dlasts", "dstarts"),
    ("da_z", "da_r", "da_h"), ("dnew", "dread", "dstate"), ("dx_base", "dx_low"),
]


@dataclass
class Replacement(Mutant):
    """A Mutant whose `was` may be a whole expression; `kind` names the mistake."""

    kind: str = "token"

    @property
    def text(self):
        """The line that it changes."""
        return linecache.getline(self.function.__code__.co_filename, self.line)

    def source(self):
        """The changed source of the module."""
        lines = linecache.getlines(self.function.__code__.co_filename)
        text = "".join(lines)
        start = sum(map(len, lines[: self.line - 1])) + self.column
        return text[:start] + self.now + text[start + len(self.was) :]

    def code(self):
        return compiled(self.function.__code__, self.source().splitlines(True))

    def __str__(self):
        was, now = (" ".join(text.split()) for text in (self.was, self.now))
        line = self.text.strip()
        return f"{self.function.__qualname__}: {was or ' '} -> {now or 'nothing'} in `{line}`"


def all_mutants(function):
    """Every mutant of a function that compiles: single tokens, then the kinds above."""
    tokens = [Replacement(m.function, m.line, m.column, m.was, m.now) for m in mutants(function)]
    found, seen = [], {"".join(linecache.getlines(function.__code__.co_filename))}
    for mutant in tokens + list(_of_tree(function)):
        source = mutant.source()
        if source in seen or "check_gradient(" in mutant.text:
            continue
        seen.add(source)
        try:
            if mutant.code() is not None:
                found.append(mutant)
        except SyntaxError:
            continue
    return found


@functools.lru_cache(maxsize=64)
def _tree(filename):
    return ast.parse("".join(linecache.getlines(filename)))


def _of_tree(function):
    code = function.__code__
    lines = linecache.getlines(code.co_filename)
    node = next(n for n in ast.walk(_tree(code.co_filename))
                if isinstance(n, ast.FunctionDef) and n.name == code.co_name
                and code.co_firstlineno in (n.lineno, *(d.lineno for d in n.decorator_list)))
    text = "".join(lines)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def at(line, column):                           # columns of a syntax tree are bytes
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def span(part):
        return at(part.lineno, part.col_offset), at(part.end_lineno, part.end_col_offset)

    known = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | set(code.co_varnames)
    for part in (p for statement in node.body for p in ast.walk(statement)):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            continue
        for kind, target, now in _changes(part, lambda p: text[slice(*span(p))], known, text):
            start, end = target if isinstance(target, tuple) else span(target)
            line = next(i for i, s in enumerate(starts) if s > start)
            yield Replacement(function, line, start - starts[line - 1], text[start:end], now, kind)


def _changes(node, src, known, text):
    """(kind, node to replace, its new source) for one node of a syntax tree."""
    if isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.MatMult, ast.Pow)):
        kind = "dropped term" if isinstance(node.op, (ast.Add, ast.Sub)) else "dropped factor"
        yield kind, node, src(node.left)
        yield kind, node, src(node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        for side in (node.left, node.right):
            yield "transpose", side, _turned(side, src)
    elif isinstance(node, (ast.Name, ast.Attribute)):
        yield from _of_name(node, src, known, text)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "number", node, f"{node.value - 1}"
        if node.value:
            yield "number", node, f"(-{node.value})"
    elif isinstance(node, ast.Call):
        yield from _of_call(node, src)
    elif isinstance(node, (ast.Compare, ast.BoolOp)):
        yield "condition", node, f"(not ({src(node)}))"
    elif isinstance(node, ast.IfExp):
        yield "condition", node, src(node.body)
        yield "condition", node, src(node.orelse)
    elif isinstance(node, ast.UnaryOp):
        yield "sign", node, src(node.operand)
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)):
        yield from _of_statement(node, src)


def _turned(node, src):
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return src(node.value)
    return f"{src(node)}.T" if isinstance(node, (ast.Name, ast.Attribute)) else f"({src(node)}).T"


def _of_name(node, src, known, text):
    name = node.id if isinstance(node, ast.Name) else node.attr
    for group in GROUPS:
        if name not in group or isinstance(node.ctx, ast.Store):
            continue
        for other in group:
            if other == name:
                continue
            if isinstance(node, ast.Name) and other in known:
                yield "name", node, other
            elif isinstance(node, ast.Attribute) and f".{other}" in text:
                yield "name", node, f"{src(node.value)}.{other}"


def _of_call(node, src):
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if method in ("sum", "mean"):
        yield "dropped sum", node, src(node.func.value)
        for axis in ("0", "1", "-1", "-2"):
            if node.args and src(node.args[0]) != axis:
                yield "axis", node.args[0], axis
        yield "axis", node.func, f"{src(node.func.value)}.{'mean' if method == 'sum' else 'sum'}"
    if method in ("swapaxes", "copy", "reshape"):
        yield "dropped call", node, src(node.func.value)
    if method == "where":
        yield "condition", node, src(node.args[1])
        yield "condition", node, src(node.args[2])
    if isinstance(node.func, ast.Name) and node.func.id in (
            "reversed", "reverse", "sum_rows", "add_dh", "gradients_of", "softmax_backward"):
        yield "dropped call", node, f"({src(node.args[0])})"
    if method == "backward":
        yield "dropped call", node, src(node.args[0])


def _of_statement(node, src):
    value = node.value
    plain = value is not None and not isinstance(value, (ast.Tuple, ast.Constant))
    if isinstance(node, ast.Return):
        values = value.elts if isinstance(value, ast.Tuple) else [value] if plain else []
        for item in values:
            yield "sign", item, f"-({src(item)})"
        return
    if isinstance(node, ast.Expr):
        if isinstance(value, ast.Call):
            yield "dropped statement", node, "pass"
        return
    target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
    if plain and not isinstance(target, ast.Tuple):
        yield "sign", value, f"-({src(value)})"
    if isinstance(node, ast.AugAssign):
        yield "dropped statement", node, "pass"
    elif isinstance(target, (ast.Subscript, ast.Attribute)):
        yield "accumulated", node, f"{src(target)} += {src(value)}"
        yield "dropped statement", node, "pass"
