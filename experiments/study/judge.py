"""The judgement of a claim: does what the document says agree with npdl's runs?

A claim is a test of numbers that is asked of every run: of each seed by each recipe that leaves
open what the document leaves open (JUDGED), and in each meaning that its words can have. It is
*reproduced* if every answer is yes, *not reproduced* if none is, and *open* otherwise; how many
are stands beside the word. What the document itself says against a claim is a note, no verdict.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping

from experiments.study.measures import brief
from experiments.study.records import NAMES, SEEDS

REPRODUCED, NOT_REPRODUCED, OPEN = WORDS = "reproduced", "not reproduced", "open"
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
    test      test({key: Run}) of one seed -> (true or false, the numbers that decide)
    numbers   what these numbers are
    meanings  {what else is meant: test}: further tests of the same words
    meaning   what the first test takes them for, where there are more
    against   what another place of the document says against it
    one_off   test(runs): a run that does not agree, but is only one grid step off
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
    one_off: Callable | None = None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The judgement of one claim: one of WORDS, because `agree` of `of` answers are yes.

    note      whose answers are which, what the document says against itself
    numbers   what decided, of the document's seeds by the default recipe
    """

    where: str
    claim: str
    document: str
    word: str
    agree: int
    of: int
    note: str = ""
    numbers: str = ""

    @property
    def question(self):
        """The question of Problem 4 that it is on, "2" to "8"."""
        return question_of(self.where)

    @property
    def count(self):
        return f"{self.agree} of {self.of}"


# The captions of the document's figures, by question: (the first figure, the question).
FIGURES = ((1, 1), (3, 3), (6, 4), (12, 5), (22, 6), (33, 7), (35, 8))


def question_of(where):
    """"5" for "5 (c), d" and for "Figure 12"."""
    if not where.startswith("Figure"):
        return where[0]
    number = int(where.replace(",", " ").split()[1])
    return str(max(question for first, question in FIGURES if first <= number))


def word_of(agree, of):
    """One of WORDS."""
    return REPRODUCED if of and agree == of else NOT_REPRODUCED if of and not agree else OPEN


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
    """The Verdict of a Claim by the kept runs; open, 0 of 0, where runs are missing."""
    tests = {claim.meaning: claim.test, **claim.meanings}
    answers, shown, off = {}, [], 0
    for recipes in choices({config.model for config in claim.needs.values()}):
        for seed, runs in store.by_seed(claim.needs, recipes).items():
            for meaning, test in tests.items():
                true, numbers = test(runs)
                answers[recipe_name(recipes), seed, meaning] = bool(true)
                off += bool(not true and claim.one_off and claim.one_off(runs))
                if recipe_name(recipes) == "default" and test is claim.test and seed in SEEDS:
                    shown.append(", ".join(map(brief, numbers)))
    notes = [f"the document itself denies it: {claim.against}"] if claim.against else []
    notes += [f"one grid step off in {off}"] * bool(off)
    return verdict(claim.where, claim.claim, claim.document, answers, notes,
                   f"{claim.numbers}: {'; '.join(shown)}" if shown else "")


def verdict(where, claim, document, answers, notes=(), numbers=""):
    """The Verdict that {(recipe, seed, meaning): whether it agrees} come to."""
    agree, of = sum(answers.values()), len(answers)
    word = word_of(agree, of)
    split = [] if word != OPEN else shares(answers, 0) + shares(answers, 2)
    return Verdict(where, claim, document, word, agree, of,
                   "; ".join([*(split if of else ["runs are missing"]), *notes]), numbers)


def shares(answers, place):
    """["default 2 of 2", "release 0 of 2"], or nothing where there is only one kind."""
    kinds = dict.fromkeys(key[place] for key in answers)
    if len(kinds) < 2:
        return []
    groups = {kind: [true for key, true in answers.items() if key[place] == kind]
              for kind in kinds}
    return [f"{kind} {sum(group)} of {len(group)}" for kind, group in groups.items()]
