"""Document 004, Problem 4, question 2, worked: from mean and deviation back to two seeds."""

import math

from exercises.d004_first_tables import DELAYS, STEPS, delay_deviations, deviation, pairs
from exercises.worked import Check, Solution, Step, num

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
    sample = deviation(a, b, "sample")
    return Solution(
        "4.2",
        (
            Step("Two values lie one deviation to each side of their mean, if the deviation "
                 "divides by n.", "s = √(((a − m)² + (b − m)²)/2) = (b − a)/2   →   a, b = m ∓ s",
                 "\n".join(f"t_f({name}) = {num(float(printed[name][0]), 1)} ± "
                           f"{num(float(printed[name][1]), 1)}:  {num(values[name][0], 0)} and "
                           f"{num(values[name][1], 0)}" for name in ROWS)),
            Step("Were it divided by n − 1, it would be larger by √2, and the steps not whole.",
                 "(b − a)/√2", f"{num(float(b - a), 0)}/√2 = {num(sample)}"),
            Step("A delay is the difference of two steps of the same seed; its mean is the "
                 "difference of the means.", "Δt = t_f(val) − t_f(train)",
                 f"{num(float(printed['A_val'][0]), 1)} − {num(float(printed['A_train'][0]), 1)} = "
                 f"{num(mean, 1)}"),
            Step("Its deviation depends on which seed is which, and a table of means does not say.",
                 "s(Δt) = |Δt₁ − Δt₂|/2",
                 f"({num(c, 0)} − {num(a, 0)}, {num(d, 0)} − {num(b, 0)}) or ({num(d, 0)} − "
                 f"{num(a, 0)}, {num(c, 0)} − {num(b, 0)}): "
                 + " or ".join(num(s, 1) for s in spreads)),
            Step("The same with the losses: the lowest training loss comes when training ends, "
                 "not when the model has memorised. The difference may be negative, and is no "
                 "delay.", "Δt(L) = t_f(L_val) − t_f(L_train)",
                 f"{num(float(printed['L_val'][0]), 0)} − {num(float(printed['L_train'][0]), 0)} = "
                 f"{num(sum(loss_delays) / 2, 0)}"),
        ),
        f"The GPT's seeds reached their best accuracies at {num(a, 0)} and {num(b, 0)} (training), "
        f"{num(c, 0)} and {num(d, 0)} (validation): Δt(A) = {num(mean, 1)} ± "
        f"{' or '.join(num(s, 1) for s in spreads)}.",
        (Check("a search over all pairs of whole steps finds these alone",
               all(pairs(*printed[name], range(1, 10002)) == [values[name]] for name in ROWS)),
         Check("the document's Δt(L) is this difference, and its Δt(A) this mean rounded",
               math.isclose(sum(loss_delays) / 2, DELAYS[model]["L"])
               and abs(mean - DELAYS[model]["A"]) <= 0.5)),
        f"The {model}'s rows of the table, two seeds.")


def solutions():
    return [tables()]
