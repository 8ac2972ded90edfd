"""Question 7: weight decay of the LSTM, and the norm of its parameters."""

import numpy as np

from experiments.study import runs as stored
from experiments.study.figures import Figure, best_panels, curve_panels, make_grid
from experiments.study.runs import A_TRAIN, A_VAL, L_TRAIN, L_VAL, METRICS, NORM
from experiments.study.text import best_table, format_mean, format_median, format_span, format_table
from experiments.study.verdict import SAME_ACCURACY, fall_effects, log_ratio_effect, rise_effects

TITLE = "Question 7: weight decay"
DECAYS = (0.25, 0.5, 0.75, 1.0)
T = 40001
RUNS, MODELS = {"steps": T, "weight_decay": DECAYS}, ("lstm",)
QUICK = 0.1                 # "quickly": within this fraction of all steps
STABLE = 0.1                # a norm is stable within this fraction of its mean
# Norms are compared between these steps: after the initial change, and before the loss spikes that
# begin when the float32 loss is mostly rounding.
WINDOW = 9000, 18000
AROUND = 1000               # steps before and after generalisation
SPIKE = 100                 # a training loss that rises by this factor between two evaluations


def norms_between(runs, first, last):
    """Return the parameter norms (4 decays, n, E) from step `first` to `last`, every GRID steps."""
    chosen = (runs.step >= first) & (runs.step <= last) & runs.on_grid
    return runs.values[NORM][..., chosen].astype(float)


def compute_effects(study, lstm_recipe):
    """Return {claim in claims.csv: its effects} (see verdict.py), for one recipe of the LSTM."""
    runs = study.curves("lstm", lstm_recipe, **RUNS)
    loss, accuracy, general = runs.best(L_VAL), runs.best(A_VAL), runs.log10_generalisation_step()
    t_loss, t_accuracy = runs.best_step(L_VAL), runs.best_step(A_VAL)
    norm = norms_between(runs, *WINDOW)
    changes = np.abs(np.diff(norm)).mean(-1) / norm.mean(-1)
    settled = norms_between(runs, QUICK * T, WINDOW[1])[1:]
    shortfall = runs.fall_below_best()
    return {
        "decay 0.75 and 1 generalise sooner than 0.25 and 0.5":
            [general[low] - general[high] for high in (2, 3) for low in (0, 1)],
        "decay 0.75 and 1 reach lower L_val than 0.25 and 0.5":
            [log_ratio_effect(loss[high], loss[low]) for high in (2, 3) for low in (0, 1)],
        "decay 0.25 overfits":
            [runs.best(A_TRAIN)[0] - stored.MEMORISED, stored.OVERFITS - accuracy[0]],
        "decay 0.25 is the least steady": list(shortfall[0] - shortfall[1:]),
        "L_val falls with every step of the decay": fall_effects(loss),
        "A_val rises with the decay":
            [*(step + SAME_ACCURACY for step in rise_effects(accuracy)),
             accuracy[-1] - accuracy[0]],
        "decay 0.5 and 0.75 generalise sooner than 0.25": list(general[0] - general[1:3]),
        "L_val falls up to 0.75 and rises slightly beyond":
            [*fall_effects(loss[:3]), log_ratio_effect(loss[2], loss[3])],
        "A_val is near-perfect from 0.5 on, and lower below":
            [*(accuracy[1:] - stored.MEMORISED), accuracy[1:].min(0) - accuracy[0]],
        "t_f(L_val) is largest at 0.75":
            [log_ratio_effect(t_loss[i], t_loss[2]) for i in (0, 1, 3)],
        "t_f(A_val) falls with every step of the decay": fall_effects(t_accuracy),
        "with decay 0.25 the norm stays the highest":
            list(log_ratio_effect(norm.mean(-1)[1:], norm.mean(-1)[0])),
        "with decay 0.25 the norm fluctuates most": list(changes[0] - changes[1:]),
        "with decay 0.25 generalisation is the slowest, or fails": list(general[0] - general[1:]),
        "with decay 0.5 to 1 the norm drops quickly and stays":
            [*log_ratio_effect(settled[..., 0], runs.values[NORM][1:, :, 0]),
             *(STABLE - np.ptp(settled, -1) / settled.mean(-1))],
        "the more decay, the smaller the norm and the sooner the generalisation":
            [*fall_effects(norm.mean(-1)), *(-np.diff(general, axis=0))],
    }


# --- figures, tables, answer ----------------------------------------------------------------------
def make_figures(study):
    runs = study.curves("lstm", **RUNS)
    curves = curve_panels(dict(zip(DECAYS, runs, strict=True)), (*METRICS, NORM))
    return [Figure("fig33-decay-curves", "33", "LSTM: loss, accuracy and the l2 norm of the "
                   "parameters over the training steps. Each decay has a colour and a marker.",
                   make_grid(curves, 2, "weight decay"), (10, 8.5)),
            Figure("fig34-decay-compared", "34", "LSTM: best losses and accuracies, and the first "
                   "steps t_f that reached them, against the weight decay.",
                   make_grid(best_panels(DECAYS, {"LSTM": runs}), 2, x="weight decay",
                             scale="linear"), (10, 10))]


def make_tables(study):
    measures = {"L_val": (lambda runs: runs.best(L_VAL), "{:.2g}"),
                "A_val": (lambda runs: runs.best(A_VAL), "{:.4g}"),
                "t_f(L_val)": (lambda runs: runs.best_step(L_VAL), "{:.0f}"),
                "t_f(A_val)": (lambda runs: runs.best_step(A_VAL), "{:.0f}"),
                "A_val ≥ 0.9 at": (lambda runs: runs.generalisation_step(), "{:.0f}")}
    rows = [(recipe, f"{decay:g}", *(format_median(measure(study.curves(
        "lstm", recipe, steps=T, weight_decay=decay)), form) for measure, form in
        measures.values())) for recipe in ("default", "release") for decay in DECAYS]
    return [("The table shows the median (least to largest) over seeds.",
             format_table(("recipe", "decay", *measures), rows)),
            ("The table shows best values and first steps: mean ± standard deviation over seeds.",
             best_table(("weight decay",), [
                 ((f"{decay:g}",), study.curves("lstm", steps=T, weight_decay=decay))
                 for decay in DECAYS]))]


def spike_mask(runs):
    """Return bools (4, n): True if a run's training loss spikes after it has memorised."""
    loss = runs.values[L_TRAIN]
    late = runs.step[:-1] >= runs.memorisation_step()[..., None]
    return (late & (loss[..., 1:] > SPIKE * loss[..., :-1])).any(-1)


def norms_at(runs, steps):
    """Return the norm of each run (4, n) at its step in `steps`; inf means the last step."""
    return np.array([[np.interp(step, runs.step, norm) for step, norm in zip(*row, strict=True)]
                     for row in zip(steps, runs.values[NORM], strict=True)])


def make_answer(study):
    runs = study.curves("lstm", **RUNS)
    both = [runs, study.curves("lstm", "release", **RUNS)]
    loss, first = runs.best(L_VAL), runs.best_step(A_VAL)
    start = [r.values[NORM][..., 0] for r in both]
    known = [norms_at(r, r.memorisation_step()) for r in both]
    reached = [(r, r.generalisation_step()) for r in both]
    general = np.concatenate([norms_at(r, t)[np.isfinite(t)] for r, t in reached])
    change = np.concatenate([(norms_at(r, t + AROUND) / norms_at(r, t - AROUND) - 1)[np.isfinite(t)]
                             for r, t in reached])
    late = np.sum([spike_mask(r).sum() for r in both])
    rows = [("start", format_span(start, "{:.0f}")), ("memorisation", format_span(known, "{:.0f}")),
            ("generalisation", format_span(general, "{:.0f}"))]
    return f"""
**(c) How does weight decay change the result?** More decay helps. With a decay of 1 instead of 1/4,
L_val is lower by a factor of {format_mean(loss[0] / loss[3], "{:,.0f}", True)}. The best A_val is
reached in {format_mean(first[3] / first[0], "{:.0%}", True)} of the steps. With a decay of 1/2 or
more, A_val is at least {runs.best(A_VAL)[1:].min():.3f} for every seed.

**(d) How does the norm of the parameters change before and after a model generalises?** The norm
falls before generalisation, not during it: from {AROUND:,} steps before the step of generalisation
to {AROUND:,} steps after it, the norm changes by {100 * np.abs(change).max():.0f} % at most. A
possible explanation is that a solution that generalises has smaller weights, and decay leads there.
The runs show the order of events, not the cause.

{format_table(("event", "norm of the parameters, least to largest"), rows)}

These numbers are from runs by the recipes default and release. {general.size} of
{2 * len(DECAYS) * len(runs.seeds)} runs generalise. In {late} runs the training loss spikes late,
when it is so small that float32 rounding dominates it."""
