"""Write a line of code as a formula: `dx = cache.x_hat * dy.sum(0)` is dx = x̂ ⊙ Σ_0 dy.

Parts that belong to the program and not to the mathematics are left out: `cache.`, `.data`,
reshapes, dtypes. A statement with other parts of a program, such as a conversion or a list, has no
formula.
"""

import ast
import builtins
import html
import re

GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "eps": "ε", "theta": "θ", "mu": "μ", "sigma": "σ"}
INFIX = {"multiply": ast.Mult, "matmul": ast.MatMult, "dot": ast.MatMult}
SILENT = {"reshape", "astype", "copy", "ravel"}
PRECEDENCE = {ast.Add: 1, ast.Sub: 1, ast.Mult: 2, ast.Div: 2, ast.MatMult: 2, ast.Pow: 4}
SIGNS = {ast.Add: " + ", ast.Sub: " − ", ast.Mult: " ⊙ ", ast.Div: " / ", ast.MatMult: " ",
         ast.Lt: " < ", ast.Gt: " > ", ast.LtE: " ≤ ", ast.GtE: " ≥ ", ast.Eq: " = ",
         ast.NotEq: " ≠ "}
POWERS = {"2": "²", "3": "³"}
CELL_STATES = ("c_prev", "c_new", "c_next", "c_0", "c_t")
DROPPED = ("self", "cache", "cell", "layer")
MODULES = ("xp", "np", "numpy", "math")
FUNCTIONS = {"exp", "log", "tanh", "sigmoid", "softmax", "sin", "cos", "sign", "abs", "maximum",
             "minimum", "log_softmax", "normal_cdf", "normal_density", "sum_rows", "outer", "erf",
             "square", "trace"}
SHOWN_AS = {"normal_cdf": "Φ", "normal_density": "φ", "sum_rows": "Σ", "maximum": "max",
            "minimum": "min", "log_softmax": "log softmax"}
SUMS = {"sum": "Σ", "mean": "mean", "max": "max", "min": "min"}
SCRIPT = re.compile(r"([_^])([\w.]+|-\d|\([^()]*\))")


class NoFormula(Exception):
    """The statement is no mathematics."""


def text(node):
    """Return a statement as one line of Unicode; "" if it has no formula."""
    try:
        return " ".join(_statement(node).split())
    except NoFormula:
        return ""


def markup(node):
    """Return the same line as HTML, with lowered indices."""
    def script(found):
        tag = "sub" if found[1] == "_" else "sup"
        return f"<{tag}>{found[2]}</{tag}>"

    return SCRIPT.sub(script, html.escape(text(node), quote=False))


def _statement(node):
    if isinstance(node, ast.Assign):
        target, value = node.targets[-1], node.value
        if isinstance(target, ast.Tuple) and _is_split(value):
            left, value = _listed(target.elts), value.args[0]
        else:
            left = " = ".join(map(_write, node.targets))
        right = _write(value)
        return f"{left} = {right}" if left != right else ""
    if isinstance(node, ast.AugAssign) and isinstance(
            node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        sign = SIGNS[type(node.op)].rstrip()
        return f"{_write(node.target)}{sign}= {_write(node.value)}"
    if isinstance(node, ast.Return) and node.value is not None:
        return f"return {_write(node.value)}"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return _write(node.value)
    return ""


def _write(node, outer=0):
    """Return an expression, in brackets if what is around it, of rank `outer`, needs them."""
    write = WRITERS.get(type(node))
    if write is None:
        raise NoFormula
    return write(node, outer)


def _name(node, outer):
    return _identifier(node.id)


def _identifier(name):
    """Return a name as in mathematics: x̂ for x_hat, ε for eps, tanh(c) for tanh_c."""
    if name in GREEK:
        return GREEK[name]
    if name[:1] == "d" and name[1:2].isalpha():
        return f"d{_identifier(name[1:])}"
    base, _, index = name.partition("_")
    if not base or not index:
        return name
    if base in FUNCTIONS:                               # tanh_c, log_p
        return f"{base}({_identifier(index)})"
    if index == "hat" or index.startswith("hat_"):
        return f"{_identifier(base)}\u0302{index[3:]}"
    if len(base) > 1 and len(index) > 1:                # two words, such as target_embedding
        return name
    return f"{_identifier(base)}_{index}"


def _constant(node, outer):
    if isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
        raise NoFormula
    return f"{node.value}"


def _attribute(node, outer):
    if node.attr == "T":
        return f"{_write(node.value, 5)}ᵀ"
    if node.attr == "data":
        return _write(node.value, outer)
    if node.attr == "grad":
        return f"d{_write(node.value)}"
    owner = ast.unparse(node.value)
    if owner.removeprefix("self.") in DROPPED:
        return _identifier(node.attr)
    if owner in MODULES and node.attr == "pi":
        return "π"
    raise NoFormula


def _binary(node, outer):
    return _infix(type(node.op), node.left, node.right, outer)


def _infix(kind, left, right, outer):
    rank = PRECEDENCE.get(kind)
    if rank is None or any(isinstance(side, (ast.Tuple, ast.List)) for side in (left, right)):
        raise NoFormula                                 # a bit, a rest, a tuple repeated
    if kind is ast.Pow:
        power = ast.unparse(right)
        return _write(left, 5) + POWERS.get(power, f"^{power}")
    sign = SIGNS[kind]
    if kind is ast.Mult and (isinstance(left, ast.Constant) or isinstance(right, ast.Constant)):
        sign = " · "
    found = _write(left, rank) + sign + _write(right, rank + (kind is not ast.Add))
    return f"({found})" if rank < outer else found


def _unary(node, outer):
    if not isinstance(node.op, ast.USub):
        raise NoFormula
    found = f"−{_write(node.operand, 3)}"
    return f"({found})" if outer > 1 else found


def _tuple(node, outer):
    kept = [item for item in node.elts if not _is_cache(item) and ast.unparse(item) != "_"]
    if len(kept) == 1 and len(node.elts) > 1:
        return _write(kept[0], outer)
    if outer or len(kept) < 2:
        raise NoFormula
    return ", ".join(map(_write, kept))


def _listed(items):
    """Return [a, b, c]: blocks side by side."""
    return f"[{', '.join(map(_write, items))}]"


def _compare(node, outer):
    sign = SIGNS.get(type(node.ops[0]))
    if sign is None or len(node.ops) > 1:
        raise NoFormula
    return f"({_write(node.left, 1)}{sign}{_write(node.comparators[0], 1)})"


def _subscript(node, outer):
    """Return x[:, t] as it is, and x[..., None], which only adds an axis, as x."""
    nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    parts = [ast.unparse(part) for part in nodes]
    if any("[" in part or "(" in part for part in parts):
        raise NoFormula
    base = _write(node.value, 5)
    return base if {*parts} <= {":", "...", "None"} else f"{base}[{', '.join(parts)}]"


def _call(node, outer):
    """Return f(x), Σ x for x.sum() and np.sum(x), xᵀ for x.swapaxes(..), x for x.reshape(..)."""
    function, arguments = node.func, [a for a in node.args if not _is_cache(a)]
    name = getattr(function, "attr", getattr(function, "id", ""))
    owner = getattr(function, "value", None)
    axes = [k.value for k in node.keywords if k.arg == "axis"]
    is_numpys = isinstance(owner, ast.Name) and owner.id in MODULES
    if owner is not None and not is_numpys:
        if name in SILENT:
            return _write(owner, outer)
        if name in ("swapaxes", "transpose"):
            return f"{_write(owner, 5)}ᵀ"
        if name == "forward" and isinstance(owner, ast.Attribute):
            return _applied(_identifier(owner.attr), arguments)
        if name not in ("dot", *SUMS):
            raise NoFormula
        arguments.insert(0, owner)                      # x.sum(0) as np.sum(x, 0)
    if not arguments:
        raise NoFormula
    if name == "sum_over" or owner is not None and name in SUMS:
        return _sum(SUMS.get(name, "Σ"), arguments[0], [*arguments[1:], *axes])
    if owner is not None and name in INFIX and len(arguments) == 2:
        return _infix(INFIX[name], *arguments, outer)
    if is_numpys and name == "sqrt":
        return f"√({_write(arguments[0])})"
    if is_numpys and name == "concatenate" and isinstance(arguments[0], (ast.List, ast.Tuple)):
        return _listed(arguments[0].elts)
    if name in FUNCTIONS or isinstance(function, ast.Name) and not (
            "_" in name or hasattr(builtins, name)):
        return _applied(SHOWN_AS.get(name, name), arguments)
    raise NoFormula


def _applied(head, arguments):
    return f"{head}({', '.join(map(_write, arguments))})"


def _sum(head, value, axis):
    """Return a sum, mean or maximum, with its axis unless it is the last one."""
    over = ast.unparse(axis[0]) if axis else "-1"
    return f"{head}{'' if over == '-1' else f'_{over}'} {_write(value, 3)}"


def _is_split(value):
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("xp.split", "np.split")


def _is_cache(node):
    """Return True for a whole cache: `cache`, `c_ffn`, `Cache(...)`."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "Cache"
    return isinstance(node, ast.Name) and (
        node.id == "cache" or (node.id.startswith("c_") and node.id not in CELL_STATES))


WRITERS = {ast.Name: _name, ast.Constant: _constant, ast.Attribute: _attribute, ast.BinOp: _binary,
           ast.UnaryOp: _unary, ast.Tuple: _tuple, ast.Compare: _compare,
           ast.Subscript: _subscript, ast.Call: _call}
