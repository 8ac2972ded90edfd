"""Test a student's layer in a homework folder, and name the wrong gradients."""

import contextlib
import linecache
from pathlib import Path

from npdl.errors import InputError
from npdl.study.blame.blame import blame
from npdl.study.containment import time_limit
from npdl.study.homework import answers
from npdl.study.homework.handout import read_homework

SEED = 0                # seed of the questions; it is 1 in class


def find_problems(name):
    """Return a text on the errors of a layer in the current folder, or "" if all is right."""
    exercises, is_exam = read_homework(".")
    path, questions = Path(exercises[name].file).resolve(), exercises[name].ask(SEED)
    wanted = answers.answer_all(questions)
    try:
        with time_limit(answers.LIMIT, ""):
            answers.load_class(questions, path.read_bytes(), str(path), name)
            points = answers.award_points(answers.answer_all(questions, str(path)), wanted)
            reasons = answers.list_reasons(points)
            if reasons not in ([], [answers.BLANK]) and (report := find_wrong(questions)):
                reasons += ["", f"most likely wrong: {_lines_of(report)}"
                            if is_exam and report.line else str(report)]
    except (answers.Refused, InputError, OSError) as error:
        return str(error)
    return "\n".join(reasons)


def find_wrong(questions):
    """Return blame's report on the first test case with a wrong gradient, or None."""
    for one in questions.values():
        with contextlib.suppress(SystemExit):           # the code may call sys.exit
            report = blame(one["layer"], *one["inputs"], **one["options"])
            if not report.right:
                return report
    return None


def find_answer_line(questions, file):
    """Return {"line": text} with the lines that are most likely wrong, or "" for none."""
    report = find_wrong(questions)
    return {"line": _lines_of(report) if report and report.line else ""}


def _lines_of(report):
    others = [(n, linecache.getline(report.file, n)) for n, _ in report.alternatives]
    return ", or ".join(f"line {number}, `{source.strip()}`"
                        for number, source in [(report.line, report.source), *others])
