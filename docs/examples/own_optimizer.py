"""An optimizer and a schedule of your own: a GPT groks sums while its weight decay falls.

AdamW's weight decay falls linearly to a fraction `end` of its value. A sweep trains with several
values of `end` and several seeds. The same command again skips finished runs and resumes others.
    python docs/examples/own_optimizer.py [FOLDER]
"""

import functools
import sys
import tempfile

import npdl
from npdl.train.config import Config
from npdl.train.sweep import get_run_folder, load_sweep_metrics, sweep


class FallingDecay(npdl.AdamW):
    """AdamW whose weight decay falls linearly, from the settings' own to `end` times as much."""

    def __init__(self, config, model, end):
        super().__init__(model, config.lr, weight_decay=config.weight_decay)
        self.total, self.end = config.steps, end

    def update(self, name, p, lr, decay):
        progress = self.steps / self.total                  # steps counts this update too
        super().update(name, p, lr, decay * (1 - progress * (1 - self.end)))


def make_warm_up(config):
    """Return the learning rate as a function of the step."""
    return lambda step: config.lr * min(1, (step + 1) / 10)


def main(root=None, final_decays=(1.0, 0.1), seeds=(0,), steps=2500, **settings):
    root = root or tempfile.mkdtemp()
    settings = {"p": 23, "width": 64, "layers": 1, "r_train": 0.8, "lr": 3e-3, "eval_first": 0,
                "steps": steps, "eval_every": max(1, steps // 10), **settings}
    configs = {(end, seed): Config(optimizer=functools.partial(FallingDecay, end=end),
                                   schedule=make_warm_up, seed=seed, **settings)
               for end in final_decays for seed in seeds}
    sweep(list(configs.values()), root, jobs=2, quiet=True)
    print("end of decay  seed  validation accuracy")
    for (end, seed), config in configs.items():
        accuracy = load_sweep_metrics(root, config)[-1]["validation_accuracy"]
        print(f"{end:12}  {seed:4}  {accuracy:.1%}")
    folders = " ".join(str(get_run_folder(root, config)) for config in configs.values())
    print(f"python -m npdl table {folders}\npython -m npdl plot curves {folders}")
    print(f"{accuracy:.1%} of the sums that the last run has not seen are right")
    return accuracy


if __name__ == "__main__":
    main(*sys.argv[1:])
