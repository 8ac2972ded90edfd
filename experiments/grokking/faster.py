"""Do Grokfast and Muon make npdl's GPT and LSTM generalise sooner? (2405.20233; 2504.16041)

  python experiments/grokking/faster.py --list     the trials and their minutes
  python experiments/grokking/faster.py            make what is not made yet
  python experiments/grokking/faster.py gpt seed0  some of them
  python experiments/grokking/report.py            the answers, from what there is

The default recipe of the study (addition modulo 31, half of the equations, AdamW with decay 1,
gradients clipped at norm 1), until every validation equation has been right three evaluations
running, or to step 10001. Four arms, which share split, start and batches with the same seed:

  adamw      the recipe as it is
  grokfast   the gradient's slow part amplified (keep 0.98, amplify 2), then clipped
  momentum   AdamW with b1 = 0.98: as slow a mean of the gradient, but nothing amplified
  muon       Muon for the matrices between table and classifier, AdamW for the rest
"""

if __name__ == "__main__":
    from npdl.script import begin

    begin()         # Ctrl-C is quiet from here on

import dataclasses
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import study
from trials import Trial, main

from npdl.core import embedding_names
from npdl.optim import Grokfast, Muon
from npdl.training.loop import Trainer, unwarned

FOLDER = "grokking/faster"
SEEDS = (0, 1, 2, 3, 42)
ARMS = ("adamw", "grokfast", "momentum", "muon")
RUNNING = 3                         # evaluations in a row that end a trial
MINUTES = {"gpt": 4, "lstm": 2}     # of a trial on one core, expected


class Arm(Trainer):
    """A Trainer whose update has an arm's change; everything else is the recipe's.

    The gradients come from the engine; what the fast wing has no update for is done by the
    textbook's optimizer on the same Params.
    """

    def __init__(self, config, arm):
        betas = (0.98, config.betas[1]) if arm == "momentum" else config.betas
        super().__init__(dataclasses.replace(config, betas=betas))
        self.grokfast = self.muon = None
        if arm == "grokfast":
            self.grokfast = Grokfast(self.optimizer.params.values())
        if arm == "muon":
            self.muon = Muon(self.model, hidden_matrices(self.model), config.lr,
                             betas=config.betas, eps=config.eps,
                             weight_decay=config.weight_decay)

    def update(self):
        self.engine.step(self.task.batch(self.step))
        if self.grokfast is not None:
            self.grokfast.filter()
        if self.config.clip is not None:
            self.engine.clip(self.config.clip)
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


def train(model, arm, seed, **settings):
    """The columns of a training: step, losses, accuracies, norm."""
    config = dataclasses.replace(study.variants((model,), (seed,))[0], **settings)
    trainer, rows, running = Arm(config, arm), [], 0
    with trainer.engine, unwarned():
        while trainer.step < config.steps and running < RUNNING:
            trainer.update()
            if trainer.evaluation_due():
                rows.append(trainer.evaluate())
                running = running + 1 if rows[-1]["validation_accuracy"] == 1 else 0
    return {name: [row[name] for row in rows] for name in rows[0]}


def reached(columns, share):
    """The first step with at least that validation accuracy, or infinity."""
    return next((step for step, value in zip(columns["step"], columns["validation_accuracy"],
                                             strict=True) if value >= share), math.inf)


TRIALS = [Trial(f"{model}-{arm}-seed{seed}", {"model": model, "arm": arm, "seed": seed},
                MINUTES[model], lambda model=model, arm=arm, seed=seed: train(model, arm, seed))
          for model in MINUTES for seed in SEEDS for arm in ARMS]

if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))
