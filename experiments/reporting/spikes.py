"""What causes a GPT's late loss spikes: the same trained state, continued under other settings.

  python experiments/reporting/spikes.py RUN      continues RUN, writes results/spikes.json

RUN is the folder of a GPT that has memorised its training set; it is left as it is.
"""

if __name__ == "__main__":
    from npdl.console import begin

    begin()         # Ctrl-C is quiet from here on

import argparse
import dataclasses
import json
import sys
from pathlib import Path

import numpy as np

from npdl.console import OneLineParser, guarded
from npdl.files import write_atomically
from npdl.training import checkpoint
from npdl.training.loop import Trainer
from npdl.training.origin import versions
from npdl.training.run import read_config

PATH = Path(__file__).parents[1] / "results" / "spikes.json"
VARIANTS = {                        # what is changed of the settings that the run was trained with
    "nothing": {},
    "lr / 10": {"lr": 1e-4},
    "eps 1e-5": {"eps": 1e-5},
    "no clipping": {"clip": None},
}
EVERY = 5                           # steps between two looks at the loss
HIGH = 0.01                         # a loss that counts as a spike's


def continued(folder, steps, **changes):
    """Training losses, one every EVERY steps, of the run in `folder` trained on for `steps`."""
    config = dataclasses.replace(read_config(folder), backend="numpy", threads=1)
    trainer = Trainer(dataclasses.replace(config, **changes))
    trainer.load_state(*checkpoint.load(Path(folder) / "checkpoint.npz"))
    losses = []
    with trainer.engine:
        for done in range(1, steps + 1):
            trainer.update()
            if done % EVERY == 0:
                losses.append(trainer.task.measure(trainer.engine)["train_loss"])
    return trainer.step - steps, [float(f"{loss:.3g}") for loss in losses]


def peaks(losses, high=HIGH):
    """How often the loss rises above `high`."""
    above = np.concatenate([[False], np.array(losses) > high])
    return int((above[1:] & ~above[:-1]).sum())


def load():
    """{"step": where it began, "losses": {variant: losses}, "made": what computed it}, or
    nothing."""
    return json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}


def main(arguments=None):
    p = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("run", metavar="RUN", help="folder of a GPT's run")
    p.add_argument("--steps", type=int, default=600, help="of each variant (default: 600)")
    p.add_argument("--path", default=PATH, help="the file to write")
    options = p.parse_args(arguments)

    def work():
        losses = {}
        for name, changes in VARIANTS.items():
            step, losses[name] = continued(options.run, options.steps, **changes)
        text = json.dumps({"step": step, "losses": losses, "made": versions()},
                          separators=(",", ":"))
        write_atomically(options.path, lambda file: file.write(f"{text}\n".encode()))
        print(f"{options.path}: {', '.join(losses)}")
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())
