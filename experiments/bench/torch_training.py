"""A whole training in PyTorch: the plain loop that npdl's training command is compared with.

The same recipe (document 004: p = 31, a + b, half of the equations, AdamW, the gradient clipped as
npdl's command clips it), the same moments of evaluation on both sets, the same things left behind:
a line of metrics for each evaluation, a checkpoint of model and optimizer every 1000 steps, and a
picture of the curves.
"""

import json
import sys
import time
from pathlib import Path

import torch

from .cases import DOCUMENT, Case, make_batch
from .torch_side import build_model, build_optimizer, reference

N_TRAIN, N = 480, 961
SAVE_EVERY = 1000
CLIP = 1.0


def tensors(rows):
    """(inputs, targets, answer_mask) of some rows of all N equations."""
    return [torch.from_numpy(array[rows]) for array in make_batch(Case(batch=N))]


@torch.no_grad()
def evaluate(model, inputs, targets, mask):
    """(loss, exact-match accuracy) of one set."""
    model.eval()
    logits = model(inputs)
    right = (logits.argmax(dim=-1) == targets) | ~mask
    loss = reference.answer_loss(logits, targets, mask)
    return loss.item(), right.all(dim=1).float().mean().item()


def evaluation_due(step, steps):
    """At every step up to 100, every 100 after, and at the end."""
    return step <= 100 or step % 100 == 0 or step == steps


def train(model_name, steps, folder, form, adamw):
    """Train for `steps` updates and leave metrics, a checkpoint and curves in `folder`."""
    case, folder = DOCUMENT[model_name], Path(folder)
    train_set, validation_set = tensors(slice(N_TRAIN)), tensors(slice(N_TRAIN, N))
    model = build_model(case, form)
    optimizer = build_optimizer(model, case, adamw)
    records = []
    with open(folder / "metrics.jsonl", "w") as metrics:
        for step in range(1, steps + 1):
            order = torch.randperm(N_TRAIN)
            inputs, targets, mask = (tensor[order] for tensor in train_set)
            model.train()
            loss = reference.answer_loss(model(inputs), targets, mask)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            if step % SAVE_EVERY == 0 or step == steps:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                           folder / "checkpoint.pt")
            if evaluation_due(step, steps):
                train_loss, train_accuracy = evaluate(model, *train_set)
                loss, accuracy = evaluate(model, *validation_set)
                with torch.no_grad():
                    norm = torch.sqrt(sum((p * p).sum() for p in model.parameters())).item()
                records.append({"step": step, "train_loss": train_loss,
                                "train_accuracy": train_accuracy, "validation_loss": loss,
                                "validation_accuracy": accuracy, "l2_norm": norm})
                metrics.write(json.dumps(records[-1]) + "\n")
                metrics.flush()
    draw(records, folder / "curves.png")


def draw(records, path):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    steps = [record["step"] for record in records]
    for panel, field in zip(figure.subplots(1, 2), ("loss", "accuracy"), strict=True):
        for side in ("train", "validation"):
            panel.plot(steps, [record[f"{side}_{field}"] for record in records], label=side)
        panel.set_xlabel("training step")
        panel.set_ylabel(field)
        panel.legend()
    figure.savefig(path)


def main(job):
    began = time.perf_counter()
    train(job["model"], job["steps"], job["folder"], job["form"], job["adamw"])
    print(f"{job['steps']} steps in {time.perf_counter() - began:.1f} s", file=sys.stderr)
