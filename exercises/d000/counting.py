"""Document 000, Question 2.1 and 2.2: how many sequences there are, and trying them all."""

import math
from functools import partial
from itertools import pairwise, product

import numpy as np

from exercises.framework import Claim, judge, proved
from exercises.worked import Check, Solution, Table, below, num
from npdl.decoding import Scorer, exhaustive_search

QUESTION = """\
2.1  A vocabulary has N words, the begin token <BOS> among them. How many sequences of T + 1
     tokens start with <BOS>? Give the exact number.
2.2  Is it feasible to find the most probable one by scoring them all, and how does that grow
     with N? (The document's example: N = 10,000 and T = 10.)"""
TITLES = {
    "2.1": "How many sequences there are",
    "2.2": "The cost of trying them all",
}

SMALL = ((2, 5), (3, 4), (4, 3), (6, 2))                    # (N, T) that can be listed
SECONDS_PER_YEAR = 365 * 24 * 3600
POINTS = {"2": (20, (2, 2, 3, 10, 3)), "3": (17, (2, 10, 5)), "4": (18, (2, 2, 2, 12))}
NESTED = {("2", 3): (2, 8), ("3", 1): (8, 2), ("4", 3): (9, 3)}    # parts (a), (b) of a part

claim = partial(Claim, "000", "Q2")


class CountingScorer(Scorer):
    """A first-order language model that counts its rows, and the states that are alive.

    table (N + 1, N): log-probabilities after each word, and in the last row at the beginning.
    `without` are words that can't follow anything (such as <BOS>).
    """

    def __init__(self, table, without=()):
        table = np.array(table, float)
        table[:, list(without)] = -np.inf
        self.table, self.rows = table, 0
        self.alive, self.most_alive = 0, 0

    def start(self):
        return self._scored(np.array([self.table.shape[1]]))

    def advance(self, state, parents, tokens):
        return self._scored(np.asarray(tokens))

    def _scored(self, last):
        self.rows += len(last)
        return self.table[last], _State(self)


class _State:
    """Counts itself in its scorer for as long as someone holds it."""

    def __init__(self, scorer):
        self.scorer = scorer
        scorer.alive += 1
        scorer.most_alive = max(scorer.most_alive, scorer.alive)

    def __del__(self):
        self.scorer.alive -= 1


def random_model(N, seed=0):
    """Log-probabilities (N + 1, N) of a random first-order model."""
    logits = np.random.default_rng(seed).standard_normal((N + 1, N))
    return np.minimum(logits - np.log(np.exp(logits).sum(1, keepdims=True)), 0)


def listed(N, T, bos_recurs=True):
    """Score every sequence: (how many there are, the scorer with its counts)."""
    scorer = CountingScorer(random_model(N), without=() if bos_recurs else (0,))
    return exhaustive_search(scorer, T).count, scorer


def count_sequences(N, T, bos_recurs=True):
    """N^T, or (N - 1)^T if <BOS>, one of the N words, can't occur again."""
    return N**T if bos_recurs else (N - 1) ** T


def probabilities_read(N, T, shared=True):
    """Conditional probabilities that scoring all sequences reads.

    shared: one for each node of the tree of prefixes; otherwise T anew for each sequence.
    """
    if not shared:
        return T * N**T
    return sum(N**t for t in range(1, T + 1))


def total_probability(N, T):
    """Sum over all N^T sequences of the product of their conditional probabilities."""
    table = random_model(N)
    return math.fsum(math.exp(sum(table[last, word] for last, word in pairwise((N, *words))))
                     for words in product(range(N), repeat=T))


def claims():
    return [points_claim(), product_claim(), *count_claims(), *cost_claims(), *size_claims()]


def points_claim():
    sums = {question: sum(parts) for question, (_, parts) in POINTS.items()}
    nested = [sum(parts) == POINTS[q][1][place] for (q, place), parts in NESTED.items()]
    return Claim(
        "000", "Points", "", "The points of the parts add up to those of Questions 2, 3 and 4.",
        ", ".join(str(total) for total, _ in POINTS.values()),
        ", ".join(map(str, sums.values())),
        judge(all(nested) and all(sums[q] == total for q, (total, _) in POINTS.items())),
        "; ".join(" + ".join(map(str, parts)) for _, parts in POINTS.values())
        + "; within them " + ", ".join(" + ".join(map(str, parts)) for parts in NESTED.values()))


def product_claim():
    error = max(abs(total_probability(N, T) - 1) for N, T in SMALL)
    rows = max(np.abs(np.exp(random_model(N)).sum(1) - 1).max() for N, _ in SMALL)
    return claim(
        "", "The product of the conditional probabilities is a distribution over the sequences.",
        "formula given in the question", "it sums to 1 over all N^T sequences",
        proved(max(error, rows) < 1e-12),
        f"{len(SMALL)} random models, sizes as below: error "
        f"{below(error, 1e-12)}; each factor needs the whole prefix, unless the model reads less")


def count_claims():
    counts = {(N, T): listed(N, T)[0] for N, T in SMALL}
    agree = all(count == N**T for (N, T), count in counts.items())
    written = all(count == len(set(product(range(N), repeat=T)))
                  for (N, T), count in counts.items())
    shown = "; ".join(f"N = {N}, T = {T}: {n}" for (N, T), n in counts.items())
    return [
        claim("1", "There are exactly N^T sequences of T + 1 tokens that start with <BOS>.", "N^T",
              f"N^T ({shown})", judge(agree, provided=written),
              "exhaustive search listed each of them; any of N words may follow, as in the loop "
              "j = 1 to N of Algorithm 1"),
    ]


def cost_claims():
    N, T = 4, 5
    count, scorer = listed(N, T)
    nodes, read = probabilities_read(N, T), scorer.rows * N
    agree = read == nodes
    ratio = nodes / N**T
    naive = probabilities_read(N, T, shared=False)
    growth = [probabilities_read(10, t + 1) / probabilities_read(10, t) for t in (5, 10)]
    yield claim("2", "Scoring every sequence takes O(N^T) time.", "O(N^T)",
                f"N = {N}, T = {T}: {nodes} probabilities if prefixes are shared ({ratio:.3f} "
                f"N^T), {naive} = T N^T if each sequence is scored anew",
                judge(agree and naive == T * count, "under-specified"),
                f"counted {read} in exhaustive search; the sum of N^t is at most N^T "
                "N/(N - 1), so O(N^T) needs shared prefixes and O(1) for each probability")
    yield claim("2", "The time grows exponentially with the length T.", "exponential in T",
                f"one more step costs {growth[0]:.4f} and {growth[1]:.4f} times as much at N = "
                "10, T = 5 and 10", judge(all(9.9 < g < 10.1 for g in growth), provided=agree),
                "quotients of exact counts tend to N")
    yield claim("2", "Memory is a second reason: the method has to store all N^T sequences.",
                "space, beside time, as a reason: storing N^T sequences is infeasible",
                f"{scorer.most_alive} model states alive at most for {count} sequences (N = {N}, "
                f"T = {T}): one path and the best sequence so far",
                judge(scorer.most_alive >= count, provided=count == N**T),
                f"exhaustive search goes depth first: {scorer.most_alive} states for T = {T}; "
                "only time makes it infeasible")


def size_claims(N=10_000, T=10, per_second=10**9):
    total = count_sequences(N, T)
    ours = all(count_sequences(n, t) == len(set(product(range(n), repeat=t))) for n, t in SMALL)
    years, zeros = total / per_second / SECONDS_PER_YEAR, len(str(total)) - 1
    return [
        claim("2", f"With N = {N:,} and T = {T} there are 10^40 sequences.",
              "10,000^10 = 10^40", f"10^{zeros}",
              judge(total == 10**40, provided=ours), "exact integers"),
        claim("2", "Enumerating them cannot be done in practice.", "infeasible",
              f"{years:.1e} years at a thousand million sequences a second",
              judge(years > 1e6), f"{total:.0e} / {per_second:.0e} per second"),
    ]


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
    factors = [num(N)] * T
    work = Solution("2.1", f"A vocabulary of N = {N} words, {' and '.join(words)}, and T = {T}.")
    work.step("The first of the T + 1 tokens is fixed. Count the choices of each later place: any "
              "word of the vocabulary, <BOS> among them, as nothing in the question forbids it.",
              "places 2, 3, …, T + 1: N choices each", f"{T} places with {N} choices each")
    work.step("Choices that do not depend on each other multiply.",
              "N · N · … · N (T factors) = N^T",
              f"{' · '.join(factors)} = {count_sequences(N, T)}")
    work.step("List them, to be sure.", table=Table(("", "sequence"), rows))
    work.answer = "N^T sequences ((N − 1)^T where <BOS> only begins a sentence)."
    work.checks.extend(
        tuple(Check(f"npdl's exhaustive search lists {found} sequences for N = {n}, T = {t}"
                    f"{'' if again else ' where <BOS> can not recur'}.",
                    found == count_sequences(n, t, again))
              for n, t, again in ((2, 3, True), (3, 4, True), (3, 4, False))
              for found in [listed(n, t, again)[0]]))
    return work


def cost_solution(N=3, T=3, large=(10_000, 10), per_second=10**9):
    levels = tuple((t, count_sequences(N, t), count_sequences(N, t)) for t in range(1, T + 1))
    total = probabilities_read(N, T)
    sequences = count_sequences(*large)
    zeros = len(str(sequences)) - 1
    years, (wider, longer) = years_of(sequences, per_second), growth(N, T)
    count, scorer = listed(N, T)
    read = scorer.rows * N
    work = Solution("2.2",
                    f"A vocabulary of N = {N} words and T = {T}; then the sizes of the question.")
    work.step("The sequences are the leaves of a tree of prefixes. Each edge is one conditional "
              "probability; shared prefixes need it once. Count the edges of each level.",
              "N + N² + … + N^T = (N^(T+1) − N) / (N − 1)  <  N^T · N / (N − 1)",
              f"{' + '.join(num(n) for _, n, _ in levels)} = {total}, against N^T = {count}",
              table=Table(("level t", "prefixes", "probabilities"), levels))
    work.step("So the time is O(N^T): exponential in T, a power of N. Doubling each shows it.",
              "(2N)^T / N^T = 2^T        N^(2T) / N^T = N^T",
              f"N = {N}, T = {T}: twice the words cost {num(wider)} times as much, twice the "
              f"length {num(longer)} times")
    work.step("The memory is small: go depth first, and keep one path of T + 1 states and the "
              "best sequence so far.",
              numbers=f"N = {N}, T = {T}: at most {scorer.most_alive} states alive for {count} "
                      "sequences")
    work.step("Put in the example's sizes.", "N^T",
              f"{large[0]:,}^{large[1]} = 10^{zeros} sequences; at "
              f"{per_second:.0e} a second {years:.1e} years")
    work.answer = ("Not feasible: the time is O(N^T), a power of N with the exponent T, "
                   f"{years:.0e} years in the example; memory would not be the difficulty.")
    work.check(f"npdl's exhaustive search reads {read} probabilities for N = {N}, T = "
               f"{T}, and holds {scorer.most_alive} states at most.",
               read == total and scorer.most_alive <= T + 1)
    return work
