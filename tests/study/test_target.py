"""The command line of step and blame: layers, inputs, one-line errors, and code that misbehaves."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npdl import Embedding
from npdl.__main__ import main
from npdl.backend import make_rng
from npdl.errors import InputError
from npdl.study.check import examples, samples
from npdl.study.check.target import build_layer_and_inputs
from npdl.study.trees import as_tuple, draw_upstream, leaves
from tests.tools.refusals import check_refused

MINE = '''
import sys
import numpy as np
from npdl.core import Cache, Layer, Param

class Mine(Layer):
    def __init__(self):
        self.W = Param(np.ones((3, 3)))
        {init}
    @classmethod
    def sample(cls):
        {sample}
        return cls(), np.random.default_rng(0).standard_normal((2, 3))
    def forward(self, x):
        {forward}
        y = x @ self.W.data
        return y, Cache(x=x)
    def backward(self, dy, cache):
        {backward}
        self.W.grad += cache.x.T @ dy
        dx = dy @ self.W.data.T
        return dx
'''
ARRAYS = '''
import numpy as np

class Affine:
    def __init__(self, W, b, scale=1.0):
        self.W, self.b = W, b

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, dy):
        self.dW, self.db = self.x.T @ dy, dy.sum(0)
        return dy @ self.W.T

def relu_forward(x):
    return np.maximum(x, 0), x

def relu_backward(dout, x):
    return dout * (x > 0)

def scale_forward(x, s): return x * s, (x, s)
def scale_backward(dout, cache): return dout * cache[1], dout * cache[0]
'''


def write_layer_file(folder, **lines):
    path = folder / "mine.py"
    path.write_text(MINE.format(**dict.fromkeys(("init", "sample", "forward", "backward"), "")
                                | lines))
    return f"{path}:Mine"


@pytest.mark.parametrize(("words", "text"), [
    (["LSTMM"], "did you mean LSTM"),
    (["arrays.py"], "arrays.py is not a layer; give arrays.py:NAME. NAME is a class with"),
    (["arrays.py:Nothing"], "In this file: Affine, relu, scale\n"),
    (["arrays.py:relu", "--set", "x=2"], "relu takes no argument 'x'; it takes none"),
    (["arrays.py:scale", "--input", "x=2,3"], "scale needs s: give --input s=2,3, or write a "
     "function scale_sample()\n"),
    (["LSTM", "--set", "d_in=3"], "LSTM: the input has shape (2, 3, 2); it must be (B, S, 3)"),
    (["none.py:Mine"], "there is no file none.py"),
    (["no_module:Mine"], "no_module can't be imported: ModuleNotFoundError"),
    (["LSTM", "--set", "d_model=abc"], "LSTM takes no argument 'd_model'; it takes d_in, d_hidden"),
    (["LSTM", "--set", "d_in=abc"], "d_in = 'abc'; it must be a positive integer"),
    (["LSTM", "--set", "d_in"], "--set 'd_in' is not of the form name=value"),
    (["Linear", "--input", "x=2,0"], "x=2,0 is not a shape"),
    (["Linear", "--input", "z=2,3"], "Linear.forward has no argument 'z'; it takes x"),
    (["arrays.py:Affine", "--set", "W=3,2"], "--set W=3,2 needs --input too"),
    (["arrays.py:Affine"], "the inputs of forward are not known; give the shape of each"),
    (["arrays.py:Affine", "--input", "x=2,3"], "Affine needs W, b: give --set W=4 for"),
])
def test_command_line_errors_give_one_line(tmp_path, monkeypatch, capsys, words, text):
    monkeypatch.chdir(tmp_path)
    Path("arrays.py").write_text(ARRAYS)
    for command in ("step", "blame"):
        check_refused(main, [command, *words], text, capsys)


def test_set_gives_numbers_arrays_and_options_of_npdls_layers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("arrays.py").write_text(ARRAYS)
    layer, inputs, _ = build_layer_and_inputs("arrays.py:Affine", ["x=2,3"], ["W=3,2", "b=2,"])
    assert layer.original.W.shape == (3, 2) and layer.original.b.shape == (2,)
    assert inputs[0].shape == (2, 3)
    layer, _, _ = build_layer_and_inputs("LSTM", (), ["num_layers=2"])
    assert len(layer.layers) == 2
    for command in ("step", "blame"):
        assert main([command, "arrays.py:Affine", "--input", "x=2,3", "--set", "W=3,2", "--set",
                     "b=2,"]) == 0
        assert main([command, "arrays.py:relu", "--input", "x=2,3"]) == 0


ODD = {
    "sys.exit in backward": (dict(backward="sys.exit(7)"), 2, "Mine called sys.exit(7); remove"),
    "sys.exit in sample": (dict(sample="sys.exit()"), 2, "Mine called sys.exit(None); remove"),
    "no layer": (dict(sample="return 5, np.ones((2, 3))"), 2, "must return an instance of Mine"),
    "no text": (dict(backward="raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})"),
                1, "Odd: (its text can't be shown: "),
    "a surrogate": (dict(backward="raise ValueError('a \\ud800 b')"), 1, "ValueError: a ? b"),
    "escape codes": (dict(backward="raise ValueError('\\x1b[31mred')"), 1, "ValueError: ?[31mred"),
    "recursion": (dict(forward="self.forward(x)"), 1, "RecursionError"),
    "an endless backward": (dict(backward="while True: dy = dy + 0"), 2, "19: an endless loop"),
    "Ctrl-C": (dict(forward="raise KeyboardInterrupt"), 130, ""),
}


@pytest.mark.parametrize("what", ODD)
def test_code_that_misbehaves_gets_a_message_and_a_status(tmp_path, capsys, what):
    lines, status, words = ODD[what]
    limit, name = "0.5" if "endless" in what else "60", write_layer_file(tmp_path, **lines)
    assert main(["step", name, "--limit", limit]) == status
    said = capsys.readouterr()
    assert words in said.out + said.err and "Traceback" not in said.err
    assert said.err.count("\n") == (status == 2) and "\033" not in said.out
    assert main(["blame", name, "--limit", limit]) == status
    said = capsys.readouterr()
    (said.out + said.err).encode("utf-8")
    assert said.err.count("\n") == (status == 2) and "\033" not in said.out


def test_the_limit_says_what_is_known_so_far(tmp_path, capsys):
    path = tmp_path / "slow.py"
    path.write_text("import numpy as np\ndef slow_forward(x):\n    y = x\n"
                    "    for _ in range(3000):\n        y = np.tanh(y)\n    return x * x, x\n"
                    "def slow_backward(dy, x):\n    return dy * x\n")
    assert main(["blame", f"{path}:slow", "--input", "x=20,20", "--limit", "1"]) == 2
    assert "of 400 numerical derivatives are computed" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["blame", f"{path}:slow", "--limit", "abc"])
    assert "--limit: abc must be a number of seconds, above 0" in capsys.readouterr().err


def test_numpy_is_a_library_wherever_it_lies(tmp_path):
    """NumPy in a folder of PYTHONPATH, as `pip install --user` or a cluster's modules have it."""
    for path in Path(np.__file__).parents[1].glob("numpy*"):
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "arrays.py").write_text(ARRAYS)
    command = [sys.executable, "-S", "-m", "npdl", "step", "arrays.py:relu", "--input", "x=2,3"]
    done = subprocess.run(command, cwd=tmp_path / "work", capture_output=True, text=True, env={
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"})
    assert done.returncode == 0 and "input x" in done.stdout, done.stdout + done.stderr
    assert "RecursionError" not in done.stdout and "_multiarray" not in done.stdout


def test_example_writes_a_layer_that_is_right_and_nothing_else(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["example"]) == 0
    assert "python -m npdl blame mine.py:MyLayer" in capsys.readouterr().out
    for command in ("step", "blame"):
        assert main([command, "mine.py:MyLayer"]) == 0
    text = Path("mine.py").read_text()
    assert main(["example"]) == 2 and main(["example", "--out", "mine.txt"]) == 2
    assert capsys.readouterr().err.count("\n") == 2 and Path("mine.py").read_text() == text
    Path("wrong.py").write_text(text.replace("dz = ds * s", "dz = -ds * s"))
    assert main(["step", "wrong.py:MyLayer"]) == main(["blame", "wrong.py:MyLayer"]) == 1
    assert "dz = -ds * s * (1 - s)" in capsys.readouterr().out


# --- the table of examples --------------------------------------------------------------------


def compute_outputs_and_gradients(layer, inputs, options):
    """Return {path: array} of the outputs, the gradients and the running statistics of a sample."""
    with np.errstate(all="ignore"):
        outputs, cache = layer.forward(*inputs, **options)
        dx = layer.backward(draw_upstream(outputs, make_rng(0, 78)), cache)
    return dict(leaves(outputs, "y")) | dict(leaves(as_tuple(dx), "dx")) | {
        path: param.grad if param.trainable else param.data
        for path, param in layer.params(with_frozen=True)}


def are_different(found, expected):
    return found.keys() != expected.keys() or any(
        a.shape != expected[path].shape or not np.allclose(a, expected[path], 0, 1e-6)
        for path, a in found.items())


def test_an_option_without_a_value_is_an_error(monkeypatch):
    class Other(Embedding):
        def __init__(self, *sizes, loud=False, **keywords):
            super().__init__(*sizes, **keywords)

    with pytest.raises(InputError, match="examples.py has no value for the option 'loud' of Other"):
        samples.list_option_values(Other)
    monkeypatch.setitem(examples.VALUES, "loud", [True])
    assert samples.list_option_values(Other)[0] == ("loud", True)


@pytest.mark.parametrize("cls", samples.find_layer_classes().values(), ids=lambda cls: cls.__name__)
def test_every_option_changes_the_result(cls):
    for name, value in samples.list_option_values(cls):
        layer, inputs, options = samples.make_sample_with_option(cls, name, value)
        layer, inputs = samples.make_random_float64_copy(layer, inputs)
        made, more = examples.TOGETHER.get(name, ({}, {}))
        taken = inspect.signature(cls.__init__).parameters
        given = {n: v for n, v in made.items() if n in taken}
        plain, before, given = samples.make_example_call(cls, **given)
        plain, before = samples.make_random_float64_copy(plain, before)
        own = dict(layer.params())
        for path, param in plain.params():
            if path in own and own[path].shape == param.shape:
                param.data[...] = own[path].data
        try:
            expected = compute_outputs_and_gradients(plain, before, given | more)
        except InputError:                              # it doesn't run without the option
            continue
        found = compute_outputs_and_gradients(layer, inputs, options)
        is_input = name == "state" and len(before) == len(inputs)
        assert is_input or are_different(found, expected), (name, value)
