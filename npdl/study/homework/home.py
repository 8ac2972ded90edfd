"""Test a student's layer in a homework folder, and name the wrong gradients."""

import contextlib
from pathlib import Path

from npdl.errors import InputError
from npdl.study.blame.blame import blame
from npdl.study.containment import time_limit
from npdl.study.homework import answers
from npdl.study.homework.handout import read_homework

SEED = 0                # seed of the test cases; it is 1 in class


def describe_layer_errors(name):
    """Test a layer's file in the current folder; return a text on its errors, "" if correct."""
    exercises, is_exam = read_homework(".")
    path, test_cases = Path(exercises[name].file).resolve(), exercises[name].make_test_cases(SEED)
    npdl_answers = answers.compute_answers(test_cases)
    try:
        with time_limit(answers.LIMIT, ""):
            answers.use_student_class(test_cases, path.read_bytes(), str(path), name)
            found = answers.compute_answers(test_cases, str(path))
            reasons = answers.explain_lost_points(answers.compare_answers(found, npdl_answers))
            if reasons not in ([], [answers.BLANK]) and (
                    report := blame_first_wrong_case(test_cases)):
                reasons += ["", f"most likely wrong: {format_incorrect_lines(report)}"
                            if is_exam and report.line else str(report)]
    except (answers.InvalidFile, InputError, OSError) as error:
        return str(error)
    return "\n".join(reasons)


def blame_first_wrong_case(test_cases):
    """Run `blame` on test cases; return the first report (a Blame) of an error, or None."""
    for case in test_cases.values():
        with contextlib.suppress(SystemExit):           # the code may call sys.exit
            report = blame(case["layer"], *case["inputs"], **case["options"])
            if not report.right:
                return report
    return None


def format_incorrect_lines(report):
    """Return the incorrect line of a Blame and its alternatives as text, or "" if it has none."""
    if report is None or not report.line:
        return ""
    return ", or ".join(f"line {line}, `{source.strip()}`" for line, source, *_ in [
        (report.line, report.source), *report.alternatives])
