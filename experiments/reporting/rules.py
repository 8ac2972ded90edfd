"""How a verdict is reached: rules that look at numbers, for printed numbers and for statements.

A printed number is a mean and a population standard deviation of two seeds, so mean ± deviation
are the two runs themselves. It *holds* where the printed and our runs' ranges overlap, once
widened by what rounding or the grid of evaluations hides. Where they do not, it *fails* if
Student's test for two samples of equal variance tells them apart at 5 %, and is otherwise not
decidable with two seeds.

A statement is looked at in each seed by itself: it holds where it is true with both, fails where
it is false with both, and is not decidable with two seeds where they disagree.

What two seeds do not decide, further ones may, where they are kept: a number is compared again,
with all of them; a statement holds where it is true with four of five, or more, and fails where
it is false with as many.

Either is not decided where one of the study's runs that it needs is missing.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping

import study

from npdl.errors import InputError
from reporting.parts import CONTRADICTED, FAILS, HOLDS, MISSING, NO_CLAIM, TWO_SEEDS, Verdict
from reporting.records import NAMES, Spread, setting

# Two-sided 5 % points of Student's distribution for 1, 2, ... degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


@dataclasses.dataclass(frozen=True)
class Printed:
    """A number of the document: mean ± deviation of `count` runs, each known to ± `slack`.

    `derived` where the deviation is not printed, but follows from others.
    """

    mean: float
    std: float
    slack: float
    derived: bool = False
    count: int = 2


def compare(printed, values):
    """(verdict, why) of a printed number and our runs' values."""
    ours = Spread.of(values)
    gap = abs(ours.mean - printed.mean)
    if gap <= printed.std + ours.std + printed.slack * (1 + 1e-9):
        return HOLDS, "ranges overlap"
    freedom = printed.count + len(ours.values) - 2
    squares = printed.count * printed.std**2 + len(ours.values) * ours.std**2
    error = math.sqrt(squares / freedom * (1 / printed.count + 1 / len(ours.values)))
    distance = gap - printed.slack
    t = distance / error if error else math.inf
    limit = STUDENT[min(freedom, len(STUDENT)) - 1]
    word = "infinite" if math.isinf(t) else f"{t:.1f}"
    return (FAILS if t > limit else TWO_SEEDS), f"t = {word}, limit {limit:.1f}"


def judge_number(store, where, name, printed, config, of, show):
    """The Verdict of a printed number: `of(run)` over the runs of `config`; show(value) is text."""
    document = f"{show(printed.mean)} ± {show(printed.std)}"
    if printed.derived:
        document = f"{show(printed.mean)} (± {show(printed.std)} by its other rows)"
    gone = store.missing(config)
    ours = Spread.of(of(run) for run in store.runs(config).values())
    if gone:
        so_far = f"so far {show(ours.mean)}; " if ours.values else ""
        return Verdict(where, name, document, so_far + named_missing({name: config}, store),
                       MISSING)
    verdict, why = compare(printed, ours.values)
    words = f"{show(ours.mean)} ± {show(ours.std)}; {why}"
    every = store.all_runs(config)
    if verdict == TWO_SEEDS and len(every) > len(ours.values):
        ours = Spread.of(map(of, every.values()))
        verdict, why = compare(printed, ours.values)
        words += f"; all {len(every)} seeds: {show(ours.mean)} ± {show(ours.std)}; {why}"
    return Verdict(where, name, document, words, verdict)


@dataclasses.dataclass(frozen=True)
class Statement:
    """A claim in words and the test of it.

    needs         {key: Config}: the settings that the test looks at
    test          test({key: Run}) of one seed -> (true or false, the numbers that decide)
    contradiction what in the document speaks against it: the verdict is then given by that, and
                  our runs are reported beside
    """

    where: str
    claim: str
    document: str
    needs: Mapping
    test: Callable
    contradiction: str = ""


def judge(store, statement):
    """The Verdict of a Statement."""
    gone = named_missing(statement.needs, store)
    answers = seed_answers(statement, store.runs)
    if not gone and agreed(answers) == TWO_SEEDS:
        answers = seed_answers(statement, store.all_runs)
    words = [f"seed {seed}: {'yes' if true else 'no'}, {why}"
             for seed, (true, why) in answers.items()]
    verdict = MISSING if gone else agreed(answers)
    if gone:
        words.append(gone)
    if statement.contradiction:
        words.insert(0, f"{statement.contradiction}; by our runs: {verdict}")
        verdict = CONTRADICTED
    return Verdict(statement.where, statement.claim, statement.document, "; ".join(words), verdict)


def agreed(answers):
    """What {seed: (true, why)} come to: four seeds of five decide; of two, both must agree."""
    true = sum(true for true, _ in answers.values())
    if 5 * true >= 4 * len(answers):
        return HOLDS
    return FAILS if 5 * true <= len(answers) else TWO_SEEDS


def seed_answers(statement, runs_of):
    """{seed: (true, why)} for the seeds with which every setting of a statement has been run;
    runs_of(config) is {seed: Run}."""
    runs = {key: runs_of(config) for key, config in statement.needs.items()}
    if not runs:
        raise InputError(f"statement {statement.claim[:40]!r} needs no run; give it some settings")
    seeds = [seed for seed in next(iter(runs.values()))
             if all(seed in found for found in runs.values())]
    answers = {}
    for seed in seeds:
        true, why = statement.test({key: found[seed] for key, found in runs.items()})
        answers[seed] = bool(true), why
    return answers


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
