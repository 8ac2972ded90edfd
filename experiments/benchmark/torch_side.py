"""PyTorch's side of the benchmark. Imported only by the processes that measure PyTorch."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F

from experiments.benchmark import torch_reference as reference
from experiments.benchmark.cases import make_batches
from experiments.benchmark.npdl_side import LORA_RANK, PROMPT, make_lora_ids
from npdl import backend

ADAMW = {"foreach": {"foreach": True}, "fused": {"fused": True},
         "captured": {"fused": True, "capturable": True}}       # in a CUDA graph


def make_torch_model(case, form, adamw):
    """Return the model of a case and its optimizer. `form` is an entry of FORMS in bench.py."""
    torch.manual_seed(0)
    if case.model == "lstm":
        model = reference.LSTMLM(case.vocab, case.width, num_layers=case.layers)
    else:
        options = {"fused": form == "sdpa", "max_len": case.length}
        if case.is_text:
            options |= {"norm": "pre", "positions": "learned", "tied": True, "bias": False}
        model = reference.GPT(case.vocab, case.width, case.layers, case.heads, **options)
    model = model.to("cpu" if backend.is_host() else "cuda")
    params = list(model.parameters())
    if case.is_text:                    # only matrices decay
        params = [{"params": [p for p in params if p.dim() >= 2]},
                  {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}]
    return model, torch.optim.AdamW(params, **case.adamw_settings, **ADAMW[adamw])


def make_step(case, form, adamw="fused", compiled=False, last_count=None, random_batches=False,
              threads=1):
    """Return (step, synchronize) on the current backend; synchronize is None on the CPU.

    adamw           one of ADAMW; "captured" computes the whole step as one CUDA graph
    compiled        use torch.compile
    last_count      compute only the logits of this many last positions
    """
    torch.set_num_threads(threads)
    if not backend.is_host():
        torch.set_float32_matmul_precision("high" if backend.is_tf32() else "highest")
        torch.backends.cudnn.allow_tf32 = backend.is_tf32()
    model, optimizer = make_torch_model(case, form, adamw)
    loaded = [[to_torch(array, random_batches) for array in arrays]
              for arrays in make_batches(case, random_batches)]
    current = [array.to(next(model.parameters()).device).clone() for array in loaded[0]]
    params, next_batches = list(model.parameters()), itertools.cycle(loaded)
    forward = torch.compile(model) if compiled else model

    def compute_update():
        inputs, targets, counted = current
        if last_count is not None:
            targets, counted = targets[:, -last_count:], counted[:, -last_count:]
        logits = forward(inputs) if last_count is None else forward(inputs, num_last=last_count)
        loss = (F.cross_entropy(logits.flatten(0, 1), targets.flatten()) if case.is_text
                else reference.answer_loss(logits, targets, counted))
        loss.backward()
        if case.max_gradient_norm is not None:
            torch.nn.utils.clip_grad_norm_(params, case.max_gradient_norm)
        optimizer.step()
        return loss.detach()

    replay = capture_graph(compute_update, optimizer) if adamw == "captured" else None

    def step():
        if random_batches:
            for tensor, array in zip(current, next(next_batches), strict=True):
                tensor.copy_(array, non_blocking=True)
        if replay is not None:
            return replay()
        optimizer.zero_grad(set_to_none=True)
        return compute_update()

    return step, None if backend.is_host() else torch.cuda.synchronize


def to_torch(array, pinned):
    array = torch.from_numpy(np.ascontiguousarray(array))
    return array.pin_memory() if pinned and not backend.is_host() else array


def capture_graph(compute_update, optimizer):
    """Return a function that replays `compute_update` as one CUDA graph and returns its loss."""
    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):
        for _ in range(4):
            optimizer.zero_grad(set_to_none=True)
            compute_update()
    torch.cuda.current_stream().wait_stream(side_stream)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = compute_update()

    def replay():
        graph.replay()
        return loss

    return replay


# --- a real model ---------------------------------------------------------------------------------
def load_real_model(folder, threads):
    """Load the model in a folder with `transformers`, frozen and in float32."""
    import transformers

    torch.set_num_threads(threads)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return model.requires_grad_(False)


def make_decoding_step(folder, tokens, threads):
    """Return (step, None), where step() decodes `tokens` tokens greedily with a KV cache."""
    model = load_real_model(folder, threads)

    @torch.inference_mode()
    def step():
        new, past = torch.tensor([PROMPT]), None
        for _ in range(tokens):
            out = model(new, past_key_values=past, use_cache=True, logits_to_keep=1)
            new, past = out.logits[:, -1:].argmax(-1), out.past_key_values
        return new

    return step, None


class LoRA(torch.nn.Module):
    """A frozen linear layer with a low-rank adapter."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.A = torch.nn.Parameter(torch.randn(base.in_features, LORA_RANK) / LORA_RANK)
        self.B = torch.nn.Parameter(torch.zeros(base.out_features, LORA_RANK))

    def forward(self, x):
        return self.base(x) + (x @ self.A) @ self.B.T


def make_lora_step(folder, tokens, threads):
    """Return (step, None), where step() makes a LoRA update with the same adapters as npdl's."""
    model, params = load_real_model(folder, threads), []
    for layer in model.model.layers:
        for name in ("q_proj", "v_proj"):
            adapter = LoRA(getattr(layer.self_attn, name))
            setattr(layer.self_attn, name, adapter)
            params += [adapter.A, adapter.B]
    optimizer = torch.optim.AdamW(params, 1e-4)
    ids = torch.from_numpy(make_lora_ids(model.config.vocab_size))

    def step():
        logits = model(ids[:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits[0], ids[0, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, None
