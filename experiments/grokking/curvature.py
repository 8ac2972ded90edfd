"""Why a run falls back late: the largest curvature that AdamW sees, until the loss jumps.

  python experiments/train_gpt.py --for-steps 8000 --out run
  python experiments/grokking/curvature.py run            writes results/grokking/curvature.json

Adam moves along P^-1 m, P = sqrt(v_hat) + eps, m a mean of gradients with b1. On a quadratic loss
such steps grow without end where lr times the largest eigenvalue of P^-1/2 H P^-1/2, H the Hessian,
is above LIMIT, 2 (1 + b1) / (1 - b1) = 38 (Cohen et al. 2022, arXiv:2207.14484). v forgets in some
1,000 steps, so that P shrinks with the gradients; that the eigenvalue then reaches the limit, and
the loss jumps, is what arXiv:2506.04805 says of loss spikes. Here it is looked at in float64, by
differences of npdl's own gradients, at every EVERY-th step of a run whose batches are the whole
training set.
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import argparse
import dataclasses
import sys
from pathlib import Path

import numpy as np

from experiments.keeping import short, write_record
from experiments.trials import RESULTS
from npdl_train.console import OneLineParser, guarded
from npdl_train.runs import checkpoint
from npdl_train.runs.config import Config
from npdl_train.runs.folder import read_config
from npdl_train.runs.loop import Trainer
from npdl_train.runs.versions import versions

KEPT = RESULTS / "grokking" / "curvature.json.gz"
EVERY = 10
TURNS = (25, 4)         # of the power iteration: at first, and from the last vector on
SIZE = 1e-5             # length of a difference, of a move of all parameters
B1 = Config().betas[0]
LIMIT = 2 * (1 + B1) / (1 - B1)


class Hessian:
    """Products with the Hessian of the mean training loss, in float64, by central differences."""

    def __init__(self, config):
        self.trainer = Trainer(dataclasses.replace(config, dtype="float64"))
        self.params = dict(self.trainer.model.params())

    def gradient(self, theta):
        """(loss, {name: gradient}) at the parameters theta."""
        for name, param in self.params.items():
            param.data[...] = theta[name]
        self.trainer.optimizer.zero_grad()
        loss = self.trainer.engine.step(self.trainer.task.batch(0))
        return float(loss), {name: param.grad.copy() for name, param in self.params.items()}

    def product(self, theta, d):
        """H d at theta."""
        e = SIZE / norm(d)
        ahead, behind = (self.gradient({n: theta[n] + sign * e * d[n] for n in d})[1]
                         for sign in (1, -1))
        return {n: (ahead[n] - behind[n]) / (2 * e) for n in d}


def norm(arrays):
    return float(np.sqrt(sum((a * a).sum() for a in arrays.values())))


def place(trainer):
    """(the parameters, P^1/2) of a run as it stands: {name: array in float64} each."""
    optimizer, b2 = trainer.optimizer, trainer.config.betas[1]
    return ({name: p.data.astype(np.float64) for name, p in trainer.model.params()},
            {name: np.sqrt(np.sqrt(v.astype(np.float64) / (1 - b2**optimizer.steps))
                           + optimizer.eps) for name, v in optimizer.v.items()})


def dot(a, b):
    return sum(float((a[name] * b[name]).sum()) for name in a)


def measured(hessian, trainer, u, turns):
    """(what is recorded of this step, the eigenvector u after some turns of power iteration)."""
    theta, root = place(trainer)
    for _ in range(turns):
        size = norm(u)
        u = {name: a / size for name, a in u.items()}
        product = hessian.product(theta, {name: u[name] / root[name] for name in u})
        turned = {name: product[name] / root[name] for name in u}
        largest = dot(u, turned)
        u = turned
    loss, gradient = hessian.gradient(theta)
    return {"step": trainer.step, "loss": loss, "gradient_norm": norm(gradient),
            "lr_curvature": trainer.config.lr * largest}, u


def watched(folder, steps):
    """[record] of a run from its last checkpoint on."""
    config = dataclasses.replace(read_config(folder), engine="plain", threads=1)
    trainer, found = Trainer(config), []
    trainer.load_state(*checkpoint.load(Path(folder) / "checkpoint.npz"))
    hessian, rng, turns = Hessian(config), np.random.default_rng(0), iter(TURNS)
    u = {name: rng.normal(size=p.data.shape) for name, p in trainer.model.params()}
    for _ in range(0, steps, EVERY):
        record, u = measured(hessian, trainer, u, next(turns, TURNS[-1]))
        found.append(record)
        print(f"step {record['step']}: loss {record['loss']:.3g}, lr times the curvature "
              f"{record['lr_curvature']:.3g}", flush=True)
        for _ in range(EVERY):
            trainer.update()
    return found


def main(arguments=None):
    p = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("run", help="the folder of a GPT's or an LSTM's run on equations")
    p.add_argument("--steps", type=int, default=400, help="how far to look (default: 400)")
    p.add_argument("--out", default=KEPT, help="the file to write")
    options = p.parse_args(arguments)

    def work():
        found = watched(options.run, options.steps)
        write_record(Path(options.out), {
            "config": read_config(options.run).to_json(), "made": versions(),
            "records": {name: [short(record[name]) for record in found] for name in found[0]}})
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())
