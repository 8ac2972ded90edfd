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
            full = word[0] in np.atleast_1d(eos) if eos is not None else length == max_len
            rows, beyond = ([None], None) if full or length == max_len else scorer.advance(
                state, np.array([0]), word)
            full = full or eos is None and not (rows[0] > -math.inf).any()   # nothing can follow
            found.append(((*tokens, int(word[0])), total + float(log_p), full, rows[0], beyond))
    return found


def begun(scorer):
    scorer = copy.deepcopy(scorer)                          # some count what they are asked
    rows, state = scorer.start()
    return scorer, ((), 0.0, False, rows[0], state)


def score(total, length, length_power):
    return total / max(1, length) ** length_power


def ranked(paths, length_power=0.0):
    """The best first; among equals the shorter, then the first words."""
    return sorted(paths, key=lambda path: (
        -score(path[1], len(path[0]), length_power), len(path[0]), path[0]))


def shown(paths):
    """The numbers of some paths: how many tokens and which, all log-probabilities."""
    return (np.array([n for tokens, *_ in paths for n in (len(tokens), *tokens)]),
            np.array([total for _, total, *_ in paths]))


@same("decoding.sampling", "greedy")
def greedy(scorer, max_len, eos=None, on_token=None):
    scorer, path = begun(scorer)
    while not path[2] and len(path[0]) < max_len:
        path = max(after(scorer, path, max_len, eos), key=lambda one: one[1])
    return shown([path])


@same("decoding.exhaustive", "exhaustive_search")
def exhaustive_search(scorer, max_len, eos=None, length_power=0.0, n_best=1):
    scorer, start = begun(scorer)
    complete, live = [], [start]
    while live:
        longer = [one for path in live for one in after(scorer, path, max_len, eos)]
        complete += [one for one in longer if one[2]]
        live = [one for one in longer if not one[2] and len(one[0]) < max_len]
    return len(complete), shown(ranked(complete, length_power)[:n_best])


@same("decoding.beam", "beam_search")
def beam_search(scorer, width, max_len, eos=None, length_power=0.0, n_best=1, stop=True,
                keep_steps=True):
    """What is found, and each step's kept and pruned; the best is that of a search to the end,
    which one that stops has found already."""
    scorer, start = begun(scorer)
    complete, live, steps, found = [], [start], [], None
    while live:
        longer = sorted((one for path in live for one in after(scorer, path, max_len, eos)),
                        key=lambda one: (-one[1], one[0]))
        complete = ranked(complete + [one for one in longer[:width] if one[2]], length_power)
        left = [one for one in longer[:width] if not one[2]]
        live = [one for one in left if len(one[0]) < max_len]
        bound = max((score(one[1], n, length_power) for one in live[:1]
                     for n in range(len(one[0]) + 1, max_len + 1)), default=-math.inf)
        if found is None:
            steps += [(shown(longer[:width]), shown(longer[width:]), shown(complete[:1]), bound)]
            if not live or stop and len(complete) >= n_best and score(
                    complete[n_best - 1][1], len(complete[n_best - 1][0]), length_power) >= bound:
                found = shown(complete), shown(left)
    return shown((complete or left)[:1]), *found, steps if keep_steps else []


def pairs(hypotheses):
    return shown([(h.tokens, h.log_prob) for h in hypotheses])


SHOWN |= {
    greedy: lambda result, *_, **__: pairs(result),
    exhaustive_search: lambda result, *_, **__: (result.count, pairs(result.finished)),
    beam_search: lambda result, *_, **__: (
        pairs([result.best] if result.best else []), pairs(result.finished),
        pairs(result.unfinished), [
            (pairs(step.kept), pairs(step.pruned), pairs([step.best] if step.best else []),
             step.bound) for step in result.steps]),
}
