"""The shape comments in npdl's source are true whenever a case of the layers runs them.

A shape comment stands at the end of a line that assigns a name: the name, then its shape.

    scores = q @ k.swapaxes(-1, -2)         # scores (B, H, R, S)

`...` stands for any number of axes; 4H and S*B for products; `(N, C, L) or (N, C)` for either
shape. Within one call a letter (or `...`) must mean the same everywhere: in all comments, and as
the value of a local such as `D = 8`.
"""

import ast
import io
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
    """`name` has one of the `shapes` once the statement on the lines first..last has run.

    `place` is (file, first line of the function, name of the function).
    """

    place: tuple
    first: int
    last: int
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
        function = [node for node in around if isinstance(node, ast.FunctionDef)][-1]
        start = min(node.lineno for node in (function, *function.decorator_list))
        own = max(around, key=lambda node: node.lineno)
        assigned = [node.id for node in ast.walk(own) if isinstance(node, ast.Name)
                    and isinstance(node.ctx, ast.Store)]
        assert match[1] in assigned, f"{path}:{line}: the line assigns {assigned}"
        found.append(ShapeComment((str(path), start, function.name), own.lineno, own.end_lineno,
                                  match[1], tuple(map(tuple, shapes))))
    return found


class Watcher:
    """A trace function that collects the comments of the lines that run, and what is wrong."""

    def __init__(self, comments):
        self.comments, self.reached, self.wrong = {}, set(), {}
        for comment in comments:
            self.comments.setdefault(comment.place, []).append(comment)

    def __call__(self, frame, event, argument):
        code = frame.f_code
        own = self.comments.get((code.co_filename, code.co_firstlineno, code.co_name))
        seen, running = [], []                          # [(comment, shape)], [comment]

        def step(frame, event, argument):
            for comment in running[:]:
                if event == "return" or not comment.first <= frame.f_lineno <= comment.last:
                    running.remove(comment)
                    seen.append((comment, getattr(frame.f_locals[comment.name], "shape", None)))
            if event == "return":
                self.verify(seen, {name: value for name, value in frame.f_locals.items()
                                   if len(name) == 1 and name.isupper() and type(value) is int})
            running.extend(c for c in own if c.first == frame.f_lineno and c not in running)
            return step

        return step if own else None

    def verify(self, seen, sizes):
        """Note what contradicts `sizes`, {letter: size}, or what came before it."""
        products = []
        for comment, shape in seen:
            self.reached.add(comment)
            pairs = next(filter(None, (fit(dims, shape) for dims in comment.shapes)), None)
            if pairs is None:
                self.wrong[comment] = shape
            for dim, size in pairs or ():
                if dim == "..." or len(dim) == 1 and dim.isalpha():
                    if sizes.setdefault(dim, size) != size:
                        self.wrong[comment] = shape, dim, sizes
                else:
                    products.append((comment, re.sub(r"(\d)([A-Za-z])", r"\1*\2", dim), size))
        for comment, product, size in products:
            if set(re.findall(r"[A-Za-z]", product)) <= sizes.keys() and eval(
                    product, {}, sizes) != size:
                self.wrong[comment] = product, size, sizes


def fit(dims, shape):
    """Return pairs (dim, size), `...` with the tuple of the axes that it stands for, or None."""
    if shape is None or "..." not in dims:
        return list(zip(dims, shape, strict=True)) if len(dims) == len(shape or ()) else None
    at, more = dims.index("..."), len(shape) - len(dims)
    sizes = [*shape[:at], tuple(shape[at : at + more + 1]), *shape[at + more + 1 :]]
    return list(zip(dims, sizes, strict=True)) if more >= -1 else None


@pytest.mark.slow
def test_every_shape_comment_is_run_and_true():
    """Functions beside the layers may be called by no case. (The rows of npdl/engine stand for
    nodes of a tree: tests of equality check their arrays.)"""
    comments = [comment for path in sorted(ROOT.rglob("*.py")) if path.parent.name != "engine"
                for comment in read(path)]
    watcher, before = Watcher(comments), sys.gettrace()
    sys.settrace(watcher)
    try:
        for case in all_cases():
            built = build(case)
            outputs, cache = built.forward()
            built.gradients(built.upstream(outputs), cache)
    finally:
        sys.settrace(before)
    assert not watcher.wrong
    entered = {comment.place for comment in watcher.reached}
    for comment in comments:
        if comment.place[2] in ("forward", "backward") or comment.place in entered:
            assert comment in watcher.reached, comment
