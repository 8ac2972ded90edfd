"""Document 004, Problem 4: what is said of the runs, judged by npdl's kept runs.

The runs, and how each verdict is reached, are in experiments/REPORT.md; the study judges, by the
records in experiments/results, and nothing is trained here.
"""

import re
from functools import cache, partial
from pathlib import Path

from exercises.framework import FAILED, Claim, Verdict, judge
from experiments.study import q5_size, q7_decay
from experiments.study.questions import verdicts

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
REPORT, ROOT = "experiments/REPORT.md", Path(__file__).parents[2]

claim = partial(Claim, "004", "Problem 4")


@cache
def answered_in(number):
    """Where question "4.5" is worked out: in the report, under the heading of the question."""
    headings = re.findall(r"^## (.*)$", (ROOT / REPORT).read_text(encoding="utf-8"), re.M)
    title = next(heading for heading in headings
                 if number.split(".")[1] in re.findall(r"\d+", heading.partition(":")[0]))
    return f"{REPORT}#" + re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def claims():
    return [*map(judged, verdicts()), *setting_claims()]


def judged(verdict):
    """A verdict of the study as a claim of the ledger, in the study's words."""
    where = verdict.where if verdict.where[0].isdigit() else f"{verdict.question}, {verdict.where}"
    return claim(where, verdict.claim, verdict.document, verdict.numbers or "see the report",
                 Verdict(verdict.word, "runs") if verdict.joint else Verdict(FAILED, "computed"),
                 "; ".join(filter(None, [verdict.estimate and f"estimate {verdict.estimate}",
                                               verdict.note])),
                 link=answered_in(f"4.{verdict.question}"))


def setting_claims():
    """Settings that the document names otherwise than its question does, which was run."""
    decays = ", ".join(f"{decay:g}" for decay in q7_decay.DECAYS)
    widths = {config.width for config in q5_size.CONFIGS["gpt"].values()}
    batches = {config.batch for config in q5_size.CONFIGS["gpt"].values()}
    return [
        claim("5 (a)", "each curve is of a batch size d", "batch size d in {64, 128, 256}",
              f"d is the width: {', '.join(map(str, sorted(widths)))}; B is "
              f"{', '.join(map(str, batches))} throughout",
              judge(batches == set(q5_size.WIDTHS), if_false="slip",
                    provided=widths == set(q5_size.WIDTHS)),
              "the settings of the question; captions of Figures 14, 17, 19 and 21 have it too"),
        claim("7 (c)", "a decay of 0.7 was run", "up to 0.7; peaks at 0.7",
              f"the question has {decays}", judge(0.7 in q7_decay.DECAYS, if_false="slip"),
              "the settings of the question; 0.75 is meant"),
    ]

