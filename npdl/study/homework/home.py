"""The tests of a homework folder: is a layer right, and if not, which gradients are wrong?"""

import copy
from pathlib import Path

from npdl.errors import InputError
from npdl.study.blame.blame import blame
from npdl.study.check.samples import own_samples
from npdl.study.containment import time_limit
from npdl.study.homework.answers import BLANK, Refused, answer_all, as_class, load_module
from npdl.study.homework.handout import read_homework
from npdl.study.homework.judge import answer_right, ask, award

LIMIT = 60.0            # seconds for a layer, as in class
SEED = 0                # of the numbers in the tests; a class has another


def names():
    """Return the names of the layers in the current folder."""
    return list(read_homework(".")[0])


def find_problems(name):
    """Return what is wrong with a layer of the current folder, as text; "" if all is right."""
    exercises, is_exam = read_homework(".")
    try:
        with time_limit(LIMIT, ""):
            return _find_problems(exercises[name], is_exam)
    except (Refused, InputError, OSError) as error:
        return str(error)


def _find_problems(exercise, is_exam):
    path, reasons = Path(exercise.file).resolve(), []
    cls = vars(load_module(path.read_bytes(), str(path), exercise.name))[exercise.name]
    if exercise.is_own:     # the answers are not here, so numerical gradients have to do
        samples = own_samples(cls)
    else:
        asked = ask(exercise, SEED)
        wanted = answer_right(asked)
        questions = as_class(asked, cls)
        points = award(answer_all(copy.deepcopy(questions), str(path)), wanted)
        reasons = [f"{point}: {reason}" for point, reason in points.items() if reason]
        if reasons and reasons[0].endswith(BLANK):
            return f"{exercise.name}.backward is {BLANK}"
        samples = [(one["layer"], one["inputs"], one["options"])
                   for one in questions.values()] if reasons else []
    if report := find_wrong(samples):
        reasons += ["", f"most likely wrong: {line_of(report)}" if is_exam and report.line
                    else str(report)]
    return "\n".join(reasons)


def find_wrong(samples):
    """Return what `blame` reports of the first sample with a wrong gradient, or None."""
    reports = (blame(layer, *inputs, **options) for layer, inputs, options in samples)
    return next((report for report in reports if not report.right), None)


def line_of(report):
    """Return the line that `blame` found, with its number."""
    return f"line {report.line}, `{report.source.strip()}`"
