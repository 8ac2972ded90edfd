"""The judgement of a claim: does what the document says agree with npdl's runs?

A claim is a test that gives, of each seed by each recipe that leaves open what the document leaves
open (JUDGED), and in each meaning of its words, some *parts*: numbers above zero where it holds.
Their means over seeds are estimated; where the intervals lie decides the word. The rule, its
reasons and its errors: experiments/RULE.md.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping

from experiments.study.measures import brief, mean, student
from experiments.study.records import NAMES, SEEDS

WORDS = ("reproduced", "not reproduced", "depends on the start", "depends on the meaning", "open")
REPRODUCED, NOT_REPRODUCED, ON_START, ON_MEANING, OPEN = WORDS
LEVEL = 0.05                # of an interval that lies outside on either side
# The recipes that a claim on a model is judged by. The text of the document is "stated"; clipping
# and Glorot's gates are in the starter code that its course has published.
JUDGED = {"lstm": ("default", "release"), "gpt": ("default", "stated")}


@dataclasses.dataclass(frozen=True)
class Claim:
    """What the document says, and the test of it.

    where     its place: "Figure 12", "5 (c), d", "2, table"
    claim     what is claimed, in our words
    document  the document's words, or the number that it prints
    needs     {key: Config}, of the default recipe: the settings that the test looks at
    test      test({key: Run}) of one seed -> (its parts, the numbers that they are made of); a part
              is a number, or a pair (low, high) between which it is, above 0 where the claim holds
    numbers   what these numbers are
    meanings  {what else is meant: test}: further tests of the same words
    meaning   what the first test takes them for, where there are more
    against   what another place of the document says against it
    some      whether one part that holds is enough, instead of all
    note      note({seed: {key: Run}} by default): what is to be said beside it
    """

    where: str
    claim: str
    document: str
    needs: Mapping
    test: Callable
    numbers: str = ""
    meanings: Mapping = dataclasses.field(default_factory=dict)
    against: str = ""
    meaning: str = "as worded"
    some: bool = False
    note: Callable | None = None


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What some seeds say of a claim.

    word      one of REPRODUCED, NOT_REPRODUCED, OPEN
    middle    mean of the part that decides, the least sure one
    low, high its interval, infinite for one seed
    seeds     how many
    """

    word: str
    middle: float
    low: float
    high: float
    seeds: int

    def __str__(self):
        if self.seeds < 2:
            return f"{self.middle:+.2g} (1 seed)"
        return f"{self.middle:+.2g} ({self.low:+.2g} to {self.high:+.2g}; {self.seeds})"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The judgement of one claim: one of WORDS.

    joint     {meaning: Estimate} of all recipes together
    own       {meaning: {recipe: Estimate}}
    note      whose word is which, what the document says against itself
    numbers   what the parts are made of: of the document's seeds by the default recipe
    """

    where: str
    claim: str
    document: str
    word: str
    joint: Mapping
    own: Mapping
    note: str = ""
    numbers: str = ""

    @property
    def question(self):
        """The question of Problem 4 that it is on, "2" to "8"."""
        return question_of(self.where)

    @property
    def estimate(self):
        return "; ".join(f"{name}: {found}" if len(self.joint) > 1 else str(found)
                         for name, found in self.joint.items())


# The captions of the document's figures, by question: (the first figure, the question).
FIGURES = ((1, 1), (3, 3), (6, 4), (12, 5), (22, 6), (33, 7), (35, 8))


def question_of(where):
    """"5" for "5 (c), d" and for "Figure 12"."""
    if not where.startswith("Figure"):
        return where[0]
    number = int(where.replace(",", " ").split()[1])
    return str(max(question for first, question in FIGURES if first <= number))


# --- estimates ------------------------------------------------------------------------------------
def ends(part):
    """(low, high) of a part."""
    return part if isinstance(part, tuple) else (part, part)


def interval(parts, level=LEVEL):
    """(middle, low, high) of one part's mean over seeds, `level` outside on either side."""
    lows, highs = zip(*map(ends, parts), strict=True)
    low, high, n = mean(lows), mean(highs), len(parts)
    if n < 2:
        return (low + high) / 2, -math.inf, math.inf
    scatter = max(spread(lows), spread(highs), (high - low) / math.sqrt(12))
    half = student(n - 1, level) * scatter / math.sqrt(n)
    return (low + high) / 2, low - half, high + half


def spread(values):
    """Sample standard deviation."""
    return math.sqrt(math.fsum((v - mean(values)) ** 2 for v in values) / (len(values) - 1))


def estimate(rows, some=False):
    """The Estimate of a claim from a list of parts for each seed; all must hold, or `some`."""
    if some:                                # not so if all the opposites hold, and the reverse
        turned = estimate([[tuple(-v for v in reversed(ends(p))) for p in row] for row in rows])
        word = {REPRODUCED: NOT_REPRODUCED, NOT_REPRODUCED: REPRODUCED, OPEN: OPEN}[turned.word]
        return Estimate(word, -turned.middle, -turned.high, -turned.low, turned.seeds)
    columns = list(zip(*rows, strict=True))
    holds = [interval(column) for column in columns]
    fails = [interval(column, LEVEL / len(columns)) for column in columns]
    denied = min(fails, key=lambda found: found[2])
    if denied[2] < 0:
        return Estimate(NOT_REPRODUCED, *denied, len(rows))
    weakest = min(holds, key=lambda found: found[1])
    if len(rows) < 2:                       # no interval to tell them by
        weakest = min(holds)
    return Estimate(REPRODUCED if weakest[1] > 0 else OPEN, *weakest, len(rows))


def together(recipes):
    """A list of parts for each seed: the mean over the recipes that it was run by.

    recipes   {recipe: {seed: parts}}
    """
    made = []
    for seed in dict.fromkeys(seed for found in recipes.values() for seed in found):
        rows = [list(map(ends, found[seed])) for found in recipes.values() if seed in found]
        made.append([tuple(map(mean, zip(*parts, strict=True)))
                     for parts in zip(*rows, strict=True)])
    return made


# --- words ----------------------------------------------------------------------------------------
def joint_word(joint, own):
    """The word of one meaning, from its joint Estimate and {recipe: Estimate}."""
    if {REPRODUCED, NOT_REPRODUCED} <= {found.word for found in own.values()}:
        return ON_START
    sides = {found.middle > 0 for found in own.values()}
    return joint.word if sides == {joint.word == REPRODUCED} else OPEN


def word_of(words):
    """The word of a claim, from those of its meanings."""
    words = set(words)
    if len(words) == 1:
        return words.pop()
    return ON_MEANING if {REPRODUCED, NOT_REPRODUCED} <= words else OPEN


def verdict(where, claim, document, answers, notes=(), numbers="", some=False):
    """The Verdict that {meaning: {recipe: {seed: parts}}} come to; open where runs are missing."""
    answers = {meaning: {recipe: found for recipe, found in recipes.items() if found}
               for meaning, recipes in answers.items()}
    if not all(answers.values()):
        return Verdict(where, claim, document, OPEN, {}, {}, "runs are missing", numbers)
    own = {meaning: {recipe: estimate(list(found.values()), some)
                     for recipe, found in recipes.items()} for meaning, recipes in answers.items()}
    joint = {meaning: estimate(together(recipes), some) for meaning, recipes in answers.items()}
    words = {meaning: joint_word(joint[meaning], own[meaning]) for meaning in answers}
    word = word_of(words.values())
    said = [f"{meaning}: {of}" for meaning, of in words.items()] if len(words) > 1 else []
    said += [f"{f'{meaning}, ' * (len(own) > 1)}{recipe} {found}" for meaning, recipes in
             own.items() if len(recipes) > 1 for recipe, found in recipes.items()]
    return Verdict(where, claim, document, word, joint, own, "; ".join([*said, *notes]), numbers)


def choices(models):
    """[{model: recipe}]: each way to read what the document leaves open."""
    models = sorted(models, reverse=True)
    return [dict(zip(models, recipes, strict=True))
            for recipes in itertools.product(*(JUDGED[model] for model in models))]


def recipe_name(recipes):
    """"default", or "LSTM release, GPT default"."""
    if len(set(recipes.values())) == 1:
        return next(iter(recipes.values()))
    return ", ".join(f"{NAMES[model]} {recipe}" for model, recipe in recipes.items())


def judge(store, claim):
    """The Verdict of a Claim by the kept runs."""
    tests = {claim.meaning: claim.test, **claim.meanings}
    answers, shown, notes = {meaning: {} for meaning in tests}, [], []
    for recipes in choices({config.model for config in claim.needs.values()}):
        seeds, name = store.by_seed(claim.needs, recipes), recipe_name(recipes)
        if name == "default":
            shown = [", ".join(map(brief, claim.test(runs)[1])) for seed, runs in seeds.items()
                     if seed in SEEDS]
            notes = [claim.note(seeds)] if claim.note and seeds else []
        for meaning, test in tests.items():
            answers[meaning][name] = {seed: test(runs)[0] for seed, runs in seeds.items()}
    notes += [f"the document itself denies it: {claim.against}"] if claim.against else []
    return verdict(claim.where, claim.claim, claim.document, answers, notes,
                   f"{claim.numbers}: {'; '.join(shown)}" if shown else "", claim.some)
