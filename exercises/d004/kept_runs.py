"""Document 004, Problem 4: what is said of the runs, judged by npdl's kept runs.

The runs themselves, and how each verdict is reached, are in experiments/REPORT.md; its verdicts
come in from the records in experiments/results, and nothing is trained here.
"""

import re
from functools import lru_cache, partial

from exercises.framework import UNDECIDED, Claim, judge
from experiments.report import sections
from experiments.reporting import front
from experiments.reporting.parts import AGAIN, CONTRADICTED, DEPENDS, HOLDS, MISSING, NO_CLAIM, OPEN
from experiments.reporting.records import Store

QUESTION = """\
Problem 4. An LSTM and a GPT learn sums modulo a prime. With numbers, figures and words the document
answers: 1, 2 the default recipe; 3 the share of data that is trained on; 4 sums of two and of three
operands together; 5 layers and width; 6 the batch size and the budget of steps; 7 weight decay;
8 what the attention maps show. Do npdl's runs of the same settings say the same?
(The runs, their figures and the rules of the verdicts: experiments/REPORT.md.)"""
TITLES = {
    "4.1": "The default recipe: losses and accuracies step by step, drawn",
    "4.2": "The default recipe: losses, accuracies, delays",
    "4.3": "Scaling the data: the share that is trained on",
    "4.4": "Sums of two and of three operands together",
    "4.5": "Scaling the model: layers and width",
    "4.6": "Scaling compute: batch size and budget",
    "4.7": "Weight decay, and the norm of the parameters",
    "4.8": "Attention maps of a model that generalised",
}

# What the claims that show one slip, or one error, have in common, and its name.
SLIPS = (("was run", "0.7 for 0.75"), ("d is the width", "batch size for width"))

ERRORS = (("LSTM first generalises", "where the LSTM generalises"),
          ("BOS", "attention to BOS"), ("above all at early queries", "attention to BOS"),
          ("looks at the start", "attention to BOS"),
          ("each head of the first layer", "attention to BOS"),
          ("L_val rises with B", "larger batches are worse"),
          ("A_val falls with B", "larger batches are worse"),
          ("large B mean", "larger batches are worse"),
          ("small B and large", "larger batches are worse"))
REPORT = "experiments/REPORT.md#"

claim = partial(Claim, "004", "Problem 4")


@lru_cache
def report():
    """The report's Sections, from the kept records."""
    return sections(Store())


def luck():
    """The report's sentences on how many of its verdicts are expected to be luck, as Markdown."""
    return front.luck([verdict for section in report() for verdict in section.verdicts])


def answered_in(number):
    """Where question "4.5" is worked out: in the report, at the heading of the question."""
    return REPORT + anchor(next(section.title for section in report() if number.split(".")[1]
                                in re.findall(r"\d+", section.title)))


def claims():
    return [judged(section.title, verdict) for section in report()
            for verdict in section.verdicts if verdict.verdict not in (NO_CLAIM, AGAIN)]


def judged(title, verdict):
    """A verdict of the report as a Claim of the ledger."""
    against, _, ours = verdict.ours.partition("; by our runs: ")
    ours = ours.partition(";")[0]
    slip = named(SLIPS, verdict.claim + against)
    word = verdict_of(verdict.verdict, ours, slip)
    why = {CONTRADICTED: f"the document contradicts itself: {against}",
           OPEN: "the seeds disagree, or differ too much to decide",
           DEPENDS: "its words hold in one meaning and fail in another",
           MISSING: "a run that is needed is not kept"}
    return claim(
        question(title, verdict.where), verdict.claim, verdict.document, verdict.ours,
        word, why.get(verdict.verdict, "npdl's runs of this setting, by the report's rules"),
        weight=weight_of(verdict, ours),
        error=slip if word == "slip" else named(ERRORS, verdict.claim),
        link=REPORT + anchor(title))


def weight_of(verdict, runs):
    """The weight of a verdict: where the document contradicts itself, and no runs decide, its."""
    if verdict.verdict != CONTRADICTED or runs:
        return "runs"
    return "answer" if re.search(r"\([a-z]\)", verdict.where) else "step"


def named(table, text):
    """The name of the first row whose words stand in a text, or ""."""
    return next((name for words, name in table if words in text), "")


def question(title, where):
    """Where a claim stands, with the number of its question in front."""
    if re.match(r"\d+[ ,]", where):
        return where
    number = re.search(r"questions? (\d+)", title)
    return f"{number.group(1)}, {where}"


def verdict_of(verdict, runs="", slip=""):
    """The ledger's word for a verdict of the report.

    runs     what the runs say of a claim that the document itself contradicts: they decide it
    """
    if verdict == CONTRADICTED:
        wrong = ("under-specified" if runs in (OPEN, DEPENDS) else      # the document says both
                 "slip" if slip and runs in ("", HOLDS) else "wrong")
        return judge(runs == HOLDS and not slip, if_false=wrong)
    wrong = {OPEN: UNDECIDED, DEPENDS: "under-specified"}.get(verdict, "wrong")
    return judge(verdict == HOLDS, if_false=wrong, provided=verdict != MISSING)


def anchor(title):
    """The address of a heading in a Markdown file."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
