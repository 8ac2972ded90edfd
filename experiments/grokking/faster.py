"""Do Grokfast and Muon make npdl's GPT and LSTM generalise sooner? (2405.20233; 2504.16041)

  python experiments/grokking/faster.py --list     the trials and their minutes
  python experiments/grokking/faster.py            make what is not made yet
  python experiments/grokking/faster.py gpt seed0  some of them
  python experiments/report.py                     the answers, from what there is

The default recipe of the study (addition modulo 31, half of the equations, AdamW with decay 1,
gradients clipped at norm 1), until every validation equation has been right three evaluations
running, or to step 10001. The arms share split, start and batches with the same seed:

  adamw      the recipe as it is
  grokfast   the clipped gradient's slow part amplified (keep 0.98, amplify 2): clipped first, or a
             spike would stay in the filter for a hundred steps
  muon       Muon for the matrices between table and classifier, 20 times as fast; else AdamW
  momentum   grokfast's control: AdamW with b1 = 0.98, as slow a mean, but nothing amplified
  matched    muon's control: each matrix as fast as makes the root mean square of its update's
             entries 0.2 lr, about AdamW's
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import dataclasses
import math
import sys

from experiments.study.records import variant
from experiments.trials import Trial, all_right, columns_of, evaluations, main, settings
from npdl.core import embedding_names
from npdl.optim import Grokfast, Muon
from npdl_train.runs.loop import Trainer

FOLDER = "grokking/faster"
SEEDS = (0, 1, 2, 3, 42, 4, 5, 6, 7, 8)
ARMS = ("adamw", "grokfast", "muon", "momentum", "matched")
CONTROLS = ("momentum", "matched")
KEEP, AMPLIFY, FASTER = 0.98, 2.0, 20.0
SHARE = 0.2                         # of lr: what "matched" makes an update's root mean square
MINUTES = {"gpt": 2.4, "lstm": 1.2}     # of a trial on one core, expected; Muon's SLOWER times
SLOWER = 1.35


def seeds_of(model, arm):
    """Ten of an LSTM, whose trials are short; five of a GPT and of the controls."""
    return SEEDS if model == "lstm" and arm not in CONTROLS else SEEDS[:5]


class Matched(Muon):
    """Muon by which an update's entries have the root mean square SHARE lr: of a map (D, E) the
    orthogonal direction's is D^(-1/2)."""

    def update(self, name, p, lr, decay):
        self.faster = SHARE * math.sqrt(p.data.shape[0])
        super().update(name, p, lr, decay)


class Arm(Trainer):
    """A Trainer whose update has an arm's change; everything else is the recipe's.

    The gradients come from the engine; what the fast wing has no update for is done by the
    textbook's optimizer on the same Params.
    """

    def __init__(self, config, arm):
        super().__init__(config)
        self.grokfast = self.muon = None
        if arm == "grokfast":
            self.grokfast = Grokfast(self.optimizer.params.values(), keep=KEEP, amplify=AMPLIFY)
        if arm in ("muon", "matched"):
            kind = Muon if arm == "muon" else Matched
            self.muon = kind(self.model, hidden_matrices(self.model), config.lr, faster=FASTER,
                             betas=config.betas, eps=config.eps,
                             weight_decay=config.weight_decay)

    def update(self):
        self.engine.step(self.task.batch(self.step))
        if self.config.clip is not None:
            self.engine.clip(self.config.clip)
        if self.grokfast is not None:
            self.grokfast.filter()
        if self.muon is None:
            self.engine.update(self.learning_rate(self.step))
        else:
            self.muon.step(self.learning_rate(self.step))
        self.step += 1


def hidden_matrices(model):
    """The names of the matrices between the tables and the classifier."""
    tables = embedding_names(model)
    return {name for name, param in model.params()
            if param.data.ndim == 2 and name not in tables and not name.startswith("classifier")}


def config_of(model, arm, seed):
    """The Config of a trial: the recipe's, or a slower mean of the gradient."""
    config = variant(model, seed=seed)
    slow = {"betas": (KEEP, config.betas[1])} if arm == "momentum" else {}
    return dataclasses.replace(config, **slow)


def facts(model, arm, seed):
    """What decides a trial."""
    change = {"grokfast": {"keep": KEEP, "amplify": AMPLIFY}, "muon": {"faster": FASTER},
              "matched": {"share": SHARE}}.get(arm, {})
    return {"model": model, "arm": arm, "seed": seed, **settings(config_of(model, arm, seed)),
            **change}


def train(model, arm, seed, **changed):
    """The columns of a training: step, losses, accuracies, norm."""
    config = dataclasses.replace(config_of(model, arm, seed), **changed)
    rows = []
    for row in evaluations(Arm(config, arm)):
        rows.append(row)
        if all_right(rows):
            break
    return columns_of(rows)


TRIALS = [Trial(f"{model}-{arm}-seed{seed}", facts(model, arm, seed),
                MINUTES[model] * (SLOWER if arm in ("muon", "matched") else 1),
                lambda model=model, arm=arm, seed=seed: train(model, arm, seed))
          for seed in SEEDS for model in MINUTES for arm in ARMS if seed in seeds_of(model, arm)]

if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))
