"""Document 004, Problem 4: the first tables, sizes of the data, time, compute, points, the study.

The tables of 4.2 give, for an LSTM and a GPT after T = 10001 steps, the best losses and accuracies,
the steps t_f that first reach them, and the delays Δt = t_f(val) − t_f(train), for two seeds.
All sums a + b (+ c) mod p are listed and a share r of them is trained on, in batches of B = 512 for
T = 10001 steps of τ seconds each; compute is put at C = P B T. Most questions are answered by
training: experiments/REPORT.md has the runs, their figures and a verdict on each statement.
"""

import math

import numpy as np

from exercises.course import format_table, judge, question, vec
from exercises.d004.masked_loss import EQUALS, LOGITS, MASK, TARGETS
from npdl.data import ModularArithmetic
from npdl.losses import loss_and_accuracy
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM

T, B = 10**4 + 1, 2**9
STEPS = {  # printed t_f: (mean, deviation)
    "LSTM": {"L_train": (10001, 0), "L_val": (10001, 0), "A_train": (300, 0), "A_val": (7850, 350)},
    "GPT": {"L_train": (9750, 150), "L_val": (9100, 500), "A_train": (82.5, 5.5),
            "A_val": (8400, 200)},
}
DELAYS = {"LSTM": {"L": 0, "A": 7550}, "GPT": {"L": -650, "A": 8318}}


def std_of_two(a, b, divisor=2):
    """Return the standard deviation of a and b, with divisor n = 2 or n − 1 = 1."""
    return abs(a - b) / math.sqrt(2 * divisor)


def find_pairs(mean, std, candidates, divisor=2):
    """Return the pairs a ≤ b of `candidates` with this mean and deviation to four decimals."""
    half, gap = 0.5e-4 * (1 + 1e-9), std * math.sqrt(2 * divisor)
    low, high = ([value for value in candidates if abs(value - target) <= 4 * half]
                 for target in (mean - gap / 2, mean + gap / 2))
    return [(a, b) for a in low for b in high
            if a <= b and abs((a + b) / 2 - mean) <= half
            and abs(std_of_two(a, b, divisor) - std) <= half]


def recover_seed_steps(model):
    """Return the steps of the two seeds, {t_f: (a, b)}: the only whole steps that fit."""
    return {name: one for name, row in STEPS[model].items() for (one,) in [
        find_pairs(*row, range(1, T + 1))]}


def delay_stds(train, val):
    """Return the possible deviations of val − train, for both ways to pair the seeds."""
    (a, b), (c, d) = train, val
    return sorted({std_of_two(c - a, d - b), std_of_two(d - a, c - b)})


@question("004.4.2", "The default recipe: losses, accuracies, delays of two seeds")
def solve_two_seed_tables(say, step, answer, check, claim):
    """Give means and standard deviations of losses, accuracies, steps and delays over two seeds."""
    printed, steps = STEPS["GPT"], recover_seed_steps("GPT")
    (a, b), (c, d) = steps["A_train"], steps["A_val"]
    mean = (c + d) / 2 - (a + b) / 2
    stds = " or ".join(f"{s:.1f}" for s in delay_stds((a, b), (c, d)))
    loss_delay = printed["L_val"][0] - printed["L_train"][0]
    say("We use the GPT's rows of the table, which have two seeds.")
    step("If the standard deviation divides by n, the two values are one standard deviation below "
         "and above their mean.", "s = √(((a − m)² + (b − m)²)/2) = (b − a)/2   →   a, b = m ∓ s",
         *(f"t_f({name}) = {printed[name][0]:.1f} ± {printed[name][1]:.1f}:  {steps[name][0]} and "
           f"{steps[name][1]}" for name in ("A_train", "A_val")))
    step("If it divided by n − 1, it would be larger by a factor of √2, and the steps would not be "
         "integers.", "(b − a)/√2", f"{b - a}/√2 = {std_of_two(a, b, 1):.3f}")
    step("A delay is the difference of two steps of the same seed. Its mean is the difference of "
         "the means.", "Δt = t_f(val) − t_f(train)",
         f"{printed['A_val'][0]:.1f} − {printed['A_train'][0]:.1f} = {mean:.1f}")
    step("Its standard deviation depends on which steps belong to the same seed. A table of means "
         "does not tell this.", "s(Δt) = |Δt₁ − Δt₂|/2",
         f"({c} − {a}, {d} − {b}) or ({d} − {a}, {c} − {b}): {stds}")
    step("Do the same for the losses. The training loss is lowest at the end of training, not when "
         "the model has memorised. So the difference may be negative, and it is not a delay.",
         "Δt(L) = t_f(L_val) − t_f(L_train)",
         f"{printed['L_val'][0]} − {printed['L_train'][0]} = {loss_delay}")
    answer(f"The two seeds of the GPT reached their best accuracies at {a} and {b} (training), and "
           f"at {c} and {d} (validation). Δt(A) = {mean:.1f} ± {stds}.")
    say("experiments/REPORT.md, question 2, compares the tables with npdl's own runs.")
    check("The document's Δt(L) is this difference, and its Δt(A) is this mean, rounded.",
          loss_delay == DELAYS["GPT"]["L"] and abs(mean - DELAYS["GPT"]["A"]) <= 0.5)
    rows = [(model, name, *row) for model, table in STEPS.items() for name, row in table.items()
            if row[1]]
    by_n, by_less = (sum(bool(find_pairs(mean, std, range(1, T + 1), divisor))
                         for *_, mean, std in rows) for divisor in (2, 1))
    sample = [std_of_two(*recover_seed_steps(model)[name], 1) for model, name, *_ in rows]
    claim("deviation", "The tables' +- is the standard deviation of two seeds.",
          f"({', '.join(f'{std:g}' for *_, std in rows)})", "it divides by n = 2, so it is half "
          f"the difference of the two runs; divided by n - 1 it would be {vec(sample, 1)}",
          judge(by_n == len(rows) > by_less, "convention"), "integer steps agree with the table in "
          f"{by_n} of {len(rows)} rows with n, and in {by_less} with n - 1")
    fits = [find_pairs(*row, range(1, T + 1)) for table in STEPS.values() for row in table.values()]
    claim("values", "Which steps did the two seeds reach?", "only mean and deviation",
          "; ".join(f"{model} " + ", ".join(f"t_f({name}) {a} and {b}"
                                            for name, (a, b) in recover_seed_steps(model).items())
                    for model in STEPS),
          judge(all(len(pairs) == 1 for pairs in fits), "no answer given"), "the only pairs of "
          f"integer steps up to {T} with the printed mean and standard deviation (divided by n)")
    steps = sorted({step for ((a, b),) in fits for step in (a, b) if step != T})
    off = [step for step in steps if step % 100]
    claim("grid", "Statistics are recorded at equal intervals of steps.", "every eval_period steps",
          f"a common interval of {vec(steps)} can only be {math.gcd(*steps)}",
          judge(not off, if_false="under-specified"),
          f"{len(steps) - len(off)} of {len(steps)} are multiples of 100, but {vec(off)} are not; "
          "true after the first 100 steps; a delay is known only to within 100 steps")
    ways = {(size, divisor): [
        (round(size * (1 - b)), round(size * (1 - a))) for a, b in find_pairs(
            0.9979, 0.0021, [n / size for n in range(size + 1)], divisor)]
        for size in (480, 481) for divisor in (2, 1)}
    few, many = ways[480, 2][0]
    claim("accuracy", "A_val = 0.9979 +- 0.0021 is possible on the default validation set.",
          "0.9979 +- 0.0021", f"possible in one way: {few} and {many} wrong equations of 480 (or "
          "481)", judge(len(ways[480, 2]) == len(ways[481, 2]) == 1),
          f"number of pairs that agree: {len(ways[480, 2])} for 480 and {len(ways[481, 2])} for "
          f"481 with n, {len(ways[480, 1])} and {len(ways[481, 1])} with n - 1")
    delay_texts = []
    for model, delays in DELAYS.items():
        steps = recover_seed_steps(model)
        for name, printed in delays.items():
            val, train = (STEPS[model][f"{name}_{part}"][0] for part in ("val", "train"))
            rounded = printed != val - train
            claim(f"{model} delay {name}",
                  f"Delta t({name}) of the {model} is the difference of the mean steps.",
                  f"{printed}", f"{val - train:g}" + f", rounded {printed}" * rounded,
                  judge(not rounded,
                        if_false="convention" if abs(printed - val + train) <= 0.5 else "wrong"),
                  f"{val:g} - {train:g}" + "; the other rows have four decimals" * rounded)
            stds = delay_stds(steps[f"{name}_train"], steps[f"{name}_val"])
            delay_texts.append(f"{model} Delta t({name}) {val - train:g} +- "
                               + " or ".join(f"{std:g}" for std in stds))
    claim("delay deviations", "Mean and deviation were asked for every quantity, the delays too.",
          "delays without a deviation", "; ".join(delay_texts),
          judge(len(delay_texts) == 4, "no answer given"),
          "from the seeds' steps above; the two values are for the two ways to pair the seeds")
    statement = "for a model that generalises, the delay between memorising and generalising"
    for name, ours, more in (
            ("A", "it is, up to the interval between evaluations: from the best training accuracy "
                  "to the best validation accuracy", ""),
            ("L", "it is not: it is the difference of the steps at which two losses are lowest, "
                  "and the training loss decreases until the end",
             "; but A_val = 0.9979, and no model generalises before it memorises")):
        delays = ", ".join(f"{row[name]} for the {model}" for model, row in DELAYS.items())
        claim(f"meaning of Delta t({name})", f"Delta t({name}) is, {statement}.", "that delay",
              ours, judge(all(row[name] > 0 for row in DELAYS.values())),
              f"the document's own table: {delays}{more}")
    at_end = [f"{name} of the {model}" for model, rows in STEPS.items()
              for name, row in rows.items() if row == (T, 0)]
    claim("last step", "t_f(L) is the step at which a model reaches its lowest loss.",
          f"t_f = {T} for {' and '.join(at_end)}", "only the lowest loss within T steps: the loss "
          "was still decreasing at the last step, so Delta t(L) = 0 comes from the end of the run "
          "and is not a delay", judge(not at_end, if_false="under-specified"),
          f"t_f = T for both seeds in {len(at_end)} of 8 rows; true if t_f < T")
    (lstm, lstm_std), (gpt, gpt_std) = (0.0008, 0.0004), (0.0035, 0.0031)       # L_val
    best = lstm - lstm_std, gpt - gpt_std
    claim("losses", "The tables compare the losses of LSTM and GPT.",
          "L_train 0.0001 +- 0.0000 twice; L_val 0.0008 +- 0.0004 and 0.0035 +- 0.0031",
          f"L_val of the two seeds: {vec((best[0], lstm + lstm_std), 4)} for the LSTM, "
          f"{vec((best[1], gpt + gpt_std), 4)} for the GPT; the ratio is {gpt / lstm:.1f} to 1 for "
          f"the means, {best[1] / best[0]:.0f} to 1 for the better seeds; one seed makes the "
          "difference", judge(gpt - lstm > gpt_std + lstm_std, if_false="under-specified"),
          "with four decimals, L_train is between 0.00005 and 0.00015, a factor of 3")


TAU = {("LSTM", "GPU"): 0.05, ("GPT", "GPU"): 0.06, ("LSTM", "CPU"): 0.25, ("GPT", "CPU"): 0.40}


def split_sizes(n):
    """Return the numbers of training and validation samples of n; halves round to even."""
    return round(n / 2), n - round(n / 2)


def count_by_split(data, order):
    """Return the numbers of training and validation samples of this order in npdl's data."""
    return tuple(int((part.orders == order).sum()) for part in (data.train, data.validation))


@question("004.4.data", "Equations, time, compute and points")
def solve_data_and_compute(say, step, answer, check, claim, p=31):
    """Count the equations, split them into halves, and compute how long a run takes."""
    n, data = p**2, ModularArithmetic(p)
    mixed = ModularArithmetic(11, orders=(2, 3), stratified=True)
    train, validation = split_sizes(n)
    minutes = {run: tau * T / 60 for run, tau in TAU.items()}
    say(f"The example has p = {p}, two operands, r = 1/2, B = {B} and T = {T:,}.")
    step("Count the equations. Every pair of operands occurs once.",
         "N = p²   (p³ for three operands)", f"{p}² = {n}")
    step("Split the equations. An odd N can't be halved, and the document gives no rule for this "
         "case. npdl rounds to the nearest integer, and a half to the even one. If sums of two and "
         "of three operands are mixed, npdl splits each kind separately.", "N_train = round(r N)",
         f"0.5 · {n} = {n / 2}: {train} and {validation}",
         *(f"0.5 · 11^{order} = {11**order / 2}: {split_sizes(11**order)[0]} and "
           f"{split_sizes(11**order)[1]}" for order in (2, 3)))
    step("Compare with the batch size. If it is larger than the training set, the batch is the "
         "whole training set.", "min(B, N_train)", f"min({B}, {train}) = {min(B, train)}")
    step("Compute the time: the number of steps times the seconds per step.", "τ T",
         format_table(("model", "machine", "τ", "seconds", "minutes"), [
             (*run, f"{tau:.2f}", f"{tau * T:.2f}", f"{minutes[run]:.1f}")
             for run, tau in TAU.items()]))
    step("Find the compute, in units of one parameter, one sample and one step.", "C = P B T",
         f"per parameter {B} · {T:,} = {B * T:,};   with the true batch size {train} · {T:,} = "
         f"{train * T:,}")
    answer(f"There are N = {n} equations, of which {train} are in the training set. So every batch "
           f"of {B} is the whole training set. A run of {T:,} steps takes "
           f"{minutes['LSTM', 'GPU']:.1f} to {minutes['GPT', 'CPU']:.0f} minutes.")
    check("npdl's data set has the same number of equations, and the same split.",
          (len(data.equations), len(data.train), len(data.validation)) == (n, train, validation))
    check("For p = 11, npdl splits the sums of two and of three operands separately, in the same "
          "way.", all(count_by_split(mixed, order) == split_sizes(11**order) for order in (2, 3)))
    cases = ((31, (2,)), (31, (3,)), (11, (2,)), (11, (3,)), (11, (2, 3)))
    sizes = [len(ModularArithmetic(p, orders=orders).equations) for p, orders in cases]
    claim("N", "How many samples N has the data set for a given p and given orders?",
          "referred to the beginning of the assignment, which the document does not hold",
          "p^2, p^3 or p^2 + p^3: " + ", ".join(
              f"{size:,} for p = {p}, orders ({', '.join(map(str, orders))})"
              for (p, orders), size in zip(cases, sizes, strict=True)),
          judge(sizes == [sum(p**order for order in orders) for p, orders in cases],
                "no answer given"), "counted by npdl's ModularArithmetic; the vocabulary has p + 5 "
          f"= {data.vocabulary.size} tokens")
    sets = [(len(data.train), len(data.validation)),
            *(count_by_split(mixed, order) for order in (2, 3))]
    totals = [sum(pair) for pair in sets]
    claim("halves", "r_train = 0.5 puts half of the equations, and of each order, into each set.",
          "N_train = r_train N; half and half",
          f"N is odd for odd p: {vec([n / 2 for n in totals], 1)} are not integers; npdl trains on "
          + ", ".join(f"{kept} of {n}" for n, (kept, _) in zip(totals, sets, strict=True)),
          judge(not any(n % 2 for n in totals), if_false="under-specified"), "p = 31 and p = 11; "
          "true to within one sample, with a rule for rounding that the document does not give")
    trained = {r / 10: len(ModularArithmetic(31, r_train=r / 10).train) for r in range(1, 10)}
    short = [r for r, size in trained.items() if size < B]
    claim("batch", "By default a step uses a batch of B = 2^9 samples.", f"B = {B}", "the training "
          f"set has only {trained[0.5]} equations, so every step uses all of them, and C = P B T "
          f"is too large by a factor of {B / trained[0.5]:.3f} ({B / trained[0.1]:.2f} for r_train "
          "= 0.1)", judge(trained[0.5] >= B, if_false="under-specified"), f"p = 31: N_train < {B} "
          f"for r_train = {short[0]} to {short[-1]}; true if a batch may repeat samples")
    S = 6
    times = [TAU[model, "GPU"] * T for model in ("LSTM", "GPT")]
    claim("seconds", "tau T is about 5 x 10^2 s for the LSTM and 6 x 10^2 s for the GPT.",
          "5 x 10^2, 6 x 10^2", f"{times[0]:.2f} s and {times[1]:.2f} s",
          judge([f"{time:.0e}" for time in times] == ["5e+02", "6e+02"]),
          "0.05 x 10001 and 0.06 x 10001")
    C, ratios = [], []
    for model in (LSTMLM(36), GPT(36)):
        P = model.count_params(embeddings=False)
        weights = sum(param.data.size for name, param in model.params()
                      if param.data.ndim == 2 and not name.startswith("embedding"))
        C.append(P * B * T)
        ratios.append(3 * S * weights / P)      # each is used forward, for dx and for dW
    claim("compute", "C = P B T estimates the training compute.", "P B T",
          f"{C[0]:.3g} for the LSTM and {C[1]:.3g} for the GPT by default, in units of one "
          "parameter, one sample and one step", judge(max(ratios) < 2, if_false="under-specified"),
          f"forward and backward take {ratios[0]:.1f} P and {ratios[1]:.1f} P multiplications for "
          f"a sample of {S} tokens; true up to a factor")
    points = {10: (3, 4, 3), 31: (5, 17, 9), 44: (3.5, 10, 10, 5, 6.5, 9)}
    claim("points", "The points of the parts add up to those of Problems 1, 2 and 4.",
          ", ".join(map(str, points)), ", ".join(f"{sum(parts):g}" for parts in points.values()),
          judge(all(total == sum(parts) for total, parts in points.items())),
          "; ".join(" + ".join(map(str, parts)) for parts in points.values()))
    losses, accuracies = loss_and_accuracy(LOGITS, TARGETS, EQUALS, MASK, "none")
    claim("sign", "The loss is never negative and the accuracy lies in [0, 1].",
          "L >= 0, A in [0, 1]", f"the smallest of {len(losses)} losses is {losses.min():.2g}; "
          f"accuracies are from {accuracies.min():g} to {accuracies.max():g}",
          judge(losses.min() >= 0 and 0 <= accuracies.min() and accuracies.max() <= 1), "-log p >= "
          "0 because p <= 1; indicators are 0 or 1; computed for the example of Problem 3")
    best = np.random.default_rng(0).binomial(481, 0.99, (10_000, 100)).max(1).mean() / 481
    claim("best over steps", "The lowest L_val and the highest A_val over all steps say how well a "
          "model does on data it has not seen.", "the smallest and the largest value over the "
          "steps", "they are optimistic, because the step is selected on the reported set; a third "
          "set or the last step would not be optimistic",
          judge(best - 0.99 < 1e-3, if_false="under-specified"), "100 independent evaluations of "
          f"481 equations, each right with probability 0.99: the best accuracy is {best:.4f} on "
          "average (10,000 draws, seed 0); true as the definition of the printed values")


DECAYS, WIDTHS = (0.25, 0.5, 0.75, 1.0), (64, 128, 256)                 # as Problem 4 asks


def add_question(number, title, task, claim_fields=None):
    """Add a question with its answer in the report; `claim_fields` adds a claim without runs."""
    def work(say, step, answer, check, claim):
        answer("npdl trained the models of this question. The report of the study has the results, "
               "and says which statements of the document were reproduced: experiments/REPORT.md, "
               f"question {number}.")
        if claim_fields:
            claim(*claim_fields)

    work.__doc__ = task
    question(f"004.4.{number}", title)(work)


add_question(1, "The default recipe: losses and accuracies during training", "Plot losses and "
             "accuracies of an LSTM and a GPT during training with the default recipe.")
add_question(3, "Scaling the data: the fraction used for training",
             "Vary the fraction of the equations that is used for training.")
add_question(4, "Training on sums of two and of three operands together",
             "Train on sums of two and of three operands together.")
add_question(5, "Scaling the model: layers and width", "Vary the number of layers and the width d.",
             ("(a)", "each curve is of a batch size d", "batch size d in {64, 128, 256}",
              f"d is the width, {', '.join(map(str, WIDTHS))}; the batch size B is {B} in all runs",
              judge(B in WIDTHS, if_false="slip"),
              "the settings of the question; the captions of Figures 14, 17, 19 and 21 have it "
              "too"))
add_question(6, "Scaling compute: batch size and budget",
             "Vary the batch size and the number of steps.")
add_question(7, "Weight decay, and the norm of the parameters",
             "Vary the weight decay, and follow the norm of the parameters.",
             ("(c)", "a decay of 0.7 was run", "up to 0.7; peaks at 0.7",
              f"the question has only {', '.join(f'{decay:g}' for decay in DECAYS)}",
              judge(0.7 in DECAYS, if_false="slip"), "the question's settings; it should be 0.75"))
add_question(8, "Attention maps of a model that generalised",
             "Draw the attention maps of a trained GPT, and describe them.")
