"""How much work one training step hands to a GPU: `python -m tests.tools.device_launches`.

Counts on the stand-in for CuPy what a GPU has to start at least: one kernel or copy for each array
operation that makes or changes entries (tests/tools/fakecupy_array.py, count_launch). CuPy may need
more: a large sum takes two kernels, an index of several arrays prepares itself by a few.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from npdl import backend
from npdl.training.config import Config
from npdl.training.engine import ENGINES
from tests.tools import fakecupy
from tests.tools.trained import trained

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments"))

from experiments.bench.profile import Profile  # noqa: E402  (found through the line above)


@dataclass
class Counts:
    """Of one update: launches in all, waits of the host, launches by array operation, and by
    part: {(class, direction): (calls, launches)}, without those of the parts inside it."""

    total: int
    waits: int
    operations: Counter
    parts: dict


def count_update(config):
    """The Counts of one update of a Trainer, after two that prepare."""
    with fakecupy.installed(), backend.using("cupy"):
        trainer = trained(config, 2)
        with trainer.engine:
            fakecupy.launches.clear()
            fakecupy.waits.clear()
            profile = Profile(fakecupy.launches.total)
            with profile:
                trainer.update()
            parts = {part: tuple(own) for part, own in profile.own.items()}
            return Counts(fakecupy.launches.total(), len(fakecupy.waits),
                          Counter(fakecupy.launches), parts)


def table(counts):
    """The counts as text, the largest part first."""
    lines = [f"{'part':<20}{'direction':<11}{'calls':>6}{'launches':>10}"]
    for (part, direction), (calls, launches) in sorted(counts.parts.items(),
                                                       key=lambda item: -item[1][1]):
        lines.append(f"{part:<20}{direction:<11}{calls:>6}{launches:>10.0f}")
    rest = counts.total - sum(launches for _, launches in counts.parts.values())
    lines.append(f"{'everything else':<37}{rest:>10.0f}")
    lines.append(f"{'in all':<37}{counts.total:>10}")
    lines.append(f"{'waits for the device':<37}{counts.waits:>10}")
    often = ", ".join(f"{name} {count}" for name, count in counts.operations.most_common())
    return "\n".join([*lines, f"by operation: {often}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=("gpt", "lstm"), nargs="+", default=["gpt", "lstm"])
    parser.add_argument("--engine", choices=ENGINES, nargs="+", default=ENGINES)
    args = parser.parse_args()
    for model in args.model:
        for engine in args.engine:
            print(f"{model}, document 004's sizes, --engine {engine}: one update")
            print(table(count_update(Config(model=model, engine=engine))), end="\n\n")


if __name__ == "__main__":
    main()
