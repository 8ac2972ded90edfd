"""What the captions of question 5 (layers and width) say, and the tests of it."""

import math

from reporting.measures import (
    GENERAL,
    MEMORISED,
    STEADY,
    TREND,
    accuracies,
    correlation,
    deviation,
    losses,
    mean,
    rises,
    steps,
)
from reporting.records import parameters
from reporting.rules import Statement

LAYERS, WIDTHS = (1, 2, 3), (64, 128, 256)
L_VAL, A_VAL = "validation_loss", "validation_accuracy"
L_TRAIN, A_TRAIN = "train_loss", "train_accuracy"
SMOOTH = 0.1            # decades: a loss is smooth when its mean height is at most that
NO_BATCHES = "d, not the batch size, was varied in question 5 (B is 512 throughout)"


def captions(configs):
    """Figures 12 to 21; configs is {model: {(L, d): Config}}."""
    return captions_by_depth(configs) + captions_by_size(configs)


def claim(where, words, document, configs, test, contradiction=""):
    """A Statement on all settings of some models; the test gets {model: {(L, d): Run}}."""
    needs = {(m, *key): config for m, found in configs.items() for key, config in found.items()}

    def grouped(runs):
        models = {}
        for (model, *key), run in runs.items():
            models.setdefault(model, {})[tuple(key)] = run
        return test(models)

    return Statement(where, words, document, needs, grouped, contradiction)


def part(configs, model, L=None):
    """{model: its settings, of one depth}."""
    return {model: {key: c for key, c in configs[model].items() if L in (None, key[0])}}


# --- Figures 12 to 17 ---------------------------------------------------------------------------
def captions_by_depth(configs):
    gpt = [part(configs, "gpt", L) for L in LAYERS]
    lstm = [part(configs, "lstm", L) for L in LAYERS]
    whole = {"lstm": configs["lstm"]}
    return [
        claim("Figure 12", "GPT, L = 1: it converges fastest for small d",
              "rapid convergence for small d", gpt[0], lambda m: fastest_small(m["gpt"], 1)),
        claim("Figure 12", "GPT, L = 1: A_val is least steady for d = 256",
              "unstable for d = 256", gpt[0], lambda m: unsteady_wide(m["gpt"], 1)),
        claim("Figure 13", "GPT, L = 2: steady for all d, with high accuracy",
              "stable convergence across all d; accuracy remains high", gpt[1],
              lambda m: steady(m["gpt"], 2)),
        claim("Figure 13", "GPT, L = 2: L_val falls smoothly", "drops smoothly", gpt[1],
              lambda m: smooth(m["gpt"], 2)),
        claim("Figure 14", "GPT, L = 3: A_val saturates for all settings",
              "reliably for all batch sizes", gpt[2], lambda m: high(m["gpt"], 0.99), NO_BATCHES),
        claim("Figure 15", "LSTM, L = 1: the loss drops fast", "drops quickly", lstm[0],
              lambda m: fast(m["lstm"])),
        claim("Figure 15", "LSTM, L = 1: A_val improves with d", "improves slowly with d",
              lstm[0], lambda m: better_with_width(m["lstm"], 1)),
        claim("Figure 16", "LSTM, L = 2: it converges fast", "fast convergence", lstm[1],
              lambda m: fast(m["lstm"])),
        claim("Figure 16", "LSTM: L_val is lower with two layers than with one, for all d",
              "improved validation performance across all d", whole,
              lambda m: deeper(m["lstm"], 1, 2)),
        claim("Figure 17", "LSTM: three layers are noisier than fewer", "more noise in metrics",
              whole, lambda m: noisier(m["lstm"])),
        claim("Figure 17", "LSTM, L = 3: high accuracy in all settings", "across batch sizes",
              lstm[2], lambda m: high(m["lstm"], GENERAL), NO_BATCHES),
    ]


def fastest_small(runs, L):
    found = [runs[L, d].reach(A_VAL, GENERAL) for d in WIDTHS]
    return found[0] < min(found[1:]), f"A_val ≥ 0.9 for d = 64, 128, 256 at {steps(found)}"


def unsteady_wide(runs, L):
    lost = [runs[L, d].shortfall() for d in WIDTHS]
    return lost[2] > max(lost[:2]), f"mean shortfall for d = 64, 128, 256: {losses(lost)}"


def steady(runs, L):
    lost = [runs[L, d].shortfall() for d in WIDTHS]
    found = [runs[L, d].best(A_VAL) for d in WIDTHS]
    return max(lost) <= STEADY and min(found) >= GENERAL, (
        f"mean shortfall {losses(lost)} (steady: at most {STEADY:g}); A_val {accuracies(found)}")


def smooth(runs, L):
    rough = [runs[L, d].roughness(L_VAL) for d in WIDTHS]
    return max(rough) <= SMOOTH, (
        f"L_val lies {losses(rough)} decades above its lowest so far for d = 64, 128, 256 (smooth: "
        f"at most {SMOOTH:g})")


def high(runs, limit):
    found = [run.best(A_VAL) for run in runs.values()]
    return min(found) >= limit, f"A_val {accuracies(found)} (high: at least {limit:g})"


def fast(runs):
    found = [run.reach(A_TRAIN, MEMORISED) for run in runs.values()]
    tenth = next(iter(runs.values())).config.steps / 10
    return max(found) <= tenth, f"A_train ≥ 0.99 at {steps(found)} (fast: by {tenth:.0f})"


def better_with_width(runs, L):
    found = [runs[L, d].best(A_VAL) for d in WIDTHS]
    return rises(found), (f"A_val for d = 64, 128, 256: {accuracies(found)}; at least 0.9 from "
                          f"{steps(runs[L, d].reach(A_VAL, GENERAL) for d in WIDTHS)}")


def deeper(runs, few, many):
    found = [(runs[few, d].best(L_VAL), runs[many, d].best(L_VAL)) for d in WIDTHS]
    return all(b < a for a, b in found), f"L_val with {few} and {many} layers: " + "; ".join(
        f"d = {d}: {losses(pair)}" for d, pair in zip(WIDTHS, found, strict=True))


def noisier(runs):
    lost = [mean(runs[L, d].shortfall() for d in WIDTHS) for L in LAYERS]
    return lost[2] > max(lost[:2]), f"mean shortfall of A_val for L = 1, 2, 3: {losses(lost)}"


# --- Figures 18 to 21 ---------------------------------------------------------------------------
def captions_by_size(configs):
    lstm, gpt = ({m: configs[m]} for m in ("lstm", "gpt"))
    struggles = "answer 5 (c) says that the LSTM struggles with depth and plateaus or worsens"
    return [
        claim("Figure 18", "LSTM: both losses fall with P", "decrease with model size", lstm,
              lambda m: losses_fall(m["lstm"])),
        claim("Figure 18", "LSTM: accuracy is high in all nine settings",
              "remains consistently high", lstm, lambda m: high(m["lstm"], GENERAL)),
        claim("Figure 18", "LSTM: larger ones reach their best A_val sooner",
              "larger models converge faster", lstm, lambda m: sooner_with_size(m["lstm"])),
        claim("Figure 19", "LSTM: deeper ones have lower loss and no less accuracy, for all d",
              "deeper models significantly reduce loss and boost accuracy", lstm,
              lambda m: deeper_better(m["lstm"]), struggles),
        claim("Figure 19", "LSTM: training gains from larger d",
              "more efficient with higher batch sizes", lstm,
              lambda m: sooner_with_width(m["lstm"]), NO_BATCHES),
        claim("Figure 19", "LSTM: how steady A_val is varies more for fewer layers",
              "validation stability varies more at lower layer counts", lstm, varies_more),
        claim("Figure 20", "GPT: both losses fall with P", "larger models achieve lower loss", gpt,
              lambda m: losses_fall(m["gpt"])),
        claim("Figure 20", "GPT: larger ones reach their best A_val sooner",
              "faster convergence, particularly in validation", gpt,
              lambda m: sooner_with_size(m["gpt"])),
        claim("Figure 20", "GPT: A_val rises with P", "accuracy improves with parameter count", gpt,
              accuracy_rises, "Figure 21 has every configuration at 100 %"),
        claim("Figure 20", "GPT: validation metrics vary more over the settings than training's",
              "higher variance", gpt, validation_varies),
        claim("Figure 21", "GPT: both losses fall with L", "improve with the number of layers", gpt,
              both_fall_with_depth),
        claim("Figure 21", "GPT: larger ones reach their best A_val sooner",
              "faster convergence in larger models", gpt, lambda m: sooner_with_size(m["gpt"])),
        claim("Figure 21", "GPT: A_val is 100 % in all nine settings",
              "100 % across configurations", gpt, lambda m: high(m["gpt"], 0.9995)),
        claim("Figure 21", "GPT: training gains from larger d",
              "higher batch sizes: more stable and faster", gpt,
              lambda m: sooner_with_width(m["gpt"]), NO_BATCHES),
    ]


def by_size(runs):
    """The runs in the order of their parameters, and those."""
    ordered = sorted(runs.values(), key=lambda run: parameters(run.config))
    return ordered, [parameters(run.config) for run in ordered]


def with_size(runs, value):
    ordered, sizes = by_size(runs)
    return correlation(sizes, [value(run) for run in ordered])


def losses_fall(runs):
    found = [with_size(runs, lambda run, m=m: run.best(m)) for m in (L_TRAIN, L_VAL)]
    return max(found) <= -TREND, f"rank correlation with P: L_train {found[0]:.2f}, L_val " \
                                 f"{found[1]:.2f} (a trend from {TREND:g} on)"


def sooner_with_size(runs):
    found = with_size(runs, lambda run: run.first(A_VAL)), with_size(
        runs, lambda run: run.first(A_TRAIN))
    return found[0] <= -TREND, f"rank correlation of t_f with P: A_val {found[0]:.2f}, A_train " \
                               f"{found[1]:.2f}"


def deeper_better(runs):
    found = [[runs[L, d].best(L_VAL) for L in (1, 3)] for d in WIDTHS]
    accuracy = [[runs[L, d].best(A_VAL) for L in (1, 3)] for d in WIDTHS]
    true = all(b < a for a, b in found) and all(b >= a for a, b in accuracy)
    return true, "L = 1 and 3, d = 64, 128, 256: L_val " + "; ".join(map(losses, found)) + (
        "; A_val " + "; ".join(map(accuracies, accuracy)))


def sooner_with_width(models_runs):
    found = [mean(models_runs[L, d].reach(A_TRAIN, MEMORISED) for L in LAYERS) for d in WIDTHS]
    return found[0] > found[1] > found[2], (
        f"A_train ≥ 0.99 for d = 64, 128, 256 at {steps(found)} (mean over L)")


def varies_more(models):
    lost = [deviation(models["lstm"][L, d].shortfall() for d in WIDTHS) for L in LAYERS]
    return lost[0] > lost[2], f"deviation of the mean shortfall over d for L = 1, 2, 3: " \
                              f"{losses(lost)}"


def accuracy_rises(models):
    found = with_size(models["gpt"], lambda run: run.best(A_VAL))
    return found >= TREND, f"rank correlation {found:.2f}"


def validation_varies(models):
    runs = models["gpt"].values()
    found = [deviation(run.best(metric) for run in runs) for metric in (A_TRAIN, A_VAL)]
    logs = [deviation(math.log10(run.best(metric)) for run in runs) for metric in (L_TRAIN, L_VAL)]
    return found[1] > found[0] and logs[1] > logs[0], (
        f"deviation over nine settings: A_train {found[0]:.4f}, A_val {found[1]:.4f}; log10 "
        f"L_train {logs[0]:.2f}, log10 L_val {logs[1]:.2f}")


def both_fall_with_depth(models):
    found = {m: [mean(math.log10(models["gpt"][L, d].best(m)) for d in WIDTHS) for L in LAYERS]
             for m in (L_TRAIN, L_VAL)}
    return all(a > b > c for a, b, c in found.values()), "; ".join(
        f"mean log10 {name} for L = 1, 2, 3: {', '.join(f'{v:.2f}' for v in values)}"
        for name, values in zip(("L_train", "L_val"), found.values(), strict=True))
