"""The shape comments in npdl's source are true in every case of the layers.

A shape comment stands at the end of a line that assigns a name: the name, then its shape.

    scores = q @ k.swapaxes(-1, -2)         # scores (B, H, R, S)

`...` stands for any number of axes; 4H and S*B for products; `(N, C, L) or (N, C)` for either
shape. Within one call a letter (or `...`) must mean the same everywhere: in all comments, and as
the value of a local such as `D = 8`.
"""

import ast
import re
import sys
from collections import namedtuple
from pathlib import Path

import pytest

import npdl
from tests.layers.cases import all_cases
from tests.tools.running import build

ROOT = Path(npdl.__file__).parent
COMMENT = re.compile(r"[^#]*[^#\s]\s*#\s*([A-Za-z_]\w*)\s+(\([^()]*\)(?: or \([^()]*\))*)")
DIMENSION = re.compile(r"\.\.\.|(\d+|\d*[A-Za-z])(\*\d*[A-Za-z])*")
# The cases of the layers don't call these packages. The rows of npdl/engine are no arrays.
OTHERS = ("engine", "decoding", "data", "study", "train")
# After the assignment in the lines first to last, `name` has one of the `shapes`.
ShapeComment = namedtuple("ShapeComment", "file first last name shapes")


def find_comments(path):
    """Yield the shape comments of a source file. Assert that each names an assigned variable."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        lines = source.split("\n")[node.lineno - 1 : node.end_lineno] if isinstance(
            node, ast.Assign) else []
        for match in filter(None, map(COMMENT.match, lines)):
            shapes = [[dim.strip() for dim in shape.removesuffix(",").split(",")]
                      for shape in re.findall(r"\(([^()]*)\)", match[2])]
            if all(DIMENSION.fullmatch(dim) for shape in shapes for dim in shape):
                assigned = [name.id for name in ast.walk(node) if isinstance(name, ast.Name)
                            and isinstance(name.ctx, ast.Store)]
                assert match[1] in assigned, f"{path}:{node.lineno}: the line assigns {assigned}"
                yield ShapeComment(str(path), node.lineno, node.end_lineno, match[1],
                                   tuple(map(tuple, shapes)))


class Watcher:
    """A trace function that collects the comments of the lines that run, and what is wrong."""

    def __init__(self, comments):
        self.comments = {(comment.file, comment.first): comment for comment in comments}
        self.files, self.reached, self.wrong = {file for file, _ in self.comments}, set(), {}

    def __call__(self, frame, event, argument):
        seen, running = [], []                          # [(comment, shape)], [comment]

        def trace_line(frame, event, argument):
            for comment in running[:]:
                if event == "return" or not comment.first <= frame.f_lineno <= comment.last:
                    running.remove(comment)
                    seen.append((comment, getattr(frame.f_locals[comment.name], "shape", None)))
            if event == "return":
                sizes = {name: value for name, value in frame.f_locals.items()
                         if len(name) == 1 and name.isupper() and type(value) is int}
                self.check_shapes(seen, sizes)
            begun = self.comments.get((frame.f_code.co_filename, frame.f_lineno))
            if begun is not None and begun not in running:
                running.append(begun)
            return trace_line

        return trace_line if frame.f_code.co_filename in self.files else None

    def check_shapes(self, comments_and_shapes, sizes):
        """Record the comments that contradict `sizes`, {letter: size}, or an earlier comment."""
        products = []
        for comment, shape in comments_and_shapes:
            self.reached.add(comment)
            pairs = next(filter(None, (pair_axes(dims, shape) for dims in comment.shapes)), None)
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


def pair_axes(dims, shape):
    """Return pairs (dim, size), `...` with the tuple of the axes that it stands for, or None."""
    if shape is None or "..." not in dims:
        return list(zip(dims, shape, strict=True)) if len(dims) == len(shape or ()) else None
    at, more = dims.index("..."), len(shape) - len(dims)
    sizes = [*shape[:at], tuple(shape[at : at + more + 1]), *shape[at + more + 1 :]]
    return list(zip(dims, sizes, strict=True)) if more >= -1 else None


@pytest.mark.slow
def test_every_shape_comment_is_run_and_true():
    comments = [comment for path in sorted(ROOT.rglob("*.py"))
                if path.relative_to(ROOT).parts[0] not in OTHERS for comment in find_comments(path)]
    watcher, before = Watcher(comments), sys.gettrace()
    sys.settrace(watcher)
    try:
        for case in all_cases():
            built = build(case)
            outputs, cache = built.forward()
            built.compute_gradients(built.draw_upstream(outputs), cache)
    finally:
        sys.settrace(before)
    assert not watcher.wrong and len(comments) > 100
    assert set(comments) == watcher.reached
