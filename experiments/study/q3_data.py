"""Question 3: the fraction of the equations that is used for training."""

import numpy as np

from experiments.study.figures import Figure, best_panels, curve_panels, make_grid
from experiments.study.runs import A_TRAIN, A_VAL, GENERAL, L_VAL, MEMORISED, NAMES, OVERFITS
from experiments.study.text import best_table, format_mean, format_span, format_table
from experiments.study.verdict import fall_effects, fit_slope

TITLE = "Question 3: the fraction of training data"
FRACTIONS = tuple(round(0.1 * i, 1) for i in range(1, 10))
RUNS = {"r_train": FRACTIONS}


def compute_effects(study, lstm_recipe):
    """Return {claim in claims.csv: its effects} (see verdict.py), for one recipe of the LSTM."""
    lstm, gpt = study.curves_of_both(lstm_recipe, r_train=FRACTIONS)
    accuracy = {"LSTM": lstm.best(A_VAL), "GPT": gpt.best(A_VAL)}               # (9, n)
    fall = [-fit_slope(FRACTIONS, np.log10(runs.best(L_VAL))) for runs in (lstm, gpt)]
    return {
        "the LSTM's L_val falls with every step of r_train": fall_effects(lstm.best(L_VAL)),
        "in L_val the LSTM scales better than the GPT": [fall[0] - fall[1]],
        "A_val improves with r_train for both models": [a[-1] - a[0] for a in accuracy.values()],
        "the LSTM's A_val is the steadier one over all r_train":
            [gpt.fall_below_best().mean(0) - lstm.fall_below_best().mean(0)],
        "the LSTM first generalises at r_train = 0.6":
            [GENERAL - accuracy["LSTM"][4], accuracy["LSTM"][5] - GENERAL],
        "below r_train = 0.3 the LSTM only overfits":
            [*(lstm.best(A_TRAIN)[:2] - MEMORISED), *(OVERFITS - accuracy["LSTM"][:2])],
    }


def make_figures(study):
    both = {NAMES[model]: study.curves(model, **RUNS) for model in NAMES}
    found = [Figure(f"fig0{label}-data-{name.lower()}", str(label), f"{name}: loss and accuracy "
                    "over the training steps. Each r_train has a colour and a marker.",
                    make_grid(curve_panels(dict(zip(FRACTIONS, runs, strict=True))), 2,
                              "r_train"), (10, 6.2))
             for label, (name, runs) in enumerate(both.items(), 3)]
    return [*found, Figure("fig05-data-compared", "5", "Best losses and accuracies, and the first "
                           "steps t_f that reached them, against r_train.",
                           make_grid(best_panels(FRACTIONS, both), 2, x="r_train",
                                     scale="linear"), (10, 10))]


def make_tables(study):
    return [("The table shows best values and first steps: mean ± standard deviation over seeds.",
             best_table(("model", "r_train"), [
                 ((name, f"{r:g}"), study.curves(model, r_train=r))
                 for model, name in NAMES.items() for r in FRACTIONS]))]


def find_data_thresholds(runs):
    """Return (smallest r_train that generalises, or 1; largest that only overfits, or 0)."""
    accuracy, memorised = runs.best(A_VAL), runs.best(A_TRAIN) >= MEMORISED
    r = np.array(FRACTIONS)[:, None]
    return (np.where(accuracy >= GENERAL, r, 1).min(0),
            np.where(memorised & (accuracy <= OVERFITS), r, 0).max(0))


def make_answer(study):
    lstm, gpt = study.curves_of_both("default", r_train=FRACTIONS)
    release = study.curves("lstm", "release", r_train=FRACTIONS)
    smallest = {name: find_data_thresholds(runs) for name, runs in
                (("lstm", lstm), ("gpt", gpt), ("release", release))}
    gaps = np.concatenate([general - overfit for general, overfit in smallest.values()])
    factor = [10 ** (0.1 * fit_slope(FRACTIONS, np.log10(runs.best(L_VAL))))
              for runs in (gpt, lstm)]
    fewer = np.sum(smallest["gpt"][0] < smallest["lstm"][0])
    heading = ("model", "A_val at r_train = 0.4, mean (least to largest)",
               "factor of L_val if r_train grows by 0.1", "smallest r_train with A_val ≥ 0.9")
    rows = [(label, f"{runs[3].best(A_VAL).mean():.2f} ({format_span(runs[3].best(A_VAL))})",
             format_mean(rate, logarithmic=True), format_span(smallest[name][0], "{:g}"))
            for label, name, runs, rate in zip(("GPT", "LSTM"), ("gpt", "lstm"), (gpt, lstm),
                                               factor, strict=True)]
    return f"""
**(c) Which model gains more from more training data?** The GPT generalises with less data. With
{fewer} of {len(lstm.seeds)} seeds, it needs fewer training equations than the LSTM. In L_val
neither model clearly scales better: if r_train grows by 0.1, L_val falls to about a quarter.

{format_table(heading, rows)}

**(d) With how much data does a model generalise, and with how much does it only overfit?** The
largest r_train with which a model only overfits is {format_span(gaps, "{:.1f}")} below the smallest
r_train in the table. So a little more data turns overfitting into generalising. A possible reason,
which is not tested here: each further equation costs something to memorise, but the rule costs the
same for any number of equations."""
