"""The tests of a homework folder: is a layer right, and if not, which gradients are wrong?"""

import copy
from pathlib import Path

from npdl.errors import InputError
from npdl.study.blame.blame import blame
from npdl.study.containment import time_limit
from npdl.study.homework.answers import BLANK, Refused, answer_all, as_class, load_class
from npdl.study.homework.grading import Grade
from npdl.study.homework.handout import read_homework
from npdl.study.homework.judge import answer_right, award

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
    path = Path(exercise.file).resolve()
    cls = load_class(path.read_bytes(), str(path), exercise.name)
    asked = exercise.ask(SEED)
    wanted = answer_right(asked)
    questions = as_class(asked, cls)
    points = award(answer_all(copy.deepcopy(questions), str(path)), wanted)
    reasons = Grade(points).reasons()
    if reasons not in ([], [BLANK]) and (report := find_wrong(questions)):
        reasons += ["", f"most likely wrong: {_line_of(report)}" if is_exam and report.line
                    else str(report)]
    return "\n".join(reasons)


def find_wrong(questions):
    """Return what `blame` reports of the first question with a wrong gradient, or None."""
    reports = (blame(one["layer"], *one["inputs"], **one["options"]) for one in questions.values())
    return next((report for report in reports if not report.right), None)


def answer_line(questions, file):
    """Return {"line": the line that is most likely wrong, with its number, or ""}."""
    report = find_wrong(questions)
    return {"line": _line_of(report) if report and report.line else ""}


def _line_of(report):
    return f"line {report.line}, `{report.source.strip()}`"
