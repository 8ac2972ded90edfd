"""What README.md prints is what the project does."""

import contextlib
import io
import re
from pathlib import Path

from tests.tools.trace_table import layers

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)


def test_the_lstms_backward_stands_in_the_file():
    assert BLOCKS[0] in (ROOT / "npdl" / "layers" / "recurrent.py").read_text()


def test_the_training_loop_runs_and_learns():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(BLOCKS[1], "README.md", "exec"), {})
    loss, accuracy = map(float, out.getvalue().split())
    assert loss < 0.1 and accuracy == 1


def test_lines_that_run():
    found = {name: traced.of_pages()[2] for name, traced in layers().items()}
    said = re.search(r"LayerNorm's forward and backward are (\d+) lines, an LSTM's through time "
                     r"(\d+), a GPT's (\d+)", " ".join(TEXT.split()))
    assert tuple(map(int, said.groups())) == (found["LayerNorm"], found["LSTM through time"],
                                             found["GPT"])


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), ROOT / "experiments" / "REPORT.md"]
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), (page.name, link)
