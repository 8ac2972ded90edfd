"""The worked solution of document 000, Question 2.3: what beam search costs."""

import numpy as np

from exercises.d000_beam_algorithm import algorithm_1, comparisons_to_select
from exercises.d000_counting import CountingScorer, random_model
from exercises.worked import Check, Solution, Step, Table, num, sub
from npdl.decoding import beam_search

WORDS = ("x", "y", "z")
MODEL = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [0.5, 0.3, 0.2]])


def solutions(width=2, steps=3):
    N, table = len(WORDS), np.log(MODEL)
    beams, rows = [((), 0.0)], []
    for t in range(1, steps + 1):
        scores = {(*tokens, j): total + table[tokens[-1] if tokens else N][j]
                  for tokens, total in beams for j in range(N)}
        best = sorted(scores, key=scores.get)[::-1][:width]
        rows.append((t, len(beams), len(scores), spelled(scores, scores), spelled(best, scores)))
        beams = [(tokens, scores[tokens]) for tokens in best]
    found = beam_search(CountingScorer(table), width, steps).finished
    literal, counts = algorithm_1(table, width, steps)
    big_N, big_B, big_T = 10_000, 5, 10
    held = {"scores": big_B * big_N, "sequences": big_B * (big_T + 1)}
    per_score = {method: comparisons_to_select(width * 1000, width, method) / (width * 1000)
                 for method in ("scan", "heap", "quickselect")}
    return [Solution(
        "2.3",
        (Step("The model: a row for each last word, the probabilities of the next one.",
              "p(j | last word)",
              table=Table(("last word", *WORDS), tuple(
                  (word, *map(num, row)) for word, row in zip(
                      ("<BOS>", *WORDS), MODEL[[N, *range(N)]], strict=True)))),
         Step("Run it by hand. Start from one beam: B equal ones would stay B copies of the greedy "
              "sequence, because at t = 1 every score then occurs B times.",
              f"s{sub('b')}(j) = l_b + log p(j | beam b)",
              f"p(xy) = p(x | <BOS>) · p(y | x) = {num(MODEL[N, 0])} · {num(MODEL[0, 1])} = "
              f"{num(MODEL[N, 0] * MODEL[0, 1])}; the log of it is the score",
              table=Table(("t", "beams", "scores", "candidates by probability", "kept"),
                          tuple(rows))),
         Step("Time: in each of T steps every beam meets every word once.",
              "scores = T · B · N",
              f"{steps} · {width} · {N} = {steps * width * N} as written "
              f"({sum(row[2] for row in rows)} from one beam)"),
         Step("The B largest of B N scores must be found. Going through all of them B times, as "
              "the algorithm is written, costs a factor B; selection in linear time does not.",
              "as written: O(T B² N)      with selection in linear time: O(T B N)",
              "comparisons for each score, 1000 words: " + ", ".join(
                  f"{method} {num(value, 2)}" for method, value in per_score.items())),
         Step("Memory: B sequences of T words with their sums, and the B N scores that all exist "
              "before the first is chosen (N, if one chooses while scoring).",
              "B (T + 1) + B N  →  O(B (T + N))",
              f"N = {big_N:,}, B = {big_B}, T = {big_T}: {held['sequences']} numbers of the "
              f"sequences, {held['scores']:,} scores"),
         Step("Practical? Compare with scoring every sequence.",
              "T B N against N^T", f"{big_T * big_B * big_N:.0e} against 1e+{4 * big_T}: linear in "
              "N, but without a guarantee that the best sequence is found")),
        "Time O(T B N) with linear selection (O(T B² N) as written), memory O(B (T + N)); "
        "practical for large N, as both are linear in N.",
        (Check("npdl's beam search ends with the same sequences and sums.",
               [h.tokens for h in found] == [tokens for tokens, _ in beams]
               and np.allclose([h.log_prob for h in found], [total for _, total in beams])),
         Check(f"Algorithm 1 to the letter computes {counts['scores']} scores, and ends in "
               f"{len({tokens for tokens, _ in literal})} different sequence.",
               counts["scores"] == steps * width * N
               and len({tokens for tokens, _ in literal}) == 1),
         Check("On another model of 40 words its scores are T · B · N as well.",
               algorithm_1(random_model(40), 5, 4)[1]["scores"] == 4 * 5 * 40)),
        f"B = {width}, T = {steps}, the words {', '.join(WORDS)}, and a model that looks at "
        "one word back.")]


def spelled(sequences, scores):
    return ", ".join(f"{''.join(WORDS[j] for j in tokens)} {num(np.exp(scores[tokens]))}"
                     for tokens in sorted(sequences, key=scores.get)[::-1])
