"""The worked solutions of document 000, Questions 2.1 and 2.2: sequences and their cost."""

from itertools import product

from exercises.d000_counting import (
    SECONDS_PER_YEAR,
    count_sequences,
    listed,
    probabilities_read,
)
from exercises.worked import Check, Solution, Step, Table, num


def growth(N, T):
    """How many times as many sequences there are with twice the words, and at twice the length."""
    return (2 * N)**T // N**T, N**(2 * T) // N**T


def years_of(sequences, per_second):
    return sequences / per_second / SECONDS_PER_YEAR


def solutions():
    return [count_solution(), cost_solution()]


def count_solution(words=("<BOS>", "a"), T=3):
    N = len(words)
    rows = tuple((number, " ".join(("<BOS>", *later)))
                 for number, later in enumerate(product(words, repeat=T), 1))
    return Solution(
        "2.1",
        (Step("The first of the T + 1 tokens is fixed. Count the choices of each later place: any "
              "word of the vocabulary, <BOS> among them, as nothing in the question forbids it.",
              "places 2, 3, …, T + 1: N choices each", f"{T} places with {N} choices each"),
         Step("Choices that do not depend on each other multiply.",
              "N · N · … · N (T factors) = N^T",
              f"{' · '.join([num(N)] * T)} = {count_sequences(N, T)}"),
         Step("List them, to be sure.", table=Table(("", "sequence"), rows))),
        "N^T sequences ((N − 1)^T where <BOS> only begins a sentence).",
        tuple(Check(f"npdl's exhaustive search lists {found} sequences for N = {n}, T = {t}"
                    f"{'' if again else ' where <BOS> can not recur'}.",
                    found == count_sequences(n, t, again))
              for n, t, again in ((2, 3, True), (3, 4, True), (3, 4, False))
              for found in [listed(n, t, again)[0]]),
        f"A vocabulary of N = {N} words, {' and '.join(words)}, and T = {T}.")


def cost_solution(N=3, T=3, large=(10_000, 10), per_second=10**9):
    levels = tuple((t, count_sequences(N, t), count_sequences(N, t)) for t in range(1, T + 1))
    total = probabilities_read(N, T)
    sequences = count_sequences(*large)
    years, (wider, longer) = years_of(sequences, per_second), growth(N, T)
    count, scorer = listed(N, T)
    return Solution(
        "2.2",
        (Step("The sequences are the leaves of a tree of prefixes. Each edge is one conditional "
              "probability; shared prefixes need it once. Count the edges of each level.",
              "N + N² + … + N^T = (N^(T+1) − N) / (N − 1)  <  N^T · N / (N − 1)",
              f"{' + '.join(num(n) for _, n, _ in levels)} = {total}, against N^T = {count}",
              table=Table(("level t", "prefixes", "probabilities"), levels)),
         Step("So the time is O(N^T): exponential in T, a power of N. Doubling each shows it.",
              "(2N)^T / N^T = 2^T        N^(2T) / N^T = N^T",
              f"N = {N}, T = {T}: twice the words cost {num(wider)} times as much, twice the "
              f"length {num(longer)} times"),
         Step("The memory is small: go depth first, and keep one path of T + 1 states and the best "
              "sequence so far.",
              numbers=f"N = {N}, T = {T}: at most {scorer.most_alive} states alive for {count} "
                      "sequences"),
         Step("Put in the example's sizes.", "N^T",
              f"{large[0]:,}^{large[1]} = 10^{len(str(sequences)) - 1} sequences; at "
              f"{per_second:.0e} a second {years:.1e} years")),
        "Not feasible: the time is O(N^T), a power of N with the exponent T, "
        f"{years:.0e} years in the example; memory would not be the difficulty.",
        (Check(f"npdl's exhaustive search reads {scorer.rows * N} probabilities for N = {N}, "
               f"T = {T}, and holds {scorer.most_alive} states at most.",
               scorer.rows * N == total and scorer.most_alive <= T + 1),),
        f"A vocabulary of N = {N} words and T = {T}; then the sizes of the question.")
