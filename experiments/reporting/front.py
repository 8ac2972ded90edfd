"""The first pages of the report: answers, limitations, verdicts and runs counted, the rules."""

from experiments import study
from experiments.reporting.answers import WORDS, answers
from experiments.reporting.effects import summary_figure
from experiments.reporting.parts import (
    AGAIN,
    CONTRADICTED,
    DECIDED,
    DEPENDS,
    FAILS,
    HOLDS,
    NO_CLAIM,
    OPEN,
    VERDICTS,
    Table,
    part_markdown,
)
from experiments.reporting.records import NAMES, label_of, recipe_words, setting, variant
from experiments.reporting.sanity import TABLE
from npdl.training.recipes import RECIPES

QUESTIONS = {"sanity": "1, 2: the default recipe", "data": "3: r_train",
             "mixed": "4: mixed orders", "model": "5: layers, width", "compute": "6: batch size",
             "decay": "7: weight decay", "further": "more seeds of the default recipe",
             "puzzle": "readings of the recipe"}

RULES = """\
## How a verdict is reached

* **A printed number** is the mean ± population deviation of two seeds, so its range is that of \
the two runs. It *holds* where the document's range and ours overlap, once widened by the rounding \
of what is printed, or by the 100 steps between two evaluations; losses are compared by their \
logarithms. Where they do not overlap, it *fails* if Student's test (two samples, equal variance) \
tells them apart at 5 %, and else is *not decided by these seeds*. What range of printed numbers \
would have held stands beside it: it is wide.
* **A statement** is turned into a test of numbers, which stands in the tables, and looked at \
within each seed: it *holds* if it is true with both, *fails* if it is false with both, and is \
*not decided by these seeds* if they disagree. Where there are five seeds, four must agree.
* Where the words can mean several things (a *low budget* is judged at α = 0.1, 0.2 and 0.3), \
each is tested: one that holds and one that fails make it *depend on what is meant*; otherwise \
those that are decided decide, if they are at least half.
* Where a verdict hangs on a threshold, what it is at half and at twice of it stands beside it \
(for an accuracy or a share: of what it leaves to 1, but for one of at most 0.5, of itself; for a \
factor: of what it has above 1; for several thresholds: of each by itself; for several readings: \
of all together), and what it is by the other recipes, where their runs are there.
* What another place of the document denies is *contradicted by the document itself*, whatever \
our runs say; what they say stands beside it. What another place says, too, is counted there; \
so are the differences of a table's own rows. Our own readings of the recipe (the loss puzzle) \
are counted nowhere.
* Where a run is missing, nothing is decided. Runs of a model by different code, or on different \
processors, are never in one verdict or one column; columns, and the verdicts by other recipes, \
may be by other code than their neighbours, as the runs' list says.
* In the tests, generalised means A_val ≥ 0.9 and memorised A_train ≥ 0.99. How unsteady an \
accuracy is, its *shortfall* says: how far it lies below its own highest value so far, on average \
over the evaluations. A trend is a rank correlation of at least 0.5 in size: among nine settings \
chance gives that in 18 of 100 cases, among five in 45, so a trend that holds is a weak finding.

The rules for questions 3 to 7 were fixed before most of their runs existed. Set or changed after \
runs were seen: the bounds of the loss puzzle; the logarithms, the three low budgets, the windows \
that end before the jumps, and the readings, when the verdicts were known.

Claims about the arithmetic of the document's \
own tables are judged in the [ledger of the exercises](../exercises/LEDGER.md)."""

LIMITS = """\
## Limitations

* Two seeds decide half of all coin flips: hence the lucky verdicts above.
* One task (addition modulo 31, 961 equations; modulo 11 for question 4), one learning rate, one \
training length each. What is said of width, depth or batch size is said of these.
* The recipe is a reading of the document, not its code run again; the document's figures were \
read by eye, so that only its printed numbers and words are judged.
* By the release recipe, another start of the LSTM, verdicts change (each answer says how many, \
and how many into the opposite); two seeds, and in part older code, could do this, too, so that \
the start's own part is not known.
* In questions 3 to 6 the LSTM's runs and the GPT's are by different code: no column of a table \
mixes them, but each claim that compares the two does.
* L_val and A_val are the best of some hundred evaluations on the validation set itself, which \
favours runs that fluctuate, the GPT's above all.
* How far rounding alone moves a training is measured with one seed (the section on rounding)."""


def front(store, sections):
    """The report up to its first section, as Markdown."""
    judged = [verdict for section in sections for verdict in section.verdicts]
    return "\n\n".join([
        "# The study of document 004, Problem 4",
        "Written by `python experiments/report.py` from the records in `results/study/`; do not "
        "edit it by hand. Eight questions, two models, every number and every written answer of "
        "the document beside what npdl's runs say of it.",
        recipes_paragraph(), luck(judged),
        "## The answers", WORDS, part_markdown(summary_figure(store)),
        *answer_blocks(store, sections), LIMITS,
        "## Appendix: verdicts", part_markdown(verdict_counts(sections)),
        *failures(sections),
        "## The runs", part_markdown(run_counts(store)), machine_words(store), RULES])


def answer_blocks(store, sections):
    pictures = {figure.label: figure for section in sections for figure in section.figures()}
    blocks = []
    for title, words, label in answers(store, sections):
        picture = pictures.get(label)
        blocks.append(f"### {title}\n\n{words}" + (
            f"\n\n![Figure {label}](results/figures/{picture.name}.png)\n\n*Figure {label}. "
            f"{picture.caption}*" if picture else ""))
    return blocks


def recipes_paragraph():
    """Which readings of the recipe there are."""
    said = [f"*{recipe}*: " + "; ".join(
        f"{NAMES[model]} {recipe_words(study.with_recipe(variant(model), recipe))}"
        for model in NAMES) for recipe in RECIPES]
    return ("**The recipe is a reading.** The document's text leaves open how its models start and "
            f"whether gradients are clipped. {'. '.join(said)}. *Release* is what the published "
            "starter code of its course has.")


def luck(verdicts):
    """How many verdicts chance alone would give, if the claims whose seeds disagree are coin
    flips, and how many tests there are."""
    tests = [v for v in verdicts if v.seeds]
    apart = [v for v in tests if len(set(v.seeds.values())) > 1]
    decided = [v for v in tests if v.verdict in (*DECIDED, DEPENDS) and v not in apart]
    lucky = sum(odds(len(v.seeds)) for v in apart)
    return (f"**Luck.** {len(tests)} statements were tested seed by seed: in {len(apart)} the "
            f"seeds disagree, in {len(decided)} they agree. Two coins fall alike as often as not: "
            "if the claims on which the seeds disagree are coin flips, then so are **about "
            f"{lucky:.0f} of the {len(decided)}** on which they agree. A single verdict of two "
            f"seeds is a hint, not a finding.{false_alarms(verdicts)}")


def false_alarms(verdicts):
    """How many printed numbers would fail by chance, and how many do, as a sentence."""
    tests = [v for v in verdicts if v.where == TABLE and v.verdict in (HOLDS, FAILS, OPEN)]
    fails = sum(v.verdict == FAILS for v in tests)
    return (f" {len(tests)} printed numbers were tested at 5 %: at most "
            f"{0.05 * len(tests):.1f} would be expected to fail by chance; {fails} "
            f"do{'es' * (fails == 1)}."
            if tests else "")


def odds(seeds):
    """For a coin flip: times that `seeds` seeds decide it, by four of five, for each time not."""
    from math import comb

    total = 2**seeds
    decided = sum(comb(seeds, k) for k in range(seeds + 1) if 5 * k >= 4 * seeds or 5 * k <= seeds)
    return decided / (total - decided)


def verdict_counts(sections):
    judged = [section for section in sections if section.verdicts]
    rows = [(section.title, *(count(section.verdicts, kind) for kind in VERDICTS),
             str(len(section.verdicts))) for section in judged]
    every = [verdict for section in judged for verdict in section.verdicts]
    rows.append(("**all**", *(f"**{count(every, kind)}**" for kind in VERDICTS),
                 f"**{len(every)}**"))
    claims = [v for v in every if v.verdict not in (NO_CLAIM, AGAIN)]
    by_runs = sum(v.verdict in (HOLDS, FAILS) for v in claims)
    by_words = sum(v.verdict == CONTRADICTED for v in claims)
    return Table(f"{len(claims)} claims, each counted once: {by_runs} decided by the runs, "
                 f"{by_words} by the document's own words, {len(claims) - by_runs - by_words} "
                 f"open; and {len(every) - len(claims)} places that claim nothing, or what another "
                 "does.",
                 ("section", *VERDICTS, "places"), rows)


def failures(sections):
    """What fails, depends or is contradicted, as one paragraph each, section by section."""
    blocks = []
    for kind in (FAILS, CONTRADICTED, DEPENDS, OPEN):
        lines = []
        for section in sections:
            words = [f"{v.claim} ({v.where})" for v in section.verdicts if v.verdict == kind]
            if words:
                lines.append(f"* *{section.title}*: {'; '.join(words)}.")
        if lines:
            verb = kind if kind in (FAILS, DEPENDS) else f"is {kind}"
            blocks.append(f"What {verb}:\n\n" + "\n".join(lines))
    return blocks


def count(verdicts, kind):
    return str(sum(verdict.verdict == kind for verdict in verdicts))


# --- runs -----------------------------------------------------------------------------------------
def run_of(store, config):
    return store.all_runs(config).get(config.seed)


def hours(seconds):
    return f"{seconds / 3600:.1f} h"


def run_counts(store):
    """A row for each question by each recipe of which there are runs, then all, each once."""
    rows, seen = [], set()
    for name, what in QUESTIONS.items():
        for recipe in RECIPES if name != "puzzle" else ("default",):
            view = store.by([], recipe)
            configs = [c for c in study.QUESTIONS[name]
                       if name == "puzzle" or recipe == "default"
                       or view.place(c) != store.place(c)]
            there = sum(run_of(view, c) is not None for c in configs)
            if not configs or (recipe != "default" and 2 * there < len(configs)):
                continue
            option = "" if recipe == "default" else f" --recipe {recipe}"
            rows.append((what if recipe == "default" else f"{what}, {recipe}",
                         *run_row(view, configs), f"`python experiments/study.py {name}{option}`"))
            seen |= {setting(c) for c in map(view.place, configs)}
    every = store.every()
    timed = [run.made["seconds"] for run in every if "seconds" in run.made]
    rows.append(("**all that are kept, each once**", str(len(every)), "",
                 f"{sum(run.config.steps for run in every):,}", "",
                 time_text(timed, len(every)), ""))
    return Table("Runs that are kept and runs that are missing, their steps, and their wall time, "
                 "added up, where it is kept. A run that serves two questions stands in both "
                 "rows; a GPT's release is its default.",
                 ("question", "there", "missing", "steps made", "steps missing", "time",
                  "completed by"), rows)


def run_row(store, configs):
    found = [run for config in configs if (run := run_of(store, config)) is not None]
    gone = [config for config in configs if run_of(store, config) is None]
    timed = [run.made["seconds"] for run in found if "seconds" in run.made]
    return (str(len(found)), str(len(gone)), f"{sum(run.config.steps for run in found):,}",
            f"{sum(config.steps for config in gone):,}", time_text(timed, len(found)))


def time_text(timed, all_of):
    time = hours(sum(timed)) if timed else "-"
    return time + (f" ({len(timed)} of {all_of} runs)" if len(timed) < all_of else "")


def machine_words(store):
    """What computed the runs."""
    runs = store.every()
    if not runs:
        return "No run is kept yet."
    kinds = {}
    for run in runs:
        made, note = run.made, label_of(run).get("words", "")
        place = "a GPU through CuPy " + made["cupy"] if "cupy" in made else "a CPU"
        where = (f"{NAMES[run.config.model]} by {run.origin}" if not made else
                 f"{NAMES[run.config.model]} on {place} ({made['machine']}), npdl {made['npdl']}, "
                 f"NumPy {made['numpy']}, {made['blas']}, by {run.origin}")
        kinds.setdefault(where, [0, note])[0] += 1
    threads = sorted({run.config.threads for run in runs})
    words = "; ".join(f"{number} run{'s' if number > 1 else ''} {where}"
                      + (f" ({note})" if note else "")
                      for where, (number, note) in sorted(kinds.items()))
    return (f"Computed: {words}. Each run is a process with {' or '.join(map(str, threads))} "
            "thread; two at a time share two cores, so that the times include the waiting for "
            "each other. The same command on another machine, on a GPU (`--backend cupy`) or on a "
            "cluster (`--backend dask`) goes on from what is kept; `--anew` makes again what other "
            "code has made.")
