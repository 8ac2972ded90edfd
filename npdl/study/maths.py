"""A line of code as mathematics: `dx = xp.multiply(dx, rstd, out=dx)` is dx = dx ⊙ rstd.

`text(node)` gives Unicode, `mathml(node)` the MathML that every browser shows. What belongs to
the program and not to the mathematics is left out: `out=`, `cache.`, `.data`, reshapes, dtypes.
What has no form here stays code.
"""

import ast

from npdl.study.forms import MathML, Text

GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "eps": "ε", "theta": "θ",
         "mu": "μ", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω"}
NOT_GRADIENTS = {"data", "dtype", "dim", "down", "dropout", "decay", "drop", "diff", "den"}
INFIX = {"multiply": ast.Mult, "add": ast.Add, "subtract": ast.Sub, "divide": ast.Div,
         "matmul": ast.MatMult}
SILENT = {"reshape", "astype", "copy", "ravel", "asarray", "ascontiguousarray"}
PRECEDENCE = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.MatMult: 2, ast.Pow: 4}
COMPARE = {ast.Lt: "<", ast.Gt: ">", ast.LtE: "≤", ast.GtE: "≥", ast.Eq: "=", ast.NotEq: "≠"}
CELL_STATES = ("c_prev", "c_new", "c_next", "c_0", "c_t")
DROPPED = ("self", "cache", "cell", "layer")


def text(node):
    """A statement as one line of Unicode; "" when it has no mathematics."""
    return " ".join(_Writer(Text()).statement(node).split())


def mathml(node):
    """A statement as a <math> element; "" when it has no mathematics."""
    body = _Writer(MathML()).statement(node)
    return f"<math>{body}</math>" if body else ""


class _Writer:
    def __init__(self, form):
        self.form = form

    def statement(self, node):
        form = self.form
        if isinstance(node, ast.Assign):
            if _is_unpacking(node.value):
                return ""
            left = form.op("=").join(self.expression(t) for t in node.targets)
            right = self.expression(node.value)
            return form.row(left, form.op("="), right) if left != right else ""
        if isinstance(node, ast.AugAssign):
            sign = {ast.Add: "+=", ast.Sub: "−=", ast.Mult: "×=", ast.Div: "/="}
            return form.row(self.expression(node.target), form.op(sign.get(type(node.op), "=")),
                            self.expression(node.value))
        if isinstance(node, ast.Return) and node.value is not None:
            return form.row(form.word("return\u00a0"), self.expression(node.value))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return self._in_place(node.value)
        return ""

    def _in_place(self, call):
        for keyword in call.keywords:
            if keyword.arg == "out":
                return self.form.row(self.expression(keyword.value), self.form.op("="),
                                     self.expression(call))
        return self.expression(call)

    def expression(self, node, outer=0):
        write = getattr(self, f"_{type(node).__name__}", None)
        if write is None:
            return self.form.word(ast.unparse(node))
        return write(node, outer)

    def _Name(self, node, outer):
        return self.identifier(node.id)

    def identifier(self, name):
        """x_hat with its hat, W_x with its index, dx with its d."""
        form = self.form
        if name in GREEK:
            return form.name(GREEK[name])
        if name[:1] == "d" and len(name) > 1 and name not in NOT_GRADIENTS \
                and name[1].isalpha():
            return form.row(form.upright("d"), self.identifier(name[1:]))
        base, _, index = name.partition("_")
        if not base or not index:
            return form.name(name)
        if index == "hat" or index.startswith("hat_"):
            hatted = form.hat(self.identifier(base))
            return form.below(hatted, index[4:]) if index[4:] else hatted
        return form.below(self.identifier(base), index)

    def _Constant(self, node, outer):
        if node.value is None or node.value is Ellipsis or isinstance(node.value, (str, bool)):
            return self.form.word({None: "none", Ellipsis: "…"}.get(node.value, str(node.value)))
        return self.form.number(f"{node.value}")

    def _Attribute(self, node, outer):
        if node.attr == "T":
            return self.form.above(self.expression(node.value, 5), "T")
        if node.attr == "data":
            return self.expression(node.value, outer)
        if node.attr == "grad":
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else ast.unparse(
                node.value)
            return self.form.row(self.form.upright("∇"), self.identifier(owner))
        if isinstance(node.value, ast.Name) and node.value.id in DROPPED:
            return self.identifier(node.attr)
        return self.form.word(ast.unparse(node))

    def _BinOp(self, node, outer):
        return self.binary(type(node.op), node.left, node.right, outer)

    def binary(self, kind, left, right, outer):
        form = self.form
        rank = PRECEDENCE.get(kind)
        if rank is None:
            sign = {ast.FloorDiv: "÷", ast.BitAnd: "∧", ast.Mod: "mod"}.get(kind, "?")
            return form.row(self.expression(left, 3), form.op(sign), self.expression(right, 3))
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
        sign = "−u" if isinstance(node.op, ast.USub) else "¬"
        body = self.form.row(self.form.op(sign), self.expression(node.operand, 3))
        return self.bracketed(body) if outer > 1 else body

    def _Tuple(self, node, outer):
        kept = [item for item in node.elts if not _is_cache(item, False)]
        if len(kept) == 1 and len(node.elts) > 1:
            return self.expression(kept[0], outer)
        items = [self.expression(item) for item in kept]
        body = self.form.op(",").join(items)
        return self.bracketed(body) if outer or len(items) == 1 else self.form.row(body)

    def _Compare(self, node, outer):
        sign = COMPARE.get(type(node.ops[0]))
        if sign is None or len(node.ops) > 1:
            return self.form.word(ast.unparse(node))
        return self.bracketed(self.form.row(self.expression(node.left, 1), self.form.op(sign),
                                            self.expression(node.comparators[0], 1)))

    def _Subscript(self, node, outer):
        index = ast.unparse(node.slice)
        if isinstance(node.slice, ast.Tuple):
            index = index.strip("()")
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return self.form.word(ast.unparse(node))
        base = self.expression(node.value, 5)
        if set(index) <= set("., :None()") or index == "...":
            return base
        return self.form.index(base, index)

    def _IfExp(self, node, outer):
        form = self.form
        return form.row(self.expression(node.body, 1), form.word(" if "),
                        form.word(ast.unparse(node.test)), form.word(", else "),
                        self.expression(node.orelse, 1))

    def _Call(self, node, outer):
        form, function = self.form, node.func
        name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
        on_module = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) \
            and function.value.id in ("xp", "np", "numpy")
        arguments = [a for a in node.args if not _is_cache(a, name.endswith("backward"))]
        if on_module and name in INFIX and len(arguments) == 2:
            return self.binary(INFIX[name], *arguments, outer)
        if on_module and name == "sqrt":
            return form.root(self.expression(arguments[0]))
        if isinstance(function, ast.Attribute) and not on_module:
            found = self._method(node, name, outer)
            if found is not None:
                return found
        shown = form.op(",").join(self.expression(a) for a in arguments)
        head = form.upright(name) if on_module or isinstance(function, ast.Name) else \
            form.word(ast.unparse(function).removeprefix("self."))
        return form.row(head, form.op("("), shown, form.op(")"))

    def _method(self, node, name, outer):
        """x.sum(0), x.swapaxes(-1, -2), x.reshape(...); None for other methods."""
        value = node.func.value
        if name in SILENT:
            return self.expression(value, outer)
        if name in ("swapaxes", "transpose"):
            return self.form.above(self.expression(value, 5), "T")
        if name in ("sum", "mean", "max", "min"):
            axis = ast.unparse(node.args[0]) if node.args else ""
            sign = {"sum": "Σ", "mean": "mean"}.get(name, name)
            head = self.form.upright(sign)
            head = self.form.below(head, axis) if axis else head
            return self.form.row(head, self.form.op(" "), self.expression(value, 3))
        return None


def _is_cache(node, for_backward):
    """Whether a node is a cache as a whole: `cache`, `c_ffn`, `Cache(...)`; and `cache.ffn` where
    it is handed to a backward."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "Cache"
    if isinstance(node, ast.Name):
        return node.id == "cache" or (node.id.startswith("c_") and node.id not in CELL_STATES)
    return for_backward and isinstance(node, ast.Attribute) \
        and ast.unparse(node).startswith("cache.")


def _is_unpacking(value):
    """Whether a value only takes fields out of the cache: `cache.x_hat, cache.rstd`."""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(isinstance(p, ast.Attribute) and ast.unparse(p).startswith("cache.") for p in parts)
