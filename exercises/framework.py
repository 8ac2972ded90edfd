"""What every exercise shares: the claim, its verdict, and how both are shown.

An exercise is a module of one of the folders d000 to d004, one for each document, that defines
QUESTION (the question in our words), TITLES ({number: title} of the questions that it answers, the
number as the document has it: "2.4a"), claims(), solutions() (a worked Solution of each, see
exercises.worked) and, where there is something to see, picture(figure) on a figure of the size
PICTURE, in inches; where the claims are computed on other numbers than the solutions, GROUND says
on which.
"""

import importlib
import re
import sys
import traceback
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType

from matplotlib.figure import Figure

from exercises import arithmetic, witness
from exercises.worked import Check, Solution, Step, paragraph, solution_text
from npdl.errors import InputError
from npdl.files import write_atomically

FOLDER = Path(__file__).parent
FAILED = "our computation failed"           # no verdict on the document: status 1
VERDICTS = ("confirmed", "wrong", "slip", "under-specified", "convention", "no answer given",
            "essay", FAILED)
WEIGHTS = ("answer", "step")                # what is wrong: the answer asked for, or the way


class Verdict(str):
    """One of VERDICTS, "computed" or a "judgement"; or a word of the study's, by its "runs"."""

    def __new__(cls, text, basis):
        if basis != "runs" and text not in VERDICTS:
            raise InputError(f"verdict {text!r}: it must be one of {', '.join(VERDICTS)}")
        self = super().__new__(cls, text)
        self.basis = basis
        return self


def judge(holds, if_true="confirmed", if_false=None, provided=True):
    """The verdict that a computed comparison gives.

    holds     whether the document's statement, or what the verdict `if_true` says, is so
    if_false  "wrong" where if_true is "confirmed"; else FAILED: a counter-example, an answer of
              ours that does not hold says nothing about the document
    provided  what else our side of the comparison rests on; where it is not so: FAILED

    It can be asked for only while exercises.witness holds npdl to plain loops, and is FAILED where
    a result of npdl's in this exercise, at the very inputs that it was given, was not theirs.
    """
    if if_false is None:
        if_false = "wrong" if if_true == "confirmed" else FAILED
    return Verdict((if_true if holds else if_false) if rests(provided) else FAILED, "computed")


def rests(provided=True):
    """Whether our own side is right, in the exercise that asks: `provided`, and all of npdl's."""
    if not witness.is_watching():
        raise InputError("a verdict is asked for while nothing watches what it rests on; ask by "
                         "claims_of(module), or within exercises.witness.watching()")
    return bool(provided) and not witness.faults()


def proved(holds):
    """The verdict on a definition or a theorem, shown on numbers: it holds, or ours failed."""
    return judge(holds, if_false=FAILED)


def judgement(verdict, provided=True):
    """A verdict that nothing computes, "essay" or "convention": the ledger says that it is ours.

    provided  whether the numbers beside it are right; where not, the verdict is FAILED
    """
    if verdict not in ("essay", "convention"):
        raise InputError(f"judgement({verdict!r}): only essay and convention are judgements; "
                         "compute the reason, and use judge")
    return Verdict(verdict if rests(provided) else FAILED, "judgement")


@dataclass(frozen=True)
class Claim:
    """One checkable statement of a document, and what computing says about it."""

    document: str  # "000"
    question: str  # "Q3", as the document numbers it
    part: str  # "b"
    claim: str  # restated in our own words, one line
    documents_answer: str
    computed: str  # ours, with numbers
    verdict: Verdict  # from judge(), proved() or judgement()
    evidence: str  # one line: an error, a count, a counter-example
    weight: str = "step"  # one of WEIGHTS, read where the verdict is "wrong"
    error: str = ""  # a name that claims share which show one and the same error
    link: str = ""  # where more is said: a path from the root of the repository

    def __post_init__(self):
        for field in fields(self):
            text = getattr(self, field.name)
            if not isinstance(text, str):
                raise InputError(
                    f"Claim.{field.name} is {type(text).__name__}: it must be a string"
                )
            if "\n" in text:
                raise InputError(f"Claim.{field.name} has a line break: it must be one line")
            if not text.strip() and field.name not in ("part", "error", "link"):
                raise InputError(f"Claim.{field.name} is empty: say what it is")
        if not isinstance(self.verdict, Verdict):
            raise InputError(f"verdict {self.verdict!r} is a word: let judge() compute it, or say "
                             "by judgement() that it is one")
        if self.weight not in WEIGHTS:
            raise InputError(f"weight {self.weight!r}: it must be one of {', '.join(WEIGHTS)}")

    @property
    def basis(self):
        """ "computed", "judgement" or "runs": how the verdict was reached."""
        return self.verdict.basis

    @property
    def number(self):
        """The number of the question and its part, "2.4b"; "" where it has none."""
        question = re.search(r"\d[\d.]*", self.question)
        part = re.match(r"(\d+)?([a-z])?\b", self.part)
        if question is None:
            return ""
        digits, letter = (part.groups(default="") if part else ("", ""))
        return question.group() + (digits and "." + digits) + letter


def shown_verdict(claim):
    """The verdict as a reader sees it: what is a judgement says so."""
    return claim.verdict + (", a judgement" if claim.basis == "judgement" else "")


def failures(solutions, claims):
    """One line for each check of our own that failed; [] when all is well."""
    lines = [f"{claim.document} {claim.question} {claim.part}".rstrip() + f": {claim.claim}"
             for claim in claims if claim.verdict == FAILED]
    lines += sorted({fault for faults in witness.FAULTS.values() for fault in faults})
    return lines + [f"solution of {solution.number}: {check.text}" for solution in solutions
                    for check in solution.checks if not check.holds]


def present(question, claims, figures=(), solutions=(), titles=None, ground=""):
    """Print the question, its worked solutions, then each claim with our answer and the proof."""
    print(paragraph(question))
    for solution in solutions:
        print()
        print(solution_text(solution, (titles or {}).get(solution.number, "")))
    if solutions and claims:
        print("\nWhat the document says\n----------------------")
    if ground and claims:
        print(paragraph(ground))
    for claim in claims:
        print()
        print(paragraph(f"{claim.question}{claim.part and ' ' + claim.part}: {claim.claim}"))
        for name, text in (
            ("document", claim.documents_answer),
            ("computed", claim.computed),
            ("evidence", claim.evidence),
            *([("more in", claim.link)] if claim.link else []),
            ("verdict", shown_verdict(claim).upper()),
        ):
            print(paragraph(f"{name:<9} {text}", indent=2, hang=10))
    for path in figures:
        print(f"\nwrote {path}")


def modules(only=()):
    """The exercises in order, of the documents in `only` ("000", ..) or of all of them."""
    documents = sorted(folder.name[1:] for folder in FOLDER.glob("d[0-9][0-9][0-9]"))
    for document in only:
        if document not in documents:
            raise InputError(f"no exercises for document {document!r}; choose from: "
                             f"{', '.join(documents)}")
    paths = [path for path in sorted(FOLDER.glob("d[0-9][0-9][0-9]/[a-z]*.py"))
             if not only or path.parent.name[1:] in only]
    found = [loaded(f"exercises.{path.parent.name}.{path.stem}") for path in paths]
    return [module for module in found if hasattr(module, "TITLES")]


def loaded(name):
    """The module of this name; one whose claims raise it where the import raised something."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        module, failure = ModuleType(name), error

        def claims():
            raise failure

        vars(module).update(TITLES={"": "a module that cannot be imported"}, QUESTION=name,
                            claims=claims, solutions=claims)
        return module


def name_of(module):
    """ "d000.counting"."""
    return module.__name__.removeprefix("exercises.")


def claims_of(module):
    """The claims of an exercise; one that says so where our computation broke."""
    try:
        with witness.watching():
            return list(module.claims())
    except Exception as error:
        number = next(iter(module.TITLES))
        return [Claim(name_of(module)[1:4], f"Q{number}", "", f"The claims on {number}, "
                      f"{module.TITLES[number]}, were computed.", "not looked at", "nothing",
                      Verdict(FAILED, "computed"), broke(error))]


def solutions_of(module):
    """The worked solutions of an exercise; one that says so where our computation broke."""
    try:
        with witness.watching():
            found = list(module.solutions()) if hasattr(module, "solutions") else []
        faults = witness.faults(module.__name__)
        return [calculated_again(module, solution.whole(), faults) for solution in found]
    except Exception as error:
        return [Solution(number, steps=[Step("Compute it.")], answer="none",
                         checks=[Check(broke(error), False)]) for number in module.TITLES]


def calculated_again(module, solution, faults=()):
    """The solution, with a failed check for each fault and for all that it prints wrongly."""
    for text in [*faults, *arithmetic.mistakes(f"{name_of(module)} {solution.number}", solution,
                                               solution_text(solution))]:
        solution.check(text, False)
    return solution


def broke(error):
    """One line on an exception: what it is, and in which function."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    return f"{type(error).__name__} in {place.name}, {Path(place.filename).name}: {text}"


def report(failed):
    """Say on standard error what failed of our own, and return the exit status."""
    for line in failed:
        print(f"{FAILED}: {line}", file=sys.stderr)
    return int(bool(failed))


def draw(module, folder):
    """[the file] with the picture of an exercise, its folder made; [] where there is none."""
    if folder is None or not hasattr(module, "picture"):
        return []
    figure = Figure(figsize=module.PICTURE, layout="constrained")
    module.picture(figure)
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / f"{name_of(module).replace('.', '_')}.png"
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=130))
    return [path]
