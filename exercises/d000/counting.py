"""Document 000, Question 2.1 and 2.2: how many sequences there are, and trying them all."""

import math
import weakref
from itertools import pairwise, product

import numpy as np

from exercises.course import judge, question, table, vec
from npdl.decoding import Scorer, exhaustive_search

SMALL = ((2, 5), (3, 4), (4, 3), (6, 2))                    # (N, T) that can be listed


class CountingScorer(Scorer):
    """A first-order language model that counts its rows, and the states that are alive.

    log_p (N + 1, N) are log-probabilities after each word, and in the last row at the beginning.
    """

    def __init__(self, log_p):
        self.log_p, self.alive = log_p, weakref.WeakSet()
        self.rows = self.most_alive = 0

    def start(self):
        return self._scored(np.array([self.log_p.shape[1]]))

    def advance(self, state, parents, tokens):
        return self._scored(np.asarray(tokens))

    def _scored(self, last):
        self.rows += len(last)
        state = State()
        self.alive.add(state)
        self.most_alive = max(self.most_alive, len(self.alive))
        return self.log_p[last], state


class State:
    """A state that is alive while the search holds it."""


def random_model(N, seed=0):
    """Return log-probabilities (N + 1, N) of a random first-order model."""
    logits = np.random.default_rng(seed).standard_normal((N + 1, N))
    return np.minimum(logits - np.log(np.exp(logits).sum(1, keepdims=True)), 0)


def listed(N, T):
    """Return how many sequences an exhaustive search scores, and its scorer."""
    scorer = CountingScorer(random_model(N))
    return exhaustive_search(scorer, T).count, scorer


def nodes(N, T):
    """Return N + N² + … + N^T, the probabilities that scoring all sequences reads."""
    return sum(N**t for t in range(1, T + 1))


@question("000.2.1", "How many sequences there are")
def count_sequences(say, step, answer, check, claim):
    """Count the sequences of T + 1 tokens of N words that start with <BOS>, one of the words."""
    words, T = ("<BOS>", "a"), 3
    N = len(words)
    say(f"A vocabulary of N = {N} words, {' and '.join(words)}, and T = {T}.")
    step("The first of the T + 1 tokens is fixed. Count the choices of each later place: any "
         "word of the vocabulary, <BOS> among them, as nothing in the question forbids it.",
         "places 2, 3, …, T + 1: N choices each", f"{T} places with {N} choices each")
    step("Choices that do not depend on each other multiply.",
         "N · N · … · N (T factors) = N^T", f"{' · '.join([str(N)] * T)} = {N**T}")
    step("List them, to be sure.",
         table(("", "sequence"), [(str(n), " ".join(("<BOS>", *later)))
                                  for n, later in enumerate(product(words, repeat=T), 1)]))
    answer("N^T sequences ((N − 1)^T where <BOS> only begins a sentence).")
    found = listed(N, T)[0]
    check(f"npdl's exhaustive search lists {found} sequences for N = {N}, T = {T}.", found == N**T)
    counts = {(n, t): listed(n, t)[0] for n, t in SMALL}
    claim("", "There are exactly N^T sequences of T + 1 tokens that start with <BOS>.", "N^T",
          "N^T (" + "; ".join(f"N = {n}, T = {t}: {found}"
                              for (n, t), found in counts.items()) + ")",
          judge(all(found == n**t for (n, t), found in counts.items())),
          "exhaustive search listed each; any word may follow, as in Algorithm 1")
    n, t, log_p = 3, 4, random_model(3)
    sums = math.fsum(math.exp(sum(log_p[pair] for pair in pairwise((n, *later))))
                     for later in product(range(n), repeat=t))
    claim("", "The product of the conditional probabilities is a distribution over the "
          "sequences.", "formula given in the question", "it sums to 1 over all N^T sequences",
          judge(abs(sums - 1) < 1e-12),
          f"a random model, N = {n}, T = {t}: error below 1e-12; each factor needs the whole "
          "prefix, unless the model reads less")
    points = {20: (2, 2, 3, 2 + 8, 3), 17: (2, 8 + 2, 5), 18: (2, 2, 2, 9 + 3)}
    claim("points", "The points of the parts add up to those of Questions 2, 3 and 4.",
          ", ".join(map(str, points)), ", ".join(str(sum(p)) for p in points.values()),
          judge(all(sum(parts) == total for total, parts in points.items())),
          "; ".join(" + ".join(map(str, parts)) for parts in points.values())
          + "; within them 2 + 8, 8 + 2, 9 + 3")


@question("000.2.2", "The cost of trying them all")
def cost_of_all(say, step, answer, check, claim):
    """Say whether scoring all sequences is feasible, and how the cost grows with N and T."""
    N, T, sizes = 3, 3, (10_000, 10)
    total = sizes[0] ** sizes[1]
    zeros, years = len(str(total)) - 1, total / 10**9 / (365 * 24 * 3600)
    count, scorer = listed(N, T)
    say(f"A vocabulary of N = {N} words and T = {T}; then the sizes of the question.")
    step("The sequences are the leaves of a tree of prefixes. Each edge is one conditional "
         "probability; shared prefixes need it once. Count the edges of each level.",
         "N + N² + … + N^T = (N^(T+1) − N) / (N − 1)  <  N^T · N / (N − 1)",
         f"{' + '.join(str(N**t) for t in range(1, T + 1))} = {nodes(N, T)}, against N^T = {count}",
         table(("level t", "prefixes", "probabilities"),
               [(t, N**t, N**t) for t in range(1, T + 1)]))
    step("So the time is O(N^T): exponential in T, a power of N. Doubling each shows it.",
         "(2N)^T / N^T = 2^T        N^(2T) / N^T = N^T",
         f"N = {N}, T = {T}: twice the words cost {(2 * N)**T // N**T} times as much, twice "
         f"the length {N**(2 * T) // N**T} times")
    step("The memory is small: go depth first, and keep one path of T + 1 states and the best "
         "sequence so far.",
         f"N = {N}, T = {T}: at most {scorer.most_alive} states alive for {count} sequences")
    step("Put in the example's sizes.", "N^T",
         f"{sizes[0]:,}^{sizes[1]} = 10^{zeros} sequences; at 1e+09 a second {years:.1e} years")
    answer("Not feasible: the time is O(N^T), a power of N with the exponent T, "
           f"{years:.0e} years in the example; memory would not be the difficulty.")
    check(f"npdl's exhaustive search reads {scorer.rows * N} probabilities for N = {N}, T = "
          f"{T}, and holds {scorer.most_alive} states at most.",
          scorer.rows * N == nodes(N, T) and scorer.most_alive <= T + 1)
    read, naive = scorer.rows * N, T * N**T
    growth = [nodes(10, t + 1) / nodes(10, t) for t in (5, 10)]
    claim("", "Scoring every sequence takes O(N^T) time.", "O(N^T)",
          f"N = {N}, T = {T}: {read} probabilities if prefixes are shared "
          f"({read / count:.3f} N^T), {naive} = T N^T if each sequence is scored by itself",
          judge(read == nodes(N, T) and naive == T * count, "under-specified"),
          "the sum of N^t is at most N^T N/(N - 1); needs shared prefixes and O(1) for each "
          "probability")
    claim("", "The time grows exponentially with the length T.", "exponential in T",
          f"one more step costs {vec(growth, 4)} times as much at N = 10, T = 5 and 10",
          judge(np.allclose(growth, 10, 0, 0.1)), "quotients of exact counts tend to N")
    claim("", "Memory is a second reason: the method has to store all N^T sequences.",
          "space, next to time, as a reason: storing N^T sequences is infeasible",
          f"{scorer.most_alive} model states alive at most for {count} sequences (N = {N}, "
          f"T = {T}): one path and the best sequence so far", judge(scorer.most_alive >= count),
          "exhaustive search goes depth first; only time makes it infeasible")
    claim("", "With N = 10,000 and T = 10 there are 10^40 sequences.", "10,000^10 = 10^40",
          f"10^{len(str(total)) - 1}", judge(total == 10**40), "exact integers")
    claim("", "Enumerating them cannot be done in practice.", "infeasible",
          f"{years:.1e} years at a thousand million sequences a second", judge(years > 1e6),
          f"{total:.0e} / 1e+09 per second")
