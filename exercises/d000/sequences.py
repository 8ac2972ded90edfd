"""Document 000, Questions 2.1 to 2.3 and 2.5: all sequences, beam search, and its misses.

Algorithm 1, beam search: all B beams start as <BOS> with log-likelihood 0; at each of T steps all
B N scores s_b(j) are computed, and for b = 1 to B the b-th largest score decides which beam and
word become beam b.
"""

import math
import weakref
from itertools import pairwise, product

import numpy as np

from exercises.course import format_table, judge, question, vec
from exercises.d000.decoding_trees import complete_tree, decode_tree
from npdl.decoding import Scorer, Tree, beam_search, exhaustive_search, greedy

SMALL = ((2, 5), (3, 4), (4, 3), (6, 2))                    # (N, T) that can be listed


class CountingScorer(Scorer):
    """A first-order language model that counts scored rows, and the states in memory.

    log_p (N + 1, N) are log-probabilities after each word, and in the last row at the beginning.
    """

    def __init__(self, log_p):
        self.log_p, self.alive = log_p, weakref.WeakSet()
        self.rows = self.most_alive = 0

    def start(self):
        return self._read_log_probs(np.array([self.log_p.shape[1]]))

    def advance(self, state, parents, tokens):
        return self._read_log_probs(np.asarray(tokens))

    def _read_log_probs(self, last_tokens):
        self.rows += len(last_tokens)
        state = State()
        self.alive.add(state)
        self.most_alive = max(self.most_alive, len(self.alive))
        return self.log_p[last_tokens], state


class State:
    """A state of the scorer, counted as long as the search has a reference to it."""


def random_log_probs(N, seed=0):
    """Return log-probabilities (N + 1, N) of a random first-order model."""
    logits = np.random.default_rng(seed).standard_normal((N + 1, N))
    return np.minimum(logits - np.log(np.exp(logits).sum(1, keepdims=True)), 0)


def run_exhaustive_search(N, T):
    """Return the number of sequences that an exhaustive search scores, and its scorer."""
    scorer = CountingScorer(random_log_probs(N))
    return exhaustive_search(scorer, T).count, scorer


def count_nodes(N, T):
    """Return N + N² + … + N^T, the number of probabilities read when all sequences are scored."""
    return sum(N**t for t in range(1, T + 1))


@question("000.2.1", "How many sequences there are")
def solve_sequence_count(say, step, answer, check, claim):
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
         format_table(("", "sequence"), [(str(n), " ".join(("<BOS>", *later)))
                                  for n, later in enumerate(product(words, repeat=T), 1)]))
    answer("N^T sequences ((N − 1)^T where <BOS> only begins a sentence).")
    found = run_exhaustive_search(N, T)[0]
    check(f"npdl's exhaustive search lists {found} sequences for N = {N}, T = {T}.", found == N**T)
    counts = {(n, t): run_exhaustive_search(n, t)[0] for n, t in SMALL}
    claim("", "There are exactly N^T sequences of T + 1 tokens that start with <BOS>.", "N^T",
          "N^T (" + "; ".join(f"N = {n}, T = {t}: {found}"
                              for (n, t), found in counts.items()) + ")",
          judge(all(found == n**t for (n, t), found in counts.items())),
          "exhaustive search listed each; any word may follow, as in Algorithm 1")
    n, t, log_p = 3, 4, random_log_probs(3)
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
def solve_exhaustive_search_cost(say, step, answer, check, claim):
    """Say whether scoring all sequences is feasible, and how the cost grows with N and T."""
    N, T, sizes = 3, 3, (10_000, 10)
    total = sizes[0] ** sizes[1]
    zeros, years = len(str(total)) - 1, total / 10**9 / (365 * 24 * 3600)
    count, scorer = run_exhaustive_search(N, T)
    say(f"A vocabulary of N = {N} words and T = {T}; then the sizes of the question.")
    step("The sequences are the leaves of a tree of prefixes. Each edge is one conditional "
         "probability; shared prefixes need it once. Count the edges of each level.",
         "N + N² + … + N^T = (N^(T+1) − N) / (N − 1)  <  N^T · N / (N − 1)",
         f"{' + '.join(str(N**t) for t in range(1, T + 1))} = {count_nodes(N, T)}, "
         f"against N^T = {count}",
         format_table(("level t", "prefixes", "probabilities"),
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
          scorer.rows * N == count_nodes(N, T) and scorer.most_alive <= T + 1)
    read, naive = scorer.rows * N, T * N**T
    growth = [count_nodes(10, t + 1) / count_nodes(10, t) for t in (5, 10)]
    claim("", "Scoring every sequence takes O(N^T) time.", "O(N^T)",
          f"N = {N}, T = {T}: {read} probabilities if prefixes are shared "
          f"({read / count:.3f} N^T), {naive} = T N^T if each sequence is scored by itself",
          judge(read == count_nodes(N, T) and naive == T * count, "under-specified"),
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


WORDS = ("x", "y", "z")
MODEL = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [0.5, 0.3, 0.2]])
# {first word: (its probability, {second word: its probability})}
PROBABILITIES = {"a": (0.5, {"u": 0.34, "v": 0.33, "w": 0.33}), "b": (0.3, {"u": 0.6, "v": 0.4}),
                 "c": (0.2, {"u": 0.95, "v": 0.05})}
SEQUENCES = sorted(((one, two, p, q, p * q) for one, (p, below) in PROBABILITIES.items()
                    for two, q in below.items()), key=lambda row: -row[-1])
BEST = {width: next(row for row in SEQUENCES if row[0] in "abc"[:width]) for width in (1, 2, 3)}


def run_algorithm_1(log_p, width, steps, distinct_scores=False, initial_beams=None):
    """Run Algorithm 1, exactly as printed, on a first-order model.

    log_p            (N + 1, N) log-probabilities after each word, last row: after <BOS>
    distinct_scores  read "the b-th largest score" among the different values, not among all scores
    initial_beams    the number of beams at the start, instead of `width`
    Returns [(tokens, log-likelihood)], best first, and for each step the beams before it and the
    scores {(beam, word): score}.
    """
    beams, history = [((), 0.0)] * (initial_beams or width), []
    for _ in range(steps):
        scores = {(b, j): total + log_p[tokens[-1] if tokens else -1][j]
                  for b, (tokens, total) in enumerate(beams) for j in range(log_p.shape[1])}
        history.append((beams, scores))
        taken = []
        for _ in range(width):                          # one pass over all scores for each rank
            left = [pair for pair in scores if pair not in taken
                    and not (distinct_scores and scores[pair] in [scores[t] for t in taken])]
            taken.append(max(left, key=scores.get))
        beams = [((*beams[b][0], j), scores[b, j]) for b, j in taken]
    return beams, history


@question("000.2.3", "Algorithm 1, beam search: its time and its memory")
def solve_beam_search_cost(say, step, answer, check, claim):
    """Give time and memory of beam search as O() of T, B and N; is it practical for large N?"""
    B, T, N, log_p = 2, 3, len(WORDS), np.log(MODEL)
    beams, history = run_algorithm_1(log_p, B, T, initial_beams=1)
    rows = []
    for t, (before, scores) in enumerate(history, 1):
        ordered = [f"{''.join(WORDS[i] for i in (*before[b][0], j))} {np.exp(scores[b, j]):.3f}"
                   for b, j in sorted(scores, key=scores.get)[::-1]]
        rows.append((t, len(before), len(scores), ", ".join(ordered), ", ".join(ordered[:B])))
    say(f"B = {B}, T = {T}, the words {', '.join(WORDS)}, and a model that looks at one word back.")
    step("The model: a row for each last word, the probabilities of the next one.",
         "p(j | last word)",
         format_table(("last word", *WORDS), [(word, *map(float, row)) for word, row in zip(
             ("<BOS>", *WORDS), MODEL[[N, *range(N)]], strict=True)]))
    step("Run it by hand. Start from one beam: B equal ones would stay B copies of the greedy "
         "sequence, because at t = 1 every score then occurs B times.",
         "s_b(j) = l_b + log p(j | beam b)",
         f"p(xy) = p(x | <BOS>) · p(y | x) = {MODEL[N, 0]:.3f} · {MODEL[0, 1]:.3f} = "
         f"{MODEL[N, 0] * MODEL[0, 1]:.3f}; the log of it is the score",
         format_table(("t", "beams", "scores", "candidates by probability", "kept"), rows))
    step("Time: in each of T steps every beam meets every word once.", "scores = T · B · N",
         f"{T} · {B} · {N} = {T * B * N} as written ({sum(row[2] for row in rows)} from one beam)")
    step("The B largest of B N scores must be found. Going through all of them B times, as "
         "the algorithm is written, costs a factor B; selection in linear time does not.",
         "as written: O(T B² N)      with selection in linear time: O(T B N)")
    step("Memory: B sequences of T words with their sums, and the B N scores that all exist "
         "before the first is chosen (N, if one chooses while scoring).",
         "B (T + 1) + B N  →  O(B (T + N))",
         f"N = 10,000, B = 5, T = 10: {5 * 11} numbers of the sequences, {5 * 10_000:,} scores")
    step("Practical? Compare with scoring every sequence.", "T B N against N^T",
         f"{10 * 5 * 10_000:.0e} against {10_000.0**10:.0e}: linear in N, but without a "
         "guarantee that the best sequence is found")
    answer("Time O(T B N) with linear selection (O(T B² N) as written), memory O(B (T + N)); "
           "practical for large N, as both are linear in N.")
    found = beam_search(CountingScorer(log_p), B, T).finished
    single, right = [tokens for tokens, _ in beams], [h.tokens for h in found]
    check("npdl's beam search ends with the same sequences and sums.", single == right
          and np.allclose([h.log_prob for h in found], [total for _, total in beams]))
    best, (literal, history) = greedy(CountingScorer(log_p), T)[0], run_algorithm_1(log_p, B, T)
    literal = {tokens for tokens, _ in literal}
    distinct = [tokens for tokens, _ in run_algorithm_1(log_p, B, T, distinct_scores=True)[0]]
    claim("", "Started from B equal beams, Algorithm 1 returns B likely sequences.",
          "B beams, each <BOS> with log-likelihood 0",
          f"B = {B}: {len(literal)} different sequence, the greedy one; started from a "
          f"single beam the same loop gives {len(set(single))}", judge(literal != {best.tokens}),
          f"N = {N}, T = {T}: at t = 1 every score occurs B times, so the B largest are B copies "
          "of one word, and so on (b-th largest in its usual sense, equal scores counted each; the "
          "next claim has the other); npdl's beam search is the corrected loop")
    claim("", "The b-th largest score names one pair of beam and word.",
          "find (b', j) such that s is the b-th largest",
          "with ties it does not: counted with copies the beams stay copies of each other; "
          "counted by different values the equal start does no harm, but real ties get lost",
          judge(distinct == right, "under-specified"),
          "by different values: npdl's beam search where there are no ties; on a fair coin "
          "there is no second-largest value")
    scores, twice = (sum(len(row) for _, row in steps) for steps in (
        history, run_algorithm_1(np.log(np.full((2 * N + 1, 2 * N), 1 / (2 * N))), B, T)[1]))
    claim("", "Each step computes B N scores.", "B N",
          f"B = {B}, N = {N}: {scores // T} a step as written", judge(scores == T * B * N),
          "counted; a search that starts from one beam needs only N of them at t = 1")
    claim("", "The time is O(T B N).", "O(T B N)",
          f"comparisons for each score: as written B ({B * scores} for "
          f"{scores} scores at B = {B}), so O(T B^2 N)",
          judge(B * scores == T * B * B * N, "under-specified"),
          "holds with selection in linear time, back pointers for the sequences, and O(1) for "
          "each log p, which no real model has")
    sequences, held = B * (T + 1), max(len(row) + sum(len(tokens) + 1 for tokens, _ in before)
                                       for before, row in history)
    claim("", "The memory is O(B T): the sequences and their log-likelihoods.", "O(B T)",
          f"O(B (T + N)): at N = {N}, B = {B}, T = {T} up to {held} numbers at once, against "
          f"{sequences} for the sequences", judge(held <= sequences + B),
          f"all s_b(j) exist before the first is selected; at N = 10,000, B = 5, T = "
          f"10 that is {5 * 10_000:,} numbers next to {5 * 11}", weight="answer")
    N, B, T = 10_000, 5, 10
    size = 4 * (B * N + B * (T + 1))
    claim("", "The memory does not matter for reasonable B and T.", "O(B T) is manageable",
          f"{size / 1e6:.1f} MB of scores at N = {N:,}, B = {B}", judge(size < 1e9),
          "manageable even with the B N that was left out; a model's own states, one set for "
          "each beam, are usually larger")
    claim("", "The time is linear in the size of the vocabulary, so large ones are feasible.",
          "linear in N", f"twice the vocabulary: {twice / scores:g} times as many scores",
          judge(twice == 2 * scores), "counted at N = 3 and 6; T and B as before")
    claim("", "Beam search evaluates far fewer sequences than exhaustive search.",
          "fewer evaluated sequences",
          f"{T * B * N:.0e} scores against {count_nodes(N, T):.0e} at N = {N:,}, T = {T}, B = {B}",
          judge(T * B * N < count_nodes(N, T)), "exact counts")
    claim("", "It keeps the quality of the results high.", "high-quality results",
          "in the example of 2.5 the best sequence found has "
          + ", ".join(f"{row[-1]:.3f} at B = {b}" for b, row in BEST.items()),
          judge(BEST[2] != SEQUENCES[0] == BEST[3], "under-specified"),
          "no guarantee for B < N^(T-1); how often it succeeds depends on the model and B")


@question("000.2.5", "What greedy decoding and beam search miss")
def solve_search_weaknesses(say, step, answer, check, claim):
    """Name the main weakness of greedy decoding, and that of beam search."""
    lines = [f"B = {width}: ({row[0]}, {row[1]}) with {row[-1]:.3f}" for width, row in BEST.items()]
    say("Three first words, and a few second ones; all probabilities can be multiplied by hand.")
    step("Multiply along every path: this is what an exhaustive search would do.",
         "p(w₁, w₂) = p(w₁) · p(w₂ | w₁)",
         format_table(("w₁", "w₂", "p(w₁)", "p(w₂ | w₁)", "product"), SEQUENCES))
    step("Greedy decoding takes the best first word and never looks back: the weakness is "
         "that a good start may have no good continuation.", lines[0])
    step("A beam of width 2 keeps a second start, and repairs this mistake. But the first "
         "word of the best sequence is third, so it is pruned before its continuation is "
         "seen: the weakness is the same, one place further down.", lines[1])
    step("A wider beam finds it, and costs more: B N scores a step. Only B ≥ N^(T−1) is safe "
         "for every model.", lines[2])
    answer("Greedy decoding is short-sighted: it can't undo a choice. Beam search is too, "
           "with B choices instead of one, at B times the cost and without a guarantee.")
    tree = Tree({one: (math.log(p), {two: math.log(q) for two, q in below.items()})
                 for one, (p, below) in PROBABILITIES.items()})
    found = [greedy(tree, 2)[0], *(beam_search(tree, width, 2).best for width in (1, 2, 3)),
             exhaustive_search(tree, 2).best]
    check("npdl's greedy, beam (width 1, 2, 3) and exhaustive search end the same way.",
          [tuple(tree.words(h)) for h in found]
          == [row[:2] for row in (BEST[1], *BEST.values(), SEQUENCES[0])])
    found, best = BEST[1], SEQUENCES[0]
    claim("", "Greedy decoding can end in a sequence that is not the most probable.",
          "locally optimal choices can be globally poor",
          f"it ends in ({found[0]}, {found[1]}) with {found[-1]:.3f}; ({best[0]}, {best[1]}) "
          f"has {best[-1]:.3f}", judge(found[-1] < best[-1]),
          f"compared with all {len(SEQUENCES)} sequences")
    claim("", "A slightly less probable early choice may lead to a much better sequence.",
          "a trade that greedy decoding never makes",
          f"the first word {best[0]} with {best[2]} in place of {found[0]} with {found[2]} "
          f"makes the sequence {best[-1] / found[-1]:.2f} times as probable",
          judge(best[2] < found[2] and best[-1] > found[-1]),
          f"{best[-1]:.3f} against {found[-1]:.3f}")
    N, T = 20, 6
    scorers = {width: CountingScorer(random_log_probs(N)) for width in (0, 1, 2, 4, 8)}
    for width, scorer in scorers.items():
        beam_search(scorer, width, T) if width else greedy(scorer, T)
    least, *rows = (scorer.rows for scorer in scorers.values())
    tree = complete_tree({"cube": -5.1, "disc": -5.5})
    narrow, wide = (decode_tree(tree, width)[0][1] for width in (1, 2))
    claim("", "Beam search costs more than greedy decoding, the more the wider it is.",
          "more expensive", f"distributions asked for at T = {T}: greedy {least}; "
          + ", ".join(f"B = {scorer}: {count}" for scorer, count in zip(
              (1, 2, 4, 8), rows, strict=True)),
          judge(least <= rows[0] < rows[1] < rows[2] < rows[3]),
          "counted: 1 + (T - 1) B against T; the beam's rows can be computed together")
    claim("", "Too narrow a beam can miss the most probable sequence.", "can still miss it",
          ", ".join(f"B = {width}: {row[-1]:.3f}" for width, row in BEST.items()),
          judge(BEST[2] != SEQUENCES[0]), "no beam of N^(T-1) = 3 can miss it")
    claim("", "Width trades cost for quality: a wider beam finds better sequences.", "a trade-off",
          "on average yes, in each case no: on the tree of 2.4 width 1 can end at "
          f"{narrow:.1f} and width 2 at {wide:.1f}", judge(wide < narrow, "under-specified"),
          "words after (a, red) of -5.1 and -5.5: greedy's prefix is pushed out by two "
          "others; certain only for B >= N^(T-1)")
