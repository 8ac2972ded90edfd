"""The student edition: solved it passes, unsolved each blank says what is missing."""

import ast
import importlib
import inspect
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from npdl.__main__ import main
from npdl.errors import InputError
from npdl_study.check.samples import layer_classes
from npdl_study.check.target import find_class
from npdl_study.homework import selftest
from npdl_study.homework.assignment import LAYERS, homework, student_module
from npdl_study.homework.blanks import Source, reached_by, statements
from npdl_study.homework.hints import line_hint
from npdl_study.homework.selftest import first_trouble
from tests.tools import slow

ROOT = str(Path(__file__).parents[2])
ENVIRONMENT = {**os.environ, "PYTHONPATH": ROOT, "PYTHONDONTWRITEBYTECODE": "1"}
ENVIRONMENT.pop("CI", None)             # there pytest repeats every message in its summary
HOLE = "is yours to write; the equation: "
# Built on other classes, with nothing of their own to write.
DERIVED = {"Cell", "Encoder", "GPT2", "GRU", "GRULayer", "LSTM", "LSTMLayer", "QuantLinear", "RNN",
           "RNNLayer", "Recurrent", "RecurrentLayer"}
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


def solved(made, name):
    """A student file whose holes hold npdl's own lines."""
    text = made.files[name]
    lines = text.splitlines()
    holes = {hole.qualname: hole.original for hole in made.holes if hole.file == name}
    for qualname, node in sorted(functions(text).items(), key=lambda item: -item[1].lineno):
        if qualname in holes:
            module, _, path = holes[qualname].partition(":")
            real = importlib.import_module(module)
            for part in path.split("."):
                real = getattr(real, part)
            lines[node.lineno - 1 : node.end_lineno] = inspect.getsource(real).splitlines()
    return "\n".join(lines) + "\n"


def run_tests(folder):
    """(exit status, output) of the folder's own tests, in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True,
                          timeout=300)
    return done.returncode, done.stdout


@pytest.mark.slow
def test_what_is_wrong_with_one_file_costs_that_file_alone(tmp_path):
    """A syntax error, npdl's layer for one's own, a call of npdl's, an error in NumPy's words, a
    hole that is left; a file that is solved passes."""
    made = homework(tmp_path / "work", LAYERS[:6])
    good = {name: solved(made, name) for name in made.files}
    (tmp_path / "work" / "softmax.py").write_text(good["softmax.py"])
    wrong = {
        "tanh.py": good["tanh.py"].replace("return dx", "return dx)"),
        "linear.py": "from npdl.layers.linear import Linear\n",
        "embedding.py": made.files["embedding.py"].replace(
            "raise NotImplementedError(", "from npdl import Embedding as Own\n"
            "        return Own.backward(self, dy, cache)\n        raise NotImplementedError("),
        "cross_entropy.py": good["cross_entropy.py"].replace("dnll[..., None]", "dnll[None, None]"),
    }
    for name, text in wrong.items():
        assert text not in (good[name], made.files[name])
        (tmp_path / "work" / name).write_text(text)
    status, output = run_tests(tmp_path / "work")
    said = " ".join(output.split())
    assert status == 1
    assert "tanh.py can't be read: it raised SyntaxError: unmatched ')' (tanh.py, line 20)" in said
    assert "linear.py: there is no Linear.backward of its own: write it there" in said
    assert "imports npdl: write it here, with NumPy, math and this file's imports" in said
    assert "CrossEntropy raised ValueError: operands could not be broadcast" in said
    assert "(cross_entropy.py, line " in said and "selftest" not in said
    assert f"RNNCell.backward in rnn_cell.py {HOLE}" in said and "npdl/" not in output
    assert "[Softmax]" not in output and "5 failed, 1 passed" in said
    assert "def test(" not in output and "trouble" not in output        # nothing of the tests


def trouble(made, name, text=None):
    """What the tests of a folder say of a class, in a file with this text."""
    module, = (module for module, graded in made.graded if graded == name)
    if text is not None:
        Path(f"{module}.py").write_text(text)
    return first_trouble(name)


@pytest.mark.parametrize("forward", [False, True], ids=["backward", "forward"])
def test_the_whole_lstm_solved_passes(tmp_path, monkeypatch, forward):
    monkeypatch.chdir(tmp_path)
    made = homework(tmp_path, level="lstm", forward=forward)
    assert len(made.holes) >= 3 and set(made.files) == {"lstm.py"}
    for _, name in made.graded:
        assert trouble(made, name, solved(made, "lstm.py")) == ""


WAYS = [(name, "layer", False) for name in ALL] + [
    (name, *how) for name in LAYERS for how in (("layer", True), ("line", False), ("line", True))]


@pytest.mark.parametrize(("name", "level", "forward"), slow.but(WAYS[::9], WAYS, tuple))
def test_every_layer_fails_with_its_equation_until_it_is_solved(
        tmp_path, monkeypatch, name, level, forward):
    monkeypatch.chdir(tmp_path)
    made = homework(tmp_path, [name], level, forward, seed=3)
    (file, text), = made.files.items()
    said = trouble(made, name)
    assert HOLE in said and "\n" not in said
    assert any(said.endswith(hole.equation) for hole in made.holes)
    assert all(len(line) <= 100 for line in text.splitlines())
    if level == "layer":
        assert trouble(made, name, solved(made, file)) == ""


def test_a_file_holds_what_its_holes_need_and_no_answer(tmp_path):
    made = homework(tmp_path, ["Softmax", "LSTMCell"])
    assert {"softmax", "softmax_backward"} < set(functions(made.files["softmax.py"]))
    assert {"Cell.start", "sigmoid", "sum_rows"} < set(functions(made.files["lstm_cell.py"]))
    for text in made.files.values():
        blanks = [ast.unparse(f) + text.splitlines()[f.lineno] for f in functions(text).values()
                  if "NotImplementedError" in ast.unparse(f)]
        assert len(blanks) == 1 and "dx =" not in blanks[0] and "dy -" not in blanks[0]
    assert "#   cache has" in made.files["lstm_cell.py"]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "level", "forward"), list(itertools.product(
    (0, 3), ("layer", "line"), (False, True))))
def test_no_file_of_a_folder_holds_what_another_one_asks_for(tmp_path, level, forward, seed):
    made = homework(tmp_path, [*LAYERS, "DotAttention", "GroupNorm", "InstanceNorm"][seed:], level,
                    forward, seed)
    every = {name: {ast.unparse(s) for s in ast.walk(ast.parse(text)) if isinstance(s, ast.stmt)}
             for name, text in made.files.items()}
    assert len(made.holes) >= len(made.files)
    for hole in made.holes:
        full, left = (functions(text)[hole.qualname]
                      for text in (solved(made, hole.file), made.files[hole.file]))
        asked = {ast.unparse(s) for s in statements(full, forward)}
        asked -= {ast.unparse(s) for s in ast.walk(left) if isinstance(s, ast.stmt)}
        assert len(asked) == 1 or level == "layer" and asked
        for name, said in every.items():
            assert not asked & said, (hole.qualname, name)
    for text in made.files.values():
        for node in functions(text).values():
            assert forward or "dx = y" not in (ast.get_docstring(node) or "")


def test_what_is_called_is_asked_for_before_what_calls_it(tmp_path):
    """And each function that a folder asks for is tried by tests of its own."""
    made = homework(tmp_path / "one", ["MultiHeadAttention"])
    assert [h.qualname for h in made.holes] == ["attend_backward", "MultiHeadAttention.backward"]
    made = homework(tmp_path / "all")
    asked = [(h.qualname, h.file) for h in made.holes]
    assert ("attend_backward", "scaled_dot_attention.py") in asked and len(asked) == len(LAYERS)
    order = [name for name, _ in asked]
    assert order.index("softmax_backward") < order.index("CrossEntropy.backward")
    assert order.index("attend_backward") < order.index("MultiHeadAttention.backward")
    assert "import attend_backward" in made.files["multi_head_attention.py"]
    assert "import softmax_backward" in made.files["scaled_dot_attention.py"]


def test_equations_are_whole(tmp_path):
    """They have two sides, and of a line's equations all that read what it is the gradient of."""
    made = {h.qualname: h.equation for h in homework(tmp_path / "all").holes}
    assert all(" = " in equation for equation in made.values())
    assert made["softmax_backward"].startswith("y = exp(x) / sum exp(x)")
    assert "softmax(logits)" in made["CrossEntropy.backward"]
    module = Source("npdl.layers.recurrent")
    for cls, target, parts in [("GRUCell", "dx", ["a = x W_x + b"]), ("GRUCell", "du", ["r * u_h"]),
                               ("GRUCell", "dh_prev", ["u = h_prev W_h", "(1 - z) * h_prev"]),
                               ("GRUCell", "dr", ["h_hat = tanh(a_h + r * u_h)"]),
                               ("LSTMCell", "dz", ["z = x W_x", "in four blocks"])]:
        function = module.functions(cls, False, reached_by(find_class(cls)))[f"{cls}.backward"]
        line, = (s for s in ast.walk(function) if isinstance(s, ast.Assign)
                 and ast.unparse(s.targets[0]) == target)
        _, equation = line_hint(module.lines, module.definitions[cls], function, line)
        assert all(part in equation for part in parts), (cls, target, equation)


@pytest.mark.slow
def test_one_mistake_is_told_once_under_the_right_heading(tmp_path):
    made = homework(tmp_path / "work", ["Tanh", "LayerNorm", "Embedding", "Softmax"])
    for name, right, wrong in [
        ("tanh.py", "1 - y**2", "1 - y"), ("softmax.py", "dy - along_y", "dy - 2 * along_y"),
        ("layer_norm.py", "dx_hat = dy * self.gain.data", "dy *= self.gain.data; dx_hat = dy"),
        ("embedding.py", "ids, (V, D) = cache.ids, self.W.shape",
         "ids, (V, D) = cache.ids, self.W.shape\n        unknown"),
    ]:
        good = solved(made, name)
        assert good.count(right) == 1
        (tmp_path / "work" / name).write_text(good.replace(right, wrong))
    status, output = run_tests(tmp_path / "work")
    said = " ".join(output.split())
    assert status == 1 and "4 failed" in said
    for told in ("test[Tanh] _", "dx = dy * (1 - y) computed", "softmax.py:",
                 "the gradients are right, but dy is written into, in place"):
        assert said.count(told) == 1, told
    for never in ("no simple pattern", "gradients agree", "changes the cache", "right:", "line ?"):
        assert never not in said
    assert "'unknown' is not defined (embedding.py, line " in said


def test_what_is_told_where_blame_cannot_look(tmp_path, monkeypatch):
    """What differs, and why no line is named."""
    monkeypatch.chdir(tmp_path)
    made = homework(tmp_path, ["Tanh"])

    def refused(*given, **options):
        raise InputError("a debugger is there")

    monkeypatch.setattr("npdl_study.homework.selftest.blame", refused)
    said = trouble(made, "Tanh", solved(made, "tanh.py").replace("dx = dy", "dx = 2 * dy"))
    assert said.startswith("the gradient of x is wrong, by 1 of its largest entry\n\n")
    assert said.endswith("blame can't look: InputError: a debugger is there")


def test_a_backward_without_end_ends_at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selftest, "LIMIT", 0.5)
    made = homework(tmp_path, ["Tanh"])
    good = solved(made, "tanh.py")
    said = trouble(made, "Tanh", good.replace("return dx", "while True: dx = dx + 1"))
    line = good[: good.index("return dx")].count("\n") + 1
    assert said == f"not at an end after 0.5 seconds, at tanh.py:{line}: a loop without an end?"


def test_at_home_the_same_file_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = homework(tmp_path, ["Tanh"])
    good = solved(made, "tanh.py")
    for place in ("week/tanh.py", ".venv/tanh.py"):
        Path(place).parent.mkdir()
        Path(place).write_text(made.files["tanh.py"])
    assert trouble(made, "Tanh", good) == ""
    Path("tanh.py").rename("Tanh (1).py")
    assert HOLE in first_trouble("Tanh")                        # week/tanh.py
    Path("week/tanh.py").unlink()
    assert "did you mean 'Tanh (1).py'? Name it tanh.py" in first_trouble("Tanh")


@pytest.mark.slow
def test_what_an_lstm_is_made_of_is_told_first(tmp_path):
    homework(tmp_path, level="lstm")
    status, output = run_tests(tmp_path)
    assert status == 1 and "1 failed, 2 skipped" in output
    assert output.count(f"LSTMCell.backward in lstm.py {HOLE}") == 1


def test_the_easiest_comes_first(tmp_path):
    made = homework(tmp_path, ["MultiHeadAttention", "LayerNorm", "Sigmoid", "Tanh"])
    assert [name for _, name in made.graded] == ["Tanh", "LayerNorm", "MultiHeadAttention",
                                                "Sigmoid"]
    rows = [r for r in (tmp_path / "README.md").read_text().splitlines() if r.startswith("| 1 |")]
    assert "`Tanh.backward`" in rows[0]


@pytest.mark.slow
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
    for out in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(InputError, match="not an empty folder"):
            homework(out)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_command_says_what_it_wrote(tmp_path, capsys):
    out = tmp_path / "work"
    assert main(["homework", "--out", str(out), "--layers", "linear", "Linear"]) == 0
    assert "Linear.backward" in capsys.readouterr().out
    assert sorted(p.name for p in out.iterdir()) == ["README.md", "handed_out.json", "linear.py",
                                                     "test_homework.py"]
    assert "| `y = x W + b over the last axis" in (out / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("level", "name", "file", "right", "wrong"), [
    ("line", "Linear", "linear.py", "dx = dy_rows @", "dx = -dy_rows @"),
    ("layer", "LayerNorm", "layer_norm.py", "- stretch * x_hat", "+ stretch * x_hat"),
])
def test_blame_of_a_students_file(tmp_path, capsys, level, name, file, right, wrong):
    """Not written: what is missing; written wrongly: the line; written rightly: status 0."""
    made = homework(tmp_path / "unwritten", [name], level)
    good = solved(made, file)
    assert good.count(right) == 1
    for folder, text in (("wrong", good.replace(right, wrong)), ("right", good)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text(text)

    def blame(folder):
        status = main(["blame", f"{tmp_path / folder / file}:{name}"])
        return status, " ".join(capsys.readouterr().out.split())

    status, said = blame("unwritten")
    assert status == 1 and said.startswith("not written yet: ") and HOLE in said
    assert any(said.endswith(" ".join(hole.equation.split())) for hole in made.holes)
    line = good[: good.index(right)].count("\n") + 1
    status, said = blame("wrong")
    assert status == 1 and f"{file}:{line} in " in said and wrong in said
    status, said = blame("right")
    assert status == 0 and said.startswith("right: ")
