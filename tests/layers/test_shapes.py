"""The shape comments in npdl's source are true whenever a gradient-check case runs them."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import npdl
from tests.layers.shape_comments import Watcher, parse, read
from tests.tools.cases import all_cases
from tests.tools.running import build

ROOT = Path(npdl.__file__).parents[1]


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


SOURCE = """
import numpy as np

def forward(x, fail=False):
    N, D = x.shape
    y = x.T                                 # y (N, D)
    z = np.concatenate([x, x])              # z (2N, D), a product
    total = x.sum()
    total = (
        x.sum(0)                            # total (D)
    )
    for row in range(2):
        part = x[:, row]                    # part (N,)
        part = part[None]
    flat = x.reshape(-1)                    # flat (N*D,)
    lead = x[None]                          # lead (..., D)
    other = x[None, None]                   # other (..., D)
    either = x[0]                           # either (N, D) or (D)
    # This is x (D, N) no longer, and y (see above) is another matter.
    if fail:
        late = undefined                    # late (N, N)
    return y                                # not a shape
"""


def module_from(tmp_path, source):
    path = tmp_path / "sample.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("sample", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, {str(path): read(path)}


def problems_of(tmp_path, source, *args):
    module, comments = module_from(tmp_path, source)
    with Watcher(comments) as watcher:
        module.forward(*args)
    return {c.name: message for c, message in watcher.problems.items()}, watcher


def test_a_lie_is_found_and_the_truth_is_not(tmp_path):
    problems, watcher = problems_of(tmp_path, SOURCE, np.ones((3, 4)))
    assert set(problems) == {"y", "other"}, problems
    assert "the shape is (4, 3)" in problems["y"]
    assert {c.name for c in watcher.reached} == {"y", "z", "total", "part", "flat", "lead", "other",
                                              "either"}
    problems, _ = problems_of(tmp_path, SOURCE, np.ones((3, 3)))
    assert set(problems) == {"other"}                   # with N = D no one can tell


@pytest.mark.parametrize(("name", "old", "new"), [
    ("z", "(2N, D)", "(3N, D)"), ("z", "(2N, D)", "(D, 2N)"), ("z", "(2N, D)", "(N, D)"),
    ("total", "(D)", "(N)"), ("total", "(D)", "(5)"), ("part", "(N,)", "(1, N)"),
    ("flat", "(N*D,)", "(N*N,)"), ("flat", "(N*D,)", "(N, D)"),
    ("lead", "(..., D)", "(..., N)"), ("lead", "(..., D)", "(D)"),
    ("either", "(N, D) or (D)", "(N, D) or (N)"), ("either", "(N, D) or (D)", "(N, D)"),
])
def test_each_kind_of_lie(tmp_path, name, old, new):
    assert f"# {name} {old}" in SOURCE
    source = SOURCE.replace(f"# {name} {old}", f"# {name} {new}")
    problems, _ = problems_of(tmp_path, source, np.ones((3, 4)))
    assert name in problems and set(problems) <= {"y", "other", name}


def test_letters_must_agree_among_comments_alone(tmp_path):
    source = ("def forward(x):\n    a = x + 1  # a (B, S)\n    b = a.T  # b (B, S)\n"
              "    c = a.T  # c (S, B)\n    return c\n")
    problems, _ = problems_of(tmp_path, source, np.ones((2, 3)))
    assert set(problems) == {"b"}


def test_a_statement_that_fails_is_not_judged(tmp_path):
    module, comments = module_from(tmp_path, SOURCE)
    with Watcher(comments) as watcher, pytest.raises(NameError):
        module.forward(np.ones((3, 4)), True)
    assert "late" not in {comment.name for comment in watcher.reached}


def test_the_trace_function_is_put_back(tmp_path):
    before = sys.gettrace()
    problems_of(tmp_path, SOURCE, np.ones((3, 4)))
    assert sys.gettrace() is before


@pytest.mark.parametrize(("text", "wanted"), [
    ("# x (B, S)", ("x", (("B", "S"),))),
    ("#  x_hat   (..., D)  shifted", ("x_hat", (("...", "D"),))),
    ("# rows (S*B, 4H), step after step", ("rows", (("S*B", "4H"),))),
    ("# loss (B,)", ("loss", (("B",),))),
    ("# x (N, C, L) or (N, C)", ("x", (("N", "C", "L"), ("N", "C")))),
    ("# y = gain * (x - mean)", None),
    ("# see the paper (Vaswani)", None),
    ("# x (the input)", None),
    ("# f(x)", None),
])
def test_what_is_a_shape_comment(text, wanted):
    assert parse(text) == wanted
