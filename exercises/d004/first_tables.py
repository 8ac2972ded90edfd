"""Document 004, Problem 4, first tables: means and deviations of two seeds, and their delays."""

import math
from functools import partial

from exercises.framework import Claim, judge
from exercises.worked import Solution, listing, num

QUESTION = """\
Two tables give, for an LSTM and a GPT after T = 10001 steps and two seeds, mean and deviation of
the best losses and accuracies, of the steps t_f that first reach them, and the delays
Delta t = t_f(val) - t_f(train). Which deviation is it, which values of the two seeds are possible,
is the arithmetic right, and do the delays mean what is said?"""

T = 10001
STEPS = {  # printed t_f: (mean, deviation)
    "LSTM": {"L_train": (10001, 0), "L_val": (10001, 0), "A_train": (300, 0), "A_val": (7850, 350)},
    "GPT": {"L_train": (9750, 150), "L_val": (9100, 500), "A_train": (82.5, 5.5),
            "A_val": (8400, 200)},
}
DELAYS = {"LSTM": {"L": 0, "A": 7550}, "GPT": {"L": -650, "A": 8318}}
LOSSES = {"LSTM": {"train": (0.0001, 0.0), "val": (0.0008, 0.0004)},
          "GPT": {"train": (0.0001, 0.0), "val": (0.0035, 0.0031)}}
ACCURACY = {"LSTM": (1.0, 0.0), "GPT": (0.9979, 0.0021)}
DIVISORS = {"population": 2, "sample": 1}               # n and n - 1 for two seeds

TITLES = {"4.2": "Two seeds behind a table"}

claim = partial(Claim, "004", "Problem 4")


def deviation(a, b, kind="population"):
    """The deviation of two values, dividing by n or by n - 1."""
    return abs(a - b) / math.sqrt(2 * DIVISORS[kind])


def pairs(mean, std, values, kind="population", decimals=4):
    """Pairs a <= b of `values` whose mean and deviation are those printed, rounded."""
    half = 0.5 * 10.0**-decimals * (1 + 1e-9)
    values = sorted(set(values))
    gap = std * math.sqrt(2 * DIVISORS[kind])

    def near(wanted):                                       # a and b, up to rounding
        return [value for value in values if abs(value - wanted) <= 4 * half]

    return [(a, b) for a in near(mean - gap / 2) for b in near(mean + gap / 2)
            if a <= b and abs((a + b) / 2 - mean) <= half
            and abs(deviation(a, b, kind) - std) <= half]


def seeds(model, kind="population"):
    """{t_f: the pairs of whole steps up to T that give the printed row}."""
    return {name: pairs(mean, std, range(1, T + 1), kind)
            for name, (mean, std) in STEPS[model].items()}


def delay_deviations(train, val):
    """The possible deviations of val - train, for both ways to pair the seeds."""
    (a, b), (c, d) = train, val
    return sorted({deviation(c - a, d - b), deviation(d - a, c - b)})


def delay_text(model, name):
    """The delay's mean and possible deviations, from the only pairs of steps that fit."""
    (train,), (val,) = (seeds(model)[f"{name}_{part}"] for part in ("train", "val"))
    mean = sum(val) / 2 - sum(train) / 2
    spread = " or ".join(f"{value:g}" for value in delay_deviations(train, val))
    return f"Delta t({name}) {mean:g} +- {spread}"


def claims():
    return [deviation_claim(), values_claim(), grid_claim(), accuracy_claim(), *delay_claims(),
            missing_claim(), *meaning_claims(), last_step_claim(), loss_claim()]


def spread_rows():
    """(model, t_f, mean, deviation) of the rows with a deviation that is not 0."""
    return [(model, name, *row) for model, rows in STEPS.items() for name, row in rows.items()
            if row[1]]


def deviation_claim():
    rows = spread_rows()
    fits = {kind: sum(bool(pairs(mean, std, range(1, T + 1), kind)) for *_, mean, std in rows)
            for kind in DIVISORS}
    sample = [deviation(*seeds(model)[name][0], "sample") for model, name, *_ in rows]
    return claim(
        "deviation", "The tables' +- is the standard deviation of two seeds.",
        listing([std for *_, std in rows], "g", "()"), "it divides by n = 2: half the distance of "
        f"the two runs; divided by n - 1: {listing(sample, '.1f', '()')}",
        judge(fits["population"] == len(rows) > fits["sample"], "convention"),
        f"whole steps that fit: in {fits['population']} of {len(rows)} rows with n, in "
        f"{fits['sample']} with n - 1 (it would be a whole number over sqrt 2)")


def values_claim():
    texts = []
    for model in STEPS:
        found = seeds(model)
        texts.append(f"{model} " + ", ".join(f"t_f({name}) {a} and {b}"
                                             for name, ((a, b), *_) in found.items()))
    return claim(
        "values", "Which steps did the two seeds reach?", "only mean and deviation",
        "; ".join(texts), judge(alone(), "no answer given"),
        f"the only pairs of whole steps up to {T} with the printed mean and deviation (by n)")


def alone():
    """Whether each printed row has one pair of whole steps."""
    return all(len(found) == 1 for model in STEPS for found in seeds(model).values())


def grid_claim():
    steps = sorted({step for model in STEPS for found in seeds(model).values()
                    for step in found[0] if step != T})
    off = [step for step in steps if step % 100]
    multiples = len(steps) - len(off)
    return claim(
        "grid", "Statistics are recorded at equal intervals of steps.", "every eval_period steps",
        f"one interval for all of {listing(steps, 'd', '()')} could only be {math.gcd(*steps)}",
        judge(not off, if_false="under-specified"),
        f"{multiples} of {len(steps)} are multiples of 100, "
        f"{listing(off, 'd', '()')} are not: it holds after the first 100 steps, which were "
        "recorded one by one or nearly so; a delay is known to 100 steps at best")


def accuracy_claim():
    ways = {kind: {size: [(round(size * (1 - b)), round(size * (1 - a)))
                          for a, b in pairs(*ACCURACY["GPT"], [n / size for n in range(size + 1)],
                                            kind)] for size in (480, 481)} for kind in DIVISORS}
    found, other = ways["population"], ways["sample"]
    return claim(
        "accuracy", "A_val = 0.9979 +- 0.0021 is possible on the default validation set.",
        "0.9979 +- 0.0021",
        f"one way: {found[480][0][0]} and {found[480][0][1]} wrong equations of "
        "480 (or 481) in the two best evaluations",
        judge(all(len(pairs_) == 1 for pairs_ in found.values())),
        f"all pairs of counts: {len(found[480])} for 480 and {len(found[481])} for 481 with n, "
        f"{len(other[480])} and {len(other[481])} with n - 1; 961 equations split in half")


def delay_claims():
    found = []
    for model, delays in DELAYS.items():
        for name, printed in delays.items():
            mean = STEPS[model][f"{name}_val"][0] - STEPS[model][f"{name}_train"][0]
            exact = printed == mean
            near = abs(printed - mean) <= 0.5
            verdict = judge(exact, if_false="convention" if near else "wrong")
            found.append(claim(
                f"{model} delay {name}", f"Delta t({name}) of the {model} is the difference of the "
                "mean steps.", f"{printed}",
                f"{mean:g}" + ("" if exact else f", rounded {printed}"), verdict,
                f"{STEPS[model][f'{name}_val'][0]:g} - {STEPS[model][f'{name}_train'][0]:g}"
                + ("" if exact else "; the other rows have four decimals")))
    return found


def missing_claim():
    return claim(
        "delay deviations", "Mean and deviation were asked for every quantity, the delays too.",
        "delays without a deviation",
        "; ".join(f"{model} {delay_text(model, name)}" for model in STEPS for name in "LA"),
        judge(alone(), "no answer given"),
        "from the seeds' steps above; the two values are for the two ways to "
        "pair the seeds, which a table of means does not tell")


def later(name):
    """Whether validation came later than training in the table's t_f of every model."""
    return all(rows[f"{name}_val"][0] > rows[f"{name}_train"][0] for rows in STEPS.values())


def meaning_claims():
    shown = {name: ", ".join(f"{delays[name]} for the {model}" for model, delays in DELAYS.items())
             for name in "AL"}
    known = all(later(name) == all(delays[name] > 0 for delays in DELAYS.values())
                for name in shown)
    said = "for a model that generalises, the delay between memorising and generalising"
    return [
        claim("meaning of Delta t(A)", f"Delta t(A) is, {said}.", "that delay",
              "it is, to the grid of evaluations: from the best training accuracy to the best "
              "validation accuracy", judge(later("A"), provided=known),
              f"the document's own table: {shown['A']}"),
        claim("meaning of Delta t(L)", f"Delta t(L) is, {said}.", "that delay",
              "it is not: it says where two losses are lowest, and the training loss falls to the "
              "end", judge(later("L"), provided=known),
              f"the document's own table: {shown['L']}, with A_val = {ACCURACY['GPT'][0]}: no "
              "model generalises before it memorises"),
    ]


def last_step_claim():
    at_end = [f"{name} of the {model}" for model, rows in STEPS.items()
              for name, (mean, std) in rows.items() if mean == T and std == 0]
    return claim(
        "last step", "t_f(L) is the step at which a model reaches its lowest loss.",
        f"t_f = {T} for {' and '.join(at_end)}",
        "only its lowest within T: at the last step the loss was still falling, so t_f is a lower "
        "bound and Delta t(L) = 0 is the end of the run, not a delay",
        judge(not at_end, if_false="under-specified"),
        f"t_f = T for both seeds in {len(at_end)} of {sum(map(len, STEPS.values()))} rows; holds "
        "where t_f < T")


def loss_claim():
    runs = {model: (rows["val"][0] - rows["val"][1], rows["val"][0] + rows["val"][1])
            for model, rows in LOSSES.items()}
    ratio = LOSSES["GPT"]["val"][0] / LOSSES["LSTM"]["val"][0]
    gap = abs(LOSSES["GPT"]["val"][0] - LOSSES["LSTM"]["val"][0])
    better = runs["GPT"][0] / runs["LSTM"][0]
    low, high = 0.00005, 0.00015
    factor = high / low
    return claim(
        "losses", "The tables compare the losses of LSTM and GPT.",
        "L_train 0.0001 +- 0.0000 twice; L_val 0.0008 +- 0.0004 and 0.0035 +- 0.0031",
        f"L_val: seeds at {listing(runs['LSTM'], '.4f', '()')} and "
        f"{listing(runs['GPT'], '.4f', '()')}: means {ratio:.1f} to 1, better seeds "
        f"{better:.0f} to 1; one seed makes the difference",
        judge(gap > sum(std for _, std in (LOSSES[model]["val"] for model in LOSSES)),
              if_false="under-specified"),
        f"four decimals leave L_train between {low} and {high}, a factor of "
        f"{factor:.0f}; to rank them takes more digits and more than two seeds")


ROWS = ("A_train", "A_val")


def two_values(mean, spread):
    """The two values of this mean and this deviation, the smaller first; n in the denominator."""
    return mean - spread, mean + spread


def tables(model="GPT"):
    printed = {name: STEPS[model][name] for name in (*ROWS, "L_val", "L_train")}
    values = {name: two_values(*printed[name]) for name in printed}
    (a, b), (c, d) = (values[name] for name in ROWS)
    mean = (c + d) / 2 - (a + b) / 2
    spreads = delay_deviations((a, b), (c, d))
    other = values["L_val"], values["L_train"]
    loss_delays = [v - t for v, t in zip(*other, strict=True)]
    loss_delay = sum(loss_delays) / 2
    apart, sample = float(b - a), deviation(a, b, "sample")
    work = Solution("4.2", f"The {model}'s rows of the table, two seeds.")
    work.step("Two values lie one deviation to each side of their mean, if the deviation divides "
              "by n.", "s = √(((a − m)² + (b − m)²)/2) = (b − a)/2   →   a, b = m ∓ s",
              "\n".join(f"t_f({name}) = {num(float(printed[name][0]), 1)} ± "
                        f"{num(float(printed[name][1]), 1)}:  {num(values[name][0], 0)} and "
                        f"{num(values[name][1], 0)}" for name in ROWS))
    work.step("Were it divided by n − 1, it would be larger by √2, and the steps not whole.",
              "(b − a)/√2", f"{num(apart, 0)}/√2 = {num(sample)}")
    work.step("A delay is the difference of two steps of the same seed; its mean is the "
              "difference of the means.", "Δt = t_f(val) − t_f(train)",
              f"{num(float(printed['A_val'][0]), 1)} − {num(float(printed['A_train'][0]), 1)} = "
              f"{num(mean, 1)}")
    work.step("Its deviation depends on which seed is which, and a table of means does not say.",
              "s(Δt) = |Δt₁ − Δt₂|/2",
              f"({num(c, 0)} − {num(a, 0)}, {num(d, 0)} − {num(b, 0)}) or ({num(d, 0)} − "
              f"{num(a, 0)}, {num(c, 0)} − {num(b, 0)}): "
              + " or ".join(num(s, 1) for s in spreads))
    work.step("The same with the losses: the lowest training loss comes when training ends, not "
              "when the model has memorised. The difference may be negative, and is no delay.",
              "Δt(L) = t_f(L_val) − t_f(L_train)",
              f"{num(float(printed['L_val'][0]), 0)} − {num(float(printed['L_train'][0]), 0)} = "
              f"{num(loss_delay, 0)}")
    work.answer = (f"The GPT's seeds reached their best accuracies at {num(a, 0)} and {num(b, 0)} "
                   f"(training), {num(c, 0)} and {num(d, 0)} (validation): Δt(A) = {num(mean, 1)} "
                   f"± {' or '.join(num(s, 1) for s in spreads)}.")
    work.check("a search over all pairs of whole steps finds these alone",
               all(pairs(*printed[name], range(1, 10002)) == [values[name]] for name in ROWS))
    work.check("the document's Δt(L) is this difference, and its Δt(A) this mean rounded",
               math.isclose(loss_delay, DELAYS[model]["L"])
               and abs(mean - DELAYS[model]["A"]) <= 0.5)
    return work


def solutions():
    return [tables()]
