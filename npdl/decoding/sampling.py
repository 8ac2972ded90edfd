"""One token after the other: the most probable one (greedy), or a random one (sampling)."""

import math

import numpy as np

from npdl.decoding.scorer import Ranking, check_eos, checked, ends
from npdl.errors import require_number, require_positive
from npdl.init import generator

FIRST = 1024        # top_p looks at so many tokens first: of a real model's, nearly always enough


def greedy(scorer, max_len, eos=None, on_token=None):
    """Return a Hypothesis for each prompt, with the most probable token at each step.

    Of equally probable tokens the lower one is chosen. A sequence ends with `eos` (a token, or one
    of several), where nothing can follow, or after `max_len` tokens. on_token(sequence, token), if
    given, is called as each token is chosen.
    """
    return _generate(scorer, max_len, eos, 1, lambda rows, live, total: rows.argmax(1), on_token)


def sample(scorer, max_len, rng, eos=None, count=1, temperature=1.0, top_k=None, top_p=None,
           on_token=None):
    """Draw `count` random continuations of each prompt, all at once: a list of Hypothesis.

    rng is a Generator or a seed. Each sequence takes one number of it at each step, whether the
    others have ended or not. log_prob is the model's own, before temperature and filters (see
    `filtered`). `eos` and `on_token` are as in `greedy`.
    """
    require_positive(count=count)
    rng = generator(rng)

    def choose(rows, live, total):
        uniform = rng.random(total)[live]
        cumulative = np.cumsum(filtered(rows, temperature, top_k, top_p), axis=1)
        drawn = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(1)
        last = (cumulative < cumulative[:, -1:]).sum(1)     # no later token has a probability
        return np.minimum(drawn, last)

    filtered(np.zeros((1, 1)), temperature, top_k, top_p)   # refuse wrong options at once
    return _generate(scorer, max_len, eos, count, choose, on_token)


def filtered(log_probs, temperature=1.0, top_k=None, top_p=None):
    """Return the probabilities to sample from, (n, V): softmax(log_probs / temperature), filtered.

    top_k keeps the k most probable tokens; top_p then keeps the fewest most probable of them
    whose share is at least p (never none). Equal tokens: the lower one is kept first.
    Raises InputError for a temperature that is not above 0, top_k < 1, top_p outside (0, 1].
    """
    require_number("temperature", temperature, lambda value: 0 < value < math.inf,
                   "above 0 (near 0 is greedy)")
    if top_k is not None:
        require_positive(top_k=top_k)
    if top_p is not None:
        require_number("top_p", top_p, lambda value: 0 < value <= 1, "above 0 and at most 1")
    scaled = log_probs - log_probs.max(1, keepdims=True)    # so that none overflows
    with np.errstate(over="ignore"):                        # -inf is right: probability 0
        p = np.exp(scaled / temperature)
    top_p = 1 if top_p is None else top_p
    if top_k is None and top_p == 1:
        return p / p.sum(1, keepdims=True)
    V, enough = p.shape[1], top_p * p.sum(1, keepdims=True)
    count = FIRST if top_k is None else top_k
    order = best_first(scaled, count)
    ranked = np.take_along_axis(p, order, axis=1)
    while top_k is None and count < V and (ranked.sum(1, keepdims=True) < enough).any():
        count *= 4
        order = best_first(scaled, count)
        ranked = np.take_along_axis(p, order, axis=1)
    if top_p < 1:
        before = np.cumsum(ranked, axis=1) - ranked         # the share of those that rank higher
        enough = enough if top_k is None else top_p * ranked.sum(1, keepdims=True)
        ranked[before >= enough] = 0
    kept = np.zeros_like(p)
    np.put_along_axis(kept, order, ranked, axis=1)
    return kept / kept.sum(1, keepdims=True)


def best_first(rows, count):
    """Return the indices of each row's largest numbers, the largest first: (n, min(count, V)).

    Of equal numbers, the lower index comes first. Sorts little more than it returns.
    """
    n, V = rows.shape
    if count >= V:
        return np.argsort(-rows, axis=1, kind="stable")
    least = np.partition(rows, V - count, axis=1)[:, V - count]
    order = np.empty((n, count), int)
    for i, row in enumerate(rows):
        near = np.flatnonzero(row >= least[i])
        order[i] = near[np.argsort(-row[near], kind="stable")][:count]
    return order


def _generate(scorer, max_len, eos, count, choose, on_token):
    """Extend `count` copies of every prompt, all in one batch.

    choose(rows, live, total) returns a token for each row; live says which of the `total`
    sequences the rows belong to.
    """
    ranking = Ranking(max_len)
    rows, state = checked(scorer.start())
    check_eos(eos, rows)
    with scorer.settings(len(rows) * count):
        return _extend(scorer, rows, state, ranking, eos, count, choose, on_token)


def _extend(scorer, rows, state, ranking, eos, count, choose, on_token):
    """Continue `_generate` after the prompts."""
    max_len = ranking.max_len
    place = np.repeat(np.arange(len(rows)), count)          # the row of each live sequence
    live = np.arange(len(place))
    found = [[] for _ in live]
    totals, complete = np.zeros(len(live)), np.zeros(len(live), bool)
    for length in range(1, max_len + 1):
        open_ = (rows.max(1) > -math.inf)[place]            # a tree may have dead ends
        live, place = live[open_], place[open_]
        if not len(live):
            break
        here = rows if np.array_equal(place, np.arange(len(rows))) else rows[place]     # no copy
        tokens = choose(here, live, len(found))
        totals[live] += rows[place, tokens]
        for sequence, token in zip(live, tokens, strict=True):
            found[sequence].append(token)
            if on_token is not None:
                on_token(int(sequence), int(token))
        ended = ends(scorer, state, place, tokens, length, max_len, eos)
        complete[live] = ended
        if length == max_len or ended.all():
            break
        rows, state = checked(scorer.advance(state, place[~ended], tokens[~ended]))
        live, place = live[~ended], np.arange(len(rows))
    return [
        ranking.hypothesis(tokens, total, bool(done))
        for tokens, total, done in zip(found, totals, complete, strict=True)
    ]
