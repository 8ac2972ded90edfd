"""Grade submissions: write grades.csv and a feedback page for each student.

For Gradescope, results.json is written instead. All submissions get the same test cases. An error
of one submission doesn't change the grade of another one.
"""

import ast
import contextlib
import csv
import dataclasses
import io
import os
import pickle
import re
from multiprocessing.pool import ThreadPool
from pathlib import Path

from npdl.cli.process import count_usable_cores
from npdl.errors import InputError
from npdl.files import write_json
from npdl.study.containment import format_exception, write_text
from npdl.study.homework import answers
from npdl.study.homework.handout import check_new_folder
from npdl.study.homework.sandbox import NotGraded, run_student_file
from npdl.study.homework.submissions import find_submissions, read_submitted_file

SEED = 1                                            # seed of the test cases; it is 0 at home
FORMULA = re.compile(r"[\s\"']*[=+\-@＝＋－＠]")     # the start of a cell that a spreadsheet runs
SHORTEST = 150          # code with fewer characters is not compared: short code is often equal


@dataclasses.dataclass
class Grade:
    """The grade of one exercise."""

    points: dict = dataclasses.field(default_factory=dict)      # {point: why it is lost, or ""}
    not_graded: str = ""        # why the exercise is not graded
    line: str = ""              # the line that is most likely wrong
    code: str = ""              # the code without names, to compare students (`describe_copies`)

    @property
    def earned(self):
        """Return the number of earned points, or "not graded"."""
        return "not graded" if self.not_graded else sum(not why for why in self.points.values())

    def __str__(self):
        """Return "3 of 5", or "not graded" with the reason."""
        return (f"not graded: {self.not_graded}" if self.not_graded
                else f"{self.earned} of {len(self.points)}")


class Grader:
    """Grades the work of students.

    exercises  {name: Exercise}
    is_sealed  if True, a seccomp filter confines the students' code
    seconds    the time limit for one exercise of a student
    """

    def __init__(self, exercises, is_sealed=False, seconds=answers.LIMIT):
        self.exercises = []
        for exercise in exercises.values():
            test_cases = exercise.make_test_cases(SEED)
            self.exercises.append((exercise, answers.compute_answers(test_cases), {
                "file": f"/{exercise.file}", "name": exercise.name, "find_line": False,
                "blanks": {function.__qualname__ for function in exercise.blanks},
                "test_cases": pickle.dumps(test_cases), "seconds": seconds, "is_sealed": is_sealed,
                "parent": os.getpid()}))

    def grade(self, submission):
        """Return {exercise: Grade} for one submission, {file name: path}."""
        return {exercise.name: self._grade_exercise(exercise, npdl_answers, task, submission)
                for exercise, npdl_answers, task in self.exercises}

    def _grade_exercise(self, exercise, npdl_answers, task, submission):
        grade = Grade()
        try:
            task = task | {"submitted": read_submitted_file(submission, exercise.file)}
            found = run_student_file(task)
            grade.code = normalise_method_code(task["submitted"], exercise.methods)
            grade.points = answers.compare_answers(found, npdl_answers)
            if len(set(grade.points.values())) > 1:     # else the reason has the line
                with contextlib.suppress(answers.InvalidFile, NotGraded):
                    grade.line = str(run_student_file(task | {"find_line": True}).get("line", ""))
        except answers.InvalidFile as error:
            grade.points = dict.fromkeys(answers.compare_answers({}, npdl_answers), str(error))
        except NotGraded as error:
            grade.not_graded = str(error)
        except Exception as error:          # other submissions must still be graded
            grade.not_graded = format_exception(error)
        return grade


def sum_grades(grades_by_exercise):
    """Return one Grade with the points of all exercises in {exercise: Grade}."""
    return Grade({f"{exercise}: {point}": reason for exercise, grade in grades_by_exercise.items()
                  for point, reason in grade.points.items()},
                 "; ".join(f"{exercise}: {grade.not_graded}" for exercise, grade
                           in grades_by_exercise.items() if grade.not_graded))


def format_feedback(student, grades_by_exercise):
    """Return the text of a student's feedback page, with the reasons for lost points."""
    lines = [f"{student}: {sum_grades(grades_by_exercise)}"]
    for exercise, grade in grades_by_exercise.items():
        lines += ["", f"{exercise}: {grade}"]
        lines += [f"  {reason}" for reason in answers.explain_lost_points(grade.points)]
        lines += [f"  most likely wrong: {grade.line}"] * bool(grade.line)
    return "\n".join(lines) + "\n"


def normalise_method_code(source, method_names):
    """Return the code of some methods without names and comments, to compare it.

    Returns "" if the code is short or invalid. The student's file must have run in a child process
    before, which shows that it doesn't crash Python's parser.
    """
    try:
        code = "\n".join(sorted(
            _normalise_function(node) for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef) and node.name in method_names))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return code if len(code) >= SHORTEST else ""


def _normalise_function(function):
    """Return a function's code with numbers for names and without annotations and docstring."""
    numbers = {}
    function.returns = None
    function.body = [line for line in function.body if not isinstance(line, ast.Expr)]
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            node.arg, node.annotation = numbers.setdefault(node.arg, str(len(numbers))), None
        elif isinstance(node, ast.Name):
            node.id = numbers.setdefault(node.id, str(len(numbers)))
    return ast.unparse(function)


def describe_copies(grades_by_submission):
    """Return {submission: text}. A text names others with equal code: "ada (Linear); ben (Tanh)".

    grades_by_submission  {submission: {exercise: Grade}}
    """
    return {name: "; ".join(f"{other} ({exercise})" for exercise, grade in own.items() if grade.code
                            for other, theirs in grades_by_submission.items()
                            if other != name and theirs[exercise].code == grade.code)
            for name, own in grades_by_submission.items()}


def format_grades_csv(grades_by_submission, npdl_grades):
    """Return the text of grades.csv, with a row for each submission.

    grades_by_submission  {submission: {exercise: Grade}}
    npdl_grades           {exercise: Grade} with npdl's own code, to find submissions that copy it
    """
    copies = describe_copies(grades_by_submission | {"npdl": npdl_grades})
    rows = [["submission", *npdl_grades, "points", "of", "same as", "reason"]]
    for name, grades in grades_by_submission.items():
        whole = sum_grades(grades)
        reasons = {exercise: grade.not_graded or "".join(
            answers.explain_lost_points(grade.points)[:1]) for exercise, grade in grades.items()}
        rows.append([name, *(grade.earned for grade in grades.values()), whole.earned,
                     "" if whole.not_graded else len(whole.points), copies[name],
                     "; ".join(f"{exercise}: {why}" for exercise, why in reasons.items() if why)])
    text = io.StringIO()
    csv.writer(text).writerows([f"'{cell}" if FORMULA.match(str(cell)) else cell for cell in row]
                               for row in rows)
    return text.getvalue()


def grade_submissions(folder, grader, out):
    """Grade a folder of submissions and return {submission: {exercise: Grade}}.

    grades.csv and a feedback page for each student are written into the folder `out`, which must be
    new or empty. Raises InputError if one of the folders can't be used.
    """
    submissions, out, graded = find_submissions(folder), check_new_folder(out), {}
    npdl_grades = {one.name: Grade(code=normalise_method_code(one.solution, one.methods))
                   for one, *_ in grader.exercises}
    with ThreadPool(count_usable_cores()) as pool:
        for name, grades in zip(submissions, pool.imap(grader.grade, submissions.values()),
                                strict=True):
            graded[name] = grades
            file = name.encode()[:200].decode(errors="ignore")      # the limit of file systems
            write_text(out / "feedback" / f"{file}.txt", format_feedback(name, grades))
            # Excel reads UTF-8 only if the file begins with this character
            write_text(out / "grades.csv", "\ufeff" + format_grades_csv(graded, npdl_grades))
            print(f"{name}: {sum_grades(grades)}", flush=True)
    return graded


def write_gradescope_results(path, submission, grader):
    """Grade one submission, write results.json for Gradescope, and return the points as text.

    Raises InputError if the submission can't be graded. Then no results are written, and Gradescope
    reports that the autograder failed.
    """
    name = Path(submission).name
    grades = grader.grade({name: Path(submission)})
    total = sum_grades(grades)
    if total.not_graded:
        raise InputError(f"{submission}: {total}")
    tests = [{"name": point, "score": int(not reason), "max_score": 1, "output": reason}
             for point, reason in total.points.items()]
    write_json(Path(path), {"tests": tests, "output": format_feedback(name, grades),
                            "output_format": "text", "stdout_visibility": "hidden"})
    return str(total)
