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


@question("000.2.1", "The number of sequences")
def solve_sequence_count(say, step, answer, check, claim):
    """Count the sequences of T + 1 tokens of N words that start with <BOS>, one of the words."""
    words, T = ("<BOS>", "a"), 3
    N = len(words)
    say(f"The vocabulary has N = {N} words, {' and '.join(words)}, and T = {T}.")
    step("The first of the T + 1 tokens is fixed. Count the choices at each later position. Every "
         "word of the vocabulary is possible, including <BOS>, because the question does not "
         "exclude it.", "positions 2, 3, …, T + 1: N choices each",
         f"{T} positions with {N} choices each")
    step("The choices are independent, so their numbers are multiplied.",
         "N · N · … · N (T factors) = N^T", f"{' · '.join([str(N)] * T)} = {N**T}")
    step("List all sequences to confirm the number.",
         format_table(("", "sequence"), [(str(n), " ".join(("<BOS>", *later)))
                                         for n, later in enumerate(product(words, repeat=T), 1)]))
    answer("There are N^T sequences, or (N − 1)^T if <BOS> may only begin a sequence.")
    listed = run_exhaustive_search(N, T)[0]
    check(f"npdl's exhaustive search lists {listed} sequences for N = {N}, T = {T}.",
          listed == N**T)
    counts = {(n, t): run_exhaustive_search(n, t)[0] for n, t in SMALL}
    claim("", "There are exactly N^T sequences of T + 1 tokens that start with <BOS>.", "N^T",
          "N^T (" + "; ".join(f"N = {n}, T = {t}: {listed}"
                              for (n, t), listed in counts.items()) + ")",
          judge(all(listed == n**t for (n, t), listed in counts.items())),
          "exhaustive search lists all of them; any word may follow, as in Algorithm 1")
    n, t, log_p = 3, 4, random_log_probs(3)
    sums = math.fsum(math.exp(sum(log_p[pair] for pair in pairwise((n, *later))))
                     for later in product(range(n), repeat=t))
    claim("", "The product of the conditional probabilities is a distribution over the sequences.",
          "formula given in the question", "it sums to 1 over all N^T sequences",
          judge(abs(sums - 1) < 1e-12), f"a random model with N = {n}, T = {t}: error "
          f"{abs(sums - 1):.1g}; each factor needs the whole prefix, unless the model reads less")
    points = {20: (2, 2, 3, 2 + 8, 3), 17: (2, 8 + 2, 5), 18: (2, 2, 2, 9 + 3)}
    claim("points", "The points of the parts add up to those of Questions 2, 3 and 4.",
          ", ".join(map(str, points)), ", ".join(str(sum(p)) for p in points.values()),
          judge(all(sum(parts) == total for total, parts in points.items())),
          "; ".join(" + ".join(map(str, parts)) for parts in points.values())
          + "; some parts have parts of their own: 2 + 8, 8 + 2, 9 + 3")


@question("000.2.2", "The cost of scoring all sequences")
def solve_exhaustive_search_cost(say, step, answer, check, claim):
    """Say whether scoring all sequences is feasible, and how the cost grows with N and T."""
    N, T, sizes = 3, 3, (10_000, 10)
    total = sizes[0] ** sizes[1]
    zeros, years = len(str(total)) - 1, total / 10**9 / (365 * 24 * 3600)
    count, scorer = run_exhaustive_search(N, T)
    say(f"We take N = {N} words and T = {T} first, and then the sizes of the question.")
    step("The sequences are the leaves of a tree of prefixes. Each edge is one conditional "
         "probability. Sequences with a shared prefix share its edges. Count the edges of each "
         "level.", "N + N² + … + N^T = (N^(T+1) − N) / (N − 1)  <  N^T · N / (N − 1)",
         f"{' + '.join(str(N**t) for t in range(1, T + 1))} = {count_nodes(N, T)}, against N^T = "
         f"{count}", format_table(("level t", "prefixes", "probabilities"),
                                  [(t, N**t, N**t) for t in range(1, T + 1)]))
    step("So the time is O(N^T). It is exponential in T, and a power of N. Doubling N or T shows "
         "the difference.", "(2N)^T / N^T = 2^T        N^(2T) / N^T = N^T",
         f"N = {N}, T = {T}: twice the words cost {(2 * N)**T // N**T} times as much, twice the "
         f"length costs {N**(2 * T) // N**T} times as much")
    step("The memory is small. A depth-first search keeps only one path of T + 1 states and the "
         "best sequence so far.",
         f"N = {N}, T = {T}: at most {scorer.most_alive} states in memory for {count} sequences")
    step("Insert the sizes of the question.", "N^T", f"{sizes[0]:,}^{sizes[1]} = 10^{zeros} "
         f"sequences; {years:.1e} years at 1e+09 sequences per second")
    answer("It is not feasible. The time is O(N^T): exponential in T, and a power of N for a fixed "
           f"T. The example takes {years:.0e} years. Memory is not the problem.")
    check(f"npdl's exhaustive search reads {scorer.rows * N} probabilities for N = {N}, T = {T}, "
          f"and holds at most {scorer.most_alive} states.",
          scorer.rows * N == count_nodes(N, T) and scorer.most_alive <= T + 1)
    read, naive = scorer.rows * N, T * N**T
    growth = [count_nodes(10, t + 1) / count_nodes(10, t) for t in (5, 10)]
    claim("", "Scoring every sequence takes O(N^T) time.", "O(N^T)",
          f"N = {N}, T = {T}: {read} probabilities if prefixes are shared ({read / count:.3f} "
          f"N^T), {naive} = T N^T if each sequence is scored by itself",
          judge(read == count_nodes(N, T) and naive == T * count, "under-specified"), "the sum of "
          "N^t is at most N^T N/(N - 1); true for shared prefixes and O(1) per probability")
    claim("", "The time grows exponentially with the length T.", "exponential in T",
          f"one more step multiplies the count by {vec(growth, 4)} at N = 10, T = 5 and 10",
          judge(np.allclose(growth, 10, 0, 0.1)), "the ratios of exact counts tend to N")
    claim("", "Memory is a second reason: the method has to store all N^T sequences.",
          "space, next to time, as a reason: storing N^T sequences is infeasible",
          f"at most {scorer.most_alive} model states in memory for {count} sequences (N = {N}, T = "
          f"{T}): one path and the best sequence so far", judge(scorer.most_alive >= count),
          "exhaustive search is depth-first; only its time makes it infeasible")
    claim("", "With N = 10,000 and T = 10 there are 10^40 sequences.", "10,000^10 = 10^40",
          f"10^{len(str(total)) - 1}", judge(total == 10**40), "computed with exact integers")
    claim("", "Enumerating them cannot be done in practice.", "infeasible",
          f"{years:.1e} years at 1e+09 sequences per second", judge(years > 1e6),
          f"{total:.0e} sequences / 1e+09 per second")


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
            remaining = [pair for pair in scores if pair not in taken
                         and not (distinct_scores and scores[pair] in [scores[t] for t in taken])]
            taken.append(max(remaining, key=scores.get))
        beams = [((*beams[b][0], j), scores[b, j]) for b, j in taken]
    return beams, history


@question("000.2.3", "Time and memory of Algorithm 1, beam search")
def solve_beam_search_cost(say, step, answer, check, claim):
    """Give the time and memory of beam search as O() of T, B and N. Is it practical for large N?"""
    B, T, N, log_p = 2, 3, len(WORDS), np.log(MODEL)
    beams, history = run_algorithm_1(log_p, B, T, initial_beams=1)
    rows = []
    for t, (before, scores) in enumerate(history, 1):
        ordered = [f"{''.join(WORDS[i] for i in (*before[b][0], j))} {np.exp(scores[b, j]):.3f}"
                   for b, j in sorted(scores, key=scores.get)[::-1]]
        rows.append((t, len(before), len(scores), ", ".join(ordered), ", ".join(ordered[:B])))
    say(f"B = {B}, T = {T}, and the words are {', '.join(WORDS)}. The next word depends only on "
        "the last.")
    step("Write down the model. Each row has the probabilities of the next word after one last "
         "word.", "p(j | last word)",
         format_table(("last word", *WORDS), [(word, *map(float, row)) for word, row in zip(
             ("<BOS>", *WORDS), MODEL[[N, *range(N)]], strict=True)]))
    step("Run the algorithm by hand, starting from one beam. If it started from B equal beams, "
         "every score would occur B times at t = 1, and the beams would stay B copies of the "
         "greedy sequence.", "s_b(j) = l_b + log p(j | beam b)",
         f"p(xy) = p(x | <BOS>) · p(y | x) = {MODEL[N, 0]:.3f} · {MODEL[0, 1]:.3f} = "
         f"{MODEL[N, 0] * MODEL[0, 1]:.3f}; its logarithm is the score",
         format_table(("t", "beams", "scores", "candidates by probability", "kept"), rows))
    step("Count the time. In each of T steps, every beam is combined with every word once.",
         "scores = T · B · N", f"{T} · {B} · {N} = {T * B * N} as written "
         f"({sum(row[2] for row in rows)} if started from one beam)")
    step("Each step must find the B largest of B N scores. The algorithm as written goes through "
         "all of them B times, which costs a factor B. Linear-time selection avoids this factor.",
         "as written: O(T B² N)      with linear-time selection: O(T B N)")
    step("Count the memory. It contains B sequences of T words with their sums, and all B N "
         "scores, because they exist before the first is chosen (only N scores, if each beam is "
         "scored and selected in turn).", "B (T + 1) + B N  →  O(B (T + N))",
         f"N = 10,000, B = 5, T = 10: {5 * 11} numbers for the sequences, {5 * 10_000:,} scores")
    step("Compare the time with scoring every sequence.", "T B N against N^T",
         f"{10 * 5 * 10_000:.0e} against {10_000.0**10:.0e}: linear in N, but without a guarantee "
         "that the best sequence is found")
    answer("The time is O(T B N) with linear-time selection, and O(T B² N) as written. The memory "
           "is O(B (T + N)). Both are linear in N, so beam search is practical for large N.")
    npdl_beams = beam_search(CountingScorer(log_p), B, T).finished
    single, right = [tokens for tokens, _ in beams], [h.tokens for h in npdl_beams]
    check("npdl's beam search ends with the same sequences and sums.", single == right
          and np.allclose([h.log_prob for h in npdl_beams], [total for _, total in beams]))
    best, (literal, history) = greedy(CountingScorer(log_p), T)[0], run_algorithm_1(log_p, B, T)
    literal = {tokens for tokens, _ in literal}
    distinct = [tokens for tokens, _ in run_algorithm_1(log_p, B, T, distinct_scores=True)[0]]
    claim("", "Started from B equal beams, Algorithm 1 returns B likely sequences.",
          "B beams, each <BOS> with log-likelihood 0",
          f"B = {B}: {len(literal)} distinct sequence, the greedy one; if it starts from a single "
          f"beam, the same loop gives {len(set(single))}", judge(literal != {best.tokens}),
          f"N = {N}, T = {T}: at t = 1 every score occurs B times, so the B largest are B copies "
          "of one word, and the beams stay equal; here equal scores are counted separately, and in "
          "the next claim once; npdl's beam search is the corrected loop")
    claim("", "The b-th largest score names one pair of beam and word.", "find (b', j) such that s "
          "is the b-th largest", "not if there are ties: if equal scores are counted separately, "
          "the beams stay copies of each other; if they are counted once, the equal start does no "
          "harm, but real ties are lost", judge(distinct == right, "under-specified"),
          "counting equal scores once gives the result of npdl's beam search if there are no ties; "
          "for a fair coin there is no second-largest value")
    scores, twice = (sum(len(row) for _, row in steps) for steps in (
        history, run_algorithm_1(np.log(np.full((2 * N + 1, 2 * N), 1 / (2 * N))), B, T)[1]))
    claim("", "Each step computes B N scores.", "B N",
          f"B = {B}, N = {N}: {scores // T} per step as written", judge(scores == T * B * N),
          "counted; a search that starts from one beam needs only N scores at t = 1")
    claim("", "The time is O(T B N).", "O(T B N)", "as written, B comparisons for each score "
          f"({B * scores} for {scores} scores at B = {B}), so O(T B^2 N)",
          judge(B * scores == T * B * B * N, "under-specified"), "true with linear-time selection, "
          "back pointers for the sequences, and O(1) for each log p, which no real model achieves")
    sequences, held = B * (T + 1), max(len(row) + sum(len(tokens) + 1 for tokens, _ in before)
                                       for before, row in history)
    claim("", "The memory is O(B T): the sequences and their log-likelihoods.", "O(B T)",
          f"O(B (T + N)): up to {held} numbers at once at N = {N}, B = {B}, T = {T}; the sequences "
          f"alone need {sequences}", judge(held <= sequences + B),
          "all s_b(j) exist before the first is selected; at N = 10,000, B = 5, T = 10 these are "
          f"{5 * 10_000:,} numbers, and the sequences are {5 * 11}", weight="answer")
    N, B, T = 10_000, 5, 10
    size = 4 * (B * N + B * (T + 1))
    claim("", "The memory does not matter for reasonable B and T.", "O(B T) is manageable",
          f"{size / 1e6:.1f} MB of scores at N = {N:,}, B = {B}", judge(size < 1e9),
          "manageable even with the B N scores that were left out; the states of a model, one set "
          "for each beam, are usually larger")
    claim("", "The time is linear in the size of the vocabulary, so large ones are feasible.",
          "linear in N", f"twice the vocabulary: {twice / scores:g} times as many scores",
          judge(twice == 2 * scores), "counted at N = 3 and 6, with T and B as before")
    claim("", "Beam search evaluates far fewer sequences than exhaustive search.",
          "fewer evaluated sequences", f"{T * B * N:.0e} scores instead of {count_nodes(N, T):.0e} "
          f"at N = {N:,}, T = {T}, B = {B}", judge(T * B * N < count_nodes(N, T)), "exact counts")
    claim("", "It keeps the quality of the results high.", "high-quality results",
          "in the example of 2.5, the best sequence found has the probability "
          + ", ".join(f"{row[-1]:.3f} at B = {b}" for b, row in BEST.items()),
          judge(BEST[2] != SEQUENCES[0] == BEST[3], "under-specified"), "there is no guarantee for "
          "B < N^(T-1); how often the best is found depends on the model and B")


@question("000.2.5", "The weaknesses of greedy decoding and beam search")
def solve_search_weaknesses(say, step, answer, check, claim):
    """Name the main weakness of greedy decoding, and that of beam search."""
    lines = [f"B = {width}: ({row[0]}, {row[1]}) with {row[-1]:.3f}" for width, row in BEST.items()]
    say("There are three first words and a few second words, so calculation by hand is possible.")
    step("Multiply the probabilities along every path, as an exhaustive search does.",
         "p(w₁, w₂) = p(w₁) · p(w₂ | w₁)",
         format_table(("w₁", "w₂", "p(w₁)", "p(w₂ | w₁)", "product"), SEQUENCES))
    step("Greedy decoding takes the best first word and never revises this choice. Its weakness is "
         "that a good start may have no good continuation.", lines[0])
    step("A beam of width 2 also keeps the second-best first word, which avoids this mistake. But "
         "the best sequence starts with the third-best word, which is pruned before its "
         "continuation is scored. So beam search has the same weakness.", lines[1])
    step("A wider beam finds the best sequence, but costs more: B N scores per step. Only B ≥ "
         "N^(T−1) finds it for every model.", lines[2])
    answer("Greedy decoding is short-sighted, because it can't undo a choice. Beam search keeps B "
           "choices instead of one, at B times the cost. It can still prune the best sequence.")
    tree = Tree({one: (math.log(p), {two: math.log(q) for two, q in below.items()})
                 for one, (p, below) in PROBABILITIES.items()})
    results = [greedy(tree, 2)[0], *(beam_search(tree, width, 2).best for width in (1, 2, 3)),
               exhaustive_search(tree, 2).best]
    check("npdl's greedy search, beam search (width 1, 2, 3) and exhaustive search confirm these "
          "results.", [tuple(tree.words(h)) for h in results]
          == [row[:2] for row in (BEST[1], *BEST.values(), SEQUENCES[0])])
    greedy_row, best = BEST[1], SEQUENCES[0]
    claim("", "Greedy decoding can end in a sequence that is not the most probable.",
          "locally optimal choices can be globally poor", f"it ends in ({greedy_row[0]}, "
          f"{greedy_row[1]}) with {greedy_row[-1]:.3f}; ({best[0]}, {best[1]}) has {best[-1]:.3f}",
          judge(greedy_row[-1] < best[-1]), f"compared with all {len(SEQUENCES)} sequences")
    claim("", "A slightly less probable early choice may lead to a much better sequence.",
          "a trade that greedy decoding never makes",
          f"the first word {best[0]} with {best[2]} instead of {greedy_row[0]} with "
          f"{greedy_row[2]} makes the sequence {best[-1] / greedy_row[-1]:.2f} times as probable",
          judge(best[2] < greedy_row[2] and best[-1] > greedy_row[-1]),
          f"{best[-1]:.3f} instead of {greedy_row[-1]:.3f}")
    N, T = 20, 6
    scorers = {width: CountingScorer(random_log_probs(N)) for width in (0, 1, 2, 4, 8)}
    for width, scorer in scorers.items():
        beam_search(scorer, width, T) if width else greedy(scorer, T)
    least, *rows = (scorer.rows for scorer in scorers.values())
    tree = complete_tree({"cube": -5.1, "disc": -5.5})
    narrow, wide = (decode_tree(tree, width)[0][1] for width in (1, 2))
    claim("", "Beam search costs more than greedy decoding, the more the wider it is.",
          "more expensive", f"distributions computed at T = {T}: greedy {least}; "
          + ", ".join(f"B = {B}: {n}" for B, n in zip((1, 2, 4, 8), rows, strict=True)),
          judge(least <= rows[0] < rows[1] < rows[2] < rows[3]),
          "counted: 1 + (T - 1) B for beam search, T for greedy decoding; the distributions of a "
          "beam can be computed together")
    claim("", "Too narrow a beam can miss the most probable sequence.", "can still miss it",
          ", ".join(f"B = {width}: {row[-1]:.3f}" for width, row in BEST.items()),
          judge(BEST[2] != SEQUENCES[0]), "a beam of width N^(T-1) = 3 cannot miss it")
    claim("", "Width trades cost for quality: a wider beam finds better sequences.", "a trade-off",
          f"on average, but not always: on the tree of 2.4, width 1 can end at {narrow:.1f} and "
          f"width 2 at {wide:.1f}", judge(wide < narrow, "under-specified"),
          "with words of -5.1 and -5.5 after (a, red), two other prefixes displace the one of "
          "greedy decoding; only B >= N^(T-1) is certain")
