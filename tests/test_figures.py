"""Every figure of README.md and docs/ that has a source is that source's."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "experiments"))

import report  # noqa: E402  (found through the line above)
from reporting.front import luck  # noqa: E402
from reporting.parts import (  # noqa: E402
    AGAIN,
    CONTRADICTED,
    DEPENDS,
    FAILS,
    HOLDS,
    NO_CLAIM,
    OPEN,
)
from reporting.records import Store  # noqa: E402


def words(name):
    """A page as one line."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def numbers(pattern, page):
    """The numbers that a pattern's groups find in a page, once."""
    found = re.findall(pattern, page)
    assert len(found) == 1, f"{pattern}: {len(found)} times"
    return tuple(float(n) for n in (found[0] if isinstance(found[0], tuple) else found))


def column(name, row, heading, part=""):
    """The number in the column `heading` of the first row that begins with `row`, after `part`."""
    lines = (ROOT / name).read_text(encoding="utf-8").partition(part)[2].splitlines() if part else (
        (ROOT / name).read_text(encoding="utf-8").splitlines())
    head = next(cells(line) for line in lines if line.startswith("|") and heading in cells(line))
    line = next(line for line in lines if line.startswith(f"| {row}"))
    return float(cells(line)[head.index(heading)])


def cells(line):
    return [cell.strip() for cell in line.strip("| \n").split("|")]


def test_the_verdicts_of_the_readme_are_the_reports():
    store = Store()
    verdicts = [v for section in report.sections(store) for v in section.verdicts]
    found = Counter(v.verdict for v in verdicts)
    claims = len(verdicts) - found[NO_CLAIM] - found[AGAIN]
    kept = len(store.every())
    lucky = float(re.search(r"\*\*about (\d+) of", luck(verdicts)).group(1))
    assert numbers(
        r"beside (\d+) kept runs, .* of (\d+) claims (\d+) hold, (\d+) fail, (\d+) are "
        r"contradicted by the document itself, (\d+) depends? on what is meant, and (\d+) "
        r"are not decided by these seeds; some (\d+) of those decided", words("README.md")) == (
            kept, claims, *(found[kind] for kind in (HOLDS, FAILS, CONTRADICTED, DEPENDS, OPEN)),
            lucky)


def test_the_speeds_against_pytorch_are_the_benchmarks():
    rows = ("torch plain, fused AdamW |", "npdl |", "npdl, needed only |",
            "npdl, shared prefixes |")
    wanted = [column("docs/bench/step.md", row, "median ms", "### gpt") for row in rows]
    said = numbers(r"GPT, document's size \| ([\d.]+) ms \| ([\d.]+) ms \([\d.]+\) \| ([\d.]+) ms "
                   r"\([\d.]+\) \| ([\d.]+) ms", words("docs/speed.md"))
    assert said == pytest.approx(wanted, abs=0.05 + 1e-9)


def test_a_whole_training_is_the_benchmarks():
    rows = {line.split(" | ")[1]: cells(line) for line in
            (ROOT / "docs/bench/training.md").read_text().splitlines() if line.startswith("| gpt")}
    torch, ours = rows["torch plain, fused AdamW"], rows["npdl"]
    assert numbers(r"npdl ([\d.]+) s and (\d+) MB at the peak, the plain PyTorch loop ([\d.]+) s "
                   r"and (\d+) MB, ([\d.]+)\.", words("docs/speed.md")) == tuple(
                       map(float, (ours[3], ours[5], torch[3], torch[5], ours[4])))


def test_the_losses_on_a_text_are_the_metrics():
    table = words("experiments/results/text-gpt/README.md")
    ours, small, torch = numbers(
        r"validation loss of ([\d.]+)\].* and ([\d.]+) with GPT-2's starting values, where "
        r"PyTorch reaches ([\d.]+)\.", words("docs/results.md"))
    means = [float(value) for value in re.findall(r"\| (\d\.\d+) ± ", table)]
    for said in (ours, small, torch):
        assert any(abs(said - mean) <= 0.0051 for mean in means), said


def test_lists_of_layers_are_complete():
    from tests.running import npdl_layers

    for page in ("docs/gradients.md", "docs/parity.md"):
        text = (ROOT / page).read_text()
        for cls in npdl_layers():
            assert re.search(rf"\b{cls.__name__}\b", text), (page, cls.__name__)
