"""Numbers that the laboratory's answers share: paired differences, spans, curves."""

import dataclasses
import math

from experiments.reporting.draw import scale_y
from experiments.reporting.measures import mean
from experiments.reporting.rules import STUDENT
from npdl_study.plots import style

NOTHING = "Not tried yet."
LEVEL = 0.05                # a verdict by luck once in twenty
COLOURS = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.ORANGE)


@dataclasses.dataclass(frozen=True)
class Paired:
    """The steps of one arm against another's, seed by seed; infinity for never.

    logs      log10(after / before) of the seeds in which both are finite
    mean, half   of logs, and half of Student's 95 % interval: infinite below two seeds
    """

    before: tuple
    after: tuple

    @property
    def logs(self):
        return [math.log10(b / a) for a, b in self.pairs() if math.isfinite(a + b)]

    def pairs(self):
        return list(zip(self.before, self.after, strict=True))

    @property
    def mean(self):
        return mean(self.logs) if self.logs else math.nan

    @property
    def half(self):
        n = len(self.logs)
        if n < 2:
            return math.inf
        variance = math.fsum((x - self.mean) ** 2 for x in self.logs) / (n - 1)
        return STUDENT[n - 2] * math.sqrt(variance / n)

    def signs(self):
        """(pairs with a sooner `after`, with a later one, two-sided p of a fair coin): never is
        the latest."""
        sooner = sum(b < a for a, b in self.pairs())
        later = sum(b > a for a, b in self.pairs())
        n = sooner + later
        tail = sum(math.comb(n, k) for k in range(min(sooner, later) + 1)) / 2**n
        return sooner, later, min(1.0, 2 * tail)

    def verdict(self):
        """What the pairs say, in words: by Student's interval where all are finite, else by signs,
        so that a seed which never gets there counts."""
        open_, n = "no difference that these seeds can tell", len(self.before)
        if not n:
            return "not tried"
        if n == 1:
            return "one seed alone: nothing follows"
        if len(self.logs) < n:
            sooner, later, p = self.signs()
            words = (f"{n} pairs cannot decide it by signs" if LEVEL * 2**n < 2 else
                     open_ if p > LEVEL else "sooner" if sooner > later else "later")
            return f"{words} (of {n} pairs {sooner} sooner, {later} later, sign test p = {p:.2g})"
        if self.mean + self.half < 0:
            return "sooner"
        return "later" if self.mean - self.half > 0 else open_

    def factor(self):
        """10^mean with its interval, "0.41 (0.30 to 0.56)"; "-" unless every pair is finite: which
        of them are is no chance."""
        if not self.logs or len(self.logs) < len(self.before):
            return "-"
        if len(self.logs) == 1:
            return f"{10**self.mean:.2f} (one pair)"
        return (f"{10**self.mean:.2f} ({10 ** (self.mean - self.half):.2f} to "
                f"{10 ** (self.mean + self.half):.2f})")

    def count(self):
        """(how many `after`, how many `before` are finite, of how many)."""
        return (sum(map(math.isfinite, self.after)), sum(map(math.isfinite, self.before)),
                len(self.before))


def paired(before, after):
    """The Paired of {seed: step} and {seed: step}, over the seeds of both."""
    seeds = [seed for seed in before if seed in after]
    return Paired(tuple(before[s] for s in seeds), tuple(after[s] for s in seeds))


def plot_seeds(axes, curves, colour, label):
    """Curves [(steps, values)] of one arm: a line for each seed."""
    for i, (steps, values) in enumerate(curves):
        axes.plot(steps, values, color=colour, linewidth=1.1, alpha=0.85,
                  label=label if i == 0 else None)


def wait_for(axes, share):
    """The study's axis of accuracies, and a dotted line at the one that is waited for."""
    scale_y(axes, "accuracy")
    axes.axhline(share, color=style.INK, linewidth=1, linestyle=":")


def of_arm(records, **wanted):
    """{seed: columns} of the records whose trial has these facts."""
    return {record["trial"]["seed"]: record["columns"] for record in records.values()
            if all(record["trial"].get(name) == value for name, value in wanted.items())}
