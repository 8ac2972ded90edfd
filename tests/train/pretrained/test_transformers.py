"""Compare Llama, Qwen2 and GPT-2 with `transformers`: logits, all gradients, generation.

The models are small and random. transformers saves them to a folder, and npdl reads it. In float64,
RoPE and RMSNorm of transformers compute in float32, so the tests replace them.
"""

import importlib.util

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="parity with transformers needs torch")

from npdl.decoding import full_beam_search, greedy
from npdl.decoding.model_scorers import make_scorer
from npdl.decoding.repetition import PenalisedRepetition
from npdl.layers.rotary import LinearScaling, Llama3Scaling
from npdl.study.relative_error import relative_error
from npdl.train.pretrained import load, to_huggingface
from tests.layers.torch_layers import scale_frequencies

pytestmark = [pytest.mark.slow, pytest.mark.torch, pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="parity with transformers needs it")]
V, B, S = 97, 3, 11
LLAMA = {"vocab_size": V, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
         "attn_implementation": "sdpa", "initializer_range": 0.2}
GPT2 = {"vocab_size": V, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64,
        "bos_token_id": 0, "eos_token_id": 0, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
        "attn_implementation": "sdpa", "initializer_range": 0.2}
MODELS = {
    "llama, grouped, untied": ("Llama", {}), "gpt-2, tied": ("GPT2", {}),
    "llama, one key, tied": ("Llama", {
        "num_key_value_heads": 1, "tie_word_embeddings": True, "rope_theta": 500.0}),
    "llama, wide heads, a key each": ("Llama", {
        "num_key_value_heads": 4, "head_dim": 10, "rms_norm_eps": 1e-2}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "llama 3.2, scaled rotation": ("Llama", {
        "tie_word_embeddings": True, "head_dim": 16, "rope_theta": 500.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32}}),
    "llama, linear scaling": ("Llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"tie_word_embeddings": True, "head_dim": 12, "rms_norm_eps": 1e-3}),
    "gpt-2, untied": ("GPT2", {
        "tie_word_embeddings": False, "layer_norm_epsilon": 1e-2, "n_inner": 64}),
}
every_model = pytest.mark.parametrize("name", MODELS)


def make_rms_norm_forward(module):
    def forward(x):
        scale = (x * x).mean(-1, keepdim=True) + module.variance_epsilon
        return module.weight * (x / scale.sqrt())

    return forward


def get_npdl_scaling(rope):
    """npdl's scaling of a config's rope_parameters."""
    if rope["rope_type"] == "llama3":
        return Llama3Scaling(rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"],
                             rope["original_max_position_embeddings"])
    return LinearScaling(rope["factor"]) if rope["rope_type"] == "linear" else None


def make_rotary_forward(module):
    def forward(x, position_ids):
        d, rope = 2 * len(module.inv_freq), module.config.rope_parameters
        power = torch.arange(0, d, 2, dtype=x.dtype) / d
        f = scale_frequencies(get_npdl_scaling(rope), rope["rope_theta"] ** -power)
        angle = position_ids[..., None].to(x.dtype) * f
        angle = torch.cat((angle, angle), -1)
        return angle.cos(), angle.sin()

    return forward


def load_model_pair(name, folder, dtype):
    """transformers' model, and npdl's as it reads it from a folder."""
    import transformers  # takes seconds

    kind, options = MODELS[name]
    options = (GPT2 if kind == "GPT2" else LLAMA) | options
    torch.manual_seed(5)
    config = getattr(transformers, f"{kind}Config")(**options)
    theirs = transformers.AutoModelForCausalLM.from_config(config)
    for what, param in theirs.named_parameters():
        if param.ndim == 1:                                 # gains and biases
            torch.nn.init.normal_(param, float("bias" not in what), 0.3)
    theirs = theirs.to(getattr(torch, dtype)).eval()
    for module in theirs.modules() if dtype == "float64" else ():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = make_rms_norm_forward(module)
        elif type(module).__name__.endswith("RotaryEmbedding"):
            module.forward = make_rotary_forward(module)
    theirs.save_pretrained(folder)
    return theirs, load(folder, dtype)


def assert_close(found, wanted, dtype, what):
    """Within 1e-10 (1e-5 in float32) of the largest number, or of 1."""
    wanted = wanted.detach().numpy()
    assert found.dtype == wanted.dtype == dtype
    assert relative_error(found, wanted, 1.0) <= {"float64": 1e-10, "float32": 1e-5}[dtype], what


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@every_model
def test_logits_and_gradients_equal_transformers(name, dtype, tmp_path):
    theirs, ours = load_model_pair(name, tmp_path, dtype)
    rng = np.random.default_rng(6)
    ids, upstream = rng.integers(0, V, (B, S)), rng.standard_normal((B, S, V)).astype(dtype)
    wanted = theirs(torch.tensor(ids), use_cache=False).logits
    wanted.backward(torch.tensor(upstream))
    if dtype == "float32":                                  # transformers reads what npdl writes
        to_huggingface(ours, tmp_path / "ours")
        back = type(theirs).from_pretrained(tmp_path / "ours").eval()
        assert torch.equal(back(torch.tensor(ids)).logits, wanted)
    model = ours.model.astype(dtype)                        # its own arrays, not the file's
    model.set_trainable(True)
    logits, cache = model.forward(ids)
    model.backward(upstream, cache)
    assert_close(logits, wanted, dtype, "logits")
    ours_of = {row.hf_name: row for row in ours.architecture.make_array_specs()}
    params, seen = dict(model.params()), set()
    for what, param in theirs.named_parameters():
        row = ours_of[what.removeprefix(ours.architecture.prefix)]
        gradient = np.concatenate([params[each].grad for each in row.npdl_names], -1)
        assert_close(gradient.T if row.transposed else gradient, param.grad, dtype, what)
        seen.update(row.npdl_names)
    assert seen == params.keys()


def generate_with_transformers(theirs, prompt, tokens, **options):
    """Return transformers' continuation of prompts."""
    prompt = torch.tensor(prompt)
    with torch.no_grad():
        return theirs.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                               max_new_tokens=tokens, pad_token_id=0, **options)


@pytest.mark.parametrize(("name", "penalty"), [
    *((name, 1.0) for name in MODELS), ("llama, grouped, untied", 1.3),
    ("llama, grouped, untied", 0.8)])
def test_generated_tokens_equal_transformers(name, penalty, tmp_path):
    theirs, ours = load_model_pair(name, tmp_path, "float32")
    for prompt in ([[1, 2, 3]], [[5]], [[4, 4, 8, 1], [9, 60, 96, 2]]):
        wanted = generate_with_transformers(theirs, prompt, 24, eos_token_id=None,
                                            repetition_penalty=penalty)
        scorer = make_scorer(ours.model, prompt)
        found = greedy(scorer if penalty == 1 else PenalisedRepetition(scorer, penalty), 24)
        assert [[*p, *h.tokens] for p, h in zip(prompt, found, strict=True)] == wanted.tolist()


@pytest.mark.parametrize("length_power", [0.0, 1.0])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_beam_search_equals_transformers(width, length_power, tmp_path):
    theirs, ours = load_model_pair("qwen3", tmp_path, "float32")
    for seed in range(8):
        rng = np.random.default_rng(seed)
        prompt, end = rng.integers(0, V, 3), tuple(map(int, rng.permutation(V)[:5]))
        wanted = generate_with_transformers(theirs, prompt[None], 8, num_beams=width,
                                            eos_token_id=list(end), length_penalty=length_power)
        found = full_beam_search(make_scorer(ours.model, prompt), width, 8, end, length_power)
        assert list(found.best.tokens) == wanted[0, 3:].tolist(), (seed, found.finished)
