"""Write a line of code as a formula: `dx = cache.x_hat * dy.sum(0)` is dx = x̂ ⊙ Σ_0 dy.

`text(node)` returns Unicode, `mathml(node)` MathML. Parts that belong to the program and not to the
mathematics are left out: `cache.`, `.data`, reshapes, dtypes. A statement with other parts of a
program, such as a conversion or a list, has no formula.
"""

import ast
import builtins

from npdl.study.step.markup import MathML, Text

GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "eps": "ε", "theta": "θ",
         "mu": "μ", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω"}
NOT_GRADIENTS = {"data", "dtype", "dim", "down", "dropout", "decay", "drop", "diff", "den"}
INFIX = {"multiply": ast.Mult, "add": ast.Add, "subtract": ast.Sub, "divide": ast.Div,
         "matmul": ast.MatMult, "dot": ast.MatMult}
SILENT = {"reshape", "astype", "copy", "ravel", "asarray", "ascontiguousarray"}
PRECEDENCE = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.MatMult: 2, ast.Pow: 4}
COMPARE = {ast.Lt: "<", ast.Gt: ">", ast.LtE: "≤", ast.GtE: "≥", ast.Eq: "=", ast.NotEq: "≠"}
CELL_STATES = ("c_prev", "c_new", "c_next", "c_0", "c_t")
DROPPED = ("self", "cache", "cell", "layer")
MODULES = ("xp", "np", "numpy", "math")
FUNCTIONS = {"exp", "log", "tanh", "sigmoid", "softmax", "sin", "cos", "sign", "abs", "maximum",
             "minimum", "log_softmax", "normal_cdf", "normal_density", "sum_rows", "outer", "erf",
             "square", "trace"}
SHOWN_AS = {"normal_cdf": "Φ", "normal_density": "φ", "sum_rows": "Σ", "maximum": "max",
            "minimum": "min", "log_softmax": "log softmax"}
NO_FUNCTIONS = {"map_state", "if_real", "copy", "list"} | set(dir(builtins))
SUMS = {"sum": "Σ", "mean": "mean", "max": "max", "min": "min"}


class NoFormula(Exception):
    """The statement is no mathematics."""


def text(node):
    """Return a statement as one line of Unicode; "" if it has no formula."""
    try:
        return " ".join(_Writer(Text()).statement(node).split())
    except NoFormula:
        return ""


def mathml(node):
    """Return a statement as a <math> element; "" if it has no formula."""
    try:
        body = _Writer(MathML()).statement(node)
    except NoFormula:
        return ""
    return f"<math>{body}</math>" if body else ""


class _Writer:
    def __init__(self, form):
        self.form = form

    def statement(self, node):
        form = self.form
        if isinstance(node, ast.Assign):
            target, value = node.targets[-1], node.value
            if isinstance(target, ast.Tuple) and _is_split(value):
                left, value = self.listed(target.elts), value.args[0]
            else:
                left = form.op("=").join(self.expression(t) for t in node.targets)
            right = self.expression(value)
            return form.row(left, form.op("="), right) if left != right else ""
        if isinstance(node, ast.AugAssign):
            sign = {ast.Add: "+=", ast.Sub: "−=", ast.Mult: "×=", ast.Div: "/="}
            return form.row(self.expression(node.target), form.op(sign.get(type(node.op), "=")),
                            self.expression(node.value))
        if isinstance(node, ast.Return) and node.value is not None:
            return form.row(form.word("return\u00a0"), self.expression(node.value))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return self.expression(node.value)
        return ""

    def expression(self, node, outer=0):
        write = getattr(self, f"_{type(node).__name__}", None)
        if write is None:
            raise NoFormula
        return write(node, outer)

    def _Name(self, node, outer):
        return self.identifier(node.id)

    def identifier(self, name):
        """Write x_hat with its hat, W_x with its index, dx with its d."""
        form = self.form
        if name in GREEK:
            return form.name(GREEK[name])
        if name[:1] == "d" and len(name) > 1 and name not in NOT_GRADIENTS \
                and name[1].isalpha():
            return form.row(form.upright("d"), self.identifier(name[1:]))
        base, _, index = name.partition("_")
        if not base or not index:
            return form.name(name)
        if base in FUNCTIONS:                           # tanh_c, log_p
            return form.row(form.upright(base), form.op("("), self.identifier(index),
                            form.op(")"))
        if index == "hat" or index.startswith("hat_"):
            hatted = form.hat(self.identifier(base))
            return form.below(hatted, index[4:]) if index[4:] else hatted
        if len(base) > 1 and len(index) > 1:            # two words, such as target_embedding
            return form.name(name)
        return form.below(self.identifier(base), index)

    def _Constant(self, node, outer):
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            raise NoFormula
        return self.form.number(f"{node.value}")

    def _Attribute(self, node, outer):
        if node.attr == "T":
            return self.form.above(self.expression(node.value, 5), "T")
        if node.attr == "data":
            return self.expression(node.value, outer)
        if node.attr == "grad":
            return self.form.row(self.form.upright("d"), self.expression(node.value))
        owner = ast.unparse(node.value)
        if owner.removeprefix("self.") in DROPPED:
            return self.identifier(node.attr)
        if owner in MODULES and node.attr == "pi":
            return self.form.name("π")
        raise NoFormula

    def _BinOp(self, node, outer):
        return self.binary(type(node.op), node.left, node.right, outer)

    def binary(self, kind, left, right, outer):
        form = self.form
        rank = PRECEDENCE.get(kind)
        if rank is None or any(isinstance(side, (ast.Tuple, ast.List)) for side in (left, right)):
            raise NoFormula                             # a bit, a rest, a tuple repeated
        if kind is ast.Pow:
            power = right.value if isinstance(right, ast.Constant) else ast.unparse(right)
            return form.above(self.expression(left, 5), str(power))
        if kind is ast.Div:
            deep = 3 if form.brackets_fractions else 0
            body = form.fraction(self.expression(left, min(deep, 2)), self.expression(right, deep))
            rank = 2 if form.brackets_fractions else 5
        else:
            plain = any(isinstance(side, ast.Constant) for side in (left, right))
            sign = {ast.Add: "+", ast.Sub: "−", ast.Mult: "·" if plain else "⊙",
                    ast.MatMult: " "}[kind]
            body = form.row(self.expression(left, rank), form.op(sign),
                            self.expression(right, rank + (kind is not ast.Add)))
        return self.bracketed(body) if rank < outer else body

    def bracketed(self, body):
        return self.form.row(self.form.op("("), body, self.form.op(")"))

    def _UnaryOp(self, node, outer):
        if not isinstance(node.op, ast.USub):
            raise NoFormula
        body = self.form.row(self.form.op("−u"), self.expression(node.operand, 3))
        return self.bracketed(body) if outer > 1 else body

    def _Tuple(self, node, outer):
        kept = [item for item in node.elts if not _is_cache(item) and ast.unparse(item) != "_"]
        if len(kept) == 1 and len(node.elts) > 1:
            return self.expression(kept[0], outer)
        if outer or len(kept) < 2:
            raise NoFormula
        return self.form.row(self.form.op(",").join(self.expression(item) for item in kept))

    def listed(self, items):
        """Write [a, b, c]: blocks side by side."""
        inner = self.form.op(",").join(self.expression(item) for item in items)
        return self.form.row(self.form.op("["), inner, self.form.op("]"))

    def _Compare(self, node, outer):
        sign = COMPARE.get(type(node.ops[0]))
        if sign is None or len(node.ops) > 1:
            raise NoFormula
        return self.bracketed(self.form.row(self.expression(node.left, 1), self.form.op(sign),
                                            self.expression(node.comparators[0], 1)))

    def _Subscript(self, node, outer):
        """Write x[:, t] as it is, and x[..., None], which only adds an axis, as x."""
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        parts = [ast.unparse(part) for part in nodes]
        if any("[" in part or "(" in part for part in parts):
            raise NoFormula
        base = self.expression(node.value, 5)
        is_same = {*parts} <= {":", "...", "None"}
        return base if is_same else self.form.index(base, ", ".join(parts))

    def _Call(self, node, outer):
        form, function = self.form, node.func
        of = function.value if isinstance(function, ast.Attribute) else None
        name = function.attr if of is not None else getattr(function, "id", "")
        arguments = [a for a in node.args if not _is_cache(a)]
        if not arguments and of is None:
            raise NoFormula
        if name == "sum_over":
            return self._sum("sum", arguments[0], arguments[1:])
        if of is not None and not (isinstance(of, ast.Name) and of.id in MODULES):
            return self._method(node, name, outer)
        if of is not None:
            if name in INFIX and len(arguments) == 2:
                return self.binary(INFIX[name], *arguments, outer)
            if name in SUMS:
                return self._sum(name, arguments[0], [*arguments[1:], *_axis(node)])
            if name == "sqrt":
                return form.root(self.expression(arguments[0]))
            if name == "concatenate" and isinstance(arguments[0], (ast.List, ast.Tuple)):
                return self.listed(arguments[0].elts)
        if not (name in FUNCTIONS or (of is None and "_" not in name
                                      and name not in NO_FUNCTIONS)):
            raise NoFormula
        return self._applied(form.upright(SHOWN_AS.get(name, name)), arguments)

    def _applied(self, head, arguments):
        shown = self.form.op(",").join(self.expression(a) for a in arguments)
        return self.form.row(head, self.form.op("("), shown, self.form.op(")"))

    def _method(self, node, name, outer):
        """Write x.sum(0), x.swapaxes(-1, -2), x.reshape(...), self.norm.forward(x)."""
        value = node.func.value
        if name in SILENT:
            return self.expression(value, outer)
        if name in ("swapaxes", "transpose"):
            return self.form.above(self.expression(value, 5), "T")
        if name in SUMS:
            return self._sum(name, value, [*node.args, *_axis(node)])
        if name == "dot":
            return self.binary(ast.MatMult, value, node.args[0], outer)
        if name == "forward" and node.args and isinstance(value, ast.Attribute):
            return self._applied(self.identifier(value.attr), node.args)
        raise NoFormula

    def _sum(self, name, value, axis):
        """Write a sum, mean or maximum, with its axis unless it is the last one."""
        over = ast.unparse(axis[0]) if axis else ""
        head = self.form.upright(SUMS[name])
        head = head if over in ("", "-1") else self.form.below(head, over)
        return self.form.row(head, self.form.op(" "), self.expression(value, 3))


def _axis(call):
    return [k.value for k in call.keywords if k.arg == "axis"]


def _is_split(value):
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("xp.split", "np.split")


def _is_cache(node):
    """Return True for a whole cache: `cache`, `c_ffn`, `Cache(...)`."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "Cache"
    return isinstance(node, ast.Name) and (
        node.id == "cache" or (node.id.startswith("c_") and node.id not in CELL_STATES))
