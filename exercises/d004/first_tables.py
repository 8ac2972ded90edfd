"""Document 004, Problem 4.2, the first tables: means and deviations of two seeds, and their delays.

The tables give, for an LSTM and a GPT after T = 10001 steps, the best losses and accuracies, the
steps t_f that first reach them, and the delays Δt = t_f(val) − t_f(train).
"""

import math

from exercises.course import judge, question, vec

T = 10001
STEPS = {  # printed t_f: (mean, deviation)
    "LSTM": {"L_train": (10001, 0), "L_val": (10001, 0), "A_train": (300, 0), "A_val": (7850, 350)},
    "GPT": {"L_train": (9750, 150), "L_val": (9100, 500), "A_train": (82.5, 5.5),
            "A_val": (8400, 200)},
}
DELAYS = {"LSTM": {"L": 0, "A": 7550}, "GPT": {"L": -650, "A": 8318}}


def deviation(a, b, divisor=2):
    """Return the deviation of two values, divided by n = 2 or by n − 1 = 1."""
    return abs(a - b) / math.sqrt(2 * divisor)


def pairs(mean, std, values, divisor=2):
    """Return the pairs a ≤ b of `values` with this mean and deviation to four decimals."""
    half, gap = 0.5e-4 * (1 + 1e-9), std * math.sqrt(2 * divisor)
    low, high = ([value for value in values if abs(value - wanted) <= 4 * half]
                 for wanted in (mean - gap / 2, mean + gap / 2))
    return [(a, b) for a in low for b in high
            if a <= b and abs((a + b) / 2 - mean) <= half
            and abs(deviation(a, b, divisor) - std) <= half]


def seeds(model):
    """Return the steps of the two seeds, {t_f: (a, b)}: the only whole steps that fit."""
    return {name: one for name, row in STEPS[model].items() for (one,) in [
        pairs(*row, range(1, T + 1))]}


def delay_deviations(train, val):
    """Return the possible deviations of val − train, for both ways to pair the seeds."""
    (a, b), (c, d) = train, val
    return sorted({deviation(c - a, d - b), deviation(d - a, c - b)})


@question("004.4.2", "The default recipe: losses, accuracies, delays of two seeds")
def tables(say, step, answer, check, claim):
    """Give mean and deviation of losses, accuracies, steps and delays over two seeds."""
    printed, found = STEPS["GPT"], seeds("GPT")
    (a, b), (c, d) = found["A_train"], found["A_val"]
    mean = (c + d) / 2 - (a + b) / 2
    spreads = " or ".join(f"{s:.1f}" for s in delay_deviations((a, b), (c, d)))
    loss_delay = printed["L_val"][0] - printed["L_train"][0]
    say("The GPT's rows of the table, two seeds.")
    step("Two values lie one deviation to each side of their mean, if the deviation divides "
         "by n.", "s = √(((a − m)² + (b − m)²)/2) = (b − a)/2   →   a, b = m ∓ s",
         *(f"t_f({name}) = {printed[name][0]:.1f} ± {printed[name][1]:.1f}:  "
           f"{found[name][0]} and {found[name][1]}" for name in ("A_train", "A_val")))
    step("Were it divided by n − 1, it would be larger by √2, and the steps not whole.",
         "(b − a)/√2", f"{b - a}/√2 = {deviation(a, b, 1):.3f}")
    step("A delay is the difference of two steps of the same seed; its mean is the "
         "difference of the means.", "Δt = t_f(val) − t_f(train)",
         f"{printed['A_val'][0]:.1f} − {printed['A_train'][0]:.1f} = {mean:.1f}")
    step("Its deviation depends on which seed is which, and a table of means does not say.",
         "s(Δt) = |Δt₁ − Δt₂|/2", f"({c} − {a}, {d} − {b}) or ({d} − {a}, {c} − {b}): {spreads}")
    step("The same with the losses: the lowest training loss comes when training ends, not "
         "when the model has memorised. The difference may be negative, and is no delay.",
         "Δt(L) = t_f(L_val) − t_f(L_train)",
         f"{printed['L_val'][0]} − {printed['L_train'][0]} = {loss_delay}")
    answer(f"The GPT's seeds reached their best accuracies at {a} and {b} (training), {c} and "
           f"{d} (validation): Δt(A) = {mean:.1f} ± {spreads}.")
    say("What npdl's own runs say of the tables: experiments/REPORT.md, question 2.")
    check("the document's Δt(L) is this difference, and its Δt(A) this mean rounded",
          loss_delay == DELAYS["GPT"]["L"] and abs(mean - DELAYS["GPT"]["A"]) <= 0.5)
    rows = [(model, name, *row) for model, table in STEPS.items() for name, row in table.items()
            if row[1]]
    by_n, by_less = (sum(bool(pairs(mean, std, range(1, T + 1), divisor)) for *_, mean, std in rows)
                     for divisor in (2, 1))
    sample = [deviation(*seeds(model)[name], 1) for model, name, *_ in rows]
    claim("deviation", "The tables' +- is the standard deviation of two seeds.",
          f"({', '.join(f'{std:g}' for *_, std in rows)})", "it divides by n = 2: half the "
          f"distance of the two runs; divided by n - 1: {vec(sample, 1)}",
          judge(by_n == len(rows) > by_less, "convention"),
          f"whole steps that fit: in {by_n} of {len(rows)} rows with n, in {by_less} with n - 1")
    fits = [pairs(*row, range(1, T + 1)) for table in STEPS.values() for row in table.values()]
    claim("values", "Which steps did the two seeds reach?", "only mean and deviation",
          "; ".join(f"{model} " + ", ".join(f"t_f({name}) {a} and {b}"
                                       for name, (a, b) in seeds(model).items())
               for model in STEPS),
          judge(all(len(found) == 1 for found in fits), "no answer given"),
          f"the only pairs of whole steps up to {T} with the printed mean and deviation (by n)")
    steps = sorted({step for ((a, b),) in fits for step in (a, b) if step != T})
    off = [step for step in steps if step % 100]
    claim("grid", "Statistics are recorded at equal intervals of steps.", "every eval_period steps",
          f"one interval for all of {vec(steps)} could only be {math.gcd(*steps)}",
          judge(not off, if_false="under-specified"),
          f"{len(steps) - len(off)} of {len(steps)} are multiples of 100, {vec(off)} are not: it "
          "holds after the first 100 steps; a delay is known to 100 steps at best")
    ways = {(size, divisor): [
        (round(size * (1 - b)), round(size * (1 - a))) for a, b in pairs(
            0.9979, 0.0021, [n / size for n in range(size + 1)], divisor)]
        for size in (480, 481) for divisor in (2, 1)}
    few, many = ways[480, 2][0]
    claim("accuracy", "A_val = 0.9979 +- 0.0021 is possible on the default validation set.",
          "0.9979 +- 0.0021", f"one way: {few} and {many} wrong equations of 480 (or 481)",
          judge(len(ways[480, 2]) == len(ways[481, 2]) == 1),
          f"all pairs of counts: {len(ways[480, 2])} for 480 and {len(ways[481, 2])} for 481 with "
          f"n, {len(ways[480, 1])} and {len(ways[481, 1])} with n - 1")
    shown = []
    for model, delays in DELAYS.items():
        steps = seeds(model)
        for name, printed in delays.items():
            val, train = (STEPS[model][f"{name}_{part}"][0] for part in ("val", "train"))
            rounded = printed != val - train
            claim(f"{model} delay {name}",
                  f"Delta t({name}) of the {model} is the difference of the mean steps.",
                  f"{printed}", f"{val - train:g}" + f", rounded {printed}" * rounded,
                  judge(not rounded,
                        if_false="convention" if abs(printed - val + train) <= 0.5 else "wrong"),
                  f"{val:g} - {train:g}" + "; the other rows have four decimals" * rounded)
            spreads = delay_deviations(steps[f"{name}_train"], steps[f"{name}_val"])
            shown.append(f"{model} Delta t({name}) {val - train:g} +- "
                         + " or ".join(f"{spread:g}" for spread in spreads))
    claim("delay deviations", "Mean and deviation were asked for every quantity, the delays too.",
          "delays without a deviation", "; ".join(shown), judge(len(shown) == 4, "no answer given"),
          "from the seeds' steps above; two values for the two ways to pair the seeds")
    said = "for a model that generalises, the delay between memorising and generalising"
    for name, ours, more in (
            ("A", "it is, to the grid of evaluations: from the best training accuracy to the best "
             "validation accuracy", ""),
            ("L", "it is not: it says where two losses are lowest, and the training loss falls to "
             "the end",
             ", with A_val = 0.9979: no model generalises before it memorises")):
        delays = ", ".join(f"{row[name]} for the {model}" for model, row in DELAYS.items())
        claim(f"meaning of Delta t({name})", f"Delta t({name}) is, {said}.", "that delay",
              ours, judge(all(row[name] > 0 for row in DELAYS.values())),
              f"the document's own table: {delays}{more}")
    at_end = [f"{name} of the {model}" for model, rows in STEPS.items()
              for name, row in rows.items() if row == (T, 0)]
    claim("last step", "t_f(L) is the step at which a model reaches its lowest loss.",
          f"t_f = {T} for {' and '.join(at_end)}",
          "only its lowest within T: at the last step the loss was still falling, so Delta t(L) = "
          "0 is the end of the run, not a delay", judge(not at_end, if_false="under-specified"),
          f"t_f = T for both seeds in {len(at_end)} of 8 rows; holds where t_f < T")
    (lstm, lstm_std), (gpt, gpt_std) = (0.0008, 0.0004), (0.0035, 0.0031)       # L_val
    best = lstm - lstm_std, gpt - gpt_std
    claim("losses", "The tables compare the losses of LSTM and GPT.",
          "L_train 0.0001 +- 0.0000 twice; L_val 0.0008 +- 0.0004 and 0.0035 +- 0.0031",
          f"L_val: seeds at {vec((best[0], lstm + lstm_std), 4)} and "
          f"{vec((best[1], gpt + gpt_std), 4)}: means {gpt / lstm:.1f} to 1, better seeds "
          f"{best[1] / best[0]:.0f} to 1; one seed makes the difference",
          judge(gpt - lstm > gpt_std + lstm_std, if_false="under-specified"),
          "four decimals leave L_train between 0.00005 and 0.00015, a factor of 3")
