"""Scorers of models: with and without a cache, scores are the same. Invalid input of searches."""

import numpy as np
import pytest

from npdl.adapt import add_lora, quantize_linears
from npdl.decoding import Scorer, Tree, beam_search, exhaustive_search, filter_probabilities, greedy
from npdl.decoding.language_models import CachedGPT, CachedLlama, CarriedLSTM, Recomputed
from npdl.decoding.model_scorers import RecomputedSeq2Seq, make_scorer
from npdl.decoding.repetition import PenalisedRepetition
from npdl.errors import InputError
from npdl.functions import log_softmax
from npdl.layers.rotary import Llama3Scaling
from npdl.models.gpt import GPT, GPT2
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM
from npdl.models.lstm_seq2seq import LSTMSeq2Seq
from npdl.models.seq2seq import Seq2Seq
from npdl.study.check.subjects import randomise

V = 7
END = 0
GPTS = [{}, {"norm": "pre"}, {"norm": "pre", "positions": "learned", "tied": True},
        {"num_layers": 1}]


def gpt(max_len=16, dtype="float32", **options):
    return randomise_weights(GPT(V, **{"d_model": 16, "num_layers": 3, "num_heads": 2,
                                       "max_len": max_len} | options, dtype=dtype))


def lstm(dtype="float32"):
    return randomise_weights(LSTMLM(V, 16, num_layers=2, dtype=dtype))


def llama(max_len=16, dtype="float32", **options):
    sizes = {"d_model": 16, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "d_inner": 12}
    return randomise_weights(Llama(V, **sizes | {"max_len": max_len} | options, dtype=dtype))


def randomise_weights(model):
    randomise(model, np.random.default_rng(7), 0.3)
    return model


def adapt_model(model, bits=None):
    """Quantize the layers of a model if `bits` is given, else add adapters."""
    if bits:
        quantize_linears(model, bits)
        return model
    add_lora(model, 2, where=("W_Q", "W_V", "up"))
    return randomise_weights(model)


MODELS = [(f"GPT {options}", gpt(**options)) for options in GPTS] + [
    ("LSTM", lstm()), ("GPT-2", randomise_weights(GPT2(V, 16, 2, 2, max_len=16))),
    ("Llama", llama()), ("Llama, normalised queries, scaled rotation",
                         llama(qk_norm=True, scaling=Llama3Scaling(4.0, original_length=8))),
    ("Llama, untied, biases", llama(tied=False, qkv_bias=True, num_kv_heads=1, rope_theta=50.0)),
    ("Llama, wide heads", llama(num_kv_heads=4, d_head=6)),
    ("Llama with adapters", adapt_model(llama())), ("GPT, quantized", adapt_model(gpt(), bits=4)),
]
every_model = pytest.mark.parametrize("model", [m for _, m in MODELS], ids=[n for n, _ in MODELS])


def logits_of(model, ids):
    """Return the logits (B, S, V) of the model's own forward in double precision."""
    out, _ = model.forward(ids)
    return (out[0] if isinstance(model, LSTMLM) else out).astype(float)


def random_walk_scores(scorer, rng, steps):
    """Return the scores of random steps that copy, drop and swap hypotheses."""
    rows, state = scorer.start()
    found = [rows]
    for _ in range(steps):
        count = int(rng.integers(1, 5))
        parents, tokens = rng.integers(0, len(rows), count), rng.integers(0, V, count)
        scorer.advance(state, parents, (tokens + 1) % V)        # leaves `state` as it is
        rows, state = scorer.advance(state, parents, tokens)
        found.append(rows)
    return found


def assert_same_scores(first, second, steps=9, seed=1):
    pair = zip(random_walk_scores(first, np.random.default_rng(seed), steps),
               random_walk_scores(second, np.random.default_rng(seed), steps), strict=True)
    for step, (cached, plain) in enumerate(pair):
        np.testing.assert_allclose(cached, plain, atol=1e-6, rtol=1e-6, err_msg=f"step {step}")


# Cached and uncached

@every_model
@pytest.mark.parametrize("prompt", [[1, 2, 3, 4], [5], [[1, 2], [3, 4], [6, 6]]], ids=str)
def test_cached_and_uncached_log_probabilities_agree(model, prompt):
    assert_same_scores(make_scorer(model, prompt), Recomputed(model, prompt))


@pytest.mark.parametrize("model, valid", [
    (Seq2Seq(V, V, 16, 2, 2, 2, max_len=16), None),
    (adapt_model(Seq2Seq(V, V, 16, 2, 2, 2, max_len=16, norm="pre")), [[True, True, False]]),
    (LSTMSeq2Seq(V, V, 16, 2), None), (LSTMSeq2Seq(V, V, 16, 2), [2]),
])
def test_encoder_decoders_continue_a_target(model, valid):
    scorer = make_scorer(randomise_weights(model), [3, 1, 4], first=[1, 2], valid=valid)
    _, state = scorer.start()
    rows, _ = scorer.advance(state, np.array([0, 0]), np.array([5, 6]))
    twice = None if valid is None else np.repeat(valid, 2, 0)
    logits, _ = model.forward(np.array([[3, 1, 4]] * 2), np.array([[1, 2, 5], [1, 2, 6]]), twice)
    np.testing.assert_allclose(rows, log_softmax(logits[:, -1].astype(float)), atol=1e-6)


# One token's work a step

def test_advance_computes_only_the_new_token(monkeypatch):
    """Count the rows in each linear layer: one for each of the three hypotheses."""
    from npdl.decoding import language_models
    from npdl.layers.linear import Linear

    rows = []

    def record_rows(forward):
        def call(layer, x):
            rows.append(x.size // x.shape[-1])
            return forward(layer, x)
        return call

    monkeypatch.setattr(Linear, "forward", record_rows(Linear.forward))
    monkeypatch.setattr(language_models, "apply_linear", record_rows(language_models.apply_linear))
    for scorer in (CachedGPT(gpt(), np.arange(5)), CarriedLSTM(lstm(), np.arange(5)),
                   CachedLlama(llama(), np.arange(5))):
        _, state = scorer.start()
        rows.clear()
        scorer.advance(state, np.zeros(3, int), np.arange(3))
        assert set(rows) <= {0, 3} and 3 in rows


# Repetition

def penalised_log_probs(model, ids, penalty):
    """Return the penalised log-probabilities (V,) of the token after `ids`."""
    z = logits_of(model, np.array([ids]))[0, -1]
    for v in set(ids):
        z[v] = z[v] / penalty if z[v] > 0 else z[v] * penalty
    return log_softmax(z[None])[0]


@pytest.mark.parametrize("model", [gpt(), lstm()], ids=["GPT", "LSTM"])
def test_tokens_of_the_prompt_and_new_ones_are_penalised(model):
    prompt, penalty = [3, 1, 5], 3.0
    scorer = PenalisedRepetition(make_scorer(model, prompt), penalty)
    [plain], [found] = greedy(make_scorer(model, prompt), 8), greedy(scorer, 8)
    assert plain.tokens != found.tokens
    for hypothesis in (found, *beam_search(scorer, 3, 8).finished):
        ids, total = list(prompt), 0
        for token in hypothesis.tokens:
            log_probs = penalised_log_probs(model, ids, penalty)
            assert token == log_probs.argmax() or hypothesis is not found
            total += log_probs[token]
            ids.append(token)
        assert abs(hypothesis.log_prob - total) < 1e-5


# Beyond the window

@pytest.mark.parametrize("options", GPTS[:3], ids=str)
def test_past_max_len_the_window_slides(options):
    for model in (gpt(max_len=6, **options), llama(max_len=6)):
        for prompt in ([1, 2, 3, 4], [0, 1, 2, 3, 4, 5, 6, 1]):
            assert_same_scores(make_scorer(model, prompt), Recomputed(model, prompt, window=6), 12)


def test_keep_shortens_the_context():
    model = gpt(max_len=6)
    scorer, tokens = CachedGPT(model, [1, 2, 3, 4], keep=2), [1, 2, 3, 4]
    rows, state = scorer.start()
    lengths = []
    for token in [5, 6, 1, 2, 3, 4, 5, 6]:
        tokens.append(token)
        rows, state = scorer.advance(state, np.array([0]), np.array([token]))
        lengths.append(state.ids.shape[1])
        seen = np.array([tokens[-lengths[-1] :]])
        plain = log_softmax(logits_of(model, seen))[:, -1]
        np.testing.assert_allclose(rows, plain, atol=1e-6)
    assert lengths == [5, 6, 3, 4, 5, 6, 3, 4]


# Invalid input

class FixedScorer(Scorer):
    """A Scorer that returns the same rows at each step."""

    def __init__(self, rows):
        self.rows = np.array(rows)

    def start(self):
        return self.rows, None

    def advance(self, state, parents, tokens):
        return self.rows[parents], None


@pytest.mark.parametrize("call, message", [
    (lambda: CachedGPT(gpt(), []), "not empty"), (lambda: CachedGPT(gpt(), [[[1]]]), "not empty"),
    (lambda: CachedGPT(gpt(), [0.5]), "integers"), (lambda: CachedGPT(gpt(), [1], keep=16), "keep"),
    (lambda: CachedGPT(gpt(), [V]).start(), "allowed are 0 to 6"),
    (lambda: CarriedLSTM(lstm(), [-1]).start(), "contain -1"),
    *((lambda n=n: Recomputed(gpt(), [1], window=n), "window") for n in (0, -1, 2.5, True)),
    (lambda: PenalisedRepetition(make_scorer(gpt(), [1]), 0), "penalty = 0"),
    (lambda: PenalisedRepetition(Tree({"a": -0.5}), 1.2), "a Tree has none"),
    (lambda: CachedLlama(llama(), [V]).start(), f"allowed are 0 to {V - 1}"),
    (lambda: greedy(RecomputedSeq2Seq(Seq2Seq(V, V, 8, 1, 2, max_len=4), [1], [1]), 9), "max_len"),
    (lambda: Tree({}), "no branches"), (lambda: Tree({"a": 0.5}), "at most 0"),
    (lambda: Tree({"a": np.nan}), "at most 0"),
    (lambda: Tree({"a": 1.5}, probabilities=True), "between 0 and 1"),
    (lambda: Tree({"a": -0.5}, probabilities=True), "between 0 and 1"),
    (lambda: Tree({"a": 0.5, "b": (0.6, {})}, probabilities=True), "sum to more than 1"),
    (lambda: Tree({"a": (-1.0, {"b": "c"})}), "is not a branch"),
    (lambda: Tree({"a": (-1.0, -2.0, {})}), "is not a branch"),
    (lambda: Tree({"a": -1.0}, vocab=["b"]), "not in vocab"),
    (lambda: beam_search(FixedScorer(np.full((2, 2), -1.0)), 1, 2), "from one prompt"),
    (lambda: beam_search(FixedScorer([[-1.0, 0.5]]), 1, 2), "above 0 or NaN"),
    (lambda: exhaustive_search(FixedScorer([[-1.0, np.nan]]), 2), "above 0 or NaN"),
    (lambda: greedy(FixedScorer([[-1.0, np.nan]]), 2), "above 0 or NaN"),
    (lambda: filter_probabilities(np.zeros((1, 2)), np.inf), "temperature")])
def test_invalid_prompts_and_options(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
