"""What answer 6 (c) says on batch sizes and fractions of a training, and the tests of it."""

import statistics

from experiments.reporting.compute_claims import A_VAL, ALPHAS, BATCHES, L_VAL, T, at_low, claim
from experiments.reporting.measures import GENERAL, accuracies, losses, moved, relaxed
from experiments.reporting.records import NAMES

SHARPLY = 1.5               # a loss that much higher is significantly higher
SMALL, LATE = 64, 0.2       # batches up to SMALL are small; α is large where 1 - α is up to LATE
LAST = 10                   # evaluations before a moment, whose median stands for it


def answers():
    return [
        at_low("6 (c), B", "L_val rises with B, and more for small α than for α = 1",
               "higher validation loss, especially when α is small", loss_rises),
        at_low("6 (c), B", "A_val falls with B, and more for small α than for α = 1",
               "lower validation accuracy, especially when α is small", accuracy_falls),
        claim("6 (c), α", "L_val after the whole training is below that after a tenth of it, for "
              "every B", "improves across all batch sizes", loss_falls_with_alpha),
        claim("6 (c), α", "A_val after the whole training is no lower than after a tenth of it, "
              "and higher for some B", "improves across all batch sizes",
              accuracy_rises_with_alpha),
        claim("6 (c), L_val", "L_val is lowest with small B and large α",
              "small batch sizes and large α", lowest_where, threshold=True),
        at_low("6 (c), L_val", "with a low budget large B mean significantly higher L_val, for "
               "both", "significantly higher for both", significantly_higher, threshold=True),
        claim("6 (c), A_val", "with large α A_val is high for every B", "remains high",
              high_for_all, threshold=True),
        at_low("6 (c), A_val", "with a low budget A_val falls with B for the GPT, too",
               "drops sharply", gpt_drops),
        at_low("6 (c), A_val", "with a low budget A_val falls more for the LSTM than for the GPT",
               "LSTM models more affected", lstm_more_affected),
    ]


def ends(runs, metric, alpha):
    """The best values for the smallest and the largest batch."""
    return [runs[B].best(metric, alpha * T) for B in (BATCHES[0], BATCHES[-1])]


def said(models, metric, form, alpha):
    return "; ".join(f"{NAMES[m]} at α = {a:g}: {form(ends(runs, metric, a))}"
                     for m, runs in models.items() for a in (alpha, 1.0))


def loss_rises(models, alpha):
    true = True
    for runs in models.values():
        (low_small, low_large), (small, large) = (ends(runs, L_VAL, a) for a in (alpha, 1.0))
        true &= low_large > low_small and large > small
        true &= low_large / low_small > large / small
    return true, f"L_val for B = 32 and 512, {said(models, L_VAL, losses, alpha)}"


def accuracy_falls(models, alpha):
    true = True
    for runs in models.values():
        (low_small, low_large), (small, large) = (ends(runs, A_VAL, a) for a in (alpha, 1.0))
        true &= low_large < low_small and large <= small
        true &= low_small - low_large > small - large
    return true, f"A_val for B = 32 and 512, {said(models, A_VAL, accuracies, alpha)}"


def after(run, metric, alpha):
    """Where a run stands after alpha T steps: a best value over more steps cannot get worse."""
    return statistics.median([v for t, v in run.points(metric) if t <= alpha * T][-LAST:])


def over_alpha(models, metric):
    return [[after(run, metric, a) for a in (ALPHAS[0], ALPHAS[-1])]
            for runs in models.values() for run in runs.values()]


def loss_falls_with_alpha(models):
    factors = [a / b for a, b in over_alpha(models, L_VAL)]
    return min(factors) > 1, (
        f"the median L_val of the last {LAST} evaluations up to α = 0.1 is {min(factors):.2g} to "
        f"{max(factors):.2g} times that up to α = 1")


def accuracy_rises_with_alpha(models):
    gains = [b - a for a, b in over_alpha(models, A_VAL)]
    return max(gains) > 0 and min(gains) >= 0, (
        f"from α = 0.1 to 1 the median A_val of the last {LAST} evaluations changes by "
        f"{min(gains):+.3f} to {max(gains):+.3f}")


def lowest_where(models, times=1):
    true, words = True, []
    for m, runs in models.items():
        value, B, a = min((run.best(L_VAL, a * T), B, a) for B, run in runs.items()
                          for a in ALPHAS)
        true &= B <= SMALL * times and 1 - a <= LATE * times
        words.append(f"{NAMES[m]}: {value:.2g} at B = {B}, first at α = {a:g}")
    return true, "; ".join(words) + f" (small: up to {SMALL}; large: from {1 - LATE:g} on)"


def significantly_higher(models, alpha, times=1):
    true = all(large >= (1 + (SHARPLY - 1) * times) * small
               for small, large in (ends(runs, L_VAL, alpha) for runs in models.values()))
    return true, f"B = 32 and 512 at α = {alpha:g}: " + "; ".join(
        f"{losses(ends(runs, L_VAL, alpha))} ({NAMES[m]})" for m, runs in models.items()) + (
        f" (significantly: {SHARPLY:g} times)")


def high_for_all(models, times=1):
    found = {m: min(run.best(A_VAL, a * T) for run in runs.values() for a in ALPHAS[-2:])
             for m, runs in models.items()}
    return min(found.values()) >= relaxed(GENERAL, times), (
        "lowest A_val at α ≥ 0.9: " + ", ".join(
            f"{value:.3f} ({NAMES[m]})" for m, value in found.items()))


def dropped(models, alpha):
    """{model: by how much A_val falls from the smallest batch to the largest}."""
    found = {m: ends(runs, A_VAL, alpha) for m, runs in models.items()}
    return {m: small - large for m, (small, large) in found.items()}


def drop_words(found, alpha):
    return f"from B = 32 to 512 at α = {alpha:g} A_val " + ", ".join(
        f"{moved(-value, '.3f')} ({NAMES[m]})" for m, value in found.items())


def gpt_drops(models, alpha):
    found = dropped(models, alpha)
    return found["gpt"] > 0, drop_words(found, alpha)


def lstm_more_affected(models, alpha):
    found = dropped(models, alpha)
    return found["lstm"] > max(0.0, found["gpt"]), drop_words(found, alpha)
