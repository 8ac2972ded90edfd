"""Write a line of code as a formula. For `dx = cache.x_hat * dy.sum(0)` it is dx = x̂ ⊙ Σ_0 dy.

Parts that have no mathematical meaning are left out, such as `cache.`, `.data` and reshapes. A
statement has no formula if it has a part that can't be written, such as a list or a conversion.
"""

import ast
import builtins
import copy
import html
import re

GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "eps": "ε", "theta": "θ", "mu": "μ", "sigma": "σ"}
INFIX = {"multiply": ast.Mult(), "matmul": ast.MatMult(), "dot": ast.MatMult()}
SILENT = {"reshape", "astype", "copy", "ravel"}
CELL_STATES = ("c_prev", "c_new", "c_next", "c_0", "c_t")
DROPPED = ("self", "cache", "cell", "layer")
MODULES = ("xp", "np", "numpy", "math")
FUNCTIONS = {name: name for name in (
    "exp", "log", "tanh", "sigmoid", "softmax", "sin", "cos", "sign", "abs", "outer", "square")} | {
    "maximum": "max", "minimum": "min", "log_softmax": "log softmax", "normal_cdf": "Φ",
    "normal_density": "φ", "sum_rows": "Σ", "sqrt": "√", "reduce_loss": "reduce"}
SUMS = {"sum": "Σ", "mean": "mean", "max": "max", "min": "min"}
KNOWN = (ast.Assign, ast.AugAssign, ast.Return, ast.Expr, ast.Name, ast.Constant, ast.Attribute,
         ast.BinOp, ast.UnaryOp, ast.Tuple, ast.Compare, ast.Subscript, ast.Call, ast.expr_context,
         ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.Pow, ast.USub, ast.cmpop)
SIGNS = {" ** 2": "²", " ** 3": "³", " ** ": "^", ".T": "ᵀ", " * ": " ⊙ ", " *= ": " ⊙= ",
         " // ": " · ", " @ ": " ", "-": "−", "<=": "≤", ">=": "≥", "==": "=", "!=": "≠"}
SIGN = re.compile(r" \*\* [23](?![\w.])|" + "|".join(map(re.escape, [*SIGNS][2:])))
SCRIPT = re.compile(r"([_^])((?:[^\Wᵀ²³]|\.)+|−\d|\([^()]*\))")


class NoFormula(Exception):
    """A statement can't be written as a formula."""


def format_formula(node):
    """Return the formula of a statement as one line of Unicode, or "" if it has none."""
    try:
        return _format_statement(_Mathematics().visit(copy.deepcopy(node)))
    except NoFormula:
        return ""


def format_html_formula(node):
    """Return the formula of a statement as HTML, with subscripts and superscripts."""
    def format_script(match):
        tag = "sub" if match[1] == "_" else "sup"
        return f"<{tag}>{match[2]}</{tag}>"

    return SCRIPT.sub(format_script, html.escape(format_formula(node), quote=False))


def _format_statement(node):
    if isinstance(node, ast.Assign):
        *left, right = map(_format_expression, [*node.targets, node.value])
        return " = ".join([*left, right]) if left != [right] else ""
    if isinstance(node, ast.AugAssign) and not isinstance(node.op, (ast.MatMult, ast.Pow)):
        return _format_expression(node)
    if isinstance(node, ast.Return) and node.value is not None:
        return f"return {_format_expression(node.value)}"
    return _format_expression(node.value) if isinstance(node, ast.Expr) else ""


def _format_expression(node):
    """Return the formula of an expression, with parentheses around a comparison: (a = b)."""
    if isinstance(node, ast.Tuple):
        return ", ".join(map(_format_expression, node.elts))
    found = SIGN.sub(lambda sign: SIGNS[sign[0]], ast.unparse(node))
    return f"({found})" if isinstance(node, ast.Compare) else found


class _Mathematics(ast.NodeTransformer):
    """Removes the parts of a statement that have no mathematical meaning, such as `cache.`.

    Raises NoFormula for a statement that can't be written as a formula.
    """

    def visit(self, node):
        if not isinstance(node, KNOWN):
            raise NoFormula
        return super().visit(node)

    def visit_Assign(self, node):
        value = node.value
        if isinstance(value, ast.Call) and ast.unparse(value.func) in ("xp.split", "np.split"):
            node.targets = [_make_block_matrix(map(self.visit, node.targets[0].elts))]
            node.value = self.visit(value.args[0])
            return node
        return self.generic_visit(node)

    def visit_Name(self, node):
        return ast.Name(_format_identifier(node.id))

    def visit_Constant(self, node):
        if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
            raise NoFormula
        return node

    def visit_Attribute(self, node):
        owner = ast.unparse(node.value)
        if node.attr == "T":
            return ast.Attribute(self.visit(node.value), "T")
        if node.attr == "data":
            return self.visit(node.value)
        if node.attr == "grad":
            return ast.Name(f"d{_format_expression(self.visit(node.value))}")
        if owner.removeprefix("self.") in DROPPED:
            return ast.Name(_format_identifier(node.attr))
        if owner in MODULES and node.attr == "pi":
            return ast.Name("π")
        raise NoFormula

    def visit_BinOp(self, node):
        node = self.generic_visit(node)
        if isinstance(node.op, ast.Mult) and (
                isinstance(node.left, ast.Constant) or isinstance(node.right, ast.Constant)):
            node.op = ast.FloorDiv()                    # has the precedence of *; written as ·
        return node

    def visit_Tuple(self, node):
        """Remove caches and `_` from a tuple."""
        kept = [self.visit(item) for item in node.elts
                if not _is_cache(item) and ast.unparse(item) != "_"]
        if len(kept) == 1 < len(node.elts):
            return kept[0]
        if len(kept) < 2:
            raise NoFormula
        return ast.Tuple(kept)

    def visit_Subscript(self, node):
        """Write x for x[..., None], which only adds an axis; keep other indices, as in x[:, t]."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for inner in ast.walk(node.slice):
            if isinstance(inner, (ast.Call, ast.Subscript)):
                raise NoFormula
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult):
                inner.op = ast.FloorDiv()               # a product of numbers
        node.value = self.visit(node.value)
        return node.value if {*map(ast.unparse, parts)} <= {":", "...", "None"} else node

    def visit_Call(self, node):
        """Write x.sum() and np.sum(x) as Σ x, x.swapaxes(..) as xᵀ, and x.reshape(..) as x."""
        function, arguments = node.func, [a for a in node.args if not _is_cache(a)]
        name = getattr(function, "attr", getattr(function, "id", ""))
        owner = getattr(function, "value", None)
        axes = [k.value for k in node.keywords if k.arg == "axis"]
        is_numpys = isinstance(owner, ast.Name) and owner.id in MODULES
        if owner is not None and not is_numpys:
            if name in SILENT:
                return self.visit(owner)
            if name in ("swapaxes", "transpose"):
                return ast.Attribute(self.visit(owner), "T")
            if name == "forward" and isinstance(owner, ast.Attribute):
                return self._make_call(_format_identifier(owner.attr), arguments)
            if name not in ("dot", *SUMS):
                raise NoFormula
            arguments.insert(0, owner)                  # x.sum(0) as np.sum(x, 0)
        if not arguments:
            raise NoFormula
        if name in ("sum_in_float64", "sum_without_overflow") or owner is not None and name in SUMS:
            return self._make_sum(SUMS.get(name, "Σ"), arguments[0], [*arguments[1:], *axes])
        if owner is not None and name in INFIX and len(arguments) == 2:
            return self.visit(ast.BinOp(arguments[0], INFIX[name], arguments[1]))
        if is_numpys and name == "concatenate" and hasattr(arguments[0], "elts"):
            return _make_block_matrix(map(self.visit, arguments[0].elts))
        if name in FUNCTIONS or isinstance(function, ast.Name) and not (
                "_" in name or hasattr(builtins, name)):
            return self._make_call(FUNCTIONS.get(name, name), arguments)
        raise NoFormula

    def _make_call(self, name, arguments):
        return ast.Call(ast.Name(name), [self.visit(a) for a in arguments], [])

    def _make_sum(self, symbol, value, axes):
        """Return the node of a sum: "Σ_0 x" for symbol "Σ" and axis 0, "Σ x" for the last axis."""
        over = ast.unparse(axes[0]) if axes else "-1"
        symbol, value = symbol if over == "-1" else f"{symbol}_{over}", self.visit(value)
        is_wide = isinstance(value, (ast.BinOp, ast.UnaryOp)) and not isinstance(value.op, ast.Pow)
        text = _format_expression(value)
        return ast.Name(f"{symbol} ({text})" if is_wide else f"{symbol} {text}")


def _format_identifier(name):
    """Return a variable's name in mathematical notation: x̂ for x_hat, tanh(c) for tanh_c."""
    if name in GREEK:
        return GREEK[name]
    if name[:1] == "d" and name[1:2].isalpha():
        return f"d{_format_identifier(name[1:])}"
    base, _, index = name.partition("_")
    if not base or not index:
        return name
    if base in FUNCTIONS:                               # tanh_c, log_p
        return f"{base}({_format_identifier(index)})"
    if index == "hat" or index.startswith("hat_"):
        return f"{_format_identifier(base)}\u0302{index[3:]}"
    if len(base) > 1 and len(index) > 1:                # two words, such as target_embedding
        return name
    return f"{_format_identifier(base)}_{index}"


def _make_block_matrix(items):
    """Return a node for the block matrix [a, b, c] of a list of nodes."""
    return ast.Name(f"[{', '.join(map(_format_expression, items))}]")


def _is_cache(node):
    """Return True for a node such as `cache`, `c_ffn` or `Cache(...)`."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "Cache"
    return isinstance(node, ast.Name) and (
        node.id == "cache" or (node.id.startswith("c_") and node.id not in CELL_STATES))
