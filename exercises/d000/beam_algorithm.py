"""Document 000, Question 2.3: Algorithm 1, beam search, as literally written, and its costs.

All B beams start as <BOS> with log-likelihood 0; at each of T steps all B N scores s_b(j) are
computed, and for b = 1 to B the b-th largest score decides which beam and word become beam b.
"""

import heapq

import numpy as np

from exercises.course import judge, question, table
from exercises.d000.counting import CountingScorer, nodes, random_model
from exercises.d000.search_limits import BEST, SEQUENCES
from npdl.decoding import beam_search, greedy

WORDS = ("x", "y", "z")
MODEL = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [0.5, 0.3, 0.2]])


def algorithm_1(log_p, width, steps, distinct=False, copies=None):
    """Run Algorithm 1 to the letter on a first-order model.

    Args:
        log_p: (N + 1, N) log-probabilities after each word, last row: after <BOS>.
        distinct: read "the b-th largest score" among the different values, not among all scores.
        copies: how many beams there are at the start, instead of `width`.

    Returns ([(tokens, log-likelihood)], best first, and counts of scores, comparisons and numbers
    held at once). Raises LookupError if there are not enough different scores to choose from.
    """
    beams = [((), 0.0)] * (width if copies is None else copies)
    counts = {"scores": 0, "comparisons": 0, "numbers": 0}
    for _ in range(steps):
        scores = {(b, j): total + log_p[tokens[-1] if tokens else -1][j]
                  for b, (tokens, total) in enumerate(beams) for j in range(log_p.shape[1])}
        counts["scores"] += len(scores)
        counts["numbers"] = max(counts["numbers"],
                                len(scores) + sum(len(tokens) + 1 for tokens, _ in beams))
        taken = []
        for rank in range(width):
            counts["comparisons"] += len(scores)        # one pass over all scores for each rank
            left = [pair for pair in scores if pair not in taken
                    and not (distinct and scores[pair] in [scores[t] for t in taken])]
            if not left:
                raise LookupError(f"there is no {rank + 1}-th largest of {len(scores)} scores")
            taken.append(max(left, key=scores.get))
        beams = [((*beams[b][0], j), scores[b, j]) for b, j in taken]
    return beams, counts


class Compared:
    """A number that counts the comparisons of all such numbers."""

    count = 0

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        Compared.count += 1
        return self.value < other.value


def quickselect(values, width):
    """Return how many comparisons quickselect needs to find the `width` largest values."""
    count = 0
    while len(values) > width > 0:
        above = [v for v in values[1:] if v > values[0]]
        count += len(values) - 1
        if len(above) < width:
            width -= len(above) + 1
            values = [v for v in values[1:] if v < values[0]]
        else:
            values = above
    return count


def comparisons_per_score(size, width, draws=30):
    """Return {method: (mean, standard deviation)} of comparisons / size over seeds 0 to 29."""
    found = {"scan": [width] * draws, "heap": [], "quickselect": []}
    for seed in range(draws):
        values = np.random.default_rng(seed).permutation(size).tolist()
        Compared.count = 0
        heapq.nlargest(width, map(Compared, values))
        found["heap"].append(Compared.count / size)
        found["quickselect"].append(quickselect(values, width) / size)
    return {method: (np.mean(each), np.std(each, ddof=1)) for method, each in found.items()}


def by_hand(log_p, width, steps):
    """Return the beams of a search from one beam, and a row for each of its steps."""
    def spelled(sequences):
        return ", ".join(f"{''.join(WORDS[j] for j in tokens)} {np.exp(scores[tokens]):.3f}"
                         for tokens in sequences)

    beams, rows = {(): 0.0}, []
    for t in range(1, steps + 1):
        scores = {(*tokens, j): total + log_p[tokens[-1] if tokens else -1][j]
                  for tokens, total in beams.items() for j in range(len(WORDS))}
        ordered = sorted(scores, key=scores.get)[::-1]
        rows.append((t, len(beams), len(scores), spelled(ordered), spelled(ordered[:width])))
        beams = {tokens: scores[tokens] for tokens in ordered[:width]}
    return beams, rows


@question("000.2.3", "Algorithm 1, beam search: its time and its memory")
def beam_algorithm(work):
    """Give time and memory of beam search as O() of T, B and N; is it practical for large N?"""
    B, T, N, log_p = 2, 3, len(WORDS), np.log(MODEL)
    beams, rows = by_hand(log_p, B, T)
    literal, counts = algorithm_1(log_p, B, T)
    work.say(f"B = {B}, T = {T}, the words {', '.join(WORDS)}, and a model that looks at one word "
             "back.")
    work.step("The model: a row for each last word, the probabilities of the next one.",
              "p(j | last word)",
              table(("last word", *WORDS), [(word, *map(float, row)) for word, row in zip(
                  ("<BOS>", *WORDS), MODEL[[N, *range(N)]], strict=True)]))
    work.step("Run it by hand. Start from one beam: B equal ones would stay B copies of the greedy "
              "sequence, because at t = 1 every score then occurs B times.",
              "s_b(j) = l_b + log p(j | beam b)",
              f"p(xy) = p(x | <BOS>) · p(y | x) = {MODEL[N, 0]:.3f} · {MODEL[0, 1]:.3f} = "
              f"{MODEL[N, 0] * MODEL[0, 1]:.3f}; the log of it is the score",
              table(("t", "beams", "scores", "candidates by probability", "kept"), rows))
    work.step("Time: in each of T steps every beam meets every word once.", "scores = T · B · N",
              f"{T} · {B} · {N} = {T * B * N} as written ({sum(row[2] for row in rows)} from one "
              "beam)")
    work.step("The B largest of B N scores must be found. Going through all of them B times, as "
              "the algorithm is written, costs a factor B; selection in linear time does not.",
              "as written: O(T B² N)      with selection in linear time: O(T B N)",
              f"comparisons for each of {B * 1000} scores, mean ± deviation of seeds 0 to 29:",
              ", ".join(f"{method} {mean:.2f} ± {spread:.2f}" for method, (mean, spread)
                        in comparisons_per_score(1000 * B, B).items()))
    work.step("Memory: B sequences of T words with their sums, and the B N scores that all exist "
              "before the first is chosen (N, if one chooses while scoring).",
              "B (T + 1) + B N  →  O(B (T + N))",
              f"N = 10,000, B = 5, T = 10: {5 * 11} numbers of the sequences, "
              f"{5 * 10_000:,} scores")
    work.step("Practical? Compare with scoring every sequence.", "T B N against N^T",
              f"{10 * 5 * 10_000:.0e} against {10_000.0**10:.0e}: linear in N, but without a "
              "guarantee that the best sequence is found")
    work.answer("Time O(T B N) with linear selection (O(T B² N) as written), memory O(B (T + N)); "
                "practical for large N, as both are linear in N.")
    found = beam_search(CountingScorer(log_p), B, T).finished
    work.check("npdl's beam search ends with the same sequences and sums.",
               [h.tokens for h in found] == list(beams)
               and np.allclose([h.log_prob for h in found], list(beams.values())))
    work.check(f"Algorithm 1 to the letter computes {counts['scores']} scores, and ends in 1 "
               "different sequence.",
               counts["scores"] == T * B * N and len({tokens for tokens, _ in literal}) == 1)
    work.check("On another model of 40 words its scores are T · B · N as well.",
               algorithm_1(random_model(40), 5, 4)[1]["scores"] == 4 * 5 * 40)
    loop_claims(work)
    cost_claims(work)
    practical_claims(work)


def loop_claims(work, N=6, B=3, T=4):
    """Add the claims on the equal start and on the b-th largest score."""
    log_p = random_model(N, seed=1)
    best = greedy(CountingScorer(log_p), T)[0]
    right = [h.tokens for h in beam_search(CountingScorer(log_p), B, T).finished]
    literal, single, distinct = ([tokens for tokens, _ in algorithm_1(log_p, B, T, **way)[0]]
                                 for way in ({}, {"copies": 1}, {"distinct": True}))
    coin_fails = False
    try:
        algorithm_1(np.log(np.full((3, 2), 0.5)), 2, 2, distinct=True)
    except LookupError:
        coin_fails = True
    work.check("From one beam, Algorithm 1 is npdl's beam search.", single == right)
    work.claim("", "Started from B equal beams, Algorithm 1 returns B likely sequences.",
               "B beams, each <BOS> with log-likelihood 0",
               f"B = {B}: {len(set(literal))} different sequence, the greedy one; started from a "
               f"single beam the same loop gives {len(set(single))}",
               judge(set(literal) != {best.tokens}),
               f"N = {N}, T = {T}: at t = 1 every score occurs B times, so the B largest are B "
               "copies of one word, and so on (b-th largest in its usual sense, equal scores "
               "counted each; the next claim has the other); npdl's beam search, which starts from "
               "one beam, agrees with the corrected loop")
    work.claim("", "The b-th largest score names one pair of beam and word.",
               "find (b', j) such that s is the b-th largest",
               "with ties it does not: counted with copies the beams stay copies of each other; "
               "counted by different values the equal start does no harm, but real ties get lost",
               judge(coin_fails and distinct == right, "under-specified"),
               "by different values: equal to npdl's beam search on a model without ties; on a "
               "fair coin (N = 2, B = 2) there is no second-largest value at all")


def cost_claims(work, N=40):
    """Add the claims on time and memory."""
    counts = algorithm_1(random_model(N), 8, 5)[1]
    scanned = counts["comparisons"] == 5 * 8 * 8 * N
    drawn = [np.random.default_rng(seed).permutation(8000).tolist() for seed in range(30)]
    fast = np.mean([quickselect(values, 8) for values in drawn]) / 8000
    work.claim("", "Each step computes B N scores.", "B N",
               f"B = 8, N = {N}: {counts['scores'] // 5} a step as written",
               judge(counts["scores"] == 5 * 8 * N),
               "counted; a search that starts from one beam needs only N of them at t = 1")
    work.claim("", "The time is O(T B N).", "O(T B N)",
               f"comparisons for each score: as written B ({counts['comparisons']:,} for "
               f"{counts['scores']:,} scores at B = 8), so O(T B^2 N); with quickselect "
               f"{fast:.2f} for each of 8,000 scores, the mean of 30 draws",
               judge(scanned and fast < 5, "under-specified"),
               "holds when the B largest are selected in linear time and sequences are kept by "
               "back pointers (copying them costs B T a step), and only with O(1) for each log p, "
               "which no real model has")
    B, T, words = 5, 10, 10_000
    held, sequences = algorithm_1(random_model(N), B, T)[1]["numbers"], B * (T + 1)
    size = 4 * (B * words + sequences)
    work.check("Held at once: B N scores and B sequences.", held == B * N + B * T)
    work.claim("", "The memory is O(B T): the sequences and their log-likelihoods.", "O(B T)",
               f"O(B (T + N)): at N = {N}, B = {B}, T = {T} up to {held} numbers at once, against "
               f"{sequences} for the sequences", judge(held <= sequences + B),
               f"all s_b(j) exist before the first is selected; at N = {words:,} that is "
               f"{B * words:,} numbers next to {sequences}. Selecting while scoring needs O(N): "
               "the model hands out N probabilities at once", weight="answer")
    work.claim("", "The memory does not matter for reasonable B and T.", "O(B T) is manageable",
               f"{size / 1e6:.1f} MB of scores at N = {words:,}, B = {B}", judge(size < 1e9),
               "manageable even with the B N that was left out; a model's own states, one set for "
               "each beam, are usually larger")


def practical_claims(work, N=10_000, B=5, T=10):
    """Add the claims on large vocabularies and on quality."""
    once, twice = (algorithm_1(random_model(n), 4, 3)[1]["scores"] for n in (30, 60))
    work.claim("", "The time is linear in the size of the vocabulary, so large ones are feasible.",
               "linear in N", f"twice the vocabulary: {twice / once:g} times as many scores",
               judge(twice == 2 * once), "counted at N = 30 and 60; T and B as before")
    work.claim("", "Beam search evaluates far fewer sequences than exhaustive search.",
               "fewer evaluated sequences",
               f"{T * B * N:.0e} scores against {nodes(N, T):.0e} at N = {N:,}, T = {T}, B = {B}",
               judge(T * B * N < nodes(N, T)), "exact counts")
    work.claim("", "It keeps the quality of the results high.", "high-quality results",
               "in the example of 2.5 the best sequence found has "
               + ", ".join(f"{row[-1]:.3f} at B = {b}" for b, row in BEST.items()),
               judge(BEST[2] != SEQUENCES[0] == BEST[3], "under-specified"),
               "no guarantee for B < N^(T-1); how often it succeeds depends on the model and B")
