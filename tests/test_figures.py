"""Every figure of README.md and docs/ that has a source is that source's."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def words(name):
    """A page as one line."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def numbers(pattern, page):
    """The numbers that a pattern's groups find in a page, once."""
    found = re.findall(pattern, page)
    assert len(found) == 1, f"{pattern}: {len(found)} times"
    return tuple(float(n) for n in (found[0] if isinstance(found[0], tuple) else found))


def cells(line):
    return [cell.strip() for cell in line.strip("| \n").split("|")]


def benchmarks(name, heading):
    """[(case, {variant: the number under `heading`})] of a file of docs/bench, and PyTorch's best.

    "torch" is the best form that does equal work as it is installed.
    """
    found = []
    for part in (ROOT / "docs" / "bench" / name).read_text().split("### ")[1:]:
        rows = [cells(line) for line in part.splitlines() if line.startswith("|")]
        place = rows[0].index(heading)
        values = {row[0]: float(row[place]) for row in rows[2:] if "memory kept" not in row[0]}
        best = min if "ms" in heading else max
        theirs = [values[row[0]] for row in rows[2:] if row[0] in values and row[1] == "equal"
                  and row[0].startswith("torch")]
        found.append((part.partition(":")[0], {**values, "torch": best(theirs)}))
    return found


def test_the_speeds_against_pytorch_are_the_benchmarks():
    text = (ROOT / "docs/speed.md").read_text().partition("## Against PyTorch")[2]
    rows = [[float(cell.split()[0]) for cell in cells(line)[1:] if cell]
            for line in text.splitlines() if line.startswith("|") and " ms |" in line]
    runs = benchmarks("step.md", "median ms")
    runs = [of for case in ("gpt", "lstm", "text") for name, of in runs if name == case]
    assert len(rows) == len(runs)
    for said, of in zip(rows, runs, strict=True):
        wanted = [of["torch"], of["npdl"], of.get("npdl, needed only"),
                  of.get("npdl, shared prefixes")][:len(said)]
        assert said == pytest.approx(wanted, abs=0.051)


def test_two_runs_at_once_are_the_benchmarks():
    (_, gpt), (_, lstm), *_ = benchmarks("sweep.md", "steps/s in total")
    assert numbers(r"GPT ([\d.]+) steps a second of both together against PyTorch's ([\d.]+), LSTM "
                   r"([\d.]+) against ([\d.]+) ", words("docs/speed.md")) == (
        gpt["npdl, shared prefixes"], gpt["torch"], lstm["npdl, shared prefixes"], lstm["torch"])


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
