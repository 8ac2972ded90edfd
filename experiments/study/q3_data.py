"""Question 3: the share of the equations that is trained on."""

import math

from experiments.study.judge import Claim
from experiments.study.measures import (
    A_VAL,
    GENERAL,
    L_VAL,
    each_step,
    lower,
    mean,
    only_overfits,
    slope,
    span,
)
from experiments.study.panels import best_table, eight, family, figure
from experiments.study.records import BASE, NAMES, SEEDS, variant

SHARES = [round(0.1 * i, 1) for i in range(1, 10)]
CONFIGS = {model: {r: variant(model, r_train=r) for r in SHARES} for model in NAMES}
RUNS = [variant(m, r_train=r, seed=seed) for seed in SEEDS for r in SHARES for m in NAMES]
LSTM = {("lstm", r): config for r, config in CONFIGS["lstm"].items()}
BOTH = {(m, r): config for m in CONFIGS for r, config in CONFIGS[m].items()}


def best(runs, model, metric):
    return [runs[model, r].best(metric) for r in SHARES]


def smallest_general(runs, model):
    """The smallest r_train that generalises, or infinity."""
    return min((r for r in SHARES if runs[model, r].best(A_VAL) >= GENERAL), default=math.inf)


def largest_overfit(runs, model):
    """The largest r_train that only overfits, or minus infinity."""
    return max((r for r in SHARES if min(only_overfits(runs[model, r])) > 0), default=-math.inf)


# --- claims ---------------------------------------------------------------------------------------
def monotone(runs):
    found = best(runs, "lstm", L_VAL)
    return each_step(found, lower), found


def scales_better(runs):
    """A steeper fall of log L_val over r_train."""
    fall = [slope(SHARES, [math.log10(v) for v in best(runs, m, L_VAL)]) for m in NAMES]
    return [fall[1] - fall[0]], fall


def both_improve(runs):
    ends = [runs[m, r].best(A_VAL) for m in NAMES for r in (0.1, 0.9)]
    return [ends[1] - ends[0], ends[3] - ends[2]], ends


def steadier(runs):
    lost = [mean(runs[m, r].shortfall() for r in SHARES) for m in NAMES]
    return [lost[1] - lost[0]], lost


def first_general(runs):
    found = best(runs, "lstm", A_VAL)[4:6]
    return [GENERAL - found[0], found[1] - GENERAL], found


def overfits_below(runs):
    parts = [part for r in (0.1, 0.2) for part in only_overfits(runs["lstm", r])]
    return parts, best(runs, "lstm", A_VAL)[:2]


def claims():
    return [
        Claim("3 (c)", "the LSTM's L_val falls with every step of r_train",
              "decreases monotonically", LSTM, monotone, "L_val"),
        Claim("3 (c)", "in L_val the LSTM scales better than the GPT",
              "superior scaling, particularly in L_val", BOTH, scales_better,
              "decades of L_val per unit of r_train, LSTM, GPT"),
        Claim("3 (c)", "A_val improves with r_train for both models", "both models improve",
              BOTH, both_improve, "A_val at 0.1 and 0.9, LSTM, GPT"),
        Claim("3 (c)", "the LSTM's A_val is the steadier one over all r_train",
              "more stable performance across all r_train", BOTH, steadier,
              "mean shortfall, LSTM, GPT"),
        Claim("3 (d)", "the LSTM first generalises at r_train = 0.6", "0.6", LSTM,
              first_general, "A_val at 0.5, 0.6",
              against="its table of question 2 has A_val = 1 at r_train = 0.5"),
        Claim("3 (d)", "below r_train = 0.3 the LSTM only overfits", "below 0.3", LSTM,
              overfits_below, "A_val at 0.1, 0.2"),
    ]


# --- figures, table, numbers ----------------------------------------------------------------------
def figures(store):
    made = [figure(f"fig0{label}-data-{model}", label, f"{NAMES[model]}: loss and accuracy over "
                   "the training steps for r_train from 0.1 to 0.9, by colour and mark.",
                   family(store, {"": CONFIGS[model]}, "r_train"), (10, 6.2))
            for label, model in (("3", "lstm"), ("4", "gpt"))]
    return [*made, figure(
        "fig05-data-compared", "5", "Best losses and accuracies, and the first steps t_f that "
        "reached them, against r_train.",
        eight(store, [(NAMES[m], CONFIGS[m]) for m in CONFIGS],
              {"label": "r_train", "scale": "linear"}), (10, 10))]


def table(store):
    return best_table(store, ("model", "r_train"), [(NAMES[m], f"{r:g}", CONFIGS[m][r])
                                                    for m in CONFIGS for r in SHARES])


# the runs that the page speaks of: of each model by the recipes that it is judged by here
SPOKEN = (("lstm", "default"), ("lstm", "release"), ("gpt", "default"))


def spoken(store):
    """{(model, recipe): [{(model, r_train): Run} of each seed]}."""
    return {(model, recipe): list(store.by_seed(
        {(model, r): config for r, config in CONFIGS[model].items()}, {model: recipe}).values())
        for model, recipe in SPOKEN}


def values(store):
    made, gaps = {}, []
    for (model, recipe), seeds in spoken(store).items():
        general = [smallest_general(runs, model) for runs in seeds]
        overfit = [largest_overfit(runs, model) for runs in seeds]
        gaps += [high - low for low, high in zip(overfit, general, strict=True)]
        at = mean(runs[model, 0.4].best(A_VAL) for runs in seeds)
        steep = [-0.1 * slope(SHARES, [math.log10(v) for v in best(runs, model, L_VAL)])
                 for runs in seeds]
        name = f"3 {model} {recipe}"
        made |= {f"{name} general": span(general, "{:g}"), f"{name} at 0.4": f"{at:.2g}",
                 f"{name} slope": span(steep, "{:.2f}")}
    equations = [BASE.p**2 * gap for gap in (min(gaps), max(gaps))]
    return made | {"3 gap": span(gaps, "{:.1g}"), "3 gap equations": span(equations, "{:.0f}")}


def facts(store):
    found = spoken(store)
    general = {key: [smallest_general(runs, key[0]) for runs in seeds]
               for key, seeds in found.items()}
    gpt = general.pop(("gpt", "default"))
    steep = {key: [slope(SHARES, [math.log10(v) for v in best(runs, key[0], L_VAL)])
                   for runs in seeds] for key, seeds in found.items()}
    gpt_steep = steep.pop(("gpt", "default"))
    both = [(a, b) for lstm in steep.values() for a, b in zip(lstm, gpt_steep, strict=True)]
    return {
        "the GPT generalises with fewer equations than the LSTM, with one seed as many": all(
            sorted(b > a for a, b in zip(gpt, lstm, strict=True))[:2] == [False, True]
            and all(b >= a for a, b in zip(gpt, lstm, strict=True)) for lstm in general.values()),
        "in L_val neither model's fall is the steeper one with every run": len(
            {a < b for a, b in both}) == 2,
    }
