"""Question 6 of Problem 4: batch sizes, and fractions of a training."""

from experiments.reporting.compute_answers import answers
from experiments.reporting.compute_claims import ALPHAS, BATCHES, CONFIGS, TRAINED, T, captions
from experiments.reporting.parts import Section, Table
from experiments.reporting.records import NAMES, parameters
from experiments.reporting.rules import judge
from experiments.reporting.shapes import (
    LABELS,
    family,
    figure,
    plus_minus,
    scale_of,
    summary_line,
    y_of,
)
from npdl.training.metrics import METRICS

BATCH_BAR = "batch size B (log2 scale)"
DRAWN = (0.1, 0.2, 0.3, 0.5, 1.0)   # fractions: with all ten the lines cross too often
BOTH = [config for configs in CONFIGS.values() for config in configs.values()]
# metric, t_f: the document's Figures 24 to 31, two to a row. Its captions of 27 and 32 repeat
# those of 26 and 31.
FIGURES = (("train_accuracy", True), ("train_loss", True),
           ("validation_loss", True), ("validation_accuracy", True),
           ("train_accuracy", False), ("train_loss", False),
           ("validation_accuracy", False), ("validation_loss", False))


def called(config):
    return f"{NAMES[config.model]} B = {config.batch}"


def section(store):
    """The Section on compute."""
    store = store.chosen(BOTH)
    made = Section("Scaling compute (question 6)", [store.words(BOTH)])
    made.parts.append(
        f"T = {T}; the values for a fraction α of it are the best of the steps up to α T, from "
        "the same run. The compute is C = P B α T with P = "
        + " and ".join(f"{parameters(CONFIGS[m][32]):,} ({NAMES[m]})" for m in NAMES)
        + f". Only {TRAINED} equations are in the training set, so that B = {BATCHES[-1]} means "
        f"all of them at every step, and C counts it {BATCHES[-1] / TRAINED:.2f} times too high.")
    for label, part in (("22", "train"), ("23", "validation")):
        made.parts.append(curves_figure(store, label, part))
    made.parts += [fraction_figure(store), compute_figure(store)]
    made.parts.append(table(store))
    made.verdicts = [judge(store, statement) for statement in captions() + answers()]
    return made


def curves_figure(store, label, part):
    name = {"train": "training", "validation": "validation"}[part]
    data = family(store, CONFIGS, BATCH_BAR, [f"{part}_loss", f"{part}_accuracy"],
                  models=list(NAMES))
    return figure(store, label, f"fig{label}-compute-{part}",
                  f"{name.capitalize()} loss and accuracy over the training steps for batch sizes "
                  "from 32 to 512, by colour; left the LSTM, right the GPT.", data, BOTH, called,
                  (11, 6.2))


def fraction_figure(store):
    """Figures 24 to 31 on one page: four columns, each metric for the LSTM and for the GPT."""
    panels = []
    for number, (metric, first) in enumerate(FIGURES, 24):
        for model, configs in CONFIGS.items():
            lines = [{"value": alpha, **summary_line(store, configs, metric, first, alpha * T)}
                     for alpha in DRAWN]
            what = f"t_f({LABELS[metric]})" if first else LABELS[metric]
            panels.append({"title": f"{number} {NAMES[model]}: {what}", "y": "training step"
                           if first else y_of(metric), "scale": "linear" if first else
                           scale_of(metric), "lines": lines})
    data = {"shape": [4, 4], "x": {"label": BATCH_BAR, "scale": "log2", "values": list(BATCHES)},
            "bar": {"label": "fraction α of the steps", "values": list(DRAWN)}, "panels": panels}
    return figure(store, "24 to 31", "fig24-31-compute-fractions",
                  "Against the batch size, five of the α by colour, each metric for the LSTM and "
                  "the GPT: the first steps that reach the best values within the first α T steps "
                  "(24 to 27), and those values (28 to 31). The document's caption of 27 repeats "
                  "that of 26; this is the metric that its captions leave out.", data, BOTH, called,
                  (14, 11.5))


def compute_figure(store):
    """L_val and A_val against C = P B alpha T, a line for each batch size."""
    panels = []
    for metric in ("validation_loss", "validation_accuracy"):
        for model, configs in CONFIGS.items():
            lines = []
            for B, config in configs.items():
                runs = store.runs(config).values()
                lines.append({"value": B, "x": [parameters(config) * B * a * T for a in ALPHAS
                                                if runs],
                              "seeds": [[run.best(metric, a * T) for a in ALPHAS]
                                        for run in runs]})
            panels.append({"title": NAMES[model], "y": y_of(metric), "scale": scale_of(metric),
                           "lines": lines})
    ends = [parameters(CONFIGS[m][B]) * B * a * T for m in CONFIGS
            for B, a in ((BATCHES[0], ALPHAS[0]), (BATCHES[-1], ALPHAS[-1]))]
    data = {"shape": [2, 2], "x": {"label": "compute C = P B α T (log scale)", "scale": "log",
                                   "values": [min(ends), max(ends)]},
            "bar": {"label": BATCH_BAR, "values": list(BATCHES)}, "panels": panels}
    return figure(store, "32", "fig32-compute-budget",
                  "L_val and A_val against the compute, the batch size by colour, with the ten "
                  "fractions α as marks: at equal C a smaller batch has made more steps. (The "
                  "document's caption repeats that of Figure 31; its question asks for no ninth "
                  "figure.)", data, BOTH, called, (11, 6.2))


def table(store):
    shown = (0.1, 0.5, 1.0)
    rows = []
    for model, configs in CONFIGS.items():
        for B, config in configs.items():
            cells = [NAMES[model], str(B)]
            for metric in METRICS[1::2]:
                cells += [plus_minus(metric, store.spread(
                    config, lambda run, m=metric, a=a: run.best(m, a * T))) for a in shown]
            rows.append(cells)
    heading = ["model", "B", *(f"{LABELS[m]}, α = {a:g}" for m in METRICS[1::2] for a in shown)]
    return Table("Best validation values within the first α T steps: mean ± deviation over the "
                 "seeds.", heading, rows, left=2)
