"""Document 004, Problem 4's first page, worked: how many equations, how long, how much compute."""

from exercises.d004_budget import TAU, B, T, number_of_equations, seconds
from exercises.worked import Check, Solution, Step, Table, num
from npdl.data import ModularArithmetic

P = 31


def halves(n, share=0.5):
    """(training samples, validation samples) of n, the share rounded down."""
    train = int(n * share)
    return train, n - train


def budget():
    n = number_of_equations(P)
    train, validation = halves(n)
    data = ModularArithmetic(P)
    rows = tuple((model, machine, num(tau, 2), num(seconds(tau), 2), num(seconds(tau) / 60, 1))
                 for (model, machine), tau in TAU.items())
    return Solution(
        "4",
        (
            Step("Count the equations: every pair of operands once.", "N = p²   (p³ for three "
                 "operands)", f"{P}² = {n}"),
            Step("Split them. An odd N can't be halved; one side gets the odd one.",
                 "N_train ≈ r N",
                 f"{num(0.5, 1)} · {n} = {num(n / 2, 1)}: {train} and {validation}"),
            Step("Compare with the batch: a batch larger than the training set is the whole of it.",
                 "min(B, N_train)", f"min({B}, {train}) = {min(B, train)}"),
            Step("Time is steps times seconds.", "τ T",
                 table=Table(("model", "machine", "τ", "seconds", "minutes"), rows)),
            Step("Compute, in units of one parameter, one sample, one step.", "C = P B T",
                 f"for each parameter {B} · {T:,} = {B * T:,};   with the true batch {train} · "
                 f"{T:,} = {train * T:,}"),
        ),
        f"N = {n}, {train} to train on, so that every batch of {B} is all of them; a run of {T:,} "
        f"steps takes {num(seconds(TAU['LSTM', 'GPU']) / 60, 1)} to "
        f"{num(seconds(TAU['GPT', 'CPU']) / 60, 0)} minutes.",
        (Check("npdl's data set has as many equations, split in the same way",
               (len(data.equations), len(data.train), len(data.validation))
               == (n, train, validation)),),
        f"p = {P}, two operands, r = 1/2, B = {B}, T = {T:,}.")


def solutions():
    return [budget()]
