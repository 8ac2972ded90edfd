"""Two rules of docs/style.md: words to avoid, and how a docstring begins."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = re.compile(r"\b(mend|mends|mended|anew|whoever|foreseen|lest|for want of)\b", re.I)
BEGINNINGS = ("What ", "Whether ", "Of ", "The ", "That ", "How ", "Where ")
SUSPECT = re.compile(rf'^ +"""({"|".join(BEGINNINGS)})', re.M)      # of a class, or of a function


def list_tracked_files(*endings):
    """Return the tracked files with these endings."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git repository")
    return [name for name in listed.stdout.split("\n") if name.endswith(endings)]


def test_no_words_to_avoid():
    found = []
    for name in list_tracked_files(".py", ".md"):
        if name in ("docs/style.md", "tests/base/test_style.py"):
            continue
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").split("\n"), 1):
            found += [f"{name}:{number}: {match[0]}" for match in WORDS.finditer(line)]
    assert not found, "\n".join(found)


def test_docstrings_begin_with_a_verb():
    found = []
    for name in list_tracked_files(".py"):
        text = (ROOT / name).read_text(encoding="utf-8")
        if not name.startswith("tests/") and SUSPECT.search(text):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef) and (ast.get_docstring(node) or "").startswith(
                        BEGINNINGS):
                    found.append(f"{name}:{node.lineno}: {ast.get_docstring(node)[:60]}")
    assert not found, "\n".join(found)
