"""The shape comments in npdl's source are true whenever a gradient-check case runs them.

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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import npdl
from tests.tools.cases import all_cases
from tests.tools.running import build

ROOT = Path(npdl.__file__).parents[1]
COMMENT = re.compile(r"#\s*([A-Za-z_]\w*)\s+(\([^()]*\)(?: or \([^()]*\))*)")
DIMENSION = re.compile(r"(\d+|\d*[A-Za-z])(\*\d*[A-Za-z])*")


@dataclass(frozen=True)
class ShapeComment:
    """`name` has one of the `shapes` once the statement on the lines first..last has run."""

    file: str
    line: int
    first: int
    last: int
    name: str
    shapes: tuple
    assigned: tuple
    function: str

    def __str__(self):
        shapes = " or ".join(f"({', '.join(dims)})" for dims in self.shapes)
        return f"{self.file}:{self.line} {self.name} {shapes}"


def parse(text):
    """(name, shapes) of a comment that is a shape comment, or None."""
    match = COMMENT.match(text)
    if match is None:
        return None
    shapes = tuple(tuple(dim.strip() for dim in shape.split(",") if dim.strip())
                   for shape in re.findall(r"\(([^()]*)\)", match[2]))
    is_shape = all(dim == "..." or DIMENSION.fullmatch(dim) for dims in shapes for dim in dims)
    return (match[1], shapes) if all(shapes) and is_shape else None


def read(path, root=None):
    """The shape comments of one source file."""
    source = Path(path).read_text()
    file = str(Path(path).relative_to(root) if root else path)
    found = []
    tree = ast.parse(source)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        shape = parse(token.string) if token.type == tokenize.COMMENT else None
        if shape is None or not token.line[: token.start[1]].strip():
            continue                                    # a line of its own explains, no more
        line = token.start[0]
        covering = [node for node in ast.walk(tree)
                    if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno]
        function = [node.name for node in covering if isinstance(node, ast.FunctionDef)]
        statement = max(covering, key=lambda node: node.lineno)
        names = tuple(node.id for node in ast.walk(statement)
                      if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        found.append(ShapeComment(file, line, statement.lineno, statement.end_lineno, *shape,
                                  names, function[-1] if function else ""))
    return found


class Watcher:
    """While it is entered, collects what is wrong with the comments of the lines that run."""

    def __init__(self, comments_by_file):
        self.comments = comments_by_file                # {absolute file name: [ShapeComment]}
        self.of_code = {}
        self.reached = set()
        self.entered = set()                            # functions that hold comments
        self.problems = {}                              # {ShapeComment: message}

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *error):
        sys.settrace(self.before)

    def _comments_of(self, code):
        if code not in self.of_code:
            lines = {line for _, _, line in code.co_lines() if line}
            self.of_code[code] = [c for c in self.comments.get(code.co_filename, ())
                                  if c.first in lines]
        return self.of_code[code]

    def _on_call(self, frame, event, arg):
        comments = self._comments_of(frame.f_code)
        if not comments:
            return None
        self.entered.update((comment.file, comment.function) for comment in comments)
        seen, pending = [], []

        def flush():
            for comment in pending:
                seen.append((comment, getattr(frame.f_locals.get(comment.name), "shape", None)))
            pending.clear()

        def on_line(frame, event, arg):
            if event == "exception":
                pending.clear()                         # the statement did not finish
            elif event == "return":
                flush()
                self._verify(seen, frame.f_locals)
            elif not any(c.first <= frame.f_lineno <= c.last for c in pending):
                flush()
                pending.extend(c for c in comments if c.first <= frame.f_lineno <= c.last)
            return on_line

        return on_line

    def _verify(self, seen, local):
        self.reached.update(comment for comment, _ in seen)
        meaning = {name: (value, f"the local {name} = {value}") for name, value in local.items()
                   if len(name) == 1 and name.isupper() and type(value) is int}
        for comment, message in disagreements(seen, meaning):
            self.problems.setdefault(comment, message)


def disagreements(seen, meaning):
    """Yield (comment, message) for what contradicts `meaning` or what came before it.

    `meaning` maps letters to (size, where it was learnt), and is added to.
    """
    products = []
    for comment, shape in seen:
        fitting = [pairs for dims in comment.shapes if (pairs := matched(dims, shape)) is not None]
        pairs = next(iter(fitting), None)
        if pairs is None:
            yield comment, f"the shape is {shape}"
            continue
        for dim, size in pairs:
            if len(dim) > 1 and dim != "..." and not dim.isdigit():
                products.append((comment, shape, dim, size))
                continue
            known, where = (int(dim), "as written") if dim.isdigit() else meaning.setdefault(
                dim, (size, str(comment)))
            if known != size:
                yield comment, f"the shape is {shape}; {dim} is {known} ({where})"
    for comment, shape, dim, size in products:
        factors = re.findall(r"\d+|[A-Za-z]", dim)
        known = [int(f) if f.isdigit() else meaning[f][0] for f in factors
                 if f.isdigit() or f in meaning]
        right = math.prod(known) == size if len(known) == len(factors) else (
            math.prod(known) == 0 or size % math.prod(known) == 0)
        if not right:
            yield comment, f"the shape is {shape}; {dim} is {math.prod(known)} at {known}"


def matched(dims, shape):
    """Pairs (dim, size), `...` with the tuple of the axes that it stands for; None if no fit."""
    if shape is None:
        return None
    if "..." not in dims:
        return list(zip(dims, shape, strict=True)) if len(dims) == len(shape) else None
    before, after = dims.index("..."), len(dims) - dims.index("...") - 1
    if len(shape) < before + after:
        return None
    end = len(shape) - after
    return [*zip(dims[:before], shape[:before], strict=True), ("...", tuple(shape[before:end])),
            *zip(dims[before + 1 :], shape[end:], strict=True)]


@pytest.fixture(scope="module")
def comments():
    """{path: comments}. The rows of npdl/engine stand for nodes of a tree: tests of equality check
    their arrays."""
    return {str(path): read(path, ROOT) for path in sorted((ROOT / "npdl").rglob("*.py"))
            if path.parent.name != "engine"}


def every(comments):
    return [comment for own in comments.values() for comment in own]


@pytest.fixture(scope="module")
def watched(comments):
    """What a watcher saw while every case was built and run, forward and backward."""
    with Watcher(comments) as watcher:
        for case in all_cases():
            built = build(case)
            outputs, cache = built.forward()
            built.gradients(built.upstream(outputs), cache)
    return watcher


@pytest.mark.slow
def test_every_shape_comment_is_run_and_true(comments, watched):
    """It names what its line assigns. Functions beside the layers may be called by no case."""
    assert not watched.problems
    for comment in every(comments):
        assert comment.name in comment.assigned, f"{comment}: the line assigns {comment.assigned}"
        if (comment.file, comment.function) in watched.entered or comment.function in (
                "forward", "backward"):
            assert comment in watched.reached, comment


def test_the_central_layers_have_shape_comments(comments):
    commented = {(comment.file, comment.function) for comment in every(comments)}
    central = {"layer_norm": ["forward"], "attention": ["attend", "forward", "backward"],
               "recurrent": ["forward", "backward"], "transformer": ["forward"],
               "linear": ["forward", "backward"], "embedding": ["backward"]}
    for file, functions in central.items():
        assert {(f"npdl/layers/{file}.py", function) for function in functions} <= commented


LIES = """
def forward(x):
    N, D = x.shape
    y = x.T                                 # y (N, D)
    z = x.reshape(-1)                       # z (N*D,)
    either = x[0]                           # either (N, D) or (D)
    lead = x[None]                          # lead (..., N)
    return y
"""


def test_a_lie_is_found_and_the_truth_is_not(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(LIES)
    space = {}
    exec(compile(LIES, str(path), "exec"), space)
    with Watcher({str(path): read(path)}) as watcher:
        space["forward"](np.ones((3, 4)))
    problems = {comment.name: message for comment, message in watcher.problems.items()}
    assert problems.keys() == {"y", "lead"} and "the shape is (4, 3)" in problems["y"]
    assert {comment.name for comment in watcher.reached} == {"y", "z", "either", "lead"}
