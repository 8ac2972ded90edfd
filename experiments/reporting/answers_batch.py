"""The answer to the document's question 6: on batch sizes and fractions of a training."""

from experiments.reporting import compute_answers, compute_claims
from experiments.reporting.compute_claims import A_VAL, BATCHES, L_VAL, LOWS, TRAINED, T
from experiments.reporting.effects import change
from experiments.reporting.measures import accuracies
from experiments.reporting.records import NAMES
from experiments.reporting.wording import factor, said_of, seeds_of, two_digits


def compute_answer(store):
    view = store.chosen([c for found in compute_claims.CONFIGS.values() for c in found.values()])
    rows = {m: seeds_of(view, c) for m, c in compute_claims.CONFIGS.items()}
    better = {m: gains(found) for m, found in rows.items()}
    every = [one for found in better.values() for one in found]
    head = ("More steps help at every batch size" if min(every) > 1 else
            f"More steps help in {sum(one > 1 for one in every)} of {len(every)} runs")
    more = said_of(better, lambda v: f"{two_digits(min(v))} to {two_digits(max(v))} times")
    full = {m: change(view, c[32], c[512]) for m, c in compute_claims.CONFIGS.items()}
    early = {share: {m: change(view, c[32], c[512], (share * T, share * T))
                     for m, c in compute_claims.CONFIGS.items()} for share in LOWS}
    few = "; ".join(f"after {share:.0%}: {said_of(found, factor)}"
                    for share, found in early.items())
    alike = len({of_all(found) for found in (full, *early.values())}) == 1
    return (f"**{head} (the median L_val of the last {compute_answers.LAST} evaluations is at α = "
            f"0.1 so many times that at α = 1: {more}). At equal steps a larger batch, 512 for 32, "
            f"has after all of them the {of_all(full)}; after few of them "
            f"{'too' if alike else 'it depends'}.** (c) L_val from B = 32 to 512, after all "
            f"steps: {said_of(full, factor)}; {few}. A_val: {ceiling(rows)}. "
            f"{equal_compute(rows)}")


def of_all(full):
    """What becomes of the loss of both models with the larger batch."""
    every = [one for found in full.values() for one in found]
    if max(every) < 0:
        return "lower L_val with both models and every seed"
    return ("higher L_val with both models and every seed" if min(every) > 0 else
            f"lower L_val in {sum(one < 0 for one in every)} of {len(every)} cases")


def gains(rows):
    """By what factor L_val, as the median of the last evaluations, falls from a tenth of the steps
    to all of them: for every seed and batch."""
    return [compute_answers.after(run, L_VAL, 0.1) / compute_answers.after(run, L_VAL, 1.0)
            for runs in rows.values() for run in runs.values()]


def ceiling(rows):
    """A_val of all batches after all steps and after few."""
    low = {m: [[runs[B].best(A_VAL, LOWS[0] * T) for runs in found.values()]
               for B in (BATCHES[0], BATCHES[-1])] for m, found in rows.items()}
    least = {m: min(run.best(A_VAL) for runs in found.values() for run in runs.values())
             for m, found in rows.items()}
    return "; ".join(
        f"{NAMES[m]}, at least {least[m]:.3f} for every B after all steps, {accuracies(low[m][0])} "
        f"for B = {BATCHES[0]} and {accuracies(low[m][1])} for B = {BATCHES[-1]} after "
        f"{LOWS[0]:.0%}"
        for m in rows)


def equal_compute(rows):
    """The smallest batch after all steps beside the largest after a tenth of them."""
    small, large = BATCHES[0], BATCHES[-1]
    each = {m: ([runs[small].best(A_VAL) for runs in found.values()],
                [runs[large].best(A_VAL, T / 10) for runs in found.values()])
            for m, found in rows.items()}
    words = "; ".join(f"{accuracies(a)} against {accuracies(b)} ({NAMES[m]})"
                      for m, (a, b) in each.items())
    better = ("small batches are far better: " if all(min(a) > 2 * max(b) for a, b in each.values())
              else "")
    return (f"Equal steps are not equal compute: a batch of {large} takes all {TRAINED} equations, "
            f"{TRAINED // small} times those of one of {small}. At like compute {better}A_val of "
            f"B = {small} after all steps, and of B = {large} after a tenth of them, which is "
            f"{TRAINED / small / 10:g} times that compute, is {words}.")
