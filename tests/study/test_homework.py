"""Homework folders: the files for students, and the tests that students run."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from npdl.__main__ import main
from npdl.study.check.samples import find_layer_classes
from npdl.study.homework.answers import compare_answers, compute_answers, use_student_class
from npdl.study.homework.exercise import Exercise, format_method_for_subclass
from npdl.study.homework.handout import LAYERS, write_homework
from npdl.study.homework.home import describe_layer_errors
from tests.tools.refusals import check_refused

EVERY = list(find_layer_classes())


def make_solution(name, *changes):
    """Return an exercise with npdl's own source in the place of each blank, and with changes.

    `changes` are texts that alternate: old, new, old, new.
    """
    exercise = Exercise(name)
    text = exercise.format_student_file()
    for blank in exercise.methods:
        function = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)
                        and n.name == blank)
        lines = text.splitlines()
        lines[function.lineno - 1 : function.end_lineno] = format_method_for_subclass(
            getattr(exercise.cls, blank)).splitlines()
        text = "\n".join(lines) + "\n"
    modules = {getattr(exercise.cls, blank).__module__ for blank in exercise.methods}
    text = "".join(f"from {module} import *\n" for module in sorted(modules)) + text
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    return text


def compute_point_reasons(name, text, seed=3):
    """Return {point: reason} for a file that runs in this process."""
    exercise = Exercise(name)
    asked = exercise.make_test_cases(seed)
    wanted = compute_answers(asked)
    use_student_class(asked, text.encode(), exercise.file, name)
    return compare_answers(compute_answers(asked, exercise.file), wanted)


@pytest.mark.parametrize("name", [
    *LAYERS, *(pytest.param(name, marks=pytest.mark.slow) for name in EVERY if name not in LAYERS)])
def test_solution_gets_all_points_and_a_blank_none(name):
    text = Exercise(name).format_student_file()
    assert max(map(len, text.splitlines())) <= 100
    blank = compute_point_reasons(name, text)
    solved = compute_point_reasons(name, make_solution(name))
    assert solved == dict.fromkeys(blank, "")
    assert all(blank.values()) and "not written yet" in blank.values()


def test_shapes_that_do_not_fit_are_named_with_the_line():
    text = make_solution("Linear", "rows.T @", "rows @")
    reason, = set(compute_point_reasons("Linear", text).values())
    assert "\n" not in reason
    assert "`self.W.grad += rows @ dy_rows` with rows (2, 3), dy_rows (2, 4): ValueError" in reason


def test_handout_shows_forward_and_hides_the_answer():
    text = Exercise("ScaledDotAttention").format_student_file()
    assert "def attend(" in text and "attend_backward" not in text
    assert "# Return dq, dk, dv." in text
    assert "# You may use npdl.functions.softmax_backward." in text
    cell = Exercise("LSTMCell").format_student_file()
    assert "# Return dx, dstate (the gradient of the state before the step, nested like" in cell


@pytest.mark.parametrize("right, wrong, lost", [
    ("self.b.grad += ", "self.b.grad += 2 * ", {"gradient of b", "other sizes and options",
                                                "conventions"}),
    ("sum_rows(dy_rows)", "dy.sum(0)", {"other sizes and options"}),
    ("self.b.grad += ", "self.b.grad = ", {"conventions"}),
    ("self.b.grad += ", "self.b.grad = self.b.grad + ", set()),
    ("dy_rows = dy.", "dy *= 2; dy_rows = 0.5 * dy.", {"conventions"}),
    ("rows, E = cache.rows", "cache.rows = 2 * cache.rows; rows, E = 0.5 * cache.rows",
     {"conventions"}),
])
def test_mistake_loses_only_its_own_points(right, wrong, lost):
    points = compute_point_reasons("Linear", make_solution("Linear", right, wrong))
    assert {point for point, reason in points.items() if reason} == lost


def test_changed_upstream_gradient_is_named_if_gradients_are_wrong():
    points = compute_point_reasons("LayerNorm", make_solution(
        "LayerNorm", "dx_hat = dy * self.gain.data", "dy *= self.gain.data; dx_hat = -dy"))
    assert points["conventions"].startswith("dy is modified.")
    assert points["other sizes and options"].startswith("gradient of x: wrong, relative error")
    text = make_solution("LayerNorm", "return dx", "return None")
    points = compute_point_reasons("LayerNorm", text)
    assert points["gradient of x"].startswith("missing; `backward` must compute it")
    assert points["conventions"] == "not judged, because a gradient is wrong"


@pytest.mark.parametrize("name, right, wrong", [
    ("Embedding", "ids == self.padding_id", "ids < 0"),
    ("AdditiveAttention", "(*A.shape[:-1], v.shape[-1])", "(*A.shape[:-1], v.shape[1])"),
    ("LayerNorm", ".mean(-1, keepdims=True)", ".mean(1, keepdims=True)"),
])
def test_points_do_not_depend_on_the_seed(name, right, wrong):
    text = make_solution(name, right, wrong)
    found = {tuple(map(bool, compute_point_reasons(name, text, seed).values()))
             for seed in range(6)}
    assert len(found) == 1 and any(next(iter(found)))


def write_and_enter_homework(tmp_path, monkeypatch, *layers, **options):
    write_homework(tmp_path / "homework", layers, **options)
    monkeypatch.chdir(tmp_path / "homework")


@pytest.mark.parametrize("is_exam", [False, True])
def test_tests_at_home_name_gradient_and_line_and_pass_when_right(tmp_path, monkeypatch, is_exam):
    write_and_enter_homework(tmp_path, monkeypatch, "Linear", is_exam=is_exam)
    assert describe_layer_errors("Linear") == "not written yet"
    Path("linear.py").write_text(make_solution("Linear"))
    assert describe_layer_errors("Linear") == ""
    Path("linear.py").write_text(make_solution("Linear", "self.b.grad += ", "self.b.grad += 2 * "))
    said = describe_layer_errors("Linear")
    assert "gradient of b: wrong, relative error" in said and "self.b.grad += 2 *" in said
    assert ("fix  " in said) is ("npdl blame" in Path("README.md").read_text()) is not is_exam
    Path("linear.py").write_text("import no_such_module\n" + make_solution("Linear"))
    assert "Import only NumPy, math, itertools and functools" in describe_layer_errors("Linear")
    Path("linear.py").write_text("def")
    assert "line 1: invalid syntax (Python 3" in describe_layer_errors("Linear")


def test_exam_names_both_lines_if_the_correction_of_either_is_enough(tmp_path, monkeypatch):
    write_and_enter_homework(tmp_path, monkeypatch, "LayerNorm", is_exam=True)
    Path("layer_norm.py").write_text(make_solution("LayerNorm", "dx_hat - shift", "dx_hat + shift"))
    said = describe_layer_errors("LayerNorm").splitlines()[-1]
    assert said.startswith("most likely wrong: line ") and ", or line " in said
    assert "`shift = dx_hat.mean(" in said and "`dx = (dx_hat + shift" in said


@pytest.mark.parametrize("out, layer, words", [
    ("new", "Lineal", "did you mean Linear, LoRALinear or QuantLinear?"),
    ("new", "mine.py:Scale", "is not a layer of npdl; did you mean"),
    (".", "Linear", "is not an empty folder")])
def test_unknown_layers_and_folders_in_use_are_refused(tmp_path, monkeypatch, capsys, out, layer,
                                                       words):
    monkeypatch.chdir(tmp_path)
    assert list(write_homework("homework", ["rnn", "RNN"])) == ["RNN"]
    check_refused(main, ["homework", "--out", out, "--layers", layer], words, capsys)
    assert not Path("new").exists()


def test_a_handout_runs_its_tests_with_pytest(tmp_path, monkeypatch):
    write_and_enter_homework(tmp_path, monkeypatch, "Linear", "Tanh")
    Path("linear.py").write_text(make_solution("Linear"))
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
                          capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "not written yet" in done.stdout
