"""docs/debugging.md: its program runs, and pdb prints its session."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")


def run_program(command, stdin, cwd=ROOT):
    done = subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, text=True,
                          timeout=120, env={"PYTHONPATH": str(ROOT)})
    return done.stdout, done.stderr


@pytest.mark.slow
def test_documented_session_equals_output_of_pdb(tmp_path):
    command = re.search(r"^python (-m pdb .* --out) runs/debug$", DOCUMENT, re.M)[1].split()
    session = re.search(r"^\(Pdb\).*?(?=^```)", DOCUMENT, re.M | re.S)[0]
    parts = re.split(r"^\(Pdb\) (.*)\n", session, flags=re.M)
    typed, shown = parts[1::2], parts[2::2]
    for again in ([], ["--resume"]):
        said, trouble = run_program([sys.executable, *command, str(tmp_path / "debug"), *again],
                                    "\n".join(typed) + "\n")
        answers = said.split("(Pdb) ")[1:]
        assert len(answers) == len(typed), said + trouble
        for told, wanted, answer in zip(typed, shown, answers, strict=True):
            kept = re.sub(r"^(> .*|Breakpoint .*)\n", "", answer, flags=re.M)
            assert wanted.strip() == kept.strip(), told


def test_a_breakpoint_is_at_the_line_that_the_document_quotes():
    for file, number in re.findall(r"\bb (npdl/\S+?):(\d+)", DOCUMENT):
        line = (ROOT / file).read_text(encoding="utf-8").splitlines()[int(number) - 1]
        assert f"`{line.partition('  #')[0].strip()}`" in DOCUMENT


def test_documented_file_stops_before_backward(tmp_path):
    code = re.search(r"```python\n(.*?)```", DOCUMENT, re.S)[1]
    (tmp_path / "debug.py").write_text(code)
    said, _ = run_program([sys.executable, "debug.py"], "p y.shape\ns\nc\n", tmp_path)
    assert "(2, 4, 5)" in said and "def backward(self, dout, cache)" in said
