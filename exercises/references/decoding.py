"""Searches for a probable sequence, one path and one word at a time."""

import copy
import math

import numpy as np

from exercises.references.table import SHOWN, same


def after(scorer, path, max_len, eos):
    """The paths (tokens, log-probability, whether complete, row and state that follow) one word
    longer, in the order of the words."""
    tokens, total, _, row, state = path
    found = []
    for word, log_p in enumerate(row):
        if log_p > -math.inf:
            word, length = np.array([word]), len(tokens) + 1
            full = (word[0] in np.atleast_1d(eos) if eos is not None else length == max_len
                    or bool(scorer.leaves(state, np.array([0]), word)[0]))
            rows, beyond = ([None], None) if full or length == max_len else scorer.advance(
                state, np.array([0]), word)
            found.append(((*tokens, int(word[0])), total + float(log_p), full, rows[0], beyond))
    return found


def begun(scorer):
    scorer = copy.deepcopy(scorer)                          # some count what they are asked
    rows, state = scorer.start()
    return scorer, ((), 0.0, False, rows[0], state)


def chosen(paths, length_power=0.0):
    """(tokens, log-probability) of the best of some paths; the first words win among equals."""
    tokens, total, *_ = min(paths, key=lambda path: (
        -path[1] / max(1, len(path[0])) ** length_power, path[0]), default=((), math.nan))
    return tokens, total


@same("decoding.sampling", "greedy")
def greedy(scorer, max_len, eos=None, on_token=None):
    scorer, path = begun(scorer)
    while not path[2] and len(path[0]) < max_len:
        path = max(after(scorer, path, max_len, eos), key=lambda one: one[1])
    return path[:2]


@same("decoding.exhaustive", "exhaustive_search")
def exhaustive_search(scorer, max_len, eos=None, length_power=0.0, n_best=1):
    scorer, start = begun(scorer)
    complete, live = [], [start]
    while live:
        longer = [one for path in live for one in after(scorer, path, max_len, eos)]
        complete += [one for one in longer if one[2]]
        live = [one for one in longer if not one[2] and len(one[0]) < max_len]
    return chosen(complete, length_power)


@same("decoding.beam", "beam_search")
def beam_search(scorer, width, max_len, eos=None, length_power=0.0, n_best=1, stop=True,
                keep_steps=True):
    """The best in the end, which a search that stops has found already."""
    scorer, start = begun(scorer)
    complete, live = [], [start]
    while live:
        longer = sorted((one for path in live for one in after(scorer, path, max_len, eos)),
                        key=lambda one: (-one[1], one[0]))[:width]
        complete += [one for one in longer if one[2]]
        left = [one for one in longer if not one[2]]
        live = [one for one in left if len(one[0]) < max_len]
    return chosen(complete or left, length_power)


def told(hypothesis):
    return (hypothesis.tokens, hypothesis.log_prob) if hypothesis else ((), math.nan)


SHOWN |= {
    greedy: lambda result, *_, **__: told(result[0]),
    exhaustive_search: lambda result, *_, **__: told(result.best),
    beam_search: lambda result, *_, **__: told(result.best),
}
