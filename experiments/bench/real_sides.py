"""What a worker of bench_real.py repeats, by npdl and by PyTorch: generating, a step of LoRA,
loading; and one kind of fine-tuning by npdl, whole."""

import json
import time

import numpy as np

from npdl.adapt import add_lora
from npdl.decoding import greedy
from npdl.decoding.continuation import continuation
from npdl.optim import AdamW
from npdl_train.pretrained import load
from npdl_train.process import peak_memory
from npdl_train.runs.config import Config
from npdl_train.runs.engine import Batch, make_engine
from npdl_train.runs.folder import count
from npdl_train.runs.loop import Trainer

PROMPT = list(range(100, 112))          # any tokens: the work is the same
TOKENS, RANK, WHERE = 64, 8, ("W_Q", "W_V")


def npdl_step(folder, what, tokens, threads):
    """A function that does the work once; what it returns is a finite number."""
    if what == "load":
        return lambda: float(load(folder).architecture.size)
    model = load(folder).model
    if what == "generate":
        return lambda: greedy(continuation(model, PROMPT, capacity=len(PROMPT) + tokens),
                              tokens)[0].log_prob
    add_lora(model, RANK, where=WHERE)
    engine = make_engine("fast", model, AdamW(model, 1e-4), threads)
    ids = _ids(model.embedding.W.shape[0])
    batch = Batch(ids[:, :-1], ids[:, 1:], np.ones((1, TOKENS), bool))

    def step():
        with engine:
            loss = engine.step(batch)
            engine.update()
        return float(loss)

    return step


def torch_step(folder, what, tokens, threads):
    """The same by PyTorch: the model is that of `transformers`, the loops are the shortest."""
    import torch
    import transformers

    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    def made():
        return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    if what == "load":
        return lambda: float(made().num_parameters())
    model = made()
    model.requires_grad_(False)
    if what == "generate":
        @torch.inference_mode()
        def generate():
            new, past = torch.tensor([PROMPT]), None
            for _ in range(tokens):
                out = model(new, past_key_values=past, use_cache=True, logits_to_keep=1)
                new, past = out.logits[:, -1:].argmax(-1), out.past_key_values
            return float(new)

        return generate
    params = _torch_lora(torch, model)
    optimizer = torch.optim.AdamW(params, 1e-4)
    ids = torch.from_numpy(_ids(model.config.vocab_size))

    def step():
        logits = model(ids[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits[0], ids[0, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def _ids(vocab_size):
    return np.random.default_rng(0).integers(0, vocab_size, (1, TOKENS + 1))


def _torch_lora(torch, model):
    """Put the same adapters into every q_proj and v_proj; their parameters."""
    class LoRA(torch.nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.A = torch.nn.Parameter(torch.randn(base.in_features, RANK) / RANK)
            self.B = torch.nn.Parameter(torch.zeros(base.out_features, RANK))

        def forward(self, x):
            return self.base(x) + (x @ self.A) @ self.B.T

    found = []
    for layer in model.model.layers:
        attention = layer.self_attn
        for name in ("q_proj", "v_proj"):
            adapter = LoRA(getattr(attention, name))
            setattr(attention, name, adapter)
            found += [adapter.A, adapter.B]
    return found


def finetuning(job):
    """Fine-tune as `job` says; print counts, times, losses and peak memory as one line of JSON."""
    trainer, times = Trainer(Config.from_json(job)), []
    with trainer.engine:
        before = trainer.evaluate()["validation_loss"]
        while trainer.step < trainer.config.steps:
            start = time.perf_counter()
            trainer.update()
            times.append(time.perf_counter() - start)
        after = trainer.evaluate()["validation_loss"]
    print(json.dumps({**count(trainer.model), "seconds": float(np.median(times)),
                      "before": before, "after": after, "peak_mb": peak_memory() / 2**20}))
