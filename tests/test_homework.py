"""The student edition: solved it passes, unsolved each blank says what is missing."""

import ast
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from npdl.__main__ import main
from npdl.errors import InputError
from npdl.study import homework_grade as grade
from npdl.study.homework import LAYERS, homework, student_module
from npdl.study.homework_source import loaded
from npdl.study.samples import layer_classes
from npdl.study.target import find_class

HOLE = "is yours to write; the equation: "
# Built on other classes, with nothing of their own to write.
DERIVED = {"Cell", "GRU", "GRULayer", "LSTM", "LSTMLayer", "QuantLinear", "RNN", "RNNLayer"}
ALL = sorted(set(layer_classes()) - DERIVED)


def functions(text):
    """{qualname: node} of the functions of a file."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{f.name}": f for f in node.body
                      if isinstance(f, ast.FunctionDef)}
    return found


def solved(text):
    """A student file whose holes hold npdl's own lines, read anew from its source."""
    lines = text.splitlines()
    owner = next(n.name for n in ast.parse(text).body if isinstance(n, ast.ClassDef))
    module = importlib.import_module(find_class(owner).__module__)
    for qualname, node in reversed(functions(text).items()):
        if HOLE in " ".join(ast.unparse(node).split()):
            real = module
            for name in qualname.split("."):
                real = getattr(real, name)
            lines[node.lineno - 1 : node.end_lineno] = inspect.getsource(real).splitlines()
    return "\n".join(lines) + "\n"


def run_tests(folder):
    """(exit status, output) of the folder's own tests, in a process of their own."""
    root = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
                          cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [{}, {"level": "lstm"}, {"level": "lstm", "forward": True}],
                         ids=str)
def test_a_folder_fails_until_it_is_solved(tmp_path, options):
    made = homework(tmp_path / "work", **options)
    status, output = run_tests(tmp_path / "work")
    assert status == 1
    assert f"{made.graded[0][1]}" in output and HOLE in output
    for name, text in made.files.items():
        (tmp_path / "work" / name).write_text(solved(text))
    status, output = run_tests(tmp_path / "work")
    assert status == 0, output
    assert "failed" not in output and "skipped" not in output


@pytest.mark.parametrize("forward", [False, True], ids=["backward", "forward"])
@pytest.mark.parametrize("level", ["layer", "line"])
@pytest.mark.parametrize("name", ALL)
def test_every_blank_of_every_layer_fails_with_its_equation(tmp_path, name, level, forward):
    made = homework(tmp_path, [name], level, forward, seed=3)
    (text,) = made.files.values()
    cls = getattr(loaded(text, student_module(name)), name)
    with pytest.raises(AssertionError) as failure:
        grade.assert_manners(cls)
    assert HOLE in str(failure.value) and "\n" not in str(failure.value)
    assert any(str(failure.value).endswith(hole.equation) for hole in made.holes)
    assert all(len(line) <= 100 for line in text.splitlines())


SMALL = sorted(set(ALL) - {"GPT", "Seq2Seq", "CrossDecoder", "DecoderBlock", "Decoder", "Encoder",
                           "Block", "LSTMLM"})


@pytest.mark.parametrize("forward", [False, True], ids=["backward", "forward"])
@pytest.mark.parametrize("name", SMALL)
def test_every_layer_solved_passes(tmp_path, name, forward):
    (text,) = homework(tmp_path, [name], forward=forward).files.values()
    cls = getattr(loaded(solved(text), student_module(name)), name)
    grade.assert_outputs(cls)
    grade.assert_gradients(cls)
    grade.assert_manners(cls)


def test_nothing_stands_in_a_student_file_but_npdl_and_holes(tmp_path):
    made = homework(tmp_path, ["LayerNorm"])
    real = inspect.getsource(importlib.import_module("npdl.layers.norm")).splitlines()
    text = made.files["layer_norm.py"]
    strange = [line for line in text.splitlines()
               if line.strip() and line not in real and not line.strip().startswith("#")]
    assert strange[0] == '"""LayerNorm: write what raises NotImplementedError."""'
    assert "raise NotImplementedError(" in strange[1] and strange[-1].strip() == ")"
    assert "dx = " not in text.split("def backward")[1]
    assert "x_hat, rstd" in text                # the cache's fields stay as a hint


def test_a_wrong_line_is_found(tmp_path):
    (text,) = homework(tmp_path, ["Tanh"]).files.values()
    good = solved(text)
    wrong = good.replace("dx = dy * (1 - y * y)", "dx = dy * (1 + y * y)")
    assert wrong != good
    with pytest.raises(AssertionError, match="a gradient is wrong"):
        grade.assert_gradients(loaded(wrong, "tanh").Tanh)


def test_outputs_and_manners_are_graded(tmp_path):
    (text,) = homework(tmp_path, ["Tanh"], forward=True).files.values()
    good = solved(text)
    for change, check, words in [
        (("xp.tanh(x)", "xp.tanh(2 * x)"), grade.assert_outputs, "is off by"),
        (("xp.tanh(x)", "xp.tanh(x)[:1]"), grade.assert_outputs, "has shape"),
        (("xp.tanh(x)", "xp.tanh(x, out=x)"), grade.assert_manners, "changes an input"),
        (("xp.tanh(x)", "xp.tanh(x.astype('float64'))"), grade.assert_manners, "not float32"),
        (("dx = dy", "dy *= 2; dx = dy"), grade.assert_manners, "changes dy"),
    ]:
        assert change[0] in good
        with pytest.raises(AssertionError, match=words):
            check(loaded(good.replace(*change), "tanh").Tanh)


def test_which_line_depends_on_the_seed_alone(tmp_path):
    lines = [[hole.statement for hole in homework(tmp_path / str(i), level="line", seed=s).holes]
             for i, s in enumerate([0, 0, 1])]
    assert lines[0] == lines[1] != lines[2]
    assert len(lines[0]) == len(LAYERS)


def test_names_of_student_modules():
    assert student_module("GRUCell") == "gru_cell"
    assert student_module("MultiHeadAttention") == "multi_head_attention"
    assert student_module("LSTM") == "lstm"
    assert student_module("Select") == "select_layer"       # select is Python's own


@pytest.mark.parametrize("options", [
    ["--layers", "Nothing"], ["--layers", "LSTM"], ["--layers", "Cell", "--level", "line"],
    ["--layers", "Linear", "--level", "lstm"], ["--layers", "x.py:Linear"], ["--seed", "-1"],
])
def test_bad_options_are_one_line(tmp_path, capsys, options):
    status = main(["homework", "--out", str(tmp_path / "new"), *options])
    assert status == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not an empty folder"):
        homework(tmp_path)
    with pytest.raises(InputError, match="not an empty folder"):
        homework(tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_command_says_what_it_wrote(tmp_path, capsys):
    out = tmp_path / "work"
    assert main(["homework", "--out", str(out), "--layers", "linear", "Linear"]) == 0
    assert "Linear.backward" in capsys.readouterr().out
    assert sorted(p.name for p in out.iterdir()) == ["README.md", "linear.py", "test_homework.py"]
    assert "`y = x W + b over the last axis`" in (out / "README.md").read_text()


def test_the_wrong_line_of_a_student_file_is_named(tmp_path):
    (text,) = homework(tmp_path / "work", ["LayerNorm"]).files.values()
    wrong = solved(text).replace("dx = dx - x_hat * along_x", "dx = dx + x_hat * along_x")
    path = tmp_path / "work" / "layer_norm.py"
    path.write_text(wrong)
    with pytest.raises(AssertionError) as failure:
        grade.assert_gradients(find_class(f"{path}:LayerNorm"))
    if sys.gettrace() is None:                  # blame can't look while something else traces
        assert "dx = dx + x_hat * along_x" in str(failure.value)


@pytest.mark.parametrize(("level", "name", "file", "right", "wrong"), [
    ("line", "Linear", "linear.py", "dx = dy_rows @", "dx = -dy_rows @"),
    ("layer", "LayerNorm", "layer_norm.py", "dx = dx - x_hat", "dx = dx + x_hat"),
    ("lstm", "LSTM", "lstm.py", "df = dc * c_prev", "df = dc * tanh_c"),
])
def test_blame_inside_the_folder(tmp_path, level, name, file, right, wrong):
    """Not written: what is missing; written wrongly: the line; written rightly: status 0."""
    made = homework(tmp_path / "work", None if level == "lstm" else [name], level)

    def blame():
        root = str(Path(__file__).parent.parent)
        done = subprocess.run([sys.executable, "-m", "npdl", "blame", f"{file}:{name}"],
                              cwd=tmp_path / "work", env={**os.environ, "PYTHONPATH": root,
                                                          "PYTHONDONTWRITEBYTECODE": "1"},
                              capture_output=True, text=True, timeout=300)
        return done.returncode, " ".join(done.stdout.split())

    status, said = blame()
    assert status == 1 and said.startswith("not written yet: ") and HOLE in said
    assert any(said.endswith(" ".join(hole.equation.split())) for hole in made.holes)
    for other, text in made.files.items():
        (tmp_path / "work" / other).write_text(solved(text))
    good = (tmp_path / "work" / file).read_text()
    assert good.count(right) == 1
    (tmp_path / "work" / file).write_text(good.replace(right, wrong))
    line = good[: good.index(right)].count("\n") + 1
    status, said = blame()
    assert status == 1 and f"{file}:{line} in " in said and wrong in said
    (tmp_path / "work" / file).write_text(good)
    status, said = blame()
    assert status == 0 and said.startswith("right: ")


def test_hints_name_what_may_be_called(tmp_path):
    (text,) = homework(tmp_path, ["LayerNorm"]).files.values()
    assert "may use    last_axis_sum\n" in text and "xp.multiply(dx" not in text
