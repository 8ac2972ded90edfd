"""Does float32 stop a network before it groks, and what helps? (Prieto et al. 2025, 2501.04697)

  python experiments/grokking/collapse.py --list     the trials and their minutes
  python experiments/grokking/collapse.py            make what is not made yet
  python experiments/report.py                       the answers, from what there is

Addition modulo 113, all training pairs at every step: an MLP 226-200-200-113 without biases on two
one-hot numbers, with the settings of the paper's published script, and controls of our own:

  float32, float64         softmax cross-entropy in that precision, 40 % of the pairs
  float16-70, ... -70      the same at 70 %
  stablemax                StableMax in float64, 20 times the learning rate, 40 %
  softmax64                its control: softmax, all else the same
  orthogonal               softmax in float32, AdamW with the orthogonal gradient, 40 %
  published                as the published code computes that: the gradient scaled back to the
                           norm that it had; beta2 and eps, which never reach it, AdamW's usual
  plain                    the control of orthogonal: AdamW, all else the same
  decay                    AdamW with weight decay, as tuned in "Grokking Baseline Revisited"
                           (Chou, July 2025); the only arm with any

The network itself is float32 everywhere. Arms with the same seed and share have the same split and
start. A trial ends early when every validation pair has been right at three evaluations running,
or when no pair has had a gradient for so long that AdamW's momentum is gone, too: nothing can
change any more.
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import dataclasses
import sys

import numpy as np

from experiments.trials import Trial, all_right, columns_of, main
from npdl.backend import stream
from npdl.losses import CrossEntropy, StableMaxLoss
from npdl.models.mlp import MLP
from npdl.optim import AdamW, orthogonal_gradient
from npdl.threads import ONE_BLAS_THREAD

FOLDER = "grokking/collapse"
P, HIDDEN = 113, 200
SEEDS = (0, 1, 2)
SECONDS = {"float16": 0.11}         # of an epoch at 40 % on one core, expected; else:
USUAL = 0.045
DEAD = 300                          # epochs without any gradient that end a trial


@dataclasses.dataclass(frozen=True)
class Arm:
    """The settings of some trials.

    dtype     the precision of the loss alone
    share     of all pairs, to train on
    gradient  "usual", "orthogonal", or "rescaled": orthogonal with the norm that it had
    epochs    at most; an evaluation every `every` of them, and more often at first
    seeds     how many of SEEDS
    """

    loss: str = "softmax"
    dtype: str = "float32"
    lr: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.99)
    eps: float = 1e-25
    decay: float = 0.0
    share: float = 0.4
    gradient: str = "usual"
    epochs: int = 500
    every: int = 5
    seeds: int = 3

    def facts(self):
        """What decides a training, as JSON gives it back."""
        value = {**dataclasses.asdict(self), "betas": list(self.betas)}
        del value["seeds"]
        return value

    def minutes(self):
        return SECONDS.get(self.dtype, USUAL) * self.share / 0.4 * self.epochs / 60


LOSSES = {"softmax": CrossEntropy, "stablemax": StableMaxLoss}
SLOW = Arm(lr=5e-4, eps=1e-30, epochs=20_000, every=100, seeds=2)
MORE = dataclasses.replace(SLOW, eps=1e-25, share=0.7, epochs=10_000)
FAST = Arm(dtype="float64", betas=(0.9, 0.999), epochs=40_000, every=100, seeds=1)
ARMS = {
    "orthogonal": Arm(gradient="orthogonal"),
    "published": Arm(gradient="rescaled", betas=(0.9, 0.999), eps=1e-8),
    "plain": Arm(),
    "decay": Arm(lr=5e-2, decay=4.0),
    "float16-70": dataclasses.replace(MORE, dtype="float16", epochs=2500, seeds=1),
    "float32-70": MORE,
    "float64-70": dataclasses.replace(MORE, dtype="float64"),
    "stablemax": dataclasses.replace(FAST, loss="stablemax", epochs=60_000),
    "float32": SLOW,
    "float64": dataclasses.replace(SLOW, dtype="float64", seeds=1),
    "softmax64": FAST,
}


def pairs(p, share, seed):
    """(inputs (N, 2p), answers (N,)) of the training and of the validation pairs."""
    a, b = np.divmod(stream(seed, 0).permutation(p * p), p)
    eye = np.eye(p, dtype=np.float32)
    inputs, answers = np.concatenate([eye[a], eye[b]], 1), (a + b) % p
    cut = int(share * p * p)
    return (inputs[:cut], answers[:cut]), (inputs[cut:], answers[cut:])


def train(arm, seed, p=P, hidden=HIDDEN):
    """The columns of a training by the settings of an Arm: see `look`."""
    (x, y), validation = pairs(p, arm.share, seed)
    model = MLP([2 * p, hidden, hidden, p], bias=False, rng=stream(seed, 1))
    optimizer = AdamW(model, arm.lr, betas=arm.betas, eps=arm.eps, weight_decay=arm.decay)
    params, loss, rows = list(optimizer.params.values()), LOSSES[arm.loss](), []
    dead = 0
    with ONE_BLAS_THREAD, np.errstate(over="ignore", under="ignore", divide="ignore"):
        for epoch in range(1, arm.epochs + 1):
            optimizer.zero_grad()
            logits, cache = model.forward(x)
            value, c_loss = loss.forward(logits.astype(arm.dtype), y)
            dlogits = loss.backward(np.dtype(arm.dtype).type(1), c_loss).astype(np.float32)
            model.backward(dlogits, cache)
            dead = 0 if dlogits.any() or arm.decay else dead + 1
            if is_due(epoch, arm) or dead == DEAD:
                rows.append(measured(epoch, model, params, value, logits, dlogits, y, validation))
                if all_right(rows) or dead == DEAD:
                    break
            turn(params, arm.gradient)
            optimizer.step()
    return columns_of(rows)


def turn(params, gradient):
    """The gradients as an arm has them: see Arm."""
    if gradient == "usual":
        return
    before = [np.linalg.norm(p.grad) for p in params]
    orthogonal_gradient(params)
    if gradient == "rescaled":
        for p, norm in zip(params, before, strict=True):
            p.grad *= norm / (np.linalg.norm(p.grad) + np.float32(1e-30))


def is_due(epoch, arm):
    """About ten evaluations for each power of ten, until they are `every` epochs apart."""
    return epoch == arm.epochs or epoch % min(arm.every, 10 ** (len(str(epoch)) - 1)) == 0


def measured(epoch, model, params, value, logits, dlogits, y, validation):
    """The state before an update.

    collapsed   share of the training pairs whose probability is rounded to 1: the gradient at the
                right logit is exactly 0, and only the other logits still fall
    along       cosine of the descent direction and the weights: 1 would only scale them
    """
    grads = np.concatenate([p.grad.ravel() for p in params]).astype(np.float64)
    theta = np.concatenate([p.data.ravel() for p in params]).astype(np.float64)
    size = np.sqrt((grads @ grads) * (theta @ theta))
    out, _ = model.forward(validation[0])
    return {"step": epoch, "train_loss": float(value),
            "train_accuracy": float((logits.argmax(-1) == y).mean()),
            "validation_accuracy": float((out.argmax(-1) == validation[1]).mean()),
            "collapsed": float((dlogits[np.arange(len(y)), y] == 0).mean()),
            "along": float(-(grads @ theta) / size) if size else 0.0,
            "norm": float(np.sqrt(theta @ theta))}


TRIALS = [Trial(f"{name}-seed{seed}", {"arm": name, "seed": seed, **arm.facts()}, arm.minutes(),
                lambda arm=arm, seed=seed: train(arm, seed))
          for i, seed in enumerate(SEEDS) for name, arm in ARMS.items() if i < arm.seeds]

if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))
