"""What the document says on question 5 (layers and width), and the tests of it.

Where its captions speak of batch sizes they can only mean the width d: B is 512 throughout.
"""

import math

from experiments.study.judge import Claim
from experiments.study.measures import (
    A_TRAIN,
    A_VAL,
    ALL,
    APART,
    GENERAL,
    L_TRAIN,
    L_VAL,
    MEMORISED,
    SMOOTH,
    STEADY,
    TENTH,
    correlation,
    counted,
    deviation,
    each_step,
    generalised,
    higher,
    lower,
    mean,
    slope,
    sooner,
    when,
)
from experiments.study.q5_size import (
    CONFIGS,
    DEEP,
    LAYERS,
    NARROW,
    SHALLOW,
    WIDE,
    WIDTHS,
    by_size,
    gain,
    logarithms,
    rise,
)

BY_D, BY_L = "for d = 64, 128, 256", "for L = 1, 2, 3"


def one(where, words, document, model, test, numbers="", layers=LAYERS, **more):
    """A Claim on one model; the tests get {(L, d): Run} of these layers."""
    needs = {key: config for key, config in CONFIGS[model].items() if key[0] in layers}
    return Claim(where, words, document, needs, test, numbers, **more)


def two(where, words, document, measure, numbers="", sign=1):
    """A Claim that a measure of the GPT's runs is above (sign -1: below) the LSTM's."""
    needs = {(m, *key): config for m, found in CONFIGS.items() for key, config in found.items()}

    def tested(runs):
        found = [measure({key[1:]: run for key, run in runs.items() if key[0] == m})
                 for m in CONFIGS]
        more = sign * (found[1] - found[0])
        return [counted(more) if isinstance(more, int) else more], found

    return Claim(where, words, document, needs, tested, f"{numbers}, LSTM, GPT")


def claims():
    return [*captions_by_depth(), *captions_by_size(), *answers()]


# --- Figures 12 to 17 -----------------------------------------------------------------------------
def captions_by_depth():
    return [
        one("Figure 12", "GPT, L = 1: it converges fastest for small d",
            "rapid convergence for small d", "gpt", fastest_small, "steps to A_val ≥ 0.9 " + BY_D,
            (1,), meanings={"small d is fast at all": lambda runs: fast({0: runs[1, 64]})}),
        one("Figure 12", "GPT, L = 1: A_val is least steady for d = 256",
            "unstable for d = 256", "gpt", lambda runs: last_is_most(shortfalls(runs)),
            "mean shortfall " + BY_D, (1,)),
        one("Figure 13", "GPT, L = 2: steady for all d, with high accuracy",
            "stable convergence across all d; accuracy remains high", "gpt", steady,
            "mean shortfalls, then A_val, " + BY_D, (2,)),
        one("Figure 13", "GPT, L = 2: L_val falls smoothly", "drops smoothly", "gpt", smooth,
            "decades above its lowest so far " + BY_D, (2,)),
        one("Figure 14", "GPT, L = 3: width changes L_val, A_val and its steadiness as with L = 2",
            "similar trends as layer 2", "gpt", similar,
            "changes from d = 64 to 256, L = 2 and 3", (2, 3)),
        one("Figure 14", "GPT, L = 3: A_val saturates for all d", "reliably for all batch sizes",
            "gpt", high(MEMORISED), "A_val " + BY_D, (3,)),
        one("Figure 15", "LSTM, L = 1: the loss drops fast", "drops quickly", "lstm", fast,
            "steps to A_train ≥ 0.99 " + BY_D, (1,)),
        one("Figure 15", "LSTM, L = 1: A_val improves with d", "improves slowly with d", "lstm",
            better_with_width, "A_val " + BY_D, (1,),
            meanings={"it is there sooner": sooner_with_width}),
        one("Figure 16", "LSTM, L = 2: it converges fast", "fast convergence", "lstm", fast,
            "steps to A_train ≥ 0.99 " + BY_D, (2,)),
        one("Figure 16", "LSTM: L_val is lower with two layers than with one, for all d",
            "improved validation performance across all d", "lstm",
            lambda runs: all_lower(runs, 1, 2), "L_val, L = 1 and 2, " + BY_D, (1, 2)),
        one("Figure 17", "LSTM: three layers are noisier than fewer", "more noise in metrics",
            "lstm", lambda runs: last_is_most(by_layers(runs, shortfall)),
            "mean shortfall " + BY_L),
        one("Figure 17", "LSTM, L = 3: high accuracy for all d", "across batch sizes", "lstm",
            high(GENERAL), "A_val " + BY_D, (3,)),
    ]


def shortfall(run):
    return run.shortfall()


def accuracy(run):
    return run.best(A_VAL)


def last_is_most(values):
    return [values[-1] - other for other in values[:-1]], values


def shortfalls(runs):
    return [run.shortfall() for run in runs.values()]


def by_layers(runs, of):
    return [mean(of(runs[L, d]) for d in WIDTHS) for L in LAYERS]


def by_widths(runs, of):
    return [mean(of(runs[L, d]) for L in LAYERS) for d in WIDTHS]


def times(steps, runs):
    last = next(iter(runs.values())).config.steps
    return [when(step, last) for step in steps]


def fastest_small(runs):
    small, *others = times(generalised(runs), runs)
    return [sooner(small, other) for other in others], generalised(runs)


def steady(runs):
    lost, found = shortfalls(runs), [run.best(A_VAL) for run in runs.values()]
    return [STEADY - v for v in lost] + [v - GENERAL for v in found], lost + found


def smooth(runs):
    rough = [run.roughness(L_VAL) for run in runs.values()]
    return [SMOOTH - v for v in rough], rough


def similar(runs):
    """Do L_val, A_val and its shortfall go the same way from d = 64 to 256 with two layers and
    with three? A part is the geometric mean of both changes, with the sign of their product."""
    parts, numbers = [], []
    for of in (lambda run: math.log10(run.best(L_VAL)), accuracy, shortfall):
        a, b = (of(runs[L, 256]) - of(runs[L, 64]) for L in (2, 3))
        parts.append(math.copysign(math.sqrt(abs(a * b)), a * b))
        numbers += [a, b]
    return parts, numbers


def high(limit, metric=A_VAL):
    def test(runs):
        found = [run.best(metric) for run in runs.values()]
        return [v - limit for v in found], found
    return test


def fast(runs):
    """Is the training set memorised within a tenth of the steps?"""
    found = [run.reach(A_TRAIN, MEMORISED) for run in runs.values()]
    limit = math.log10(TENTH * next(iter(runs.values())).config.steps)
    return [sooner(time, (limit, limit)) for time in times(found, runs)], found


def better_with_width(runs):
    found = [run.best(A_VAL) for run in runs.values()]
    return each_step(found, higher), found


def sooner_with_width(runs):
    return each_step(times(generalised(runs), runs), sooner), generalised(runs)


def all_lower(runs, few, many):
    found = [runs[L, d].best(L_VAL) for d in WIDTHS for L in (few, many)]
    return [lower(b, a) for a, b in zip(found[::2], found[1::2], strict=True)], found


# --- Figures 18 to 21 -----------------------------------------------------------------------------
def captions_by_size():
    P = "rank correlation with P"
    return [
        one("Figure 18", "LSTM: both losses fall with P", "decrease with model size", "lstm",
            losses_fall, f"{P}, L_train, L_val"),
        one("Figure 18", "LSTM: accuracy is high in all nine settings",
            "remains consistently high", "lstm", high(GENERAL), "A_val"),
        one("Figure 18", "LSTM: larger ones reach their best A_val sooner",
            "larger models converge faster", "lstm", sooner_with_size, f"{P} of t_f(A_val)"),
        one("Figure 18", "LSTM: size speeds up A_val more than A_train",
            "especially for validation metrics", "lstm", validation_more,
            f"{P} of t_f(A_val), t_f(A_train)"),
        one("Figure 18", "LSTM: but not every larger one is sooner",
            "some variance remains across configurations", "lstm", some_variance,
            "t_f(A_val) in the order of P", some=True),
        one("Figure 19", "LSTM: deeper ones have lower loss and no less accuracy, for all d",
            "deeper models significantly reduce loss and boost accuracy", "lstm", deeper_better,
            "L_val, L = 1 and 3, " + BY_D,
            against="answer 5 (c): the LSTM struggles with depth"),
        one("Figure 19", "LSTM: training gains from larger d",
            "more efficient with higher batch sizes", "lstm", memorises_sooner,
            "steps to A_train ≥ 0.99 " + BY_D),
        one("Figure 19", "LSTM: how steady A_val is varies more for fewer layers",
            "validation stability varies more at lower layer counts", "lstm", varies_more,
            "deviation of the shortfall over d " + BY_L),
        one("Figure 20", "GPT: both losses fall with P", "larger models achieve lower loss", "gpt",
            losses_fall, f"{P}, L_train, L_val"),
        one("Figures 20, 21", "GPT: larger ones reach their best A_val sooner",
            "faster convergence, particularly in validation", "gpt", sooner_with_size,
            f"{P} of t_f(A_val)"),
        one("Figure 20", "GPT: A_val rises with P", "accuracy improves with parameter count", "gpt",
            accuracy_rises, P, against="Figure 21: 100 % in every configuration"),
        one("Figure 20", "GPT: validation metrics vary more over the settings than training's",
            "higher variance", "gpt", validation_varies,
            "deviation of A_train, A_val, log10 L_train, log10 L_val"),
        one("Figure 21", "GPT: both losses fall with L", "improve with the number of layers", "gpt",
            both_fall_with_depth, "mean log10 L_train, then L_val, " + BY_L),
        one("Figure 21", "GPT: accuracy is 100 % in all nine settings",
            "100 % across configurations", "gpt", high(ALL), "A_val",
            meanings={"training accuracy": high(ALL, A_TRAIN)}),
        one("Figure 21", "GPT: training gains from larger d",
            "higher batch sizes: more stable and faster", "gpt", memorises_sooner,
            "steps to A_train ≥ 0.99 " + BY_D),
    ]


def with_size(runs, value):
    ordered, sizes = by_size(runs)
    return correlation(sizes, [value(run) for run in ordered])


def losses_fall(runs):
    found = [with_size(runs, lambda run, m=m: run.best(m)) for m in (L_TRAIN, L_VAL)]
    return [-v for v in found], found


def sooner_with_size(runs):
    found = with_size(runs, lambda run: run.first(A_VAL))
    return [-found], [found]


def validation_more(runs):
    found = [with_size(runs, lambda run, m=m: run.first(m)) for m in (A_VAL, A_TRAIN)]
    return [-found[0], found[1] - found[0]], found


def some_variance(runs):
    found = [run.first(A_VAL) for run in by_size(runs)[0]]
    return each_step(times(found, runs), lambda b, a: sooner(a, b)), found


def deeper_better(runs):
    kept = [runs[3, d].best(A_VAL) - runs[1, d].best(A_VAL) + STEADY for d in WIDTHS]
    parts, found = all_lower(runs, 1, 3)
    return parts + kept, found


def memorises_sooner(runs):
    found = [[runs[L, d].reach(A_TRAIN, MEMORISED) for L in LAYERS] for d in WIDTHS]
    means = [tuple(map(mean, zip(*times(steps, runs), strict=True))) for steps in found]
    return each_step(means, sooner), [10 ** high for _, high in means]


def varies_more(runs):
    lost = [deviation(runs[L, d].shortfall() for d in WIDTHS) for L in LAYERS]
    return [lost[0] - lost[2]], lost


def accuracy_rises(runs):
    return [with_size(runs, accuracy)], [with_size(runs, accuracy)]


def validation_varies(runs):
    found = [deviation(run.best(m) for run in runs.values()) for m in (A_TRAIN, A_VAL)]
    found += [deviation(math.log10(run.best(m)) for run in runs.values())
              for m in (L_TRAIN, L_VAL)]
    return [found[1] - found[0], found[3] - found[2]], found


def both_fall_with_depth(runs):
    found = [by_layers(runs, lambda run, m=m: math.log10(run.best(m))) for m in (L_TRAIN, L_VAL)]
    parts = [part for row in found for part in each_step(row, lambda b, a: a - b)]
    return parts, [value for row in found for value in row]


# --- answer 5 (c) ---------------------------------------------------------------------------------
def answers():
    factor, more = "decades that L_val falls from {} to {}", "rise of A_val from {} to {}"
    width, depth = ("d = 64", "256, mean over L"), ("L = 1", "3, mean over d")
    return [
        two("5 (c), d", "in A_val the GPT scales better with d", "GPT, especially A_val",
            lambda runs: rise(runs, NARROW, WIDE), more.format(*width)),
        two("5 (c), d", "in L_val the GPT scales better with d", "GPT more reliable",
            lambda runs: gain(runs, NARROW, WIDE), factor.format(*width)),
        one("5 (c), d", "larger d makes the GPT's generalisation steadier",
            "smoother and more stable", "gpt", steadier_with_width, "mean shortfall " + BY_D,
            against="Figure 12: A_val is unstable for the largest d"),
        two("5 (c), d", "the LSTM improves less consistently with d",
            "less consistent improvement", consistent, "of 6 doublings of d lower L_val"),
        one("5 (c), d", "the LSTM becomes unsteady, or overfits, as d grows",
            "can overfit or become unstable", "lstm", unsteady_with_width,
            "mean shortfall, then A_val, " + BY_D, some=True),
        one("5 (c), L", "deeper GPTs have higher A_val", "benefits significantly", "gpt",
            more_with_depth(accuracy), "mean A_val " + BY_L),
        one("5 (c), L", "deeper GPTs have lower L_val, for all d",
            "leverages additional layers effectively", "gpt", lambda runs: all_lower(runs, 1, 3),
            "L_val, L = 1 and 3, " + BY_D),
        one("5 (c), L", "with depth the LSTM becomes less steady", "training less stable", "lstm",
            more_with_depth(shortfall), "mean shortfall " + BY_L),
        one("5 (c), L", "with depth the LSTM's validation performance stays or worsens",
            "plateaus or worsens", "lstm", no_gain_from_depth,
            "decades that L_val falls, rise of A_val, from L = 1 to 3",
            against="Figure 19: deeper LSTMs reduce loss and boost accuracy"),
        two("5 (c), L", "in L_val the GPT scales better with L", "GPT",
            lambda runs: gain(runs, SHALLOW, DEEP), factor.format(*depth)),
        two("5 (c), L", "in A_val the GPT scales better with L",
            "GPT: deeper layers improve A_val; the LSTM plateaus",
            lambda runs: rise(runs, SHALLOW, DEEP), more.format(*depth)),
        two("5 (c), P", "in L_val the GPT's gains with P are the smoother ones",
            "smoother gains", smoother(L_VAL, -1), "rank correlation of the gain with P"),
        two("5 (c), P", "in A_val the GPT's gains with P are the smoother ones",
            "smoother gains", smoother(A_VAL, 1), "rank correlation of the gain with P"),
        one("5 (c), P", "the LSTM gains from a larger P at first: L_val falls from the three "
            "smallest sizes to the next three", "gains from larger P initially", "lstm",
            gains_at_first, "mean log10 L_val of both"),
        two("5 (c), P", "the LSTM saturates at a smaller P than the GPT", "saturates earlier",
            saturates, "place of the lowest L_val of nine sizes"),
        two("5 (c), P", "the LSTM's L_val depends more on how P is made of L and d",
            "more sensitive to architecture", sensitive, "decades off a power of P", -1),
        two("5 (c), P", "the GPT's L_val falls faster with P", "scales more efficiently overall",
            lambda runs: slope(*logarithms(runs)), "decades of L_val per decade of P", -1),
    ]


def steadier_with_width(runs):
    lost = by_widths(runs, shortfall)
    return [lost[0] - lost[2]], lost


def consistent(runs):
    return sum(runs[L, b].best(L_VAL) < runs[L, a].best(L_VAL) for L in LAYERS
               for a, b in zip(WIDTHS, WIDTHS[1:], strict=False))


def unsteady_with_width(runs):
    lost, found = by_widths(runs, shortfall), by_widths(runs, accuracy)
    return [lost[2] - lost[0], found[0] - found[2]], lost + found


def more_with_depth(of):
    def test(runs):
        found = by_layers(runs, of)
        return [found[2] - found[0]], found
    return test


def no_gain_from_depth(runs):
    found = [gain(runs, SHALLOW, DEEP), rise(runs, SHALLOW, DEEP)]
    return [math.log10(APART) - found[0], STEADY - found[1]], found


def smoother(metric, sign):
    return lambda runs: sign * with_size(runs, lambda run: run.best(metric))


def gains_at_first(runs):
    _, logs = logarithms(runs)
    found = [mean(logs[:3]), mean(logs[3:6])]
    return [found[0] - found[1]], found


def saturates(runs):
    return 1 + min(range(9), key=logarithms(runs)[1].__getitem__)


def sensitive(runs):
    """How far L_val strays from a power of P."""
    xs, ys = logarithms(runs)
    steepness = slope(xs, ys)
    return deviation(y - steepness * x for x, y in zip(xs, ys, strict=True))
