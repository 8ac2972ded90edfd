"""The shape comments in npdl's source are true whenever a case of the layers runs them.

A shape comment stands at the end of a line that assigns a name: the name, then its shape.

    scores = q @ k.swapaxes(-1, -2)         # scores (B, H, R, S)

`...` stands for any number of axes; 4H and S*B for products; `(N, C, L) or (N, C)` for either
shape. Within one call a letter (or `...`) must mean the same everywhere: in all comments, and as
the value of a local such as `D = 8`.
"""

import ast
import io
import math
import re
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

import pytest

import npdl
from tests.layers.cases import all_cases
from tests.tools.running import build

ROOT = Path(npdl.__file__).parent
COMMENT = re.compile(r"#\s*([A-Za-z_]\w*)\s+(\([^()]*\)(?: or \([^()]*\))*)")
DIMENSION = re.compile(r"\.\.\.|(\d+|\d*[A-Za-z])(\*\d*[A-Za-z])*")


class ShapeComment(NamedTuple):
    """`name` has one of the `shapes` once the statement on the lines first..last has run."""

    file: str
    line: int
    first: int
    last: int
    function: str
    name: str
    shapes: tuple


def read(path):
    """Return the shape comments of a source file; each names what its statement assigns."""
    found, source = [], path.read_text(encoding="utf-8")
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        match = COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
        line, column = token.start
        if match is None or not token.line[:column].strip():
            continue                                    # a line of its own explains, no more
        shapes = [[dim.strip() for dim in shape.removesuffix(",").split(",")]
                  for shape in re.findall(r"\(([^()]*)\)", match[2])]
        if not all(DIMENSION.fullmatch(dim) for shape in shapes for dim in shape):
            continue
        around = [node for node in statements if node.lineno <= line <= node.end_lineno]
        function = [node.name for node in around if isinstance(node, ast.FunctionDef)][-1]
        own = max(around, key=lambda node: node.lineno)
        assigned = [node.id for node in ast.walk(own) if isinstance(node, ast.Name)
                    and isinstance(node.ctx, ast.Store)]
        assert match[1] in assigned, f"{path}:{line}: the line assigns {assigned}"
        found.append(ShapeComment(str(path), line, own.lineno, own.end_lineno, function, match[1],
                                  tuple(map(tuple, shapes))))
    return found


class Watcher:
    """While it is entered, collects what is wrong with the comments of the lines that run."""

    def __init__(self, comments):
        self.comments = comments
        self.of_code, self.reached, self.wrong = {}, set(), {}

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.call)
        return self

    def __exit__(self, *error):
        sys.settrace(self.before)

    def call(self, frame, event, argument):
        code = frame.f_code
        if code not in self.of_code:
            lines = {line for _, _, line in code.co_lines()}
            self.of_code[code] = [c for c in self.comments
                                  if c.file == code.co_filename and c.first in lines]
        if not self.of_code[code]:
            return None
        seen, pending = [], []                          # [(comment, shape)], [comment]

        def step(frame, event, argument):
            inside = any(c.first <= frame.f_lineno <= c.last for c in pending)
            if event in ("line", "return") and not (event == "line" and inside):
                seen.extend((c, getattr(frame.f_locals.get(c.name), "shape", None))
                            for c in pending)
                pending[:] = [c for c in self.of_code[code] if event == "line"
                              and c.first <= frame.f_lineno <= c.last]
            elif event == "exception":                  # the statement did not finish
                pending.clear()
            if event == "return":
                self.verify(seen, {name: value for name, value in frame.f_locals.items()
                                   if len(name) == 1 and name.isupper() and type(value) is int})
            return step

        return step

    def verify(self, seen, sizes):
        """Note what contradicts `sizes`, {letter: size}, or what came before it."""
        products = []
        for comment, shape in seen:
            self.reached.add(comment)
            pairs = next(filter(None, (fit(dims, shape) for dims in comment.shapes)), None)
            if pairs is None:
                self.wrong[comment] = shape
            for dim, size in pairs or ():
                factors = [dim] if dim == "..." else re.findall(r"\d+|[A-Za-z]", dim)
                if len(factors) > 1:
                    products.append((comment, shape, factors, size))
                elif size != (int(dim) if dim.isdigit() else sizes.setdefault(dim, size)):
                    self.wrong[comment] = shape, dim, sizes
        for comment, shape, factors, size in products:
            known = [int(f) if f.isdigit() else sizes[f] for f in factors
                     if f.isdigit() or f in sizes]
            rest = size % math.prod(known) if math.prod(known) else 0
            if rest or len(known) == len(factors) and math.prod(known) != size:
                self.wrong[comment] = shape, factors, sizes


def fit(dims, shape):
    """Return pairs (dim, size), `...` with the tuple of the axes that it stands for, or None."""
    if shape is None:
        return None
    if "..." not in dims:
        return list(zip(dims, shape, strict=True)) if len(dims) == len(shape) else None
    before, after = dims.index("..."), len(dims) - dims.index("...") - 1
    end = len(shape) - after
    if end < before:
        return None
    return [*zip(dims[:before], shape, strict=False), ("...", tuple(shape[before:end])),
            *zip(dims[before + 1 :], shape[end:], strict=True)]


@pytest.mark.slow
def test_every_shape_comment_is_run_and_true():
    """Functions beside the layers may be called by no case. (The rows of npdl/engine stand for
    nodes of a tree: tests of equality check their arrays.)"""
    comments = [comment for path in sorted(ROOT.rglob("*.py")) if path.parent.name != "engine"
                for comment in read(path)]
    with Watcher(comments) as watcher:
        for case in all_cases():
            built = build(case)
            outputs, cache = built.forward()
            built.gradients(built.upstream(outputs), cache)
    assert not watcher.wrong
    entered = {(c.file, c.function) for c in watcher.reached}
    for comment in comments:
        if comment.function in ("forward", "backward") or (comment.file,
                                                            comment.function) in entered:
            assert comment in watcher.reached, comment
