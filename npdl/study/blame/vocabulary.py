"""Collect the expressions that an edit of a statement may use, with their values.

These are the variables of the function, the fields of the cache and of self, small expressions that
are copied from forward and backward, and derivatives of all of these.
"""

import ast
import contextlib
import functools

import numpy as np

from npdl.study.trace.runs import silence_warnings
from npdl.study.trace.syntax import find_names, is_pure

MAX_NODES = 12          # expressions with more syntax nodes are left out; a larger number is slower
MAX_OPERAND = 4096      # arrays with more entries are left out; a larger number is slower
MAX_INTEGER = 2**31     # larger integers are left out, because NumPy can't square them
ROOTS = ("{a} ** 2", "np.sqrt({a})")
DERIVATIVES = ("(1 - {a} ** 2)", "{a} * (1 - {a})", "(1 - {a})", "({a} > 0)", *ROOTS,
               "np.exp({a})", "np.sign({a})", "np.cos({a})")


class Vocabulary:
    """The arrays and the numbers that an edit of a Statement may use.

    frame      {name: value} of the local variables at the line
    functions  the functions of forward and backward, whose expressions are collected
    variables  {name: value}, with which an expression is evaluated
    arrays     {source: array}
    numbers    {source: number}
    """

    def __init__(self, statement, frame, functions):
        all_loops = _find_loop_variables(ast.walk(statement.function.node))
        other_loops = all_loops - _find_loop_variables(statement.loops)
        frame = {n: v for n, v in frame.items() if n not in other_loops}
        self.variables, self.arrays, self.numbers = {**statement.function.globals, **frame}, {}, {}
        texts = _evaluate_variables(statement, frame)
        for node in (n for f in functions for n in ast.walk(f.node)):
            if isinstance(node, ast.Constant) and type(node.value) in (int, float) and not (
                    abs(node.value) in (0, 1) or abs(node.value) > 10):
                texts[repr(node.value)] = node.value
            elif isinstance(node, (ast.Subscript, ast.Attribute, ast.BinOp, ast.Compare, ast.Call)
                            ) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load) \
                    and sum(1 for _ in ast.walk(node)) < MAX_NODES and is_pure(node):
                text = ast.unparse(node)
                if text not in texts:
                    texts[text] = self.evaluate(text)
        self._add_values(texts)
        self.operands = [*self.arrays, *self.numbers]
        self.integers = [n for n, v in self.numbers.items() if isinstance(v, (int, np.integer))]

    def evaluate(self, text):
        """Return the value of an expression, or None if it can't be evaluated."""
        with contextlib.suppress(Exception), silence_warnings():
            return eval(text, self.variables)

    @functools.cached_property
    def derivative_sources(self):
        """Return the source of derivatives, roots and squares of the arrays and numbers."""
        texts = [f"({form.format(a=a)})" for a, value in self.arrays.items()
                 for form in DERIVATIVES if value.dtype.kind != "b"]
        texts += [f"({form.format(a=n)})" for n in self.numbers for form in ROOTS]
        return [text for text in dict.fromkeys(texts) if (
            value := self.evaluate(text)) is not None and np.isfinite(value).all()]

    def _add_values(self, values_by_source):
        """Add expressions {source: value} to the arrays and numbers.

        If several expressions have the same value, only the first one and plain names are added.
        """
        seen = set()
        for text, value in values_by_source.items():
            if isinstance(value, bool) or not isinstance(
                    value, (int, float, np.number, np.ndarray)) or (
                    isinstance(value, int) and abs(value) > MAX_INTEGER):
                continue
            if np.ndim(value) == 0:
                key, kept = float(value), self.numbers
            elif 0 < value.size <= MAX_OPERAND and value.dtype.kind in "fiub":
                key, kept = (value.shape, value.tobytes()), self.arrays
            else:
                continue
            if text.isidentifier() or key not in seen:
                kept[text] = value
            seen.add(key)
        for text, value in list(self.arrays.items()):
            if text.isidentifier() and value.ndim < 3:
                self.arrays[f"{text}[..., None]"] = value[..., None]
            sizes = [(f"shape[{i}]", n) for i, n in enumerate(value.shape)] + [("size", value.size)]
            for name, n in sizes if text.count(".") < 2 and "[" not in text else ():
                if n > 1 and float(n) not in seen:
                    seen.add(float(n))
                    self.numbers[f"{text}.{name}"] = n


def _find_loop_variables(nodes):
    return find_names(*(node.target for node in nodes if isinstance(node, ast.For)))


def _evaluate_variables(statement, frame):
    """Return {source: value} of the variables at a Statement, and the fields of caches and self."""
    found = {n: v for n, v in frame.items() if n != "self"}
    found |= {n: v for n, v in statement.function.globals.items()
              if isinstance(v, (int, float, np.ndarray)) and not n.startswith("__")}
    for name, value in frame.items():
        if isinstance(value, dict):
            found |= {f"{name}[{key!r}]": part for key, part in value.items()}
        elif name == "self" or type(value).__name__ in ("Cache", "SimpleNamespace"):
            for key, part in vars(value).items():
                is_param = hasattr(part, "data") and hasattr(part, "grad")
                found[f"{name}.{key}" + ".data" * is_param] = part.data if is_param else part
    return found
