"""What answer 6 (c) says on batch sizes and fractions of a training, and the tests of it."""

from reporting.compute_claims import A_VAL, ALPHAS, BATCHES, L_VAL, LOW, T, claim
from reporting.measures import GENERAL, accuracies, losses
from reporting.records import NAMES

SHARPLY = 1.5               # a loss that much higher is significantly higher


def answers():
    return [
        claim("6 (c), B", "L_val rises with B, above all for small α", "higher validation loss",
              loss_rises),
        claim("6 (c), B", "A_val falls with B, above all for small α", "lower validation accuracy",
              accuracy_falls),
        claim("6 (c), α", "L_val falls with α for every B", "improves across all batch sizes",
              loss_falls_with_alpha),
        claim("6 (c), α", "A_val does not fall with α, and rises for some B",
              "improves across all batch sizes", accuracy_rises_with_alpha),
        claim("6 (c), L_val", "L_val is lowest with small B and large α",
              "small batch sizes and large α", lowest_where),
        claim("6 (c), L_val", "with a low budget large B mean significantly higher L_val, for both",
              "significantly higher for both", significantly_higher),
        claim("6 (c), A_val", "with large α A_val is high for every B", "remains high",
              high_for_all),
        claim("6 (c), A_val", "with a low budget A_val falls with B, more for the LSTM",
              "drops sharply, LSTM more affected", lstm_more_affected),
    ]


def ends(runs, metric, alpha):
    """The best values for the smallest and the largest batch."""
    return [runs[B].best(metric, alpha * T) for B in (BATCHES[0], BATCHES[-1])]


def said(models, metric, form):
    return "; ".join(f"{NAMES[m]} at α = {a:g}: {form(ends(runs, metric, a))}"
                     for m, runs in models.items() for a in (LOW, 1.0))


def loss_rises(models):
    true = True
    for runs in models.values():
        (low_small, low_large), (small, large) = (ends(runs, L_VAL, a) for a in (LOW, 1.0))
        true &= low_large > low_small and large > small
        true &= low_large / low_small > large / small
    return true, f"L_val for B = 32 and 512, {said(models, L_VAL, losses)}"


def accuracy_falls(models):
    true = True
    for runs in models.values():
        (low_small, low_large), (small, large) = (ends(runs, A_VAL, a) for a in (LOW, 1.0))
        true &= low_large < low_small and large <= small
        true &= low_small - low_large > small - large
    return true, f"A_val for B = 32 and 512, {said(models, A_VAL, accuracies)}"


def over_alpha(models, metric):
    return {(m, B): [run.best(metric, a * T) for a in (ALPHAS[0], ALPHAS[-1])]
            for m, runs in models.items() for B, run in runs.items()}


def loss_falls_with_alpha(models):
    found = over_alpha(models, L_VAL)
    factors = [a / b for a, b in found.values()]
    return min(factors) > 1, (
        f"from α = 0.1 to 1 L_val falls by factors of {min(factors):.2g} to {max(factors):.2g} "
        "(a best value over more steps can't rise)")


def accuracy_rises_with_alpha(models):
    gains = [b - a for a, b in over_alpha(models, A_VAL).values()]
    return max(gains) > 0 and min(gains) >= 0, (
        f"from α = 0.1 to 1 A_val rises by {min(gains):.3f} to {max(gains):.3f} (a best value "
        "over more steps can't fall)")


def lowest_where(models):
    true, words = True, []
    for m, runs in models.items():
        value, B, a = min((run.best(L_VAL, a * T), B, a) for B, run in runs.items()
                          for a in ALPHAS)
        true &= B <= BATCHES[1] and a >= 0.8
        words.append(f"{NAMES[m]}: {value:.2g} at B = {B}, first at α = {a:g}")
    return true, "; ".join(words)


def significantly_higher(models):
    true = all(large >= SHARPLY * small
               for small, large in (ends(runs, L_VAL, LOW) for runs in models.values()))
    return true, "B = 32 and 512 at α = 0.1: " + "; ".join(
        f"{losses(ends(runs, L_VAL, LOW))} ({NAMES[m]})" for m, runs in models.items()) + (
        f" (significantly: {SHARPLY:g} times)")


def high_for_all(models):
    found = {m: min(run.best(A_VAL, a * T) for run in runs.values() for a in ALPHAS[-2:])
             for m, runs in models.items()}
    return min(found.values()) >= GENERAL, "lowest A_val at α ≥ 0.9: " + ", ".join(
        f"{value:.3f} ({NAMES[m]})" for m, value in found.items())


def lstm_more_affected(models):
    drop = {m: (lambda pair: pair[0] - pair[1])(ends(runs, A_VAL, LOW))
            for m, runs in models.items()}
    return drop["lstm"] > max(0.0, drop["gpt"]) and drop["gpt"] > 0, (
        "A_val falls from B = 32 to 512 at α = 0.1 by " + ", ".join(
            f"{value:+.3f} ({NAMES[m]})" for m, value in drop.items()))
