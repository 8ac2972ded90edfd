"""The first page of the report: verdicts counted, runs counted, how verdicts are reached."""

import study

from reporting.parts import CONTRADICTED, FAILS, MISSING, VERDICTS, Table, part_markdown
from reporting.records import NAMES, setting

QUESTIONS = {"sanity": "1, 2: the default recipe", "data": "3: r_train",
             "mixed": "4: mixed orders", "model": "5: layers, width", "compute": "6: batch size",
             "decay": "7: weight decay", "further": "more seeds of one setting",
             "jumps": "decay 1/4, jumps of the loss",
             "puzzle": "readings of the recipe"}

RULES = """\
## How a verdict is reached

* **A printed number** is the mean ± population deviation of two seeds, so its range is that of \
the two runs. It *holds* where the document's range and ours overlap, once widened by the rounding \
of what is printed, or by the 100 steps between two evaluations. Where they do not overlap, it \
*fails* if Student's test (two samples, equal variance) tells them apart at 5 %, and else is *not \
decidable with two seeds*.
* **A statement** is turned into a test of numbers, which stands in the tables, and looked at \
within each seed: it *holds* if it is true with both, *fails* if it is false with both, and is \
*not decidable with two seeds* if they disagree.
* What two seeds do not decide, more may. Of the LSTM's default recipe there are three more, 1, 2 \
and 3; `python experiments/study.py --seeds 1 2 3` makes those of every setting. A number is then \
compared again, with all five; a statement holds if it is true with four of them or five, and \
fails if it is false with as many. What they leave open, too, keeps the name of that verdict. \
Figures and tables stay those of the seeds 0 and 42.
* What another place of the document denies is *contradicted by the document itself*, whatever \
our runs say; what they say stands beside it.
* Where a run is missing, nothing is decided; what the runs so far say stands beside it.
* In the tests, generalised means A_val ≥ 0.9 and memorised A_train ≥ 0.99. How unsteady an \
accuracy is, its *shortfall* says: how far it lies below its own highest value so far, on average \
over the evaluations. A trend is a rank correlation of at least 0.5 in size.

L is the loss, A the accuracy; L_val and A_val without a step are the best over all steps of a \
run, and t_f(·) is the first step that reached it. Claims about the arithmetic of the document's \
own tables are judged in the [ledger of the exercises](../exercises/LEDGER.md)."""


def front(store, sections):
    """The report up to its first section, as Markdown."""
    return "\n\n".join([
        "# The study of document 004, Problem 4",
        "Written by `python experiments/report.py` from the records in `results/study/`; do not "
        "edit it by hand. Both models, seeds 0 and 42; every number and every written answer of "
        "the document beside what npdl's runs say of it.",
        recipe_words(),
        "## Verdicts", part_markdown(verdict_counts(sections)), *failures(sections),
        "## The runs", part_markdown(run_counts(store)), machine_words(store), RULES])


def recipe_words():
    """Which reading of the recipe the runs have."""
    words = {"clip": "gradients clipped at global norm {:g}", "init": "{} starting values"}
    read = [f"{NAMES[model]}: " + ", ".join(words[name].format(value)
                                            for name, value in settings.items())
            for model, settings in study.READ.items()]
    return ("**The recipe is a reading.** The document's text leaves open how its models start and "
            "whether gradients are clipped. The runs of all questions have, for the "
            f"{'; for the '.join(read)}. The section on the loss puzzle compares the readings, and "
            "the sanity check has the recipe with nothing added, too.")


def verdict_counts(sections):
    judged = [section for section in sections if section.verdicts]
    rows = [(section.title, *(count(section.verdicts, kind) for kind in VERDICTS),
             str(len(section.verdicts))) for section in judged]
    every = [verdict for section in judged for verdict in section.verdicts]
    rows.append(("**all**", *(f"**{count(every, kind)}**" for kind in VERDICTS),
                 f"**{len(every)}**"))
    open_ones = sum(verdict.verdict == MISSING for verdict in every)
    return Table(f"{len(every)} claims, {len(every) - open_ones} of them decided.",
                 ("section", *VERDICTS, "claims"), rows)


def failures(sections):
    """What fails, and what the document contradicts, as one paragraph each, section by section."""
    blocks = []
    for kind in (FAILS, CONTRADICTED):
        lines = []
        for section in sections:
            words = [f"{v.claim} ({v.where})" for v in section.verdicts if v.verdict == kind]
            if words:
                lines.append(f"* *{section.title}*: {'; '.join(words)}.")
        if lines:
            blocks.append(f"What {kind if kind == FAILS else f'is {kind}'}:\n\n" + "\n".join(lines))
    return blocks


def count(verdicts, kind):
    return str(sum(verdict.verdict == kind for verdict in verdicts))


# --- runs -----------------------------------------------------------------------------------------
def run_of(store, config):
    return store.all_runs(config).get(config.seed)


def hours(seconds):
    return f"{seconds / 3600:.1f} h"


def run_counts(store):
    """A row for each question, and the runs altogether, each counted once."""
    rows, seen = [], set()
    for name, what in QUESTIONS.items():
        configs = study.QUESTIONS[name]
        seen.update(configs)
        rows.append((what, *run_row(store, configs), f"`python experiments/study.py {name}`"))
    extra = [run.config for runs in store.settings.values() for run in runs.values()
             if run.config not in seen
             and any(setting(run.config) == setting(config) for config in seen)]
    rows.append(("**all, each once**", *run_row(store, [*seen, *extra]),
                 "`python experiments/study.py`"))
    return Table("Runs that are kept and runs that are missing, their steps, and their wall time, "
                 "added up, where it is kept. A run that serves two questions stands in both "
                 "rows.",
                 ("question", "there", "missing", "steps made", "steps missing", "time",
                  "completed by"), rows)


def run_row(store, configs):
    found = [run for config in configs if (run := run_of(store, config)) is not None]
    gone = [config for config in configs if run_of(store, config) is None]
    timed = [run.made["seconds"] for run in found if "seconds" in run.made]
    time = hours(sum(timed)) if timed else "-"
    if len(timed) < len(found):
        time += f" ({len(timed)} of {len(found)} runs)"
    return (str(len(found)), str(len(gone)), f"{sum(run.config.steps for run in found):,}",
            f"{sum(config.steps for config in gone):,}", time)


def machine_words(store):
    """What computed the runs."""
    runs = [run for found in store.settings.values() for run in found.values()]
    kinds = {}
    for run in runs:
        made = run.made
        where = "not kept" if not made else (
            f"{'a GPU through CuPy ' + made['cupy'] if 'cupy' in made else 'a CPU'} "
            f"({made['machine']}), npdl {made['npdl']}, NumPy {made['numpy']}, {made['blas']}")
        kinds[where] = kinds.get(where, 0) + 1
    threads = sorted({run.config.threads for run in runs})
    words = "; ".join(f"{number} run{'s' if number > 1 else ''} on {where}" if where != "not kept"
                      else f"of {number} the place was not kept" for where, number
                      in sorted(kinds.items()))
    if not runs:
        return "No run is kept yet."
    return (f"Computed: {words}. Each run is a process with {' or '.join(map(str, threads))} "
            "thread; two at a time share two cores, so that the times include the waiting for "
            "each other. The same command on another machine, on a GPU (`--backend cupy`) or on a "
            "cluster (`--backend dask`) goes on from what is kept.")
