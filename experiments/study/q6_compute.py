"""Question 6: batch sizes and training budgets.

A budget is a fraction α of all T steps. A measure with a "low" budget is the mean over α = 0.1, 0.2
and 0.3. Arrays have the axes (B, seeds).
"""

import math

import numpy as np

from experiments.study import runs as stored
from experiments.study.figures import Figure, Panel, curve_panels, make_grid, metric_panel
from experiments.study.runs import A_TRAIN, A_VAL, GRID, L_TRAIN, L_VAL, LABELS, METRICS, NAMES
from experiments.study.text import (
    format_mean,
    format_mean_std,
    format_median,
    format_span,
    format_table,
)
from experiments.study.verdict import SAME_ACCURACY, log_ratio_effect, margin_effects, spearman

TITLE = "Question 6: batch size and training budget"
BATCHES = (32, 64, 128, 256, 512)
ALPHAS = tuple(round(0.1 * i, 1) for i in range(1, 11))
LOW = ALPHAS[:3]
T = 20001
RUNS = {"steps": T, "batch": BATCHES}
SMALL, LARGE = slice(0, 2), slice(2, None)      # batch sizes below 100, and the others
MUCH = 1.5                  # a loss is "significantly" higher from this factor on
TWICE = 2.0                 # steps "hardly change" within this factor


def step_at(alpha):
    """Return the step of the evaluation that is nearest to α T."""
    return GRID * round(alpha * T / GRID) + (alpha == 1)


def log10_best(runs, metric, alpha=1.0):
    return np.log10(runs.best(metric, step_at(alpha)))


def low_budget_mean(measure):
    """Return the mean of measure(α) over the low budgets."""
    return np.mean([measure(alpha) for alpha in LOW], 0)


def median_at(runs, metric, alpha):
    """Return the median of a metric in the last ten evaluations up to step α T."""
    return np.median(runs.values[metric][..., runs.step <= step_at(alpha)][..., -10:], -1)


def batch_loss_rise(runs, metric, alpha):
    """Return the rise (log10) from the smallest to the largest B of the best loss in α T steps."""
    losses = log10_best(runs, metric, alpha)
    return losses[-1] - losses[0]


def batch_accuracy_fall(runs, alpha):
    """Return the fall from the smallest to the largest B of the best A_val in α T steps."""
    accuracies = runs.best(A_VAL, step_at(alpha))
    return accuracies[0] - accuracies[-1]


def step_variation(runs, metric, alphas):
    """Return the standard deviation of t_f / (α T) over the batch sizes, averaged over alphas."""
    ends = map(step_at, alphas)
    return np.mean([(runs.best_step(metric, end) / end).std(0) for end in ends], 0)


def compute_effects(study, lstm_recipe):
    """Return {claim in claims.csv: its effects} (see verdict.py), for one recipe of the LSTM."""
    lstm, gpt = study.curves_of_both(lstm_recipe, **RUNS)
    return {**step_caption_effects(lstm, gpt), **value_caption_effects(lstm, gpt),
            **answer_effects(lstm, gpt)}


def step_caption_effects(lstm, gpt):
    """Return {claim: effects} for the captions of Figures 22 to 26."""
    first = np.log10(lstm.best_step(A_TRAIN))
    small = np.log10(gpt.best_step(A_TRAIN))[SMALL]
    predictable = [np.mean([np.abs(spearman(BATCHES, runs.best_step(L_VAL, step_at(a))))
                            for a in ALPHAS], 0) for runs in (lstm, gpt)]
    less_steady = (gpt.fall_below_best() > lstm.fall_below_best()).sum(0)
    return {
        "LSTMs train more smoothly than GPTs":
            [gpt.rise_above_best().mean(0) - lstm.rise_above_best().mean(0)],
        "the GPT fluctuates more with larger batches": [spearman(BATCHES, gpt.rise_above_best())],
        "LSTMs generalise in fewer steps than GPTs":
            [(gpt.log10_generalisation_step() - lstm.log10_generalisation_step()).mean(0)],
        "GPTs are the less steady in A_val, for most B": [less_steady - len(BATCHES) / 2],
        "the GPT generalises later with larger batches":
            [spearman(BATCHES, gpt.log10_generalisation_step())],
        "the LSTM needs more steps to its best A_train as B grows":
            [spearman(BATCHES, first), first[-1] - first[0]],
        "the GPT's steps to its best A_train hardly change for small B":
            margin_effects(small[1] - small[0], math.log10(TWICE)),
        "with a low budget small B bring the LSTM a lower L_train":
            [low_budget_mean(lambda a: batch_loss_rise(lstm, L_TRAIN, a))],
        "t_f(L_train) varies more with B for GPTs":
            [step_variation(gpt, L_TRAIN, ALPHAS) - step_variation(lstm, L_TRAIN, ALPHAS)],
        "t_f(L_val) follows B more closely for LSTMs": [predictable[0] - predictable[1]],
        "with low budgets t_f(L_val) varies more for GPTs":
            [step_variation(gpt, L_VAL, LOW) - step_variation(lstm, L_VAL, LOW)],
    }


def value_caption_effects(lstm, gpt):
    """Return {claim: effects} for the captions of Figures 28 to 31."""
    perfect = [np.min([runs.best(A_TRAIN, step_at(a)).min(0) for a in ALPHAS], 0)
               for runs in (lstm, gpt)]
    steeper = low_budget_mean(lambda a: np.abs(batch_loss_rise(lstm, L_TRAIN, a)) - np.abs(
        batch_loss_rise(gpt, L_TRAIN, a)))
    accuracy = [low_budget_mean(lambda a, r=r: r.best(A_VAL, step_at(a)).mean(0))
                for r in (lstm, gpt)]
    return {
        "both reach perfect A_train for every B and α":
            [values - stored.ALL_RIGHT for values in perfect],
        "with a low budget the LSTM's L_train grows with B":
            [low_budget_mean(lambda a: spearman(BATCHES, log10_best(lstm, L_TRAIN, a)))],
        "with a low budget L_train depends less on B for GPTs": [steeper],
        "with a low budget the LSTM's A_val falls with B":
            [low_budget_mean(lambda a: batch_accuracy_fall(lstm, a)),
             low_budget_mean(lambda a: -spearman(BATCHES, lstm.best(A_VAL, step_at(a))))],
        "with a low budget the GPT's A_val is the higher one": [accuracy[1] - accuracy[0]],
        "with a low budget L_val grows more steeply with B for LSTMs":
            [low_budget_mean(lambda a: batch_loss_rise(lstm, L_VAL, a)),
             low_budget_mean(lambda a: batch_loss_rise(lstm, L_VAL, a)
                             - batch_loss_rise(gpt, L_VAL, a))],
    }


def answer_effects(lstm, gpt):
    """Return {claim: effects} for answer 6 (c)."""
    loss, accuracy, lowest, much, with_alpha, rise = [], [], [], [], [], []
    for runs in (lstm, gpt):
        few = low_budget_mean(lambda a, r=runs: batch_loss_rise(r, L_VAL, a))
        whole = batch_loss_rise(runs, L_VAL, 1.0)
        loss += [few, few - whole, whole]
        much.append(few - math.log10(MUCH))
        few = low_budget_mean(lambda a, r=runs: batch_accuracy_fall(r, a))
        whole = batch_accuracy_fall(runs, 1.0)
        accuracy += [few, few - whole, whole + SAME_ACCURACY]
        best = np.stack([log10_best(runs, L_VAL, a) for a in ALPHAS])     # (α, B, n)
        small = best[7:, SMALL].min((0, 1))
        lowest += [best[:, LARGE].min((0, 1)) - small, best[:7, SMALL].min((0, 1)) - small]
        with_alpha += list(log_ratio_effect(median_at(runs, L_VAL, 1.0),
                                            median_at(runs, L_VAL, ALPHAS[0])))
        rise += list(median_at(runs, A_VAL, 1.0) - median_at(runs, A_VAL, ALPHAS[0]))
    falls = [low_budget_mean(lambda a, r=runs: batch_accuracy_fall(r, a)) for runs in (lstm, gpt)]
    return {
        "L_val rises with B, and more for small α than for α = 1": loss,
        "A_val falls with B, and more for small α than for α = 1": accuracy,
        "L_val after all steps is lower than after a tenth, for every B": with_alpha,
        "A_val after all steps is no lower than after a tenth, and higher for some B":
            [*(value + SAME_ACCURACY for value in rise), np.max(rise, 0)],
        "L_val is lowest with small B and large α": lowest,
        "with a low budget large B mean significantly higher L_val, for both": much,
        "with large α A_val is high for every B":
            [v - stored.GENERAL for runs in (lstm, gpt) for v in runs.best(A_VAL, step_at(0.9))],
        "with a low budget A_val falls with B for the GPT, too": [falls[1]],
        "with a low budget A_val falls more for the LSTM than for the GPT":
            [falls[0], falls[0] - falls[1]],
    }


# --- figures, tables, answer ----------------------------------------------------------------------
# The assignment's Figures 24 to 31: (metric, True for its first step t_f).
FRACTIONS = ((A_TRAIN, True), (L_TRAIN, True), (L_VAL, True), (A_VAL, True),
             (A_TRAIN, False), (L_TRAIN, False), (A_VAL, False), (L_VAL, False))


def make_figures(study):
    models = {name: study.curves(model, **RUNS) for model, name in NAMES.items()}
    curves = []
    for label, part, what in (("22", "train", "Training"), ("23", "validation", "Validation")):
        panels = [panel for metric in (f"{part}_loss", f"{part}_accuracy")
                  for name, runs in models.items() for panel in curve_panels(
                      dict(zip(BATCHES, runs, strict=True)), (metric,), f"{name}: ")]
        curves.append(Figure(f"fig{label}-compute-{part}", label, f"{what} loss and accuracy over "
                             "the training steps. Each batch size B has a colour and a marker.",
                             make_grid(panels, 2, "B"), (10, 6.2)))
    return [*curves, make_fraction_figure(models), make_budget_figure(models)]


def make_fraction_figure(models):
    panels = []
    for label, (metric, first) in enumerate(FRACTIONS, 24):
        for name, runs in models.items():
            lines = [(a, BATCHES, (runs.best_step if first else runs.best)(metric, step_at(a)).T)
                     for a in ALPHAS]
            symbol = f"t_f({LABELS[metric]})" if first else LABELS[metric]
            title = f"{label} {name}: {symbol}"
            panels.append(Panel(title, "training step", "linear", lines) if first
                          else metric_panel(title, metric, lines))
    return Figure("fig24-31-compute-fractions", "24 to 31", "Each α has a colour and a marker. The "
                  "panels show, against the batch size B, the first steps that reach the best "
                  "values within the first α T steps (24 to 27), and those values (28 to 31).",
                  make_grid(panels, 4, "α", "B (log2 scale)", "log2"), (16, 10))


def make_budget_figure(models):
    panels = []
    for metric in (L_VAL, A_VAL):
        for model, name in NAMES.items():
            size = stored.count_parameters(model, 2, 128)
            lines = [(B, [size * B * a * T for a in ALPHAS],
                      np.stack([models[name][i].best(metric, step_at(a)) for a in ALPHAS], 1))
                     for i, B in enumerate(BATCHES)]
            panels.append(metric_panel(f"{name}: {LABELS[metric]}", metric, lines))
    return Figure("fig32-compute-budget", "32", "L_val and A_val against the compute C. Each batch "
                  "size B has a colour and a marker, and each of the ten α is marked.",
                  make_grid(panels, 2, "B", "compute C = P B α T (log scale)", "log"), (10, 6.2))


def make_tables(study):
    shown = [(m, a) for m in METRICS[1::2] for a in (0.1, 0.5, 1.0)]
    rows = [(name, B, *(format_mean_std(m, study.curves(model, steps=T, batch=B).best(
        m, step_at(a))) for m, a in shown)) for model, name in NAMES.items() for B in BATCHES]
    ends = [(L_VAL, 0.1), (L_VAL, 0.3), (L_VAL, 1.0), (A_VAL, 0.1), (A_VAL, 0.3)]
    extremes = [(NAMES[model], recipe, B, *(format_median(
        study.curves(model, recipe, steps=T, batch=B).best(m, step_at(a)),
        "{:.2g}" if m == L_VAL else "{:.3f}") for m, a in ends))
        for model, recipe in (("lstm", "default"), ("lstm", "release"), ("gpt", "default"))
        for B in (BATCHES[0], BATCHES[-1])]

    def make_heading(columns):
        return [f"{LABELS[m]}, α = {a:g}" for m, a in columns]

    return [("The table compares the smallest and the largest batch: median (least to largest) "
             "over seeds.",
             format_table(("model", "recipe", "B", *make_heading(ends)), extremes, 2)),
            ("The table shows best values within the first α T steps: mean ± standard deviation "
             "over seeds.", format_table(("model", "B", *make_heading(shown)), rows, 2))]


def make_answer(study):
    lstm, gpt = study.curves_of_both("default", **RUNS)
    gain = [median_at(runs, L_VAL, 0.1) / median_at(runs, L_VAL, 1.0) for runs in (lstm, gpt)]
    least = min(runs.best(A_VAL)[0].min() for runs in (lstm, gpt))
    rows = [(f"after {part} of the steps",
             *(format_mean(10 ** batch_loss_rise(runs, L_VAL, a), logarithmic=True)
               for runs in (lstm, gpt)))
            for part, a in (("a tenth", 0.1), ("all", 1.0))]
    large = [format_span(runs.best(A_VAL, step_at(0.1))[-1]) for runs in (lstm, gpt)]
    return f"""
**(c) How do the batch size B and the fraction α of the training steps change the result?** More
steps help at every batch size: L_val after all steps is lower than after a tenth of them, by a
factor of {format_span(np.concatenate(gain), "{:,.0f}")}. The effect of the batch size depends on
the budget. With few steps, there is no clear difference. With all steps, a large batch ends with a
lower L_val.

{format_table(("L_val with B = 512, divided by L_val with B = 32", "LSTM", "GPT"), rows)}

Equal steps are not equal compute. The largest batch holds the whole training set of 480 equations.
With B = 512, a tenth of the steps needs 1.5 times the compute of all steps with B = 32. But A_val
is then only {large[0]} for the LSTM and {large[1]} for the GPT, and with B = 32 it is at least
{least:.3f}. So for a fixed compute, small batches and many steps were better here. One learning
rate was used for all batch sizes."""
