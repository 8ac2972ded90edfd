"""Beyond question 8: the Fourier spectrum of the number embeddings before and after grokking.

Built from results/fourier.json (reporting.extract). The table of the p numbers, as functions of
n = 0..p-1, is a sum of waves of frequencies 0..p//2; a random table has an equal share of its
power, up to chance, at each of the frequencies 1..p//2.
"""

import numpy as np

from experiments.reporting import extract
from experiments.reporting.attention import called
from experiments.reporting.draw import MARKERS, scale_y
from experiments.reporting.parts import Figure, Section, Table
from npdl_study.plots import style
from npdl_study.plots.embedding_spectrum import spectrum

NUMBERS, WIDTH = 31, 128
TABLES = 500                        # random ones, for the range that chance gives
MEMORISED, UNGENERAL, GENERAL = 0.99, 0.5, 0.9
NAMES = {"gpt": "GPT", "lstm": "LSTM"}


def section():
    """The Section on the spectrum of the number embeddings."""
    made = Section("Fourier spectrum of the number embeddings (beyond question 8)")
    entries, by = extract.one_origin(extract.load("fourier"))
    series = by_run(entries)
    pairs = {key: pair for key, run in series.items() if (pair := before_and_after(run))}
    if not pairs:
        made.parts.append("No spectra are there: `python experiments/reporting/extract.py fourier "
                          "RUN...` makes them from run folders.")
        return made
    chance = random_top()
    made.parts += [f"{introduction(chance)} {by}", spectra_figure(pairs),
                   spectra_table(series, chance), time_figure(series, chance),
                   conclusion(pairs, chance)]
    return made


def by_run(entries):
    """{(model, name): entries in the order of their steps}; the recipe as stated comes last."""
    def order(entry):
        extra = str(entry["settings"])
        return entry["model"], not entry["settings"], extra, entry["seed"], entry["step"]

    series = {}
    for entry in sorted(entries, key=order):
        series.setdefault((entry["model"], called(entry)), []).append(entry)
    return series


def before_and_after(run):
    """The last entry that has memorised but not generalised, and the last that generalises."""
    before = [e for e in run if e["accuracy"][0] >= MEMORISED and e["accuracy"][1] < UNGENERAL]
    after = [e for e in run if e["accuracy"][1] >= GENERAL]
    return (before[-1], after[-1]) if before and after else None


def top_share(shares):
    """Share of the power in the strongest of the frequencies."""
    return float(np.sort(shares)[-extract.TOP:].sum())


def random_top():
    """(mean, least, largest) share of the strongest frequencies over random tables."""
    rng = np.random.default_rng(0)
    shares = [top_share(spectrum(rng.standard_normal((NUMBERS, WIDTH)))) for _ in range(TABLES)]
    return float(np.mean(shares)), min(shares), max(shares)


# --- words ----------------------------------------------------------------------------------------
def introduction(chance):
    return (
        f"The rows of the numbers 0 to {NUMBERS - 1} of the embedding table are centred and "
        "transformed over n; the power of a frequency k = 1..15 is summed over the 128 columns, "
        f"and its share is of all fifteen. One number for a spectrum: the share of its "
        f"{extract.TOP} strongest frequencies. In {TABLES} random tables it is {chance[0]:.3f} "
        f"({chance[1]:.3f} to {chance[2]:.3f}). *Before* is the last of the checkpoints that has "
        f"memorised (training accuracy at least {MEMORISED}) and not generalised (validation "
        f"accuracy below {UNGENERAL}); *after* the last that generalises (at least {GENERAL}). "
        "Behind a run's seed stands its recipe."
    )


def conclusion(pairs, chance):
    """What the numbers show, said by rules."""
    befores = [top_share(before["shares"]) for before, _ in pairs.values()]
    afters = [top_share(after["shares"]) for _, after in pairs.values()]
    kept = [after["kept"][1] for _, after in pairs.values()]
    removed = [after["removed"][1] for _, after in pairs.values()]
    common = [len(set(before["top"]) & set(after["top"])) for before, after in pairs.values()]
    chance_common = extract.TOP**2 / len(next(iter(pairs.values()))[0]["shares"])
    grown = sum(a > b for a, b in zip(afters, befores, strict=True))
    above = sum(b > chance[2] for b in befores)
    needed = sum(k >= GENERAL and r < UNGENERAL for k, r in zip(kept, removed, strict=True))
    return (
        f"What it shows. Grokking goes with a sparser spectrum in {grown} of {len(pairs)} runs: "
        f"the {extract.TOP} strongest of 15 frequencies hold {span(befores, '.2f')} of the power "
        f"after memorising and {span(afters, '.2f')} after generalising; in {above} of "
        f"{len(pairs)} runs the share is above that of every random table before the model "
        "generalises. They are also what the model computes with: cut down to them (and the mean "
        f"row), the tables give {span(kept, '.1%')} of the validation set; without them, with the "
        f"other ten kept, {span(removed, '.1%')}. The first at least {GENERAL:.0%} and the second "
        f"below {UNGENERAL:.0%}: {needed} of {len(pairs)} runs. Of these {extract.TOP}, "
        f"{np.mean(common):.1f} on the average are among the {extract.TOP} strongest before the "
        f"model generalises; chance would give {chance_common:.1f}."
    )


def span(values, form):
    """Least and largest value as text."""
    return f"{min(values):{form}} to {max(values):{form}}"


# --- tables and figures ---------------------------------------------------------------------------
def spectra_table(series, chance):
    rows = []
    for (model, name), run in series.items():
        for entry in run:
            kept, removed = (f"{entry[which][1]:.3f}" for which in ("kept", "removed"))
            strong = ", ".join(map(str, entry["top"]))
            rows.append((f"{NAMES[model]}, {name}", str(entry["step"]),
                         f"{entry['accuracy'][0]:.3f}", f"{entry['accuracy'][1]:.3f}",
                         f"{top_share(entry['shares']):.3f}", strong, kept, removed))
    return Table(
        f"Share of the power in the {extract.TOP} strongest of 15 frequencies (random tables: "
        f"{chance[0]:.3f}), and the accuracy on the validation set with the number embeddings cut "
        "down to them, and with them taken away.",
        ("run", "step", "training accuracy", "validation accuracy", f"top {extract.TOP}",
         "frequencies", "kept alone", "removed"), rows, left=1)


def spectra_figure(pairs):
    data = [{"title": f"{NAMES[model]}, {name}", "steps": [b["step"], a["step"]],
             "shares": [b["shares"], a["shares"]]} for (model, name), (b, a) in pairs.items()]
    return Figure(
        "fourier-spectra", "F1",
        "Share of the power of the number embeddings at each frequency, memorised (grey) and "
        "generalising (blue). Dashed: an equal share for each.", data, draw_spectra,
        size=(5.2 * min(2, len(data)), 2.7 * -(-len(data) // 2)))


def draw_spectra(figure, data):
    panels = figure.subplots(-(-len(data) // 2), min(2, len(data)), squeeze=False, sharey=True,
                             sharex=True)
    for axes in panels.flat[len(data):]:
        axes.set_axis_off()
    for axes, one in zip(panels.flat, data, strict=False):
        k = np.arange(1, len(one["shares"][0]) + 1)
        colours = ("#a9a9a9", style.BLUE)
        for i, (shares, step, colour) in enumerate(zip(one["shares"], one["steps"], colours,
                                                       strict=True)):
            axes.bar(k + 0.4 * i - 0.2, shares, 0.4, color=colour, label=f"step {step}")
        axes.axhline(1 / len(k), color=style.VERMILION, linewidth=1, linestyle="--")
        axes.set_xticks(k)
        style.dress(axes, "", "", one["title"], grid="y")
        axes.legend(frameon=False, fontsize=8.5)
    figure.supxlabel("frequency k", fontsize=10)
    figure.supylabel("share of the power", fontsize=10)


def time_figure(series, chance):
    data = {"chance": list(chance), "runs": [
        {"model": NAMES[model], "name": name, "steps": [e["step"] for e in run],
         "top": [top_share(e["shares"]) for e in run],
         "accuracy": [e["accuracy"][1] for e in run]}
        for (model, name), run in series.items() if len(run) > 1]}
    return Figure(
        "fourier-time", "F2",
        f"Share of the {extract.TOP} strongest frequencies (above; band: random tables) and "
        "validation accuracy (below) at the checkpoints there are.", data, draw_time,
        size=(10.5, 6))


def draw_time(figure, data):
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    colours = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.ORANGE, style.SKY)
    for (above, below), model in zip(panels.T, ("GPT", "LSTM"), strict=True):
        style.dress(above, "", "", model)
        style.dress(below, "training step", "")
        above.axhspan(*data["chance"][1:], color="#dddddd", linewidth=0)
        runs = [run for run in data["runs"] if run["model"] == model]
        for i, (run, colour) in enumerate(zip(runs, colours, strict=False)):
            look = {"color": colour, "label": run["name"], "linewidth": 0.8,
                    "marker": MARKERS[i % len(MARKERS)], "markersize": 4 + 2 * i,
                    "markerfacecolor": "none" if i else colour}
            above.plot(run["steps"], run["top"], **look)
            below.plot(run["steps"], run["accuracy"], **look)
        above.set_ylim(0, 1.03)
        scale_y(below, "accuracy")
        if runs:
            below.legend(frameon=False, fontsize=8.5, loc="lower right")
    panels[0, 0].set_ylabel(f"share of the top {extract.TOP}")
    panels[1, 0].set_ylabel("A_val (widened near 1)")
