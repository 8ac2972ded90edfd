"""What one arm of the laboratory does against another, seed by seed."""

import dataclasses
import math

from experiments.study.measures import mean, student

LEVEL = 0.05                # a verdict by luck once in twenty


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
        return student(n - 1, LEVEL / 2) * math.sqrt(variance / n)

    def signs(self):
        """(pairs with a sooner `after`, with a later one, two-sided p of a fair coin): never is
        the latest."""
        sooner = sum(b < a for a, b in self.pairs())
        later = sum(b > a for a, b in self.pairs())
        n = sooner + later
        tail = sum(math.comb(n, k) for k in range(min(sooner, later) + 1)) / 2**n
        return sooner, later, min(1.0, 2 * tail)

    def word(self):
        """"sooner", "later" or "open": by Student's interval where all are finite, else by signs,
        so that a seed which never gets there counts."""
        if len(self.logs) < len(self.before):
            sooner, later, p = self.signs()
            return "open" if p > LEVEL else "sooner" if sooner > later else "later"
        if not self.logs or math.isinf(self.half) or abs(self.mean) <= self.half:
            return "open"
        return "sooner" if self.mean < 0 else "later"

    def factor(self):
        """10^mean with its interval, "0.41 (0.30 to 0.56)"; "-" unless every pair is finite: which
        of them are is no chance."""
        if not self.logs or len(self.logs) < len(self.before):
            return "-"
        if len(self.logs) == 1:
            return f"{10**self.mean:.2f} (one pair)"
        return (f"{10**self.mean:.2f} ({10 ** (self.mean - self.half):.2f} to "
                f"{10 ** (self.mean + self.half):.2f})")


def paired(before, after):
    """The Paired of {seed: step} and {seed: step}, over the seeds of both."""
    seeds = [seed for seed in before if seed in after]
    return Paired(tuple(before[s] for s in seeds), tuple(after[s] for s in seeds))


def of_arm(records, **wanted):
    """{seed: columns} of the records whose trial has these facts."""
    return {record["trial"]["seed"]: record["columns"] for record in records.values()
            if all(record["trial"].get(name) == value for name, value in wanted.items())}
