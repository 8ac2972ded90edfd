"""Question 5: layers and width. The claims on it are in q5_claims."""

import math

from experiments.study.measures import A_VAL, L_VAL, mean, middle, slope, span, student
from experiments.study.pages import Table
from experiments.study.panels import best_table, eight, family, figure
from experiments.study.records import NAMES, SEEDS, parameters, variant

LAYERS, WIDTHS = (1, 2, 3), (64, 128, 256)
CONFIGS = {model: {(L, d): variant(model, layers=L, width=d) for L in LAYERS for d in WIDTHS}
           for model in NAMES}
RUNS = [variant(m, layers=L, width=d, seed=seed) for seed in SEEDS for L in LAYERS
        for d in WIDTHS for m in NAMES]
NARROW, WIDE = [(L, 64) for L in LAYERS], [(L, 256) for L in LAYERS]
SHALLOW, DEEP = [(1, d) for d in WIDTHS], [(3, d) for d in WIDTHS]


def by_size(runs):
    """The runs {(L, d): Run} in the order of their parameters, and those."""
    ordered = sorted(runs.values(), key=lambda run: parameters(run.config))
    return ordered, [parameters(run.config) for run in ordered]


def gain(runs, few, many):
    """Decades by which L_val falls between settings paired with each other, mean."""
    return mean(math.log10(runs[a].best(L_VAL) / runs[b].best(L_VAL))
                for a, b in zip(few, many, strict=True))


def rise(runs, few, many):
    """By how much A_val rises between settings paired with each other, mean."""
    return mean(runs[b].best(A_VAL) - runs[a].best(A_VAL) for a, b in zip(few, many, strict=True))


def change(few, many):
    """{metric: by how much it gets better(runs)} from one setting to another."""
    return {L_VAL: lambda runs: gain(runs, [few], [many]),
            A_VAL: lambda runs: rise(runs, [few], [many])}


def logarithms(runs):
    """(log10 of P, log10 of L_val), in the order of P."""
    ordered, sizes = by_size(runs)
    return [math.log10(P) for P in sizes], [math.log10(run.best(L_VAL)) for run in ordered]


# --- figures, tables, numbers ---------------------------------------------------------------------
BAR = "width d (log2 scale)"


def figures(store):
    made = []
    for model, first in (("gpt", 12), ("lstm", 15)):
        for L in LAYERS:
            made.append(figure(
                f"fig{first + L - 1}-model-{model}-layers{L}", str(first + L - 1),
                f"{NAMES[model]}, {L} layer{'s' * (L > 1)}: loss and accuracy over the training "
                "steps, the width d by colour and mark.",
                family(store, {"": {d: CONFIGS[model][L, d] for d in WIDTHS}}, BAR), (10, 6.2)))
    for model, label in (("lstm", 18), ("gpt", 20)):
        found = CONFIGS[model]
        by_P = [(f"L = {L}", {parameters(found[L, d]): found[L, d] for d in WIDTHS})
                for L in LAYERS]
        by_L = [(d, {L: found[L, d] for L in LAYERS}) for d in WIDTHS]
        what = f"{NAMES[model]}: best losses and accuracies, and their first steps t_f, against "
        made += [figure(f"fig{label}-model-{model}-parameters", str(label),
                        f"{what}the number of parameters without embeddings.", eight(
                            store, by_P, {"label": "parameters P (log scale)", "scale": "log"}),
                        (10, 10)),
                 figure(f"fig{label + 1}-model-{model}-layers", str(label + 1),
                        f"{what}the number of layers, the width d by colour and mark.", eight(
                            store, by_L, {"label": "layers L", "scale": "whole"}, BAR), (10, 10))]
    return made


def table(store):
    return best_table(store, ("model", "L", "d", "P"), [
        (NAMES[m], str(L), str(d), f"{parameters(config):,}", config)
        for m in CONFIGS for (L, d), config in CONFIGS[m].items()])


def seeds_of(store):
    """{(model, recipe): [{(L, d): Run} of each seed]} of what the page speaks of."""
    return {(model, recipe): list(store.by_seed(CONFIGS[model], {model: recipe}).values())
            for model, recipe in (("lstm", "default"), ("lstm", "release"), ("gpt", "default"))}


def by_parameters(runs, metric):
    """(slope, half of Student's 95 % interval) over log10 P of log10 L_val or of A_val."""
    ordered, sizes = by_size(runs)
    xs = [math.log10(P) for P in sizes]
    ys = [math.log10(run.best(metric)) if metric == L_VAL else run.best(metric)
          for run in ordered]
    steep, free, middle = slope(xs, ys), len(xs) - 2, mean(xs)
    start = mean(ys) - steep * middle
    variance = math.fsum((y - start - steep * x) ** 2 for x, y in zip(xs, ys, strict=True)) / free
    width = math.sqrt(variance / math.fsum((x - middle) ** 2 for x in xs))
    return steep, student(free, 0.025) * width


# {what is changed: {metric: gain(runs)}}: more is better
WIDTH = {L: f"d from 64 to 256, L = {L}" for L in LAYERS}
DEPTH = {d: f"L from 1 to 3, d = {d}" for d in WIDTHS}
GAINS = {
    **{name: change((L, 64), (L, 256)) for L, name in WIDTH.items()},
    **{name: change((1, d), (3, d)) for d, name in DEPTH.items()},
    "P tenfold": {L_VAL: lambda runs: -by_parameters(runs, L_VAL)[0],
                              A_VAL: lambda runs: by_parameters(runs, A_VAL)[0]},
}


def gains_table(store):
    """What width, depth and parameters bring: the answer to 5 (c)."""
    found, rows = seeds_of(store), []
    for what, of in GAINS.items():
        for metric, name, form in ((L_VAL, "decades that L_val falls", "{:+.2f}"),
                                   (A_VAL, "rise of A_val", "{:+.3f}")):
            rows.append((what, name, *(middle(map(of[metric], seeds), form)
                                       for seeds in found.values())))
    return Table(("more of", "brings", *(f"{NAMES[m]}, {recipe}" for m, recipe in found)), rows,
                 left=2)


def more(store, what, metric):
    """{recipe of the LSTM: which model gains more with every seed, or ""}."""
    found, of = seeds_of(store), GAINS[what][metric]
    gpt = [of(runs) for runs in found["gpt", "default"]]
    made = {}
    for recipe in ("default", "release"):
        pairs = [b > a for a, b in zip(map(of, found["lstm", recipe]), gpt, strict=True)]
        made[recipe] = "GPT" if all(pairs) else "" if any(pairs) else "LSTM"
    return made


def values(store):
    found = seeds_of(store)
    halves = {key: [by_parameters(runs, A_VAL) for runs in seeds] for key, seeds in found.items()}
    told = {name: [steep > half for (m, _), these in halves.items() if m == name
                   for steep, half in these] for name in NAMES}
    third = [runs[3, d].best(L_VAL) / runs[2, d].best(L_VAL)
             for recipe in ("default", "release") for runs in found["lstm", recipe] for d in WIDTHS]
    wider = [GAINS[WIDTH[2]][L_VAL](runs) for recipe in ("default", "release")
             for runs in found["lstm", recipe]]
    at_64 = {recipe: mean(runs[L, 64].best(A_VAL) for runs in found["lstm", recipe]
                          for L in LAYERS) for recipe in ("default", "release")}
    return {"5 table": gains_table(store),
            **{f"5 {m} told": f"{sum(these)} of {len(these)}" for m, these in told.items()},
            "5 third layer": f"{sum(times > 1 for times in third)} of {len(third)}",
            "5 wider rises": f"{sum(fall < 0 for fall in wider)} of {len(wider)}",
            **{f"5 {recipe} at 64": f"{at:.2f}" for recipe, at in at_64.items()},
            "5 gpt at 64": span((mean(runs[L, 64].best(A_VAL) for L in LAYERS)
                                 for runs in found["gpt", "default"]), "{:.2f}")}


def facts(store):
    def gains(what, metric):
        return {key: [GAINS[what][metric](runs) for runs in seeds]
                for key, seeds in seeds_of(store).items()}

    both = {"default": "GPT", "release": "GPT"}
    falls = {L: gains(name, L_VAL) for L, name in WIDTH.items()}
    return {
        "with d L_val falls in every run, but for LSTMs of two layers": all(
            fall > 0 for L, found in falls.items() for (model, _), these in found.items()
            for fall in these if (model, L) != ("lstm", 2)) and min(
                falls[2]["lstm", "default"] + falls[2]["lstm", "release"]) < 0,
        "on average the GPT's L_val falls more with d, L and P, by either start": all(
            mean(b for name in names for b in gains(name, L_VAL)["gpt", "default"])
            > mean(a for name in names for a in gains(name, L_VAL)["lstm", recipe])
            for names in (WIDTH.values(), DEPTH.values(), ["P tenfold"]) for recipe in both),
        "with P the GPT's L_val falls more with every run": more(store, "P tenfold", L_VAL) == both,
        "with d, at every L, more than the release LSTM's, and not than the default's": all(
            more(store, name, L_VAL) == {"default": "", "release": "GPT"}
            for name in WIDTH.values()),
        "with d A_val rises more for the default LSTM at L = 1, for the GPT at L = 2": [
            more(store, name, A_VAL)["default"] for name in WIDTH.values()] == ["LSTM", "GPT", ""],
        "with L neither model gains more in every run, in L_val or in A_val": all(
            len({more(store, name, metric)[recipe] for name in DEPTH.values()
                 for recipe in ("default", "release")}) > 1 for metric in (L_VAL, A_VAL)),
    }
