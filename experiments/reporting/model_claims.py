"""What the captions of question 5 (layers and width) say, and the tests of it."""

import math

from experiments.reporting.measures import (
    GENERAL,
    MEMORISED,
    STEADY,
    TREND,
    accuracies,
    correlation,
    deviation,
    falls,
    losses,
    mean,
    relaxed,
    rises,
    steps,
)
from experiments.reporting.records import parameters
from experiments.reporting.rules import Statement

LAYERS, WIDTHS = (1, 2, 3), (64, 128, 256)
L_VAL, A_VAL = "validation_loss", "validation_accuracy"
L_TRAIN, A_TRAIN = "train_loss", "train_accuracy"
SMOOTH = 0.1            # decades: a loss is smooth when its mean height is at most that
FAST = "the steps", "A_train"           # the thresholds of `fast`


def captions(configs):
    """Figures 12 to 21; configs is {model: {(L, d): Config}}."""
    return captions_by_depth(configs) + captions_by_size(configs)


def claim(where, words, document, configs, test, contradiction="", **more):
    """A Statement on all settings of some models; the test gets {model: {(L, d): Run}}.

    more    Statement's threshold, readings and again
    """
    needs = {(m, *key): config for m, found in configs.items() for key, config in found.items()}

    def grouped(test):
        def tested(runs, *times):
            models = {}
            for (model, *key), run in runs.items():
                models.setdefault(model, {})[tuple(key)] = run
            return test(models, *times)
        return tested

    more["readings"] = {name: grouped(t) for name, t in more.get("readings", {}).items()}
    return Statement(where, words, document, needs, grouped(test), contradiction, **more)


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
              "rapid convergence for small d", gpt[0],
              lambda m, general=1, *others: fastest_small(m["gpt"], 1, general),
              threshold=("A_val", *FAST), readings={
                  "small d is fast at all":
                  lambda m, general=1, *others: fast(m["gpt"], (1, 64), *others)}),
        claim("Figure 12", "GPT, L = 1: A_val is least steady for d = 256",
              "unstable for d = 256", gpt[0], lambda m: unsteady_wide(m["gpt"], 1)),
        claim("Figure 13", "GPT, L = 2: steady for all d, with high accuracy",
              "stable convergence across all d; accuracy remains high", gpt[1],
              lambda m, *times: steady(m["gpt"], 2, *times), threshold=("shortfall", "A_val")),
        claim("Figure 13", "GPT, L = 2: L_val falls smoothly", "drops smoothly", gpt[1],
              lambda m, times=1: smooth(m["gpt"], 2, times), threshold=True),
        claim("Figure 14", "GPT, L = 3: width changes L_val, A_val and its steadiness as with L = "
              "2", "similar trends as layer 2", {"gpt": gpt[1]["gpt"] | gpt[2]["gpt"]},
              lambda m: similar(m["gpt"])),
        claim("Figure 14", "GPT, L = 3: A_val saturates for all d", "reliably for all batch sizes",
              gpt[2], lambda m, times=1: high(m["gpt"], 0.99, times), threshold=True),
        claim("Figure 15", "LSTM, L = 1: the loss drops fast", "drops quickly", lstm[0],
              lambda m, *times: fast(m["lstm"], None, *times), threshold=FAST),
        claim("Figure 15", "LSTM, L = 1: A_val improves with d", "improves slowly with d",
              lstm[0], lambda m, times=1: better_with_width(m["lstm"], 1), threshold=True,
              readings={"it is there sooner":
                        lambda m, times=1: sooner_general(m["lstm"], 1, times)}),
        claim("Figure 16", "LSTM, L = 2: it converges fast", "fast convergence", lstm[1],
              lambda m, *times: fast(m["lstm"], None, *times), threshold=FAST),
        claim("Figure 16", "LSTM: L_val is lower with two layers than with one, for all d",
              "improved validation performance across all d", whole,
              lambda m: deeper(m["lstm"], 1, 2)),
        claim("Figure 17", "LSTM: three layers are noisier than fewer", "more noise in metrics",
              whole, lambda m: noisier(m["lstm"])),
        claim("Figure 17", "LSTM, L = 3: high accuracy for all d", "across batch sizes",
              lstm[2], lambda m, times=1: high(m["lstm"], GENERAL, times), threshold=True),
    ]


def fastest_small(runs, L, times=1):
    found = [runs[L, d].reach(A_VAL, relaxed(GENERAL, times)) for d in WIDTHS]
    return found[0] < min(found[1:]), f"A_val ≥ 0.9 for d = 64, 128, 256 at {steps(found)}"


def unsteady_wide(runs, L):
    lost = [runs[L, d].shortfall() for d in WIDTHS]
    return lost[2] > max(lost[:2]), f"mean shortfall for d = 64, 128, 256: {losses(lost)}"


def similar(runs):
    """Do L_val, A_val and its shortfall go the same way from d = 64 to 256 with two layers and
    with three?"""
    same, words = True, []
    for name, of in (("log10 L_val", lambda run: math.log10(run.best(L_VAL))),
                     ("A_val", lambda run: run.best(A_VAL)),
                     ("shortfall", lambda run: run.shortfall())):
        changes = [of(runs[L, 256]) - of(runs[L, 64]) for L in (2, 3)]
        same &= changes[0] * changes[1] > 0 or changes[0] == changes[1]
        words.append(f"{name} {changes[0]:+.3f} and {changes[1]:+.3f}")
    return same, f"from d = 64 to 256, L = 2 and 3: {', '.join(words)}"


def sooner_general(runs, L, times=1):
    found = [runs[L, d].reach(A_VAL, relaxed(GENERAL, times)) for d in WIDTHS]
    return falls(found), f"A_val ≥ 0.9 for d = 64, 128, 256 at {steps(found)}"


def steady(runs, L, times=1, general=1):
    lost = [runs[L, d].shortfall() for d in WIDTHS]
    found = [runs[L, d].best(A_VAL) for d in WIDTHS]
    return max(lost) <= STEADY * times and min(found) >= relaxed(GENERAL, general), (
        f"mean shortfall {losses(lost)} (steady: at most {STEADY:g}); A_val {accuracies(found)}")


def smooth(runs, L, times=1):
    rough = [runs[L, d].roughness(L_VAL) for d in WIDTHS]
    return max(rough) <= SMOOTH * times, (
        f"L_val lies {losses(rough)} decades above its lowest so far for d = 64, 128, 256 (smooth: "
        f"at most {SMOOTH:g})")


def high(runs, limit, times=1, metric=A_VAL):
    found = [run.best(metric) for run in runs.values()]
    name = "A_val" if metric == A_VAL else "A_train"
    return min(found) >= relaxed(limit, times), (
        f"{name} {accuracies(found)} (high: at least {limit:g})")


def fast(runs, which=None, times=1, memorised=1):
    """Is the training set memorised within a tenth of the steps, by all or by one setting?"""
    chosen = [runs[which]] if which else list(runs.values())
    found = [run.reach(A_TRAIN, relaxed(MEMORISED, memorised)) for run in chosen]
    tenth = chosen[0].config.steps / 10 * times
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
              lambda m, times=1: losses_fall(m["lstm"], times), threshold=True),
        claim("Figure 18", "LSTM: accuracy is high in all nine settings",
              "remains consistently high", lstm,
              lambda m, times=1: high(m["lstm"], GENERAL, times), threshold=True),
        claim("Figure 18", "LSTM: larger ones reach their best A_val sooner",
              "larger models converge faster", lstm,
              lambda m, times=1: sooner_with_size(m["lstm"], times), threshold=True),
        claim("Figure 18", "LSTM: size speeds up A_val more than A_train",
              "especially for validation metrics", lstm,
              lambda m: validation_more(m["lstm"])),
        claim("Figure 18", "LSTM: but not every larger one is sooner",
              "some variance remains across configurations", lstm,
              lambda m: some_variance(m["lstm"])),
        claim("Figure 19", "LSTM: deeper ones have lower loss and no less accuracy, for all d",
              "deeper models significantly reduce loss and boost accuracy", lstm,
              lambda m: deeper_better(m["lstm"]), struggles),
        claim("Figure 19", "LSTM: training gains from larger d",
              "more efficient with higher batch sizes", lstm,
              lambda m, times=1: sooner_with_width(m["lstm"], times), threshold=True),
        claim("Figure 19", "LSTM: how steady A_val is varies more for fewer layers",
              "validation stability varies more at lower layer counts", lstm, varies_more),
        claim("Figure 20", "GPT: both losses fall with P", "larger models achieve lower loss", gpt,
              lambda m, times=1: losses_fall(m["gpt"], times), threshold=True),
        claim("Figure 20", "GPT: larger ones reach their best A_val sooner",
              "faster convergence, particularly in validation", gpt,
              lambda m, times=1: sooner_with_size(m["gpt"], times), threshold=True),
        claim("Figure 20", "GPT: A_val rises with P", "accuracy improves with parameter count", gpt,
              accuracy_rises, "Figure 21 has every configuration at 100 %", threshold=True),
        claim("Figure 20", "GPT: validation metrics vary more over the settings than training's",
              "higher variance", gpt, validation_varies),
        claim("Figure 21", "GPT: both losses fall with L", "improve with the number of layers", gpt,
              both_fall_with_depth),
        claim("Figure 21", "GPT: larger ones reach their best A_val sooner",
              "faster convergence in larger models", gpt, lambda m: sooner_with_size(m["gpt"]),
              again="Figure 20"),
        claim("Figure 21", "GPT: accuracy is 100 % in all nine settings",
              "100 % across configurations", gpt,
              lambda m, times=1: high(m["gpt"], 0.9995, times), threshold=True,
              readings={"training accuracy":
                        lambda m, times=1: high(m["gpt"], 0.9995, times, A_TRAIN)}),
        claim("Figure 21", "GPT: training gains from larger d",
              "higher batch sizes: more stable and faster", gpt,
              lambda m, times=1: sooner_with_width(m["gpt"], times), threshold=True),
    ]


def by_size(runs):
    """The runs in the order of their parameters, and those."""
    ordered = sorted(runs.values(), key=lambda run: parameters(run.config))
    return ordered, [parameters(run.config) for run in ordered]


def with_size(runs, value):
    ordered, sizes = by_size(runs)
    return correlation(sizes, [value(run) for run in ordered])


def losses_fall(runs, times=1):
    found = [with_size(runs, lambda run, m=m: run.best(m)) for m in (L_TRAIN, L_VAL)]
    return max(found) <= -TREND * times, (
        f"rank correlation with P: L_train {found[0]:.2f}, L_val {found[1]:.2f} (a trend from "
        f"{TREND:g} on)")


def times_with_size(runs):
    return [with_size(runs, lambda run, m=m: run.first(m)) for m in (A_VAL, A_TRAIN)]


def sooner_with_size(runs, times=1):
    found = times_with_size(runs)
    return found[0] <= -TREND * times, "rank correlation of t_f with P: A_val " \
                                       f"{found[0]:.2f}, A_train {found[1]:.2f}"


def validation_more(runs):
    found = times_with_size(runs)
    return found[0] < min(0, found[1]), "rank correlation of t_f with P: A_val " \
                                        f"{found[0]:.2f}, A_train {found[1]:.2f}"


def some_variance(runs):
    ordered, _ = by_size(runs)
    found = [run.first(A_VAL) for run in ordered]
    return found != sorted(found, reverse=True), f"t_f(A_val) in the order of P: {steps(found)}"


def deeper_better(runs):
    found = [[runs[L, d].best(L_VAL) for L in (1, 3)] for d in WIDTHS]
    accuracy = [[runs[L, d].best(A_VAL) for L in (1, 3)] for d in WIDTHS]
    true = all(b < a for a, b in found) and all(b >= a for a, b in accuracy)
    return true, "L = 1 and 3, d = 64, 128, 256: L_val " + "; ".join(map(losses, found)) + (
        "; A_val " + "; ".join(map(accuracies, accuracy)))


def sooner_with_width(runs, times=1):
    found = [mean(runs[L, d].reach(A_TRAIN, relaxed(MEMORISED, times)) for L in LAYERS)
             for d in WIDTHS]
    return found[0] > found[1] > found[2], (
        f"A_train ≥ 0.99 for d = 64, 128, 256 at {steps(found)} (mean over L)")


def varies_more(models):
    lost = [deviation(models["lstm"][L, d].shortfall() for d in WIDTHS) for L in LAYERS]
    return lost[0] > lost[2], f"deviation of the mean shortfall over d for L = 1, 2, 3: " \
                              f"{losses(lost)}"


def accuracy_rises(models, times=1):
    found = with_size(models["gpt"], lambda run: run.best(A_VAL))
    return found >= TREND * times, f"rank correlation {found:.2f}"


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
