"""`python -m npdl profile`: the most expensive lines, and the page beside the source."""

import re
from html import unescape

import pytest

from npdl import SGD, Linear
from npdl.__main__ import main
from npdl.engine import compile_step
from npdl.engine.profile import Line, profile
from npdl.errors import InputError
from npdl.losses import SquaredError
from npdl.study.profile import add_arguments, format_page

ROW = re.compile(r"<td>([\d.]*)<td>([\d.]*)%?<td>[\d.]*<td>[\d.]*<td>(\d+)<td>(.*?)</tr>")


def test_the_page_shows_each_line_that_costs_time_beside_its_source(tmp_path, capsys):
    path = tmp_path / "norm.html"
    assert main(["profile", "LayerNorm", "--target", "numpy", "--html", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    text = path.read_text(encoding="utf-8")
    rows = [(share, code) for _, share, _, code in ROW.findall(text)]
    codes = [unescape(re.sub("<[^>]*>", "", code)).strip() for share, code in rows if share]
    assert "dx = (dx_hat - shift - stretch * x_hat) / std" in codes and len(codes) > 8
    assert sum(float(share) for share, _ in rows if share) == pytest.approx(100, abs=2)
    assert len(rows) > len(codes) and not re.search(r"(src|href|url)\s*[=(]", text)


def test_the_most_expensive_function_comes_first():
    file = format_page.__code__.co_filename
    numbers = [function.__code__.co_firstlineno for function in (format_page, add_arguments)]
    lines = [Line(file, numbers[0], 1, 0.001), Line(file, numbers[1], 1, 0.003)]
    text = format_page(lines, "<Net>")
    assert "A step of &lt;Net&gt;: 4 ms" in text
    assert text.index("<h2>add_arguments, 75.0%</h2>") < text.index("<h2>format_page, 25.0%</h2>")
    assert ("1.000", "25.0", str(numbers[0])) in [row[:3] for row in ROW.findall(text)]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_without_a_recording_is_refused_in_one_line(threads):
    model = Linear(2, 2)
    step = compile_step(model, SquaredError(), SGD(model, 0.1), threads=threads)
    with pytest.raises(InputError, match="make the step with threads=1, and call it once"):
        profile(step.recorded)


@pytest.mark.parametrize(("name", "width", "line"), [
    ("LSTM", "8", "dz = xp.concatenate("), ("LSTMCell", "8", "dz = xp.concatenate("),
    ("GPT", "8", "m[...] = b1 * m"), ("Embedding", "8", "sum_by_index(dy, ids, V)"),
    ("Linear", "512", " 4.19 ")])           # MFLOP: 2 * 8 rows * 512**2
def test_the_lines_that_cost_time_are_listed(name, width, line, capsys):
    assert main(["profile", name, "--target", "numpy", "--batch", "2", "--length", "4",
                 "--width", width]) == 0
    assert line in capsys.readouterr().out
