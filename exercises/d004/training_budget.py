"""Document 004, Problem 4, first page: sizes of the data, time, compute, points."""

import math
from functools import partial

from exercises.d004.first_tables import seeds
from exercises.d004.masked_loss import example
from exercises.framework import Claim, judge
from exercises.worked import Solution, Table, listing, num
from npdl.data import ModularArithmetic
from npdl.losses import loss_and_accuracy
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM

QUESTION = """\
All sums a + b (+ c) mod p are listed and a share r of them is trained on, in batches of B = 512
for T = 10001 steps of tau seconds each; compute is put at C = P B T. How many equations are there,
can they be halved, how long is a run, is every batch full, what does C count, do the points add
up, and can a loss be negative?"""

T, B = 10**4 + 1, 2**9
TAU = {("LSTM", "GPU"): 0.05, ("GPT", "GPU"): 0.06, ("LSTM", "CPU"): 0.25, ("GPT", "CPU"): 0.40}
PRINTED_TIMES = {("LSTM", "GPU"): 5e2, ("GPT", "GPU"): 6e2}
POINTS = {  # each problem: its points, and those of its parts
    "Problem 1": (10, (3, 4, 3)), "Problem 2": (31, (5, 17, 9)),
    "Problem 4": (44, (3.5, 10, 10, 5, 6.5, 9)),
}

TITLES = {"4": "Equations, time, compute and points"}

claim = partial(Claim, "004", "Problem 4")


def number_of_equations(p, orders=(2,)):
    """p^2 for two operands and p^3 for three, added up."""
    return sum(p**order for order in set(orders))


def seconds(tau, steps=T):
    """The time of a run of `steps` steps of tau seconds."""
    return tau * steps


def claims():
    return [count_claim(), half_claim(), *time_claims(), batch_claim(), compute_claim(),
            points_claim(), sign_claim(), optimistic_claim()]


def count_claim():
    cases = ((31, (2,)), (31, (3,)), (11, (2,)), (11, (3,)), (11, (2, 3)))
    counted = [len(ModularArithmetic(p, orders=orders).equations) for p, orders in cases]
    same = counted == [number_of_equations(*case) for case in cases]
    V = ModularArithmetic(31).vocabulary.size
    return claim(
        "N", "How many samples N has the data set for a given p and given orders?",
        "referred to the beginning of the assignment, which the document does not hold",
        "p^2, p^3 or p^2 + p^3: " + ", ".join(
            f"{count:,} for p = {p}, orders {listing(orders, 'd', '()')}"
            for (p, orders), count in zip(cases, counted, strict=True)),
        judge(same, "no answer given"), "counted by npdl's ModularArithmetic: "
        f"{'equal' if same else 'different'}; the vocabulary has p + 5 = {V} tokens for p = 31")


def half_claim():
    data = ModularArithmetic(31)
    split = ModularArithmetic(11, orders=(2, 3), stratified=True)
    parts = {order: [int((part.orders == order).sum()) for part in (split.train, split.validation)]
             for order in (2, 3)}
    sizes = (number_of_equations(31), number_of_equations(11), number_of_equations(11, (3,)))
    half_sizes = listing([n / 2 for n in sizes], ".1f", "()")
    return claim(
        "halves", "r_train = 0.5 puts half of the equations, and of each order, into each set.",
        "N_train = r_train N; half and half",
        f"N is odd for odd p: {half_sizes} are no numbers of "
        f"samples; npdl trains on {len(data.train)} of {sizes[0]}, {parts[2][0]} of {sizes[1]} and "
        f"{parts[3][0]} of {sizes[2]}",
        judge(not any(n % 2 for n in sizes), if_false="under-specified", provided=sizes == (
            len(data.equations), *(sum(parts[order]) for order in (2, 3)))),
        "p = 31 and p = 11; holds to one sample, with a rule for rounding that the document leaves "
        "open: npdl rounds r N to the nearest whole number and a half to the even one, for each "
        f"order apart where both are asked for: {rounded(split)}")


def rounded(split, r=0.5):
    """The training samples of each order, as r N and as they were rounded."""
    counts = [[int((part.orders == order).sum()) for part in (split.equations, split.train)]
              for order in (2, 3)]
    shares = [(r * n, kept) for n, kept in counts]
    return " and ".join(f"{share:.1f} becomes {kept}" for share, kept in shares)


def time_claims():
    times = {key: seconds(TAU[key]) for key in PRINTED_TIMES}
    gpu = all(float(f"{times[key]:.0e}") == PRINTED_TIMES[key] for key in times)
    return [
        claim("seconds", "tau T is about 5 x 10^2 s for the LSTM and 6 x 10^2 s for the GPT.",
              "5 x 10^2, 6 x 10^2", f"{times['LSTM', 'GPU']:.2f} s and {times['GPT', 'GPU']:.2f} s",
              judge(gpu), "0.05 x 10001 and 0.06 x 10001"),
    ]


def batch_claim():
    shares = [n / 10 for n in range(1, 10)]
    sizes = [len(ModularArithmetic(31, r_train=r).train) for r in shares]
    short = [f"{r:g}" for r, size in zip(shares, sizes, strict=True) if size < B]
    default = sizes[shares.index(0.5)]
    factor, largest_factor = B / default, B / sizes[0]
    return claim(
        "batch", "By default a step uses a batch of B = 2^9 samples.", f"B = {B}",
        f"only {default} equations are in the training set: every step sees all of them, "
        f"and C = P B T is {factor:.3f} times too large ({largest_factor:.2f} times for "
        "r_train = 0.1)", judge(default >= B, if_false="under-specified"),
        f"p = 31: N_train < {B} for r_train = {short[0]} to {short[-1]}; holds if a batch may "
        "repeat samples")


def products(model, S):
    """Multiplications by the weights of a sample of S tokens, embeddings left out.

    Each number of a matrix is used once for a token forward, once for dx, once for dW.
    """
    weights = sum(param.data.size for name, param in model.params()
                  if param.data.ndim == 2 and not name.startswith("embedding"))
    return 3 * S * weights


def compute_claim(S=6):
    models = {"LSTM": LSTMLM(36), "GPT": GPT(36)}
    P = {name: model.count_params(embeddings=False) for name, model in models.items()}
    C = {name: count * B * T for name, count in P.items()}
    ratios = {name: products(model, S) / P[name] for name, model in models.items()}
    return claim(
        "compute", "C = P B T estimates the training compute.", "P B T",
        f"{C['LSTM']:.3g} and {C['GPT']:.3g} for the defaults: in units of one "
        "parameter, one sample, one step",
        judge(max(ratios.values()) < 2, if_false="under-specified"),
        f"a sample has S = {S} tokens; forward and backward through every matrix for each take "
        f"{ratios['LSTM']:.1f} and {ratios['GPT']:.1f} times P multiplications a sample; holds up "
        "to a factor while S stays the same")


def points_claim():
    sums = {name: sum(parts) for name, (_, parts) in POINTS.items()}
    return claim(
        "points", "The points of the parts add up to those of Problems 1, 2 and 4.",
        ", ".join(f"{total:g}" for total, _ in POINTS.values()),
        ", ".join(f"{total:g}" for total in sums.values()),
        judge(all(POINTS[name][0] == total for name, total in sums.items())),
        "; ".join(" + ".join(f"{part:g}" for part in parts) for _, parts in POINTS.values()))


def sign_claim():
    losses, accuracies = loss_and_accuracy(*example(), "none")
    return claim(
        "sign", "The loss is never negative and the accuracy lies in [0, 1].",
        "L >= 0, A in [0, 1]", f"smallest of {len(losses)} losses {losses.min():.2g}; accuracies "
        f"from {accuracies.min():g} to {accuracies.max():g}",
        judge(losses.min() >= 0 and 0 <= accuracies.min() and accuracies.max() <= 1),
        "-log p >= 0 since p <= 1; indicators are 0 or 1; random logits, an example (seeds 0, 1)")


def best_of(evaluations, size, p):
    """The mean of the best of `evaluations` independent shares of `size` equations, exactly.

    Each equation is right with probability p. E[max] = sum over k of 1 - P(count < k)^n.
    """
    below, total = 0.0, 0.0
    for k in range(1, size + 1):
        below += math.comb(size, k - 1) * p ** (k - 1) * (1 - p) ** (size - k + 1)
        total += 1 - min(below, 1.0) ** evaluations
    return total / size


def optimistic_claim(evaluations=100, size=481, p=0.99):
    best = best_of(evaluations, size, p)
    early = sorted({step for step in seeds("GPT")["L_val"][0] if step < T})
    return claim(
        "best over steps", "The lowest L_val and the highest A_val over all steps say how well a "
        "model does on data it has not seen.", "the smallest and the largest value over the steps",
        "they are optimistic: the step is chosen by the set that is then reported; a third set, or "
        "the last step, would not be",
        judge(best - p < 1e-3, if_false="under-specified"),
        f"{evaluations} independent evaluations of {size} equations, each right with probability "
        f"{p}: the best is {best:.4f} on average; the GPT's L_val were read at steps "
        f"{listing(early, 'd', '()')} of {T}; holds as the definition of what is printed")


P = 31


def halves(n, share=0.5):
    """(training samples, validation samples) of n, the share rounded, a half to the even number."""
    train = round(n * share)
    return train, n - train


def budget():
    n = number_of_equations(P)
    train, validation = halves(n)
    data, mixed = ModularArithmetic(P), ModularArithmetic(11, orders=(2, 3), stratified=True)
    minutes = {run: seconds(tau) / 60 for run, tau in TAU.items()}
    rows = tuple((*run, num(tau, 2), num(seconds(tau), 2), num(minutes[run], 1))
                 for run, tau in TAU.items())
    mixed_rows = [(order, size / 2, *halves(size)) for order, size in ((2, 11**2), (3, 11**3))]
    half, per_parameter, true_per_parameter = n / 2, B * T, train * T
    work = Solution("4", f"p = {P}, two operands, r = 1/2, B = {B}, T = {T:,}.")
    work.step("Count the equations: every pair of operands once.",
              "N = p²   (p³ for three operands)", f"{P}² = {n}")
    work.step("Split them. An odd N can't be halved, and the document gives no rule for it. npdl "
              "rounds to the nearest number and a half to the even one; where sums of two and of "
              "three operands are mixed, each of them by itself.", "N_train = round(r N)",
              f"{num(0.5, 1)} · {n} = {num(half, 1)}: {train} and {validation}\n"
              + "\n".join(f"{num(0.5, 1)} · 11^{order} = {num(share, 1)}: {kept} and {held}"
                          for order, share, kept, held in mixed_rows))
    work.step("Compare with the batch: a batch larger than the training set is the whole of it.",
              "min(B, N_train)", f"min({B}, {train}) = {min(B, train)}")
    work.step("Time is steps times seconds.", "τ T",
              table=Table(("model", "machine", "τ", "seconds", "minutes"), rows))
    work.step("Compute, in units of one parameter, one sample, one step.", "C = P B T",
              f"for each parameter {B} · {T:,} = {per_parameter:,};   with the true batch "
              f"{train} · {T:,} = {true_per_parameter:,}")
    work.answer = (f"N = {n}, {train} to train on, so that every batch of {B} is all of them; a "
                   f"run of {T:,} steps takes {num(minutes['LSTM', 'GPU'], 1)} to "
                   f"{num(minutes['GPT', 'CPU'], 0)} minutes.")
    work.check("npdl's data set has as many equations, split in the same way",
               (len(data.equations), len(data.train), len(data.validation))
               == (n, train, validation))
    work.check("and the sums of two and of three operands for p = 11, each by itself",
               [int((part.orders == order).sum()) for order in (2, 3)
                for part in (mixed.train, mixed.validation)] == [*halves(11**2), *halves(11**3)])
    return work


def solutions():
    return [budget()]
