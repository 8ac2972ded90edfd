"""Document 000, Question 2.3: Algorithm 1, beam search, as literally written, and its costs."""

import heapq
from functools import partial

import numpy as np

from exercises.d000.counting import CountingScorer, probabilities_read, random_model
from exercises.d000.search_limits import found_best, search_results
from exercises.framework import Claim, judge
from exercises.worked import Solution, Table, num, share, sub
from npdl.decoding import beam_search, greedy
from npdl.errors import InputError

QUESTION = """\
2.3  Algorithm 1 is beam search: all B beams start as <BOS> with log-likelihood 0; at each of T
     steps all B N scores s_b(j) are computed, and for b = 1 to B the b-th largest score decides
     which beam and word become beam b. What are its time and its memory as O() of T, B and N,
     and is it practical when the vocabulary is large?"""
TITLES = {"2.3": "Algorithm 1, beam search: its time and its memory"}

claim = partial(Claim, "000", "Q2", "3")


def algorithm_1(table, width, steps, distinct=False, copies=None):
    """Algorithm 1 to the letter on a first-order model.

    table     (N + 1, N) log-probabilities after each word, last row: after <BOS>
    distinct  how "the b-th largest score" reads: False, among all B N scores; True, among the
              different values (of equal scores the first beam and word is taken)
    copies    how many beams there are at the start; None: B, as it is written
    Returns ([(tokens, log-likelihood)] best first, counts), counts being the scores computed,
    the comparisons made, and the numbers held at once (at most).
    Raises InputError when there are not B scores to choose from.
    """
    N = len(table[0])
    beams = [((), 0.0)] * (width if copies is None else copies)
    counts = {"scores": 0, "comparisons": 0, "numbers": 0}
    for _ in range(steps):
        scores = {(b, j): total + table[tokens[-1] if tokens else N][j]
                  for b, (tokens, total) in enumerate(beams) for j in range(N)}
        counts["scores"] += len(scores)
        held = len(scores) + sum(len(tokens) + 1 for tokens, _ in beams)
        counts["numbers"] = max(counts["numbers"], held)
        beams = [((*beams[b][0], j), scores[b, j])
                 for b, j in _largest(scores, width, distinct, counts)]
    return beams, counts


def _largest(scores, width, distinct, counts):
    """The pairs of the 1st to B-th largest score, each found by going through all of them."""
    taken = []
    for rank in range(1, width + 1):
        best = None
        for pair, score in scores.items():
            counts["comparisons"] += 1
            used = pair in taken or (distinct and any(score == scores[t] for t in taken))
            if not used and (best is None or score > scores[best]):
                best = pair
        if best is None:
            raise InputError(f"there is no {rank}-th largest of {len(scores)} scores; "
                             "give a smaller beam width")
        taken.append(best)
    return taken


class _Counted:
    """A score that counts its comparisons."""

    count = 0

    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        _Counted.count += 1
        return self.value < other.value


def comparisons_to_select(size, width, method, seed=0):
    """Comparisons that find the `width` largest of `size` random scores.

    method: "scan" (Algorithm 1: once through all of them for each), "heap", "quickselect".
    """
    values = np.random.default_rng(seed).permutation(size).tolist()
    if method == "scan":
        return width * size
    if method == "heap":
        _Counted.count = 0
        heapq.nlargest(width, map(_Counted, values))
        return _Counted.count
    count = 0
    while len(values) > width:
        pivot = values[0]
        above = [v for v in values[1:] if v > pivot]
        count += len(values) - 1
        if len(above) >= width:
            values = above
        else:
            width -= len(above) + 1
            values = [v for v in values[1:] if v < pivot]
            if width == 0:
                break
    return count


def comparisons_per_score(size, width, draws=30):
    """{method: (mean, standard deviation)} of the comparisons / size over seeds 0 to draws - 1."""
    found = {method: [comparisons_to_select(size, width, method, seed) / size
                      for seed in range(draws)] for method in ("scan", "heap", "quickselect")}
    return {method: (np.mean(each), np.std(each, ddof=1)) for method, each in found.items()}


def claims():
    return [start_claim(), rank_claim(), *time_claims(), *memory_claims(), *practical_claims()]


def start_claim(N=6, width=3, steps=4):
    table = random_model(N, seed=1)
    literal, _ = algorithm_1(table, width, steps)
    best = greedy(CountingScorer(table), steps)[0]
    single, _ = algorithm_1(table, width, steps, copies=1)
    found = beam_search(CountingScorer(table), width, steps).finished
    agree = [tokens for tokens, _ in single] == [h.tokens for h in found]
    collapsed = all(tokens == best.tokens for tokens, _ in literal)
    return claim(
        "Started from B equal beams, Algorithm 1 returns B likely sequences.",
        "B beams, each <BOS> with log-likelihood 0",
        f"B = {width}: {len({tokens for tokens, _ in literal})} different sequence, the greedy "
        "one; started from a single beam the same loop gives "
        f"{len({tokens for tokens, _ in single})}",
        judge(not collapsed, provided=agree),
        f"N = {N}, T = {steps}: at t = 1 every score occurs B times, so the B largest are B "
        "copies of one word, and so on (b-th largest in its usual sense, equal scores counted "
        "each; the next row has the other); npdl's beam search, which starts from one beam, "
        "agrees with the corrected loop",
    )


def rank_claim():
    table = np.log(np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]))
    try:
        algorithm_1(table, 2, 2, distinct=True)
        failed = False
    except InputError:
        failed = True
    table = random_model(6, seed=1)
    distinct, _ = algorithm_1(table, 3, 4, distinct=True)
    found = beam_search(CountingScorer(table), 3, 4).finished
    repaired = [tokens for tokens, _ in distinct] == [h.tokens for h in found]
    return claim(
        "The b-th largest score names one pair of beam and word.",
        "find (b', j) such that s is the b-th largest",
        "with ties it does not: counted with copies the beams stay copies of each other; "
        "counted by different values the equal start does no harm, but real ties get lost",
        judge(failed and repaired, "under-specified"),
        "by different values: equal to npdl's beam search on a model without ties; on a fair "
        "coin (N = 2, B = 2) there is no second-largest value at all",
    )


def time_claims(N=1000, width=8, steps=5):
    _, counts = algorithm_1(random_model(40), width, steps)
    scanned = counts["comparisons"] == steps * width * (width * 40)
    scores_per_step = counts["scores"] // steps
    per_score = comparisons_per_score(width * N, width)
    shown = {method: f"{mean:.2f} +- {spread:.2f}" for method, (mean, spread) in per_score.items()}
    return [
        claim("Each step computes B N scores.", "B N",
              f"B = {width}, N = 40: {scores_per_step} a step as written",
              judge(counts["scores"] == steps * width * 40, provided=scanned),
              "counted; a search that starts from one beam needs only N of them at t = 1"),
        claim("The time is O(T B N).", "O(T B N)",
              f"comparisons for each score at B = {width}, N = {N}: as written "
              f"{per_score['scan'][0]:.0f} = B, so O(T B^2 N); with a heap {shown['heap']}; with "
              f"quickselect {shown['quickselect']} (mean and deviation of seeds 0 to 29)",
              judge(scanned and per_score["quickselect"][0] < 5, "under-specified"),
              "holds when the B largest are selected in linear time and sequences are kept by "
              "back pointers (copying them costs B T a step), and only with O(1) for each "
              "log p, which no real model has"),
    ]


def memory_claims(N=10_000, width=5, steps=10):
    _, counts = algorithm_1(random_model(40), width, steps)
    held = counts["numbers"]
    sequences, scores = width * (steps + 1), width * N
    stored_bytes = (scores + sequences) * 4
    megabytes = stored_bytes / 1e6
    return [
        claim("The memory is O(B T): the sequences and their log-likelihoods.", "O(B T)",
              f"O(B (T + N)): at N = 40, B = {width}, T = {steps} up to {held} numbers at once, "
              f"against {sequences} for the sequences",
              judge(held <= sequences + width, provided=held == width * 40 + width * steps),
              f"all s_b(j) exist before the first is selected; at N = {N:,} that is "
              f"{scores:,} numbers beside {sequences}. Selecting while scoring needs O(N): "
              "the model hands out N probabilities at once", weight="answer"),
        claim("The memory does not matter for reasonable B and T.", "O(B T) is manageable",
              f"{megabytes:.1f} MB of scores at N = {N:,}, B = {width}",
              judge(stored_bytes < 1e9, provided=held == width * 40 + width * steps),
              "manageable even with the B N that was left out; a model's own states, one set for "
              "each beam, are usually larger"),
    ]


def practical_claims(N=10_000, width=5, steps=10):
    beam = steps * width * N
    _, once = algorithm_1(random_model(30), 4, 3)
    _, twice = algorithm_1(random_model(60), 4, 3)
    ratio = twice["scores"] / once["scores"]
    results = search_results()
    trees = len(results["best"])
    shares = {b: share(found_best(results, b), trees) for b in (1, 2, 4)}
    exhaustive = probabilities_read(N, steps)
    return [
        claim("The time is linear in the size of the vocabulary, so large ones are feasible.",
              "linear in N", f"twice the vocabulary: {ratio:g} times as many scores",
              judge(ratio == 2, provided=once["scores"] == 3 * 4 * 30),
              "counted at N = 30 and 60; T and B as before"),
        claim("Beam search evaluates far fewer sequences than exhaustive search.",
              "fewer evaluated sequences",
              f"{beam:.0e} scores against {exhaustive:.0e} at N = {N:,}, T = {steps}, B = {width}",
              judge(beam < exhaustive), "exact counts"),
        claim("It keeps the quality of the results high.", "high-quality results",
              "share of random trees (N = 4, T = 4, seed 0) where the best sequence is found: "
              + ", ".join(f"B = {b}: {text}" for b, text in shares.items()),
              judge(found_best(results, 4) < trees, "under-specified"),
              "no guarantee for B < N^(T-1); how often it succeeds depends on the model and B"),
    ]


WORDS = ("x", "y", "z")
MODEL = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [0.5, 0.3, 0.2]])


def by_hand(table, width, steps):
    """(beams, rows): what is kept of the search from one beam, and a row of what each step did."""
    N, beams, rows = len(WORDS), [((), 0.0)], []
    for t in range(1, steps + 1):
        scores = {(*tokens, j): total + table[tokens[-1] if tokens else N][j]
                  for tokens, total in beams for j in range(N)}
        best = sorted(scores, key=scores.get)[::-1][:width]
        rows.append((t, len(beams), len(scores), spelled(scores, scores), spelled(best, scores)))
        beams = [(tokens, scores[tokens]) for tokens in best]
    return beams, rows


def solutions(width=2, steps=3):
    N, table = len(WORDS), np.log(MODEL)
    beams, rows = by_hand(table, width, steps)
    found = beam_search(CountingScorer(table), width, steps).finished
    literal, counts = algorithm_1(table, width, steps)
    written, different = steps * width * N, {tokens for tokens, _ in literal}
    first_then_second = MODEL[N, 0] * MODEL[0, 1]
    big_N, big_B, big_T = 10_000, 5, 10
    scored, zeros_of_all = big_T * big_B * big_N, 4 * big_T    # N^T is 10^(4 T)
    held = {"scores": big_B * big_N, "sequences": big_B * (big_T + 1)}
    held_scores = width * 1000
    per_score = comparisons_per_score(held_scores, width)
    work = Solution("2.3",
                    f"B = {width}, T = {steps}, the words {', '.join(WORDS)}, and a model that "
                    "looks at one word back.")
    work.step("The model: a row for each last word, the probabilities of the next one.",
              "p(j | last word)",
              table=Table(("last word", *WORDS), tuple(
                  (word, *map(num, row)) for word, row in zip(
                      ("<BOS>", *WORDS), MODEL[[N, *range(N)]], strict=True))))
    work.step("Run it by hand. Start from one beam: B equal ones would stay B copies of the "
              "greedy sequence, because at t = 1 every score then occurs B times.",
              f"s{sub('b')}(j) = l_b + log p(j | beam b)",
              f"p(xy) = p(x | <BOS>) · p(y | x) = {num(MODEL[N, 0])} · {num(MODEL[0, 1])} = "
              f"{num(first_then_second)}; the log of it is the score",
              table=Table(("t", "beams", "scores", "candidates by probability", "kept"),
                          tuple(rows)))
    work.step("Time: in each of T steps every beam meets every word once.", "scores = T · B · N",
              f"{steps} · {width} · {N} = {written} as written "
              f"({sum(row[2] for row in rows)} from one beam)")
    work.step("The B largest of B N scores must be found. Going through all of them B times, as "
              "the algorithm is written, costs a factor B; selection in linear time does not.",
              "as written: O(T B² N)      with selection in linear time: O(T B N)",
              f"comparisons for each of {held_scores} scores, mean ± deviation of seeds 0 to 29:\n"
              + ", ".join(f"{method} {num(mean, 2)} ± {num(spread, 2)}"
                          for method, (mean, spread) in per_score.items()))
    work.step("Memory: B sequences of T words with their sums, and the B N scores that all exist "
              "before the first is chosen (N, if one chooses while scoring).",
              "B (T + 1) + B N  →  O(B (T + N))",
              f"N = {big_N:,}, B = {big_B}, T = {big_T}: {held['sequences']} numbers of the "
              f"sequences, {held['scores']:,} scores")
    work.step("Practical? Compare with scoring every sequence.", "T B N against N^T",
              f"{scored:.0e} against 1e+{zeros_of_all}: linear in N, but without a "
              "guarantee that the best sequence is found")
    work.answer = ("Time O(T B N) with linear selection (O(T B² N) as written), memory O(B (T + "
                   "N)); practical for large N, as both are linear in N.")
    work.check("npdl's beam search ends with the same sequences and sums.",
               [h.tokens for h in found] == [tokens for tokens, _ in beams]
               and np.allclose([h.log_prob for h in found], [total for _, total in beams]))
    work.check(f"Algorithm 1 to the letter computes {counts['scores']} scores, and ends in "
               f"{len(different)} different sequence.",
               counts["scores"] == written and len(different) == 1)
    work.check("On another model of 40 words its scores are T · B · N as well.",
               algorithm_1(random_model(40), 5, 4)[1]["scores"] == 4 * 5 * 40)
    yield work


def spelled(sequences, scores):
    return ", ".join(f"{''.join(WORDS[j] for j in tokens)} {num(np.exp(scores[tokens]))}"
                     for tokens in sorted(sequences, key=scores.get)[::-1])
