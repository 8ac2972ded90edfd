"""Does float32 stop a network before it groks, and what helps? (Prieto et al. 2025, 2501.04697)

  python experiments/grokking/collapse.py --list     the trials and their minutes
  python experiments/grokking/collapse.py            make what is not made yet
  python experiments/grokking/report.py              the answers, from what there is

Addition modulo 113, 40 % of the pairs to train on, all of them at every step, no weight decay: an
MLP 226-200-200-113 without biases on two one-hot numbers, as the paper's code has it. Its losses:

  float16, float32, float64    softmax cross-entropy in that precision (lr 5e-4, eps 1e-30)
  stablemax                    StableMax in float64 (lr 1e-2, beta2 0.999)
  orthogonal                   softmax in float32, AdamW with the orthogonal gradient (lr 1e-2)

The network itself is float32 everywhere. Arms with the same seed share split and start. A trial
ends early when no pair has had a gradient for so long that AdamW's momentum is 0, too: nothing can
change any more.
"""

if __name__ == "__main__":
    from npdl.script import begin

    begin()         # Ctrl-C is quiet from here on

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from trials import Trial, main

from npdl.backend import stream
from npdl.losses import CrossEntropy, StableMaxLoss
from npdl.models.mlp import MLP
from npdl.optim import AdamW, orthogonal_gradient
from npdl.shared import ONE_BLAS_THREAD

FOLDER = "grokking/collapse"
P, SHARE, HIDDEN = 113, 0.4, 200
SEEDS = (0, 1, 2)
PRINTED = 300                       # epochs in which the paper's orthogonal AdamW generalises
SECONDS = {"float16": 0.14}         # of a step on one core, expected; else:
USUAL = 0.045
DEAD = 10                           # evaluations without any gradient that end a trial
# arm -> loss, its precision, learning rate, betas, eps, epochs
ARMS = {
    "float16": (CrossEntropy, "float16", 5e-4, (0.9, 0.99), 1e-30, 10_000),
    "float32": (CrossEntropy, "float32", 5e-4, (0.9, 0.99), 1e-30, 10_000),
    "float64": (CrossEntropy, "float64", 5e-4, (0.9, 0.99), 1e-30, 10_000),
    "stablemax": (StableMaxLoss, "float64", 1e-2, (0.9, 0.999), 1e-25, 10_000),
    "orthogonal": (CrossEntropy, "float32", 1e-2, (0.9, 0.99), 1e-25, 500),
}


def pairs(p, share, seed):
    """(inputs (N, 2p), answers (N,)) of the training and of the validation pairs."""
    a, b = np.divmod(stream(seed, 0).permutation(p * p), p)
    eye = np.eye(p, dtype=np.float32)
    inputs, answers = np.concatenate([eye[a], eye[b]], 1), (a + b) % p
    cut = int(share * p * p)
    return (inputs[:cut], answers[:cut]), (inputs[cut:], answers[cut:])


def train(arm, seed, epochs=None, p=P, hidden=HIDDEN):
    """The columns of a training: see `look`."""
    loss_class, dtype, lr, betas, eps, most = ARMS[arm]
    epochs = epochs or most
    (x, y), validation = pairs(p, SHARE, seed)
    model = MLP([2 * p, hidden, hidden, p], bias=False, rng=stream(seed, 1))
    optimizer = AdamW(model, lr, betas, eps, weight_decay=0.0)
    params, loss, rows, dead = list(optimizer.params.values()), loss_class(), [], 0
    with ONE_BLAS_THREAD, np.errstate(over="ignore", under="ignore", divide="ignore"):
        for epoch in range(1, epochs + 1):
            optimizer.zero_grad()
            logits, cache = model.forward(x)
            value, c_loss = loss.forward(logits.astype(dtype), y)
            dlogits = loss.backward(np.dtype(dtype).type(1), c_loss).astype(np.float32)
            model.backward(dlogits, cache)
            if is_due(epoch, epochs):
                rows.append(look(epoch, model, params, value, logits, dlogits, y, validation))
                dead = 0 if dlogits.any() else dead + 1
                if dead >= DEAD and epoch > 100 * DEAD:     # then they are 100 epochs apart
                    break
            if arm == "orthogonal":
                orthogonal_gradient(params)
            optimizer.step()
    return {name: [row[name] for row in rows] for name in rows[0]}


def is_due(epoch, epochs):
    """Ten evaluations for each power of ten, and then every hundredth epoch."""
    return epoch == epochs or epoch % (10 ** min(2, len(str(epoch)) - 1)) == 0


def look(epoch, model, params, value, logits, dlogits, y, validation):
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


TRIALS = [Trial(f"{arm}-seed{seed}", {"arm": arm, "seed": seed},
                SECONDS.get(arm, USUAL) * made[-1] / 60,
                lambda arm=arm, seed=seed: train(arm, seed))
          for seed in SEEDS for arm, made in ARMS.items()]

if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))
