"""What the captions of question 6 (batch sizes, budgets) say, and the tests of it."""

import math

from experiments import study
from experiments.reporting.measures import (
    GENERAL,
    TREND,
    accuracies,
    correlation,
    deviation,
    losses,
    mean,
    relaxed,
    span,
    steps,
)
from experiments.reporting.records import NAMES, variant
from experiments.reporting.rules import Statement

BATCHES = (32, 64, 128, 256, 512)
ALPHAS = tuple(round(0.1 * i, 1) for i in range(1, 11))
T = 20001
CONFIGS = {m: {B: variant(m, batch=B, steps=T) for B in BATCHES} for m in NAMES}
TRAINED = int(study.BASE.r_train * study.BASE.p**2)     # equations in the training set
LOWS = (0.1, 0.2, 0.3)              # low budgets: at 0.1 alone no LSTM has begun to generalise
L_VAL, A_VAL = "validation_loss", "validation_accuracy"
L_TRAIN, A_TRAIN = "train_loss", "train_accuracy"


def claim(where, words, document, test, contradiction="", models=tuple(NAMES), **more):
    """A Statement on all batch sizes; the test gets {model: {B: Run}}; `more` as Statement's."""
    needs = {(m, B): CONFIGS[m][B] for m in models for B in BATCHES}

    def grouped(test):
        return lambda runs, *times: test({m: {B: runs[m, B] for B in BATCHES} for m in models},
                                         *times)

    more["readings"] = {name: grouped(t) for name, t in more.get("readings", {}).items()}
    return Statement(where, words, document, needs, grouped(test), contradiction, **more)


def at_low(where, words, document, test, contradiction="", **more):
    """A claim of low budgets: test(models, alpha) at each of LOWS, as readings of the words; with
    `threshold` also test(models, alpha, times)."""
    first, *others = LOWS
    return claim(where, words, document, lambda m, *times: test(m, first, *times), contradiction,
                 readings={f"α = {a:g}": lambda m, *times, a=a: test(m, a, *times)
                           for a in others}, **more)


def captions():
    return [*smoothness(), *step_captions(), *value_captions()]


def smoothness():
    """Figures 22 and 23."""
    return [
        claim("Figure 22", "LSTMs train more smoothly than GPTs",
              "converge quickly and stably; GPTs fluctuate more", rougher_gpt),
        claim("Figure 22", "the GPT fluctuates more with larger batches", "with larger batch sizes",
              rougher_with_batch, models=("gpt",), threshold=True),
        claim("Figure 23", "LSTMs generalise in fewer steps than GPTs", "generalise well early, "
              "GPTs require more steps", lstm_sooner,
              "Figure 30 has the GPT's A_val the higher one where steps are few",
              threshold=True, readings={"mean of the logarithms": lstm_sooner_on_average}),
        claim("Figure 23", "GPTs are the less steady in A_val, for most B",
              "GPTs require more steps for stability", gpt_less_steady),
        claim("Figure 23", "the GPT generalises later, or less steadily, with larger batches",
              "especially at larger batch sizes", later_with_batch, models=("gpt",),
              threshold=("the trend", "A_val"), readings={
                  "less steadily": lambda m, trend=1, *others: unsteady_with_batch(m, trend)}),
    ]


def step_captions():
    """Figures 24 to 27, on first steps."""
    return [
        claim("Figure 24", "the LSTM needs more steps to its best A_train as B grows",
              "significantly more steps", memorises_later, models=("lstm",), threshold=True),
        claim("Figure 24", "the GPT's steps to its best A_train hardly change for small B",
              "relatively stable for smaller batches", even_for_small, models=("gpt",),
              threshold=True),
        at_low("Figure 25", "with a low budget small B bring the LSTM a lower L_train",
               "benefit from smaller batches under low budgets", lower_with_small,
               models=("lstm",)),
        claim("Figure 25", "t_f(L_train) varies more with B for GPTs", "more variance",
              lambda m: varies(m, L_TRAIN, ALPHAS)),
        claim("Figure 26", "t_f(L_val) follows B more closely for LSTMs", "more predictable",
              more_predictable),
        at_low("Figure 26", "with low budgets t_f(L_val) varies more for GPTs",
               "varies more under lower fractions", lambda m, a: varies(m, L_VAL, (a,))),
        claim("Figure 27", "the caption describes this figure, of t_f(A_val)", "as Figure 26",
              more_predictable, again="Figure 26, word for word, under another figure"),
    ]


def value_captions():
    """Figures 28 to 32, on best values."""
    return [
        claim("Figure 28", "both reach perfect A_train for every B and α", "consistently",
              perfect_training, threshold=True),
        at_low("Figure 29", "with a low budget the LSTM's L_train grows with B", "increased loss",
               lambda m, a, times=1: grows(m, L_TRAIN, a, times), models=("lstm",),
               threshold=True),
        at_low("Figure 29", "with a low budget L_train depends less on B for GPTs",
               "greater resilience", lambda m, a: resilient(m, L_TRAIN, a)),
        at_low("Figure 30", "with a low budget the LSTM's A_val falls with B", "drops", lstm_drops,
               models=("lstm",), threshold=True),
        at_low("Figure 30", "with a low budget the GPT's A_val is the higher one",
               "maintains higher accuracy across a wider range", gpt_higher,
               "Figure 23 has LSTMs generalise early and GPTs in more steps"),
        at_low("Figure 31", "with a low budget L_val grows more steeply with B for LSTMs",
               "more steeply; GPT less sensitive", lambda m, a: resilient(m, L_VAL, a)),
        claim("Figure 32", "the caption describes this figure", "as Figure 31", perfect_training,
              again="Figure 31, word for word, under another figure"),
    ]


# --- tests ----------------------------------------------------------------------------------------
def rougher_gpt(models):
    rough = {m: mean(run.roughness() for run in runs.values()) for m, runs in models.items()}
    return rough["lstm"] < rough["gpt"], (
        f"mean height of L_train above its lowest so far, in decades: {rough['lstm']:.3f} (LSTM), "
        f"{rough['gpt']:.3f} (GPT)")


def rougher_with_batch(models, times=1):
    rough = [run.roughness() for run in models["gpt"].values()]
    return correlation(BATCHES, rough) >= TREND * times, (
        f"decades above the lowest so far for B = 32 to 512: {losses(rough)}; rank correlation "
        f"{correlation(BATCHES, rough):.2f}")


def generalised(models, times=1):
    return {m: [run.reach(A_VAL, relaxed(GENERAL, times)) for run in runs.values()]
            for m, runs in models.items()}


def lstm_sooner(models, times=1):
    """Sooner with more of the batch sizes than later; a tie counts for neither."""
    found = generalised(models, times)
    pairs = list(zip(found["lstm"], found["gpt"], strict=True))
    sooner, later = sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)
    return sooner > later, "A_val ≥ 0.9 for B = 32 to 512 at " + "; ".join(
        f"{steps(values)} ({NAMES[m]})" for m, values in found.items())


def lstm_sooner_on_average(models, times=1):
    """The mean of log10 of the steps; what never generalises counts as T."""
    found = {m: mean(math.log10(min(step, T)) for step in values)
             for m, values in generalised(models, times).items()}
    return found["lstm"] < found["gpt"], (
        f"10^mean {10 ** found['lstm']:.0f} (LSTM), {10 ** found['gpt']:.0f} (GPT)")


def gpt_less_steady(models):
    found = {m: [run.shortfall() for run in runs.values()] for m, runs in models.items()}
    less = sum(b > a for a, b in zip(found["lstm"], found["gpt"], strict=True))
    return less > len(BATCHES) / 2, "mean shortfall for B = 32 to 512: " + "; ".join(
        f"{losses(values)} ({NAMES[m]})" for m, values in found.items())


def later_with_batch(models, trend=1, general=1):
    found = generalised(models, general)["gpt"]
    return correlation(BATCHES, found) >= TREND * trend, (
        f"A_val ≥ 0.9 for B = 32 to 512 at {steps(found)}; rank correlation "
        f"{correlation(BATCHES, found):.2f}")


def unsteady_with_batch(models, times=1):
    found = [run.shortfall() for run in models["gpt"].values()]
    return correlation(BATCHES, found) >= TREND * times, (
        f"mean shortfall {losses(found)}; rank correlation {correlation(BATCHES, found):.2f}")


def memorises_later(models, times=1):
    found = [run.first(A_TRAIN) for run in models["lstm"].values()]
    return correlation(BATCHES, found) >= TREND * times and found[-1] > found[0], (
        f"t_f(A_train) for B = 32 to 512: {steps(found)}")


def even_for_small(models, times=1):
    found = [models["gpt"][B].first(A_TRAIN) for B in BATCHES[:3]]
    return max(found) <= (1 + times) * min(found), (
        f"t_f(A_train) for B = 32, 64, 128: {steps(found)} (hardly: within a factor of 2)")


def lower_with_small(models, alpha):
    found = [run.best(L_TRAIN, alpha * T) for run in models["lstm"].values()]
    return found[0] < found[-1], f"L_train at α = {alpha:g} for B = 32 to 512: {losses(found)}"


def varies(models, metric, alphas):
    """Deviation of t_f / (alpha T) over the batch sizes, mean over alphas: more for the GPT?"""
    found = {m: mean(deviation(run.first(metric, a * T) / (a * T) for run in runs.values())
                     for a in alphas) for m, runs in models.items()}
    return found["gpt"] > found["lstm"], (
        f"deviation of t_f / (α T) over B at α = {span(alphas)}{' (mean)' * (len(alphas) > 1)}: "
        f"{found['lstm']:.3f} (LSTM), {found['gpt']:.3f} (GPT)")


def more_predictable(models):
    found = {m: mean(abs(correlation(BATCHES, [run.first(L_VAL, a * T) for run in runs.values()]))
                     for a in ALPHAS) for m, runs in models.items()}
    return found["lstm"] > found["gpt"], (
        f"rank correlation of t_f(L_val) with B, mean size over α: {found['lstm']:.2f} (LSTM), "
        f"{found['gpt']:.2f} (GPT)")


def perfect_training(models, times=1):
    found = {m: min(run.best(A_TRAIN, a * T) for run in runs.values() for a in ALPHAS)
             for m, runs in models.items()}
    return min(found.values()) >= relaxed(0.9995, times), (
        "lowest A_train of all B and α: " + ", ".join(
            f"{value:.4f} ({NAMES[m]})" for m, value in found.items()))


def grows(models, metric, alpha, times=1):
    found = [run.best(metric, alpha * T) for run in models["lstm"].values()]
    return correlation(BATCHES, found) >= TREND * times, (
        f"at α = {alpha:g} for B = 32 to 512: {losses(found)}")


def resilient(models, metric, alpha):
    """Is the rise of a loss from B = 32 to 512, with a low budget, larger for the LSTM?"""
    found = {m: math.log10(runs[512].best(metric, alpha * T) / runs[32].best(metric, alpha * T))
             for m, runs in models.items()}
    words = f"change from B = 32 to 512 at α = {alpha:g}, in decades: " + ", ".join(
        f"{value:+.2f} ({NAMES[m]})" for m, value in found.items())
    if metric == L_TRAIN:
        return abs(found["gpt"]) < abs(found["lstm"]), words
    return found["lstm"] > max(0.0, found["gpt"]), words


def lstm_drops(models, alpha, times=1):
    found = [run.best(A_VAL, alpha * T) for run in models["lstm"].values()]
    return found[-1] < found[0] and correlation(BATCHES, found) <= -TREND * times, (
        f"A_val at α = {alpha:g} for B = 32 to 512: {accuracies(found)}")


def gpt_higher(models, alpha):
    found = {m: [run.best(A_VAL, alpha * T) for run in runs.values()]
             for m, runs in models.items()}
    return mean(found["gpt"]) > mean(found["lstm"]), (
        f"A_val at α = {alpha:g} for B = 32 to 512: " + "; ".join(
            f"{accuracies(values)} ({NAMES[m]})" for m, values in found.items()))
