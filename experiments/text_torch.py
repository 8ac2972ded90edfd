"""The small text recipe in plain PyTorch: what loss it gives when npdl has no part in it.

The model, the starting values, the optimizer and the two ways to evaluate are nanoGPT's (no bias
in the linear maps and none in the LayerNorms, normal(0, 0.02), residual maps smaller by sqrt(2L)).
Prints, for each seed, the loss on 20 random batches of 12 windows and that on the whole validation
part, as text_losses.py takes it. --as-npdl takes npdl's start and npdl's batches of that seed
instead, so that both compute the same thing but for rounding. Needs torch.

  python experiments/text_torch.py --text tinyshakespeare.txt --seeds 0 1 2 3
"""

import json
import math
import sys
import time

try:
    import torch
    from torch import nn
except ImportError:
    print("text_torch.py: PyTorch is not installed; install it with 'pip install torch'",
          file=sys.stderr)
    sys.exit(2)


from experiments.text_losses import whole_windows
from npdl.console import OneLineParser, guarded
from npdl.data.text import Characters, read_text, split_text, windows
from npdl.schedule import schedule
from npdl.training.config import Config
from npdl.training.loop import Trainer
from tests.tools import torch_names
from tests.tools import torch_reference as reference

BLOCK, BATCH, STEPS, EVALUATED = 64, 12, 2000, 20
BATCHES = 3         # the place of a run's batches in the streams of its seed
LR, LR_MIN, WARMUP, BETAS, DECAY, CLIP = 1e-3, 1e-4, 100, (0.9, 0.99), 0.1, 1.0
SIZES = {"d_model": 128, "num_layers": 4, "num_heads": 4, "max_len": BLOCK, "bias": False,
         "norm": "pre", "positions": "learned", "tied": True, "fused": True}


def start(model, init):
    """Starting values from torch's generator: GPT-2's, or LeCun's for the linear maps."""
    residual = 1 / math.sqrt(2 * len(model.blocks))
    for name, param in model.named_parameters():
        if param.dim() >= 2:
            small = name.endswith(("W_O.weight", "down.weight"))
            is_map = name.startswith("blocks") and init == "lecun"
            std = 1 / math.sqrt(param.shape[1]) if is_map else 0.02
            nn.init.normal_(param, 0.0, std * (residual if small else 1))


def npdl_start(model, text, seed, options):
    """The numbers that npdl's run of this seed begins with."""
    config = Config(model="gpt", text=text, r_train=0.9, batch=BATCH, steps=STEPS, layers=4,
                    heads=4, width=128, block=BLOCK, norm="pre", norm_bias=options.norm_bias,
                    positions="learned", tied=True, bias=False, init=options.init,
                    seed=seed)
    torch_names.load(model, Trainer(config).model.state_dict())


def drawn(ids, count, generator):
    """`count` windows at places that torch draws."""
    places = torch.randint(len(ids) - BLOCK, (count,), generator=generator)
    taken = torch.stack([ids[i : i + BLOCK + 1] for i in places])
    return taken[:, :-1], taken[:, 1:]


@torch.no_grad()
def loss_on(model, inputs, targets, rows=BATCH):
    """The mean loss over some windows."""
    total = sum(float(reference.next_token_loss(model(inputs[i : i + rows]), targets[i : i + rows]))
                * len(inputs[i : i + rows]) for i in range(0, len(inputs), rows))
    return total / len(inputs)


def train(parts, size, text, seed, options):
    """One training; returns a record of its losses."""
    began = time.perf_counter()
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = reference.GPT(size, **SIZES, norm_bias=options.norm_bias)
    start(model, options.init)
    if options.as_npdl:
        npdl_start(model, text, seed, options)
    params = list(model.parameters())
    groups = [{"params": [p for p in params if p.dim() >= 2], "weight_decay": DECAY},
              {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, fused=True)
    rate = schedule("cosine", LR, options.steps, min(WARMUP, options.steps // 2), LR_MIN)
    train_ids = torch.from_numpy(parts["train"])
    for step in range(options.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        if options.as_npdl:
            pair = windows(parts["train"], BLOCK, BATCH, seed, step, BATCHES)
            inputs, targets = (torch.from_numpy(array) for array in pair)
        else:
            inputs, targets = drawn(train_ids, BATCH, generator)
        optimizer.zero_grad(set_to_none=True)
        reference.next_token_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(params, CLIP)
        optimizer.step()
    held = parts["validation"]
    whole = [torch.from_numpy(array) for array in whole_windows(held, BLOCK)]
    return {"seed": seed, "as_npdl": options.as_npdl, "norm_bias": options.norm_bias,
            "init": options.init,
            "random": loss_on(model, *drawn(torch.from_numpy(held), EVALUATED * BATCH, generator)),
            "whole": loss_on(model, *whole, rows=64), "seconds": time.perf_counter() - began}


def main(given=None):
    p = OneLineParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--text", required=True, metavar="FILE")
    p.add_argument("--seeds", type=int, nargs="+", default=[0])
    p.add_argument("--steps", type=int, default=STEPS)
    p.add_argument("--as-npdl", action="store_true", help="npdl's start and batches")
    p.add_argument("--init", choices=("gpt2", "lecun"), default="gpt2", help="starting values")
    p.add_argument("--norm-bias", action="store_true", help="LayerNorms with biases")
    p.add_argument("--threads", type=int, default=1)
    options = p.parse_args(given)

    def work():
        torch.set_num_threads(options.threads)
        text, _ = read_text(options.text)
        characters = Characters.of(text)
        parts = split_text(characters.encode(text), 0.9, BLOCK)
        for seed in options.seeds:
            record = train(parts, characters.size, options.text, seed, options)
            print(json.dumps(record), flush=True)
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())
