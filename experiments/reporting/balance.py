"""Update against decay: what a spike of the gradient does to AdamW, with and without clipping.

  python experiments/reporting/balance.py      trains two GPTs, writes results/balance.json

At equilibrium the two parts of an AdamW step, lr m_hat / (sqrt(v_hat) + eps) and lr decay theta,
are equally long. A spike of the gradient stays in v for some 1 / (1 - beta2) = 1000 steps.
"""

if __name__ == "__main__":
    from npdl.console import begin

    begin()         # Ctrl-C is quiet from here on

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np

from npdl.backend import to_host
from npdl.console import OneLineParser, guarded
from npdl.files import write_atomically
from npdl.training.config import Config
from npdl.training.loop import Trainer
from npdl.training.origin import versions
from npdl_study.plots import style

PATH = Path(__file__).parents[1] / "results" / "balance.json"
VARIANTS = {"as stated": {"clip": None}, "clip at norm 1": {"clip": 1.0}}
EVERY = 20                      # steps between two records
MEMORISED = 200                 # the training set is known from here on
KEYS = ("step", "loss", "gradient", "root_v", "update", "decay")


def trace(config, every=EVERY):
    """{name: column} of a fresh training of config.steps steps, a row every `every` steps.

    loss      of the training set, after the step
    gradient  largest norm of the gradient, as the optimizer got it, since the row before
    root_v    norm of sqrt(v_hat);  update  of m_hat / (sqrt(v_hat) + eps);  decay  of decay theta
    """
    trainer = Trainer(config)
    params, rows, largest = trainer.optimizer.params.values(), [], 0.0
    with trainer.engine:
        while trainer.step < config.steps:
            trainer.update()
            squares = sum(float((param.grad * param.grad).sum()) for param in params)
            largest = max(largest, math.sqrt(squares))
            if trainer.step % every == 0:
                loss = trainer.task.measure(trainer.engine)["train_loss"]
                rows.append((trainer.step, loss, largest, *lengths(trainer.optimizer)))
                largest = 0.0
    return {key: [short(value) for value in column]
            for key, column in zip(KEYS, zip(*rows, strict=True), strict=True)}


def lengths(optimizer):
    """Norms of sqrt(v_hat), of the update and of the decay, each over the learning rate."""
    (b1, b2), t, squares = optimizer.betas, optimizer.steps, np.zeros(3)
    for name, param in optimizer.params.items():
        m, v, theta = (to_host(array).astype(np.float64)
                       for array in (optimizer.m[name], optimizer.v[name], param.data))
        root = np.sqrt(v / (1 - b2**t))
        update = m / (1 - b1**t) / (root + optimizer.eps)
        squares += [np.square(part).sum() for part in (root, update,
                                                       optimizer.weight_decay * theta)]
    return tuple(np.sqrt(squares).tolist())


def short(value):
    return value if isinstance(value, int) else float(f"{value:.4g}")


def load():
    """({variant: columns}, what computed them); both empty where no trace is there."""
    traces = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    return traces, traces.pop("made", {})


def figure_data(traces):
    """What the figure shows of each trace: the loss, the gradient with sqrt(v), the ratio."""
    return [{"name": name, **{key: t[key] for key in ("step", "loss", "gradient", "root_v")},
             "ratio": [u / d for u, d in zip(t["update"], t["decay"], strict=True)]}
            for name, t in traces.items()]


def draw(figure, data):
    """A column for each variant: loss; gradient and sqrt(v); update over decay."""
    panels = figure.subplots(3, len(data), sharex=True, sharey="row", squeeze=False)
    for column, one in zip(panels.T, data, strict=True):
        step = one["step"]
        column[0].plot(step, one["loss"], color=style.BLUE, linewidth=1)
        column[1].plot(step, one["gradient"], color=style.ORANGE, linewidth=1, label="gradient")
        column[1].plot(step, one["root_v"], color=style.INK, linewidth=1.3,
                       label="root of the second moment")
        column[2].plot(step, one["ratio"], color=style.GREEN, linewidth=1)
        column[2].axhline(1, color=style.VERMILION, linewidth=1, linestyle="--")
        for axes in column:
            axes.set_yscale("log")
            style.dress(axes, "", "")
        column[0].set_title(one["name"], fontsize=11, loc="left")
        column[1].set_ylim(7e-4, 60)
        column[1].legend(frameon=False, fontsize=8.5, loc="lower right")
        column[2].set_xlabel("step")
    for axes, label in zip(panels[:, 0], ("training loss", "norm", "update / decay"), strict=True):
        axes.set_ylabel(label)


def main(arguments=None):
    p = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steps", type=int, default=3000, help="of each training (default: 3000)")
    p.add_argument("--path", default=PATH, help="the file to write")
    options = p.parse_args(arguments)

    def work():
        traces = {name: trace(Config(steps=options.steps, threads=1, **settings))
                  for name, settings in VARIANTS.items()}
        lines = ",\n".join(f'"{name}":' + json.dumps(t, separators=(",", ":"))
                           for name, t in (*traces.items(), ("made", versions())))
        write_atomically(options.path, lambda file: file.write(f"{{\n{lines}\n}}\n".encode()))
        print(f"{options.path}: {', '.join(traces)}")
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())
