"""What answer 5 (c) says on scaling with width, depth and parameters, and the tests of it."""

import math

from experiments.reporting.measures import (
    accuracies,
    correlation,
    deviation,
    losses,
    mean,
    moved,
    slope,
)
from experiments.reporting.model_claims import A_VAL, L_VAL, LAYERS, WIDTHS, by_size, claim
from experiments.reporting.records import NAMES


def answers(configs):
    """Answer 5 (c); configs is {model: {(L, d): Config}}."""
    return width(configs) + depth(configs) + size(configs)


# --- width for a fixed depth --------------------------------------------------------------------
def width(configs):
    gpt = {"gpt": configs["gpt"]}
    lstm = {"lstm": configs["lstm"]}
    return [
        claim("5 (c), d", "in A_val the GPT scales better with d", "GPT, especially A_val", configs,
              accuracy_by_width),
        claim("5 (c), d", "in L_val the GPT scales better with d", "GPT more reliable", configs,
              loss_by_width),
        claim("5 (c), d", "larger d makes the GPT's generalisation steadier",
              "smoother and more stable", gpt, steadier_with_width,
              "Figure 12 has A_val unstable for the largest d"),
        claim("5 (c), d", "the LSTM improves less consistently with d",
              "less consistent improvement", configs, less_consistent),
        claim("5 (c), d", "the LSTM becomes unsteady, or overfits, as d grows",
              "can overfit or become unstable", lstm, unsteady_with_width),
    ]


def gain(runs, few, many):
    """Factor by which L_val falls between settings paired with each other, geometric mean."""
    return 10 ** mean(math.log10(runs[a].best(L_VAL) / runs[b].best(L_VAL))
                      for a, b in zip(few, many, strict=True))


def fallen(factor):
    """"falls by a factor of 24" or "rises by a factor of 1.9"."""
    size = float(f"{max(factor, 1 / factor):.2g}")
    return f"{'falls' if factor > 1 else 'rises'} by a factor of {size:g}"


def rise(runs, few, many):
    """By how much A_val rises between settings paired with each other, mean."""
    return mean(runs[b].best(A_VAL) - runs[a].best(A_VAL) for a, b in zip(few, many, strict=True))


NARROW, WIDE = [(L, 64) for L in LAYERS], [(L, 256) for L in LAYERS]
SHALLOW, DEEP = [(1, d) for d in WIDTHS], [(3, d) for d in WIDTHS]


def accuracy_by_width(models):
    found = {m: rise(runs, NARROW, WIDE) for m, runs in models.items()}
    return found["gpt"] > found["lstm"], (
        f"from d = 64 to 256, mean over L, A_val {moved(found['gpt'], '.4f')} (GPT), "
        f"{moved(found['lstm'], '.4f')} (LSTM)")


def loss_by_width(models):
    found = {m: gain(runs, NARROW, WIDE) for m, runs in models.items()}
    return found["gpt"] > found["lstm"], (
        f"from d = 64 to 256, mean over L, L_val {fallen(found['gpt'])} (GPT), "
        f"{fallen(found['lstm'])} (LSTM)")


def steadier_with_width(models):
    lost = [mean(models["gpt"][L, d].shortfall() for L in LAYERS) for d in WIDTHS]
    return lost[2] < lost[0], f"mean shortfall of A_val for d = 64, 128, 256: {losses(lost)}"


def less_consistent(models):
    better = {m: sum(runs[L, b].best(L_VAL) < runs[L, a].best(L_VAL) for L in LAYERS
                     for a, b in zip(WIDTHS, WIDTHS[1:], strict=False))
              for m, runs in models.items()}
    return better["lstm"] < better["gpt"], (
        f"of 6 doublings of d lower L_val: {better['lstm']} (LSTM), {better['gpt']} (GPT)")


def unsteady_with_width(models):
    lost = [mean(models["lstm"][L, d].shortfall() for L in LAYERS) for d in WIDTHS]
    found = [mean(models["lstm"][L, d].best(A_VAL) for L in LAYERS) for d in WIDTHS]
    return lost[2] > lost[0] or found[2] < found[0], (
        f"d = 64, 128, 256: mean shortfall {losses(lost)}, A_val {accuracies(found)}")


# --- depth for a fixed width --------------------------------------------------------------------
def depth(configs):
    gpt, lstm = {"gpt": configs["gpt"]}, {"lstm": configs["lstm"]}
    figure_19 = "Figure 19 has deeper LSTMs reduce loss and boost accuracy significantly"
    return [
        claim("5 (c), L", "deeper GPTs have higher A_val", "benefits significantly", gpt,
              deeper_is_more_accurate),
        claim("5 (c), L", "deeper GPTs have lower L_val, for all d",
              "leverages additional layers effectively", gpt, deeper_is_lower),
        claim("5 (c), L", "with depth the LSTM becomes less steady", "training less stable", lstm,
              less_steady_with_depth),
        claim("5 (c), L", "with depth the LSTM's validation performance stays or worsens",
              "plateaus or worsens", lstm, no_gain_from_depth, figure_19),
        claim("5 (c), L", "in L_val the GPT scales better with L", "GPT", configs, loss_by_depth),
        claim("5 (c), L", "in A_val the GPT scales better with L",
              "GPT: deeper layers improve A_val; the LSTM plateaus", configs, accuracy_by_depth),
    ]


def deeper_is_more_accurate(models):
    runs = models["gpt"]
    found = [mean(runs[L, d].best(A_VAL) for d in WIDTHS) for L in LAYERS]
    return found[0] < found[2], f"mean A_val for L = 1, 2, 3: {accuracies(found)}"


def deeper_is_lower(models):
    found = [[models["gpt"][L, d].best(L_VAL) for L in LAYERS] for d in WIDTHS]
    return all(row[2] < row[0] for row in found), "L_val for L = 1, 2, 3: " + "; ".join(
        f"d = {d}: {losses(row)}" for d, row in zip(WIDTHS, found, strict=True))


def less_steady_with_depth(models):
    lost = [mean(models["lstm"][L, d].shortfall() for d in WIDTHS) for L in LAYERS]
    return lost[2] > lost[0], f"mean shortfall of A_val for L = 1, 2, 3: {losses(lost)}"


def no_gain_from_depth(models):
    runs = models["lstm"]
    factor, more = gain(runs, SHALLOW, DEEP), rise(runs, SHALLOW, DEEP)
    return factor <= 1 and more <= 0, (
        f"from one layer to three, means over d, L_val {fallen(factor)}, A_val "
        f"{moved(more, '.4f')}")


def loss_by_depth(models):
    found = {m: gain(runs, SHALLOW, DEEP) for m, runs in models.items()}
    return found["gpt"] > found["lstm"], (
        f"from one layer to three, mean over d, L_val {fallen(found['gpt'])} (GPT), "
        f"{fallen(found['lstm'])} (LSTM)")


def accuracy_by_depth(models):
    found = {m: rise(runs, SHALLOW, DEEP) for m, runs in models.items()}
    return found["gpt"] > found["lstm"], (
        f"from one layer to three, mean over d, A_val {moved(found['gpt'], '.4f')} (GPT), "
        f"{moved(found['lstm'], '.4f')} (LSTM)")


# --- parameters ---------------------------------------------------------------------------------
def size(configs):
    return [
        claim("5 (c), P", "in L_val the GPT's gains with P are the smoother ones",
              "smoother gains", configs, lambda m: smoother(m, L_VAL, -1)),
        claim("5 (c), P", "in A_val the GPT's gains with P are the smoother ones",
              "smoother gains", configs, lambda m: smoother(m, A_VAL, 1)),
        claim("5 (c), P", "the LSTM gains from a larger P at first: L_val falls from the three "
              "smallest sizes to the next three", "gains from larger P initially",
              {"lstm": configs["lstm"]}, gains_at_first),
        claim("5 (c), P", "the LSTM saturates at a smaller P than the GPT", "saturates earlier",
              configs, saturates),
        claim("5 (c), P", "the LSTM's L_val depends more on how P is made of L and d",
              "more sensitive to architecture", configs, sensitive),
        claim("5 (c), P", "the GPT's L_val falls faster with P", "scales more efficiently overall",
              configs, steeper),
    ]


def smoother(models, metric, sign):
    found = {}
    for m, runs in models.items():
        ordered, sizes = by_size(runs)
        found[m] = sign * correlation(sizes, [run.best(metric) for run in ordered])
    return found["gpt"] > found["lstm"], (
        f"rank correlation of the gain with P {found['gpt']:.2f} (GPT), {found['lstm']:.2f} (LSTM)")


def gains_at_first(models):
    ordered, _ = by_size(models["lstm"])
    logs = [math.log10(run.best(L_VAL)) for run in ordered]
    small, middle = mean(logs[:3]), mean(logs[3:6])
    return middle < small, f"mean log10 L_val {small:.2f}, then {middle:.2f}"


def saturates(models):
    place = {}
    for m, runs in models.items():
        ordered, sizes = by_size(runs)
        values = [run.best(L_VAL) for run in ordered]
        best = values.index(min(values))
        place[m] = best, sizes[best]
    return place["lstm"][0] < place["gpt"][0], "lowest L_val at the " + ", at the ".join(
        f"{i + 1}. of nine sizes, P = {P:,} ({NAMES[m]})" for m, (i, P) in place.items())


def logarithms(runs):
    """(log10 of P, log10 of L_val), in the order of P."""
    ordered, sizes = by_size(runs)
    return [math.log10(P) for P in sizes], [math.log10(run.best(L_VAL)) for run in ordered]


def sensitive(models):
    """How far L_val strays from a power of P."""
    found = {}
    for m, runs in models.items():
        xs, ys = logarithms(runs)
        steepness = slope(xs, ys)
        found[m] = deviation(y - steepness * x for x, y in zip(xs, ys, strict=True))
    return found["lstm"] > found["gpt"], (
        f"L_val strays from a power of P by {found['lstm']:.2f} decades (LSTM), "
        f"{found['gpt']:.2f} (GPT)")


def steeper(models):
    found = {m: slope(*logarithms(runs)) for m, runs in models.items()}
    return found["gpt"] < found["lstm"], (
        f"decades of L_val per decade of P {found['gpt']:.2f} (GPT), {found['lstm']:.2f} (LSTM)")
