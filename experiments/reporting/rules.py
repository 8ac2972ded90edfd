"""How a verdict is reached: rules that look at numbers, for printed numbers and for statements.

A printed number is a mean and a population standard deviation of two seeds, so mean ± deviation
are the two runs themselves. It *holds* where the printed and our runs' ranges overlap, once
widened by what rounding or the grid of evaluations hides. Where they do not, it *fails* if
Student's test for two samples of equal variance tells them apart at 5 %, and is otherwise not
decided. A loss is compared by its logarithm.

A statement is looked at in each seed by itself: of two, both must say the same; of five, four.
Where it has several readings, or is of several budgets, it *depends on what is meant* if one of
them holds and another fails, and is decided by those that are, if they are at least half.

Every seed that is kept counts, the document's two and further ones. Either is not decided where
one of the study's runs that it needs is missing.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

from experiments import study
from experiments.reporting.parts import (
    AGAIN,
    CONTRADICTED,
    DEPENDS,
    FAILS,
    HOLDS,
    MISSING,
    NO_CLAIM,
    OPEN,
    Verdict,
)
from experiments.reporting.records import NAMES, Spread, setting
from npdl.errors import InputError

# Two-sided 5 % points of Student's distribution for 1, 2, ... degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
TIMES = (0.5, 2.0)              # what a threshold is multiplied by, to see what hangs on it


@dataclasses.dataclass(frozen=True)
class Printed:
    """A number of the document: mean ± deviation of `count` runs, each known to ± `slack`.

    `derived` where the deviation is not printed, but follows from others; `log` for a loss.
    """

    mean: float
    std: float
    slack: float
    derived: bool = False
    log: bool = False
    count: int = 2

    def scaled(self):
        """(mean, deviation, slack below, slack above) of the scale that is compared on."""
        if not self.log:
            return self.mean, self.std, self.slack, self.slack
        low, high = math.log10(self.mean - self.std), math.log10(self.mean + self.std)
        below = low - math.log10(self.mean - self.std - self.slack)
        above = math.log10(self.mean + self.std + self.slack) - high
        return (low + high) / 2, (high - low) / 2, below, above


def compare(printed, values):
    """(verdict, why) of a printed number and our runs' values."""
    mean, std, below, above = printed.scaled()
    ours = Spread.of(map(math.log10, values) if printed.log else values)
    gap = abs(ours.mean - mean)
    slack = below if ours.mean < mean else above
    if gap <= std + ours.std + slack * (1 + 1e-9):
        return HOLDS, "ranges overlap"
    freedom = printed.count + len(ours.values) - 2
    squares = printed.count * std**2 + len(ours.values) * ours.std**2
    error = math.sqrt(squares / freedom * (1 / printed.count + 1 / len(ours.values)))
    distance = gap - slack
    t = distance / error if error else math.inf
    limit = STUDENT[min(freedom, len(STUDENT)) - 1]
    word = "infinite" if math.isinf(t) else f"{t:.1f}"
    scale = " of the logarithms" if printed.log else ""
    return (FAILS if t > limit else OPEN), f"t{scale} = {word}, limit {limit:.1f}"


def within(printed, values, show):
    """Which printed means, with this deviation, would have held: what the rule can tell."""
    _, std, below, above = printed.scaled()
    ours = Spread.of(map(math.log10, values) if printed.log else values)
    ends = ours.mean - ours.std - std - above, ours.mean + ours.std + std + below
    return " to ".join(show(10**end if printed.log else end) for end in ends)


def judge_number(store, where, name, printed, config, of, show):
    """The Verdict of a printed number: `of(run)` over the runs of `config`; show(value) is text."""
    document = f"{show(printed.mean)} ± {show(printed.std)}"
    if printed.derived:
        document = f"{show(printed.mean)} (± {show(printed.std)} by its other rows)"
    gone = store.missing(config)
    runs = store.all_runs(config)
    ours = Spread.of(of(run) for run in runs.values())
    if gone:
        so_far = f"so far {show(ours.mean)}; " if ours.values else ""
        return Verdict(where, name, document, so_far + named_missing({name: config}, store),
                       MISSING)
    verdict, why = compare(printed, ours.values)
    words = f"{show(ours.mean)} ± {show(ours.std)}; {why}"
    if len(runs) > len(study.SEEDS):
        words = f"{len(runs)} seeds: {words}"
    recipes = {other.recipe: compare(printed, [of(run) for run in
                                               other.all_runs(config).values()])[0]
               for other in store.others([config])}
    return Verdict(where, name, document, words, verdict,
                   f"any from {within(printed, ours.values, show)} would hold", recipes)


@dataclasses.dataclass(frozen=True)
class Statement:
    """A claim in words and the test of it.

    needs         {key: Config}: the settings that the test looks at
    test          test({key: Run}) of one seed -> (true or false, the numbers that decide); with
                  `threshold` also test(runs, times), a threshold of it multiplied by `times`, and
                  so each of the readings
    contradiction what in the document speaks against it: the verdict is then given by that, and
                  our runs are reported beside
    threshold     true for one, or the names of several: test(runs, times, ...), in their order
    readings      {what is meant: test}: further tests of the same words
    again         the place that says the same, if another does
    """

    where: str
    claim: str
    document: str
    needs: Mapping
    test: Callable
    contradiction: str = ""
    threshold: bool | tuple = False
    readings: Mapping = dataclasses.field(default_factory=dict)
    again: str = ""


def judge(store, statement):
    """The Verdict of a Statement."""
    if statement.again:
        return Verdict(statement.where, statement.claim, statement.document,
                       f"as {statement.again}", AGAIN)
    gone = named_missing(statement.needs, store)
    runs = seed_runs(statement, store)
    answers = {seed: statement.test(found) for seed, found in runs.items()}
    words = [f"seed {seed}: {'yes' if true else 'no'}, {why}"
             for seed, (true, why) in answers.items()]
    verdict, beside, recipes = MISSING, [], {}
    if gone:
        words.append(gone)
    else:
        verdict, beside, recipes = weighed(statement, store, runs, words)
    if statement.contradiction:
        words.insert(0, f"{statement.contradiction}; by our runs: {verdict}")
        verdict = CONTRADICTED
    seeds = {} if gone else {seed: bool(true) for seed, (true, _) in answers.items()}
    return Verdict(statement.where, statement.claim, statement.document, "; ".join(words), verdict,
                   "; ".join(beside), recipes, seeds)


def weighed(statement, store, runs, words):
    """(verdict, [what it is otherwise], {recipe: what it is by that}); the numbers of further
    readings are added to `words`."""
    tests = (statement.test, *statement.readings.values())

    def together(runs, *times):
        return combined([agreed(ask(test, runs, *times)) for test in tests])

    beside = [] if not statement.readings else [
        f"as tested first: {agreed(ask(statement.test, runs))}"]
    for name, test in statement.readings.items():
        answers = {seed: test(these) for seed, these in runs.items()}
        words.append(f"*{name}*: " + "; ".join(
            f"seed {seed}: {'yes' if true else 'no'}, {why}"
            for seed, (true, why) in answers.items()))
        beside.append(f"{name}: {agreed(ask(test, runs))}")
    beside += half_and_twice(statement.threshold, lambda *times: together(runs, *times))
    recipes = {other.recipe: together(seed_runs(statement, other))
               for other in store.others(list(statement.needs.values()))}
    return together(runs), beside, recipes


def half_and_twice(threshold, verdict):
    """What verdict(times, ...) is with each threshold by itself at half and at twice of it, as
    texts; `threshold` as in Statement."""
    names = [""] * threshold if isinstance(threshold, bool) else [f" of {n}" for n in threshold]
    said = []
    for place, name in enumerate(names):
        for times in TIMES:
            scaled = [times if i == place else 1 for i in range(len(names))]
            said.append(f"threshold{name} × {times:g}: {verdict(*scaled)}")
    return said


def ask(test, runs, *times):
    """{seed: whether a test is true}."""
    return {seed: bool(test(found, *times)[0]) for seed, found in runs.items()}


def agreed(answers):
    """What {seed: true or false} come to: four seeds of five decide; of two, both must agree."""
    true = sum(answers.values())
    if 5 * true >= 4 * len(answers):
        return HOLDS
    return FAILS if 5 * true <= len(answers) else OPEN


def combined(verdicts):
    """What the verdicts of several readings of the same words come to."""
    decided = [verdict for verdict in verdicts if verdict != OPEN]
    if len(set(decided)) > 1:
        return DEPENDS
    return decided[0] if 2 * len(decided) >= len(verdicts) and decided else OPEN


def seed_runs(statement, store):
    """{seed: {key: Run}} for the seeds with which every setting of a statement has been run."""
    runs = {key: store.all_runs(config) for key, config in statement.needs.items()}
    if not runs:
        raise InputError(f"statement {statement.claim[:40]!r} needs no run; give it some settings")
    return {seed: {key: found[seed] for key, found in runs.items()}
            for seed in next(iter(runs.values())) if all(seed in found for found in runs.values())}


def named_missing(needs, store):
    """"missing: 7 of 18 runs: ..." for the study's seeds, or nothing when all are there."""
    gone = {}
    for config in needs.values():
        for seed in store.missing(config):
            gone[setting(config), seed] = f"{short(config)} seed {seed}"
    if not gone:
        return ""
    total = len({setting(config) for config in needs.values()}) * len(study.SEEDS)
    shown = list(gone.values())
    words = ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
    return f"missing {len(shown)} of {total} runs: {words}"


def short(config):
    """A setting in a few words: the model and what differs from the default recipe."""
    labels = {"r_train": "r_train", "layers": "L", "width": "d", "batch": "B",
              "weight_decay": "decay", "p": "p"}
    parts = [f"{label} {getattr(config, name):g}" for name, label in labels.items()
             if getattr(config, name) != getattr(study.BASE, name)]
    if config.steps != study.BASE.steps:
        parts.append(f"T {config.steps}")
    return " ".join([NAMES[config.model], *parts])


def silent(where, names):
    """The Verdict of a caption that only names what its figure shows."""
    return Verdict(where, "the caption names the figure", names, "see our figure", NO_CLAIM)
