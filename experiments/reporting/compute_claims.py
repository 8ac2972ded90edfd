"""What the captions of question 6 (batch sizes, budgets) say, and the tests of it."""

import math

from reporting.measures import (
    GENERAL,
    TREND,
    accuracies,
    correlation,
    deviation,
    losses,
    mean,
    steps,
)
from reporting.records import NAMES, variant
from reporting.rules import Statement

BATCHES = (32, 64, 128, 256, 512)
ALPHAS = tuple(round(0.1 * i, 1) for i in range(1, 11))
T = 20001
CONFIGS = {m: {B: variant(m, batch=B, steps=T) for B in BATCHES} for m in NAMES}
LOW = 0.1                           # a low budget
L_VAL, A_VAL = "validation_loss", "validation_accuracy"
L_TRAIN, A_TRAIN = "train_loss", "train_accuracy"


def claim(where, words, document, test, contradiction="", models=tuple(NAMES)):
    """A Statement on all batch sizes; the test gets {model: {B: Run}}."""
    needs = {(m, B): CONFIGS[m][B] for m in models for B in BATCHES}

    def grouped(runs):
        return test({m: {B: runs[m, B] for B in BATCHES} for m in models})

    return Statement(where, words, document, needs, grouped, contradiction)


def captions():
    repeated = ("word for word the caption of Figure {}, which shows another figure of eight "
                "different ones")
    return [
        claim("Figure 22", "LSTMs train more smoothly than GPTs",
              "converge quickly and stably; GPTs fluctuate more", rougher_gpt),
        claim("Figure 22", "the GPT fluctuates more with larger batches", "with larger batch sizes",
              rougher_with_batch, "Figures 29 and 31 have the GPT less sensitive to the batch size",
              models=("gpt",)),
        claim("Figure 23", "LSTMs generalise in fewer steps than GPTs", "generalise well early, "
              "GPTs require more steps", lstm_sooner,
              "Figure 30 has the GPT's A_val the higher one where steps are few"),
        claim("Figure 23", "the GPT generalises later with larger batches",
              "more steps for stability, especially at larger batch sizes", later_with_batch,
              "Figure 31 has the GPT less sensitive to the batch size", models=("gpt",)),
        claim("Figure 24", "the LSTM needs more steps to its best A_train as B grows",
              "significantly more steps", memorises_later, models=("lstm",)),
        claim("Figure 24", "the GPT's steps to its best A_train hardly change for small B",
              "relatively stable for smaller batches", even_for_small, models=("gpt",)),
        claim("Figure 25", "with a low budget LSTMs reach their lowest L_train sooner with small B",
              "benefit from smaller batches under low budgets", sooner_with_small,
              models=("lstm",)),
        claim("Figure 25", "t_f(L_train) varies more with B for GPTs", "more variance",
              lambda m: varies(m, L_TRAIN, ALPHAS)),
        claim("Figure 26", "t_f(L_val) follows B more closely for LSTMs", "more predictable",
              more_predictable),
        claim("Figure 26", "with low budgets t_f(L_val) varies more for GPTs",
              "varies more under lower fractions", lambda m: varies(m, L_VAL, ALPHAS[:5])),
        claim("Figure 27", "the caption describes this figure", "as Figure 26",
              more_predictable, repeated.format(26)),
        claim("Figure 28", "both reach perfect A_train for every B and α", "consistently",
              perfect_training),
        claim("Figure 29", "with a low budget the LSTM's L_train grows with B", "increased loss",
              lambda m: grows(m, L_TRAIN), models=("lstm",)),
        claim("Figure 29", "L_train depends less on B for GPTs", "greater resilience",
              lambda m: resilient(m, L_TRAIN)),
        claim("Figure 30", "with a low budget the LSTM's A_val falls with B", "drops", lstm_drops,
              models=("lstm",)),
        claim("Figure 30", "with a low budget the GPT's A_val is the higher one",
              "maintains higher accuracy across a wider range", gpt_higher,
              "Figure 23 has LSTMs generalise early and GPTs in more steps"),
        claim("Figure 31", "with a low budget L_val grows more steeply with B for LSTMs",
              "more steeply; GPT less sensitive", lambda m: resilient(m, L_VAL),
              "Figures 22 and 23 have the GPT fluctuate and take longer with larger batches"),
        claim("Figure 32", "the caption describes this figure", "as Figure 31",
              lambda m: resilient(m, L_VAL), repeated.format(31)),
    ]


# --- tests ----------------------------------------------------------------------------------------
def rougher_gpt(models):
    rough = {m: mean(run.roughness() for run in runs.values()) for m, runs in models.items()}
    return rough["lstm"] < rough["gpt"], (
        f"mean height of L_train above its lowest so far, in decades: {rough['lstm']:.3f} (LSTM), "
        f"{rough['gpt']:.3f} (GPT)")


def rougher_with_batch(models):
    rough = [run.roughness() for run in models["gpt"].values()]
    return correlation(BATCHES, rough) >= TREND, (
        f"decades above the lowest so far for B = 32 to 512: {losses(rough)}; rank correlation "
        f"{correlation(BATCHES, rough):.2f}")


def lstm_sooner(models):
    found = {m: [run.reach(A_VAL, GENERAL) for run in runs.values()] for m, runs in models.items()}
    sooner = sum(a < b for a, b in zip(found["lstm"], found["gpt"], strict=True))
    return sooner > len(BATCHES) / 2, "A_val ≥ 0.9 for B = 32 to 512 at " + "; ".join(
        f"{steps(values)} ({NAMES[m]})" for m, values in found.items())


def later_with_batch(models):
    found = [run.reach(A_VAL, GENERAL) for run in models["gpt"].values()]
    return correlation(BATCHES, found) >= TREND, (
        f"A_val ≥ 0.9 for B = 32 to 512 at {steps(found)}; rank correlation "
        f"{correlation(BATCHES, found):.2f}")


def memorises_later(models):
    found = [run.first(A_TRAIN) for run in models["lstm"].values()]
    return correlation(BATCHES, found) >= TREND and found[-1] > found[0], (
        f"t_f(A_train) for B = 32 to 512: {steps(found)}")


def even_for_small(models):
    found = [models["gpt"][B].first(A_TRAIN) for B in BATCHES[:3]]
    return max(found) <= 2 * min(found), (
        f"t_f(A_train) for B = 32, 64, 128: {steps(found)} (hardly: within a factor of 2)")


def sooner_with_small(models):
    found = [run.first(L_TRAIN, LOW * T) for run in models["lstm"].values()]
    return found[0] < found[-1], f"t_f(L_train) at α = 0.1 for B = 32 to 512: {steps(found)}"


def varies(models, metric, alphas):
    """Deviation of t_f / (alpha T) over the batch sizes, mean over alpha: more for the GPT?"""
    found = {m: mean(deviation(run.first(metric, a * T) / (a * T) for run in runs.values())
                     for a in alphas) for m, runs in models.items()}
    return found["gpt"] > found["lstm"], (
        f"deviation of t_f / (α T) over B, mean over α: {found['lstm']:.3f} (LSTM), "
        f"{found['gpt']:.3f} (GPT)")


def more_predictable(models):
    found = {m: mean(abs(correlation(BATCHES, [run.first(L_VAL, a * T) for run in runs.values()]))
                     for a in ALPHAS) for m, runs in models.items()}
    return found["lstm"] > found["gpt"], (
        f"rank correlation of t_f(L_val) with B, mean size over α: {found['lstm']:.2f} (LSTM), "
        f"{found['gpt']:.2f} (GPT)")


def perfect_training(models):
    found = {m: min(run.best(A_TRAIN, a * T) for run in runs.values() for a in ALPHAS)
             for m, runs in models.items()}
    return min(found.values()) >= 0.9995, "lowest A_train of all B and α: " + ", ".join(
        f"{value:.4f} ({NAMES[m]})" for m, value in found.items())


def grows(models, metric):
    found = [run.best(metric, LOW * T) for run in models["lstm"].values()]
    return correlation(BATCHES, found) >= TREND, f"at α = 0.1 for B = 32 to 512: {losses(found)}"


def resilient(models, metric):
    """Is the rise of a loss from B = 32 to 512, with a low budget, larger for the LSTM?"""
    found = {m: math.log10(runs[512].best(metric, LOW * T) / runs[32].best(metric, LOW * T))
             for m, runs in models.items()}
    if metric == L_TRAIN:
        return abs(found["gpt"]) < abs(found["lstm"]), change(found)
    return found["lstm"] > max(0.0, found["gpt"]), change(found)


def change(found):
    return "change from B = 32 to 512 at α = 0.1, in decades: " + ", ".join(
        f"{value:+.2f} ({NAMES[m]})" for m, value in found.items())


def lstm_drops(models):
    found = [run.best(A_VAL, LOW * T) for run in models["lstm"].values()]
    return found[-1] < found[0] and correlation(BATCHES, found) <= -TREND, (
        f"A_val at α = 0.1 for B = 32 to 512: {accuracies(found)}")


def gpt_higher(models):
    found = {m: [run.best(A_VAL, LOW * T) for run in runs.values()] for m, runs in models.items()}
    return mean(found["gpt"]) > mean(found["lstm"]), "A_val at α = 0.1 for B = 32 to 512: " + (
        "; ".join(f"{accuracies(values)} ({NAMES[m]})" for m, values in found.items()))
