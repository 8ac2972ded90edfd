"""Every figure of README.md and docs/ that has a source is that source's."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


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


def tables(name):
    """[(title, [{heading: cell} of each row])] of the tables of a file of docs/bench."""
    found, title = [], ""
    for block in (ROOT / "docs/bench" / name).read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        title = block.removeprefix("### ") if block.startswith("### ") else title
        if lines:
            head, _, *rows = map(cells, lines)
            found.append((title, [dict(zip(head, row, strict=True)) for row in rows]))
    return found


def variants(name):
    """[{variant: its row}] of the tables that have a row for each variant."""
    return [{row["variant"]: row for row in rows} for _, rows in tables(name)
            if "variant" in rows[0]]


def installed(rows):
    """The forms of PyTorch that do equal work, as they are installed."""
    return [row for name, row in rows.items() if name.startswith("torch")
            and row["work"] == "equal" and "memory kept" not in name]


def least(rows, heading):
    return min(rows, key=lambda row: float(row[heading]))


PLAIN, SHARED = "npdl, plain (the textbook)", "npdl, shared prefixes, tree prepared"


def test_the_speeds_against_pytorch_are_the_benchmarks():
    text = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    said = [cells(line)[1:] for line in text.splitlines() if line.startswith("|") and " ms" in line]
    wanted = []
    for rows in variants("step-zen5.md"):
        best = float(least(installed(rows), "median ms")["median ms"])
        ours = [rows[name] for name in (PLAIN, "npdl", SHARED) if name in rows]
        wanted.append([f"{best:.1f} ms", *(f"{float(row['median ms']):.1f} ms "
                                           f"({row['/ best torch']})" for row in ours)])
    assert said == wanted


def of_the_step():
    """What docs/speed.md says of a step beside that table."""
    steps = variants("step-zen5.md")
    gpt, lstm, _ = steps
    best = [least(installed(rows), "median ms") for rows in steps]
    ours = [rows.get(SHARED, rows["npdl"]) for rows in steps]
    avx2 = [rows["npdl, AVX2 kernels"] for rows in steps]
    kept = float(lstm["torch nn.LSTM, fused AdamW, memory kept"]["median ms"])
    less = gpt["torch plain, fused AdamW, no dead work"]
    return [
        "takes {}, {} and {} MB, PyTorch's {}, {} and {}.".format(
            *(row["peak MB"] for row in ours + best)),
        f"run at {gpt['products, NumPy, 2 shards']['GFLOP/s']} GFLOP/s in NumPy and at "
        f"{gpt['products, torch']['GFLOP/s']} in PyTorch",
        "npdl takes {} (GPT), {} (LSTM) and {} (text) of PyTorch's time at equal work.".format(
            *(row["/ best torch"] for row in avx2)),
        f"memory kept for it too {float(lstm['npdl']['median ms']) / kept:.2f}.",
        f"takes {float(less['median ms']):.1f} ms, {less['/ best torch']} of its own time.",
    ]


def of_the_sweep():
    rates = []
    for rows in variants("sweep.md"):
        theirs = [row["steps/s in total"] for row in installed(rows)]
        rates += [rows[SHARED]["steps/s in total"], max(theirs, key=float)]
    return ["Two runs at once, one thread each: GPT {} steps a second of both together against "
            "PyTorch's {}, LSTM {} against {} ([all forms](bench/sweep.md)).".format(*rates)]


def of_the_training():
    [(_, rows)] = tables("training.md")
    torch, npdl = [row for row in rows if row["model"] == "gpt"]
    return [f"From start to exit, {int(npdl['steps']):,} updates of the GPT: npdl "
            f"{npdl['seconds']} s and {npdl['peak MB']} MB at the peak, the plain PyTorch loop "
            f"{torch['seconds']} s and {torch['peak MB']} MB, {npdl['ratio']} "
            "([table](bench/training.md))."]


def of_the_explanation():
    said = []
    for rows in variants("explain.md"):
        last = rows.get(SHARED, rows["npdl, 2 shards"])
        said.append(f"{float(rows[PLAIN]['ms']):.1f} ms to {float(last['ms']):.1f} ms, "
                    f"{last['factor to the first']} times as fast")
    return ["From the textbook's step to the script's, two cores: GPT {}; LSTM {}; text {} "
            "([all arrangements and parts](bench/explain.md)).".format(*said)]


def of_the_growth():
    def ahead(name):
        found = {}
        for row in tables(name)[0][1]:
            ms = {variant: float(cell.split(" / ")[0]) for variant, cell in row.items()
                  if " / " in cell}
            if ms["npdl"] > min(ms[variant] for variant in ms if variant.startswith("torch")):
                found.setdefault(row["axis"], []).append(row["value"])
        return "; ".join(f"{axis} {', '.join(sizes)}" for axis, sizes in found.items()) or "nowhere"

    return [f"Where PyTorch's faster form is ahead at equal work: GPT, {ahead('growth-gpt.md')} "
            f"([numbers](bench/growth-gpt.md)). LSTM, {ahead('growth-lstm.md')} "
            "([numbers](bench/growth-lstm.md))."]


@pytest.mark.parametrize("said, files, beginning", [
    (of_the_step, ["step-zen5.md"], "What decides most is the kernels."),
    (of_the_sweep, ["sweep.md"], "Two runs at once, one thread each:"),
    (of_the_training, ["training.md"], "From start to exit,"),
    (of_the_explanation, ["explain.md"], "From the textbook's step to the script's"),
    (of_the_growth, ["growth-gpt.md", "growth-gpt.png", "growth-lstm.md", "growth-lstm.png"],
     "Where PyTorch's faster form is ahead"),
], ids=["step", "sweep", "training", "explain", "growth"])
def test_what_is_said_of_speed_is_the_benchmarks(said, files, beginning):
    """All of its files are there and linked, and its sentences are theirs; or nothing is."""
    page = words("docs/speed.md")
    there = [(ROOT / "docs/bench" / name).exists() for name in files]
    linked = [f"(bench/{name})" in page for name in files]
    assert there == linked == [beginning in page] * len(files)
    for sentence in said() if beginning in page else []:
        assert sentence in page


def test_every_kept_benchmark_is_linked():
    page = words("docs/speed.md")
    for file in (ROOT / "docs/bench").iterdir():
        assert f"(bench/{file.name})" in page, file.name


def test_the_losses_on_a_text_are_the_metrics():
    table = words("experiments/results/text-gpt/README.md")
    ours, small, torch = numbers(
        r"validation loss of ([\d.]+)\].* and ([\d.]+) with GPT-2's starting values, where "
        r"PyTorch reaches ([\d.]+)\.", words("docs/results.md"))
    means = [float(value) for value in re.findall(r"\| (\d\.\d+) ± ", table)]
    for said in (ours, small, torch):
        assert any(abs(said - mean) <= 0.0051 for mean in means), said


def test_lists_of_layers_are_complete():
    from tests.tools.running import npdl_layers

    for page in ("gradients.md", "mutation.md"):
        rows = set(re.findall(r"^\| (\w+) ", (ROOT / "docs/generated" / page).read_text(), re.M))
        missing = {cls.__name__ for cls in npdl_layers() if "backward" in vars(cls)} - rows
        assert not missing, f"docs/generated/{page}: python -m tests.tools.pages adds {missing}"


def test_what_is_counted_of_the_wing():
    """Kernels, those that may be wrong, options, choices; what a step asks of a card."""
    from tests.fast import cases, test_interrupts
    from tests.tools import broken_kernels

    page = words("docs/gpu.md")
    kernels, harmless = numbers(r"each of the (\d+) fused kernels,.* but for (\d+) that are", page)
    assert (kernels, harmless) == (len(broken_kernels.KERNELS), len(broken_kernels.HARMLESS))
    asked = numbers(r"'s GPT starts (\d+) kernels, products and fills, one of its LSTM (\d+), "
                    r"one of a text's .* (\d+), and all", page)
    held = numbers(r'LAUNCHES = \{"gpt": (\d+), "lstm": (\d+), "text": (\d+)\}',
                   words("tests/gpu/test_gpu.py"))
    assert asked == held
    said = numbers(r"each of (\d+) options of a GPT and (\d+) of an LSTM,.*`--slow`, (\d+) choices",
                   words("docs/fast.md"))
    counts = [len(cases.options(kind)) for kind in cases.DRAWN]
    assert said == (*counts, sum(cases.DRAWN.values()))
    assert numbers(r"with `--slow` (\d+) times, both models", words("docs/fast.md")) == (
        2 * sum(test_interrupts.MANY.values()),)


def milliseconds(day, case):
    """[of npdl, of PyTorch's faster graph] with a new batch each time, and {name: of others}."""
    page = (ROOT / "docs/bench" / day).read_text(encoding="utf-8")
    row = rf"^\| speed \| {re.escape(case)}, (.+?) \| (.+?) ms a step"
    found = dict(re.findall(row, page, re.M))
    own, *peers = (found[f"{name}, a new batch each time"]
                   for name in ("npdl fast", "torch compiled", "torch captured"))
    return [own, min(peers, key=float)], found


def test_the_milliseconds_on_a_card_are_the_days():
    page = (ROOT / "docs/gpu.md").read_text(encoding="utf-8")
    said = [cells(line) for line in page.splitlines() if re.match(r"\| (GPT|LSTM|text), ", line)]
    assert len(said) == 7
    for case, *row in said:
        case = "text, a text" if case.startswith("text") else case.lower()
        best, found = milliseconds("h200.md", case)
        rounded, _ = milliseconds("h100-tf32.md", case)
        shares = [f"{float(own) / float(peer):.2f}" for own, peer in (best, rounded)]
        assert row == [*best, found["torch eager"], found["NumPy fast"], *shares]
    for day in ("h200.md", "h100.md"):
        (rows,) = re.findall(r"rows: (\d+), bad: 0, left out: 0",
                             (ROOT / "docs/bench" / day).read_text(encoding="utf-8"))
        assert re.search(rf"\[{rows}[^\]]*\]\(bench/{day}\)", words("docs/gpu.md"))


def test_the_minutes_of_the_quick_start_are_the_benchmarks():
    (_, rows), = tables("training.md")
    seconds = next(float(row["seconds"]) for row in rows if row["by"] == "npdl")
    assert "(two to three minutes on two cores)" in words("README.md")
    assert 2 < seconds / 60 < 3


def test_the_books_late_jumps_are_the_laboratorys():
    from experiments.grokking import answers

    known, page = answers.values(), words("docs/book/chapters/17-grokking.md")
    assert f"{known['later']} steps later" in page and f"give {known['predicted']}." in page
