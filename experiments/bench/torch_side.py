"""The PyTorch steps. Imported by the workers that measure torch, and by nothing else."""

import torch

from tests.tools import torch_reference as reference

from .floor import operands

# Forms of the two models, each tried with every AdamW that torch has.
FORMS = {"gpt": ("plain", "sdpa"), "lstm": ("nn.LSTM", "per-gate"), "text": ("plain", "sdpa")}
ADAMW = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True},
         "captured": {"fused": True, "capturable": True}}       # by a CUDA graph


def build_model(case, form):
    """The model of `case` in one of its FORMS."""
    torch.manual_seed(0)
    if case.model == "lstm":
        kind = reference.LSTMLM if form == "nn.LSTM" else reference.LSTMLMPerGate
        return kind(case.vocab, case.width, num_layers=case.layers)
    options = {"fused": form == "sdpa", "max_len": case.length}
    if case.is_text:
        options |= {"norm": "pre", "positions": "learned", "tied": True, "bias": False}
    return reference.GPT(case.vocab, case.width, case.layers, case.heads, **options)


def build_optimizer(model, case, adamw):
    settings = dict(case.optimizer)
    settings.pop("clip")
    params = list(model.parameters())
    if settings.pop("matrices_only"):
        params = [{"params": [p for p in params if p.dim() >= 2]},
                  {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(params, **settings, **ADAMW[adamw])


def make_step(case, batch, form, adamw="default", compiled=False, last=None):
    """A function that does one training step and returns its loss.

    `last` keeps only the logits of the last positions, and with them the last block's queries
    (GPT) or the classifier's rows (LSTM): the elimination of dead work, in torch.
    """
    model = build_model(case, form)
    optimizer = build_optimizer(model, case, adamw)
    inputs, targets, mask = (torch.from_numpy(array) for array in batch)
    if last is not None:
        targets, mask = targets[:, -last:], mask[:, -last:]
    keep = {} if last is None else {"last": last}
    params, clip = list(model.parameters()), case.optimizer["clip"]
    forward = torch.compile(model) if compiled else model

    def step():
        logits = forward(inputs, **keep)
        if case.is_text:
            loss = reference.next_token_loss(logits, targets)
        else:
            loss = reference.answer_loss(logits, targets, mask)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(params, clip)
        optimizer.step()
        return loss.item()

    return step


def product_step(products):
    """Only the step's matrix products, by torch.matmul."""
    work = [tuple(torch.from_numpy(array) for array in triple) for triple in operands(products)]

    def step():
        for x, y, out in work:
            torch.matmul(x, y, out=out)
        return 0.0

    return step
