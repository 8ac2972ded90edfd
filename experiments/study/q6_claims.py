"""What the document says on question 6 (batch sizes, budgets), and the tests of it.

A low budget is asked at each α of LOW, as a meaning of the words.
"""

import math

from experiments.study.judge import Claim
from experiments.study.measures import (
    A_TRAIN,
    A_VAL,
    ALL,
    GENERAL,
    L_TRAIN,
    L_VAL,
    LARGE,
    LOW,
    SHARPLY,
    SMALL,
    STEADY,
    TWICE,
    correlation,
    counted,
    deviation,
    generalised,
    lower,
    mean,
    sooner,
    when,
    within,
)
from experiments.study.q6_compute import ALPHAS, BATCHES, CONFIGS, T, after, until

BY_B, ENDS = "for B = 32 to 512", "for B = 32, 512"


def claim(where, words, document, test, numbers="", models=tuple(CONFIGS), **more):
    """A Claim on all batch sizes; the tests get, for each model, its runs {B: Run}."""
    needs = {(m, B): CONFIGS[m][B] for m in models for B in BATCHES}

    def grouped(test):
        return lambda runs: test(*({B: runs[m, B] for B in BATCHES} for m in models))

    more["meanings"] = {name: grouped(t) for name, t in more.get("meanings", {}).items()}
    numbers += ", LSTM, GPT" * (len(models) == 2)
    return Claim(where, words, document, needs, grouped(test), numbers, **more)


def at_low(where, words, document, test, numbers="", **more):
    """A claim of low budgets: test(alpha, *models) at each of LOW."""
    def at(alpha):
        return lambda *models: test(alpha, *models)

    return claim(where, words, document, at(LOW[0]), f"at α = {LOW[0]:g}, {numbers}",
                 meaning=f"α = {LOW[0]:g}",
                 meanings={f"α = {alpha:g}": at(alpha) for alpha in LOW[1:]}, **more)


def claims():
    return [*captions(), *answers()]


# --- Figures 22 to 32 -----------------------------------------------------------------------------
def captions():
    lstm, gpt = ("lstm",), ("gpt",)
    return [
        claim("Figure 22", "LSTMs train more smoothly than GPTs",
              "converge quickly and stably; GPTs fluctuate more", rougher_gpt,
              "mean height of L_train above its lowest so far, decades"),
        claim("Figure 22", "the GPT fluctuates more with larger batches", "with larger batch sizes",
              rougher_with_batch, f"decades {BY_B}", gpt),
        claim("Figure 23", "LSTMs generalise in fewer steps than GPTs", "generalise well early, "
              "GPTs require more steps", lstm_sooner, "of five B sooner",
              against="Figure 30: the GPT's A_val is the higher one where steps are few",
              meanings={"mean of the logarithms": lstm_sooner_on_average}),
        claim("Figure 23", "GPTs are the less steady in A_val, for most B",
              "GPTs require more steps for stability", gpt_less_steady, "of five B less steady"),
        claim("Figure 23", "the GPT generalises later, or less steadily, with larger batches",
              "especially at larger batch sizes", later_with_batch,
              f"steps to A_val ≥ 0.9 {BY_B}", gpt,
              meanings={"less steadily": unsteady_with_batch}),
        claim("Figure 24", "the LSTM needs more steps to its best A_train as B grows",
              "significantly more steps", memorises_later, f"t_f(A_train) {BY_B}", lstm),
        claim("Figure 24", "the GPT's steps to its best A_train hardly change for small B",
              "relatively stable for smaller batches", even_for_small,
              "t_f(A_train) for B = 32, 64", gpt),
        at_low("Figure 25", "with a low budget small B bring the LSTM a lower L_train",
               "benefit from smaller batches under low budgets", lower_with_small,
               f"L_train {BY_B}", models=lstm),
        claim("Figure 25", "t_f(L_train) varies more with B for GPTs", "more variance",
              varies(L_TRAIN, ALPHAS), "deviation of t_f / (α T)"),
        claim("Figure 26", "t_f(L_val) follows B more closely for LSTMs", "more predictable",
              more_predictable, "rank correlation with B, mean size over α"),
        at_low("Figure 26", "with low budgets t_f(L_val) varies more for GPTs",
               "varies more under lower fractions",
               lambda a, *models: varies(L_VAL, (a,))(*models), "deviation of t_f / (α T)"),
        claim("Figure 28", "both reach perfect A_train for every B and α", "consistently",
              perfect_training, "lowest A_train"),
        at_low("Figure 29", "with a low budget the LSTM's L_train grows with B", "increased loss",
               grows, f"L_train {BY_B}", models=lstm),
        at_low("Figure 29", "with a low budget L_train depends less on B for GPTs",
               "greater resilience", resilient(L_TRAIN), "decades from B = 32 to 512"),
        at_low("Figure 30", "with a low budget the LSTM's A_val falls with B", "drops", lstm_drops,
               f"A_val {BY_B}", models=lstm),
        at_low("Figure 30", "with a low budget the GPT's A_val is the higher one",
               "maintains higher accuracy across a wider range", gpt_higher, "mean A_val",
               against="Figure 23: LSTMs generalise early, GPTs in more steps"),
        at_low("Figure 31", "with a low budget L_val grows more steeply with B for LSTMs",
               "more steeply; GPT less sensitive", resilient(L_VAL), "decades from B = 32 to 512"),
    ]


def rougher_gpt(*models):
    rough = [mean(run.roughness() for run in runs.values()) for runs in models]
    return [rough[1] - rough[0]], rough


def rougher_with_batch(gpt):
    rough = [run.roughness() for run in gpt.values()]
    return [correlation(BATCHES, rough)], rough


def lstm_sooner(*models):
    """Sooner with more of the batch sizes than later; a tie counts for neither."""
    pairs = list(zip(*map(generalised, models), strict=True))
    found = [sum(a < b for a, b in pairs), sum(a > b for a, b in pairs)]
    return [counted(found[0] - found[1])], found


def lstm_sooner_on_average(*models):
    """The mean of log10 of the steps; what never generalises counts as T."""
    found = [[when(step, T) for step in generalised(runs)] for runs in models]
    means = [tuple(map(mean, zip(*steps, strict=True))) for steps in found]
    return [sooner(*means)], [high for _, high in means]


def gpt_less_steady(lstm, gpt):
    less = sum(gpt[B].shortfall() > lstm[B].shortfall() for B in BATCHES)
    found = [len(BATCHES) - less, less]
    return [counted(found[1] - found[0])], found


def later_with_batch(gpt):
    return [correlation(BATCHES, [min(step, T) for step in generalised(gpt)])], generalised(gpt)


def unsteady_with_batch(gpt):
    found = [run.shortfall() for run in gpt.values()]
    return [correlation(BATCHES, found)], found


def memorises_later(lstm):
    found = [run.first(A_TRAIN) for run in lstm.values()]
    return [correlation(BATCHES, found), sooner(when(found[0], T), when(found[-1], T))], found


def even_for_small(gpt):
    found = [gpt[B].first(A_TRAIN) for B in BATCHES if B < SMALL]
    times = [when(step, T) for step in found]
    return [part for other in times[1:] for part in within(sooner(other, times[0]),
                                                           math.log10(TWICE))], found


def lower_with_small(alpha, lstm):
    found = [run.best(L_TRAIN, until(alpha)) for run in lstm.values()]
    return [lower(found[0], found[-1])], found


def varies(metric, alphas):
    """Deviation of t_f / (alpha T) over the batch sizes, mean over alphas: more for the GPT?"""
    def test(*models):
        found = [mean(deviation(run.first(metric, until(a)) / (until(a)) for run in runs.values())
                      for a in alphas) for runs in models]
        return [found[1] - found[0]], found
    return test


def more_predictable(*models):
    found = [mean(abs(correlation(BATCHES, [run.first(L_VAL, until(a)) for run in runs.values()]))
                  for a in ALPHAS) for runs in models]
    return [found[0] - found[1]], found


def perfect_training(*models):
    found = [min(run.best(A_TRAIN, until(a)) for run in runs.values() for a in ALPHAS)
             for runs in models]
    return [v - ALL for v in found], found


def grows(alpha, lstm):
    found = [run.best(L_TRAIN, until(alpha)) for run in lstm.values()]
    return [correlation(BATCHES, found)], found


def resilient(metric):
    """Is the rise of a loss from B = 32 to 512, with a low budget, larger for the LSTM?"""
    def test(alpha, *models):
        found = [math.log10(large / small) for small, large in (
            ends(runs, metric, alpha) for runs in models)]
        if metric == L_TRAIN:
            return [abs(found[0]) - abs(found[1])], found
        return [found[0], found[0] - found[1]], found
    return test


def lstm_drops(alpha, lstm):
    found = [run.best(A_VAL, until(alpha)) for run in lstm.values()]
    return [found[0] - found[-1], -correlation(BATCHES, found)], found


def gpt_higher(alpha, *models):
    found = [mean(run.best(A_VAL, until(alpha)) for run in runs.values()) for runs in models]
    return [found[1] - found[0]], found


# --- answer 6 (c) ---------------------------------------------------------------------------------
def answers():
    return [
        at_low("6 (c), B", "L_val rises with B, and more for small α than for α = 1",
               "higher validation loss, especially when α is small", rises_with_batch(L_VAL),
               f"L_val {ENDS}, then at α = 1"),
        at_low("6 (c), B", "A_val falls with B, and more for small α than for α = 1",
               "lower validation accuracy, especially when α is small", rises_with_batch(A_VAL),
               f"A_val {ENDS}, then at α = 1"),
        claim("6 (c), α", "L_val after the whole training is below that after a tenth of it, for "
              "every B", "improves across all batch sizes", loss_falls_with_alpha,
              "least factor over B"),
        claim("6 (c), α", "A_val after the whole training is no lower than after a tenth of it, "
              "and higher for some B", "improves across all batch sizes",
              accuracy_rises_with_alpha, "least and largest gain over B of the best so far"),
        claim("6 (c), L_val", "L_val is lowest with small B and large α",
              "small batch sizes and large α", lowest_where, "B and α of the lowest"),
        at_low("6 (c), L_val", "with a low budget large B mean significantly higher L_val, for "
               "both", "significantly higher for both", significantly_higher, f"L_val {ENDS}"),
        claim("6 (c), A_val", "with large α A_val is high for every B", "remains high",
              high_for_all, "lowest A_val at α ≥ 0.9"),
        at_low("6 (c), A_val", "with a low budget A_val falls with B for the GPT, too",
               "drops sharply", gpt_drops, f"A_val {ENDS}", models=("gpt",)),
        at_low("6 (c), A_val", "with a low budget A_val falls more for the LSTM than for the GPT",
               "LSTM models more affected", lstm_more_affected, "fall of A_val from B = 32 to 512"),
    ]


def ends(runs, metric, alpha):
    """The best values for the smallest and the largest batch."""
    return [runs[B].best(metric, until(alpha)) for B in (BATCHES[0], BATCHES[-1])]


def rises_with_batch(metric):
    """Is the larger batch the worse one at both budgets, and by more at the low one? A loss by its
    logarithm, an accuracy (which may be 1 at last) by its difference."""
    loss = "loss" in metric

    def worse(small, large):
        return math.log10(large / small) if loss else small - large

    def test(alpha, *models):
        parts, numbers = [], []
        for runs in models:
            low, whole = (ends(runs, metric, a) for a in (alpha, 1.0))
            few, all_ = worse(*low), worse(*whole)
            parts += [few, few - all_, all_ if loss else all_ + STEADY]
            numbers += [*low, *whole]
        return parts, numbers
    return test


def over_alpha(models, metric):
    return [[after(run, metric, a) for a in (ALPHAS[0], ALPHAS[-1])]
            for runs in models for run in runs.values()]


def loss_falls_with_alpha(*models):
    parts = [lower(b, a) for a, b in over_alpha(models, L_VAL)]
    return parts, [min(a / b for a, b in over_alpha((runs,), L_VAL)) for runs in models]


def accuracy_rises_with_alpha(*models):
    gains = [b - a for a, b in over_alpha(models, A_VAL)]
    return [*(gain + STEADY for gain in gains), max(gains)], [min(gains), max(gains)]


def lowest_where(*models):
    """Against the lowest of large batches, and the lowest of small ones with a small α."""
    parts, found = [], []
    for runs in models:
        best = {(B, a): run.best(L_VAL, until(a)) for B, run in runs.items() for a in ALPHAS}
        lowest = [min(v for (B, a), v in best.items() if part(B, a)) for part in (
            lambda B, a: B < SMALL and a > LARGE, lambda B, a: B > SMALL,
            lambda B, a: B < SMALL and a < LARGE)]
        parts += [lower(lowest[0], other) for other in lowest[1:]]
        found += min(best, key=best.get)
    return parts, found


def significantly_higher(alpha, *models):
    found = [value for runs in models for value in ends(runs, L_VAL, alpha)]
    return [lower(SHARPLY * small, large) for small, large in zip(found[::2], found[1::2],
                                                                  strict=True)], found


def high_for_all(*models):
    found = [[run.best(A_VAL, until(ALPHAS[-2])) for run in runs.values()] for runs in models]
    return [v - GENERAL for row in found for v in row], [min(row) for row in found]


def gpt_drops(alpha, gpt):
    small, large = ends(gpt, A_VAL, alpha)
    return [small - large], [small, large]


def lstm_more_affected(alpha, *models):
    found = [small - large for small, large in (ends(runs, A_VAL, alpha) for runs in models)]
    return [found[0], found[0] - found[1]], found
