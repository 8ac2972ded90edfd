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
    """Test a layer's file in the current folder; return a text on its errors, "" if correct."""
    exercises, is_exam = read_homework(".")
    path, questions = Path(exercises[name].file).resolve(), exercises[name].make_questions(SEED)
    wanted = answers.run_layers(questions)
    try:
        with time_limit(answers.LIMIT, ""):
            answers.load_class(questions, path.read_bytes(), str(path), name)
            points = answers.award_points(answers.run_layers(questions, str(path)), wanted)
            reasons = answers.format_reasons(points)
            if reasons not in ([], [answers.BLANK]) and (report := blame_first_wrong(questions)):
                reasons += ["", f"most likely wrong: {format_lines(report)}"
                            if is_exam and report.line else str(report)]
    except (answers.InvalidFile, InputError, OSError) as error:
        return str(error)
    return "\n".join(reasons)


def blame_first_wrong(questions):
    """Run `blame` on test cases; return the first report (a Blame) of an error, or None."""
    for one in questions.values():
        with contextlib.suppress(SystemExit):           # the code may call sys.exit
            report = blame(one["layer"], *one["inputs"], **one["options"])
            if not report.right:
                return report
    return None


def format_lines(report):
    """Return the incorrect line of a Blame and its alternatives as text, or "" if it has none."""
    if report is None or not report.line:
        return ""
    others = [(n, linecache.getline(report.file, n)) for n, _ in report.alternatives]
    return ", or ".join(f"line {number}, `{source.strip()}`"
                        for number, source in [(report.line, report.source), *others])
