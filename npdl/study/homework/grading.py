"""Grade submissions: write grades.csv and a feedback page for each student.

For Gradescope, results.json is written instead. All submissions get the same questions. An error of
one submission doesn't change the grade of another one.
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
from npdl.study.homework.answers import LIMIT, InvalidFile, award_points, format_reasons, run_layers
from npdl.study.homework.handout import check_new_folder
from npdl.study.homework.sandbox import NotGraded, run_student
from npdl.study.homework.submissions import list_submissions, read_file

SEED = 1                                            # seed of the questions; it is 0 at home
FORMULA = re.compile(r"[\s\"']*[=+\-@＝＋－＠]")     # the start of a cell that a spreadsheet runs
SHORTEST = 150          # code with fewer characters is not compared: short code is often equal


@dataclasses.dataclass
class Grade:
    """The grade of one exercise."""

    points: dict = dataclasses.field(default_factory=dict)      # {point: why it is lost, or ""}
    not_graded: str = ""        # why the exercise is not graded
    line: str = ""              # the line that is most likely wrong
    code: str = ""              # the code without names, to compare students (`find_copies`)

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

    def __init__(self, exercises, is_sealed=False, seconds=LIMIT):
        self.exercises = []
        for exercise in exercises.values():
            asked = exercise.make_questions(SEED)
            self.exercises.append((exercise, run_layers(asked), {
                "file": f"/{exercise.file}", "name": exercise.name, "find_line": False,
                "blanks": {function.__qualname__ for function in exercise.blanks},
                "questions": pickle.dumps(asked), "seconds": seconds, "is_sealed": is_sealed,
                "parent": os.getpid()}))

    def grade(self, submission):
        """Return {exercise: Grade} for one submission, {file name: path}."""
        return {exercise.name: self._grade(exercise, wanted, task, submission)
                for exercise, wanted, task in self.exercises}

    def _grade(self, exercise, wanted, task, submission):
        grade = Grade()
        try:
            task = task | {"submitted": read_file(submission, exercise.file)}
            found = run_student(task)
            grade.code = normalise_methods(task["submitted"], exercise.methods)
            grade.points = award_points(found, wanted)
            if len(set(grade.points.values())) > 1:     # else the reason has the line
                with contextlib.suppress(InvalidFile, NotGraded):
                    grade.line = str(run_student(task | {"find_line": True}).get("line", ""))
        except InvalidFile as error:
            grade.points = dict.fromkeys(award_points({}, wanted), str(error))
        except NotGraded as error:
            grade.not_graded = str(error)
        except Exception as error:          # other submissions must still be graded
            grade.not_graded = format_exception(error)
        return grade


def total_grade(grades):
    """Return one Grade with the points of all exercises in {exercise: Grade}."""
    return Grade({f"{exercise}: {point}": reason for exercise, grade in grades.items()
                  for point, reason in grade.points.items()},
                 "; ".join(f"{exercise}: {grade.not_graded}"
                           for exercise, grade in grades.items() if grade.not_graded))


def format_feedback(name, grades):
    """Return the text of a student's feedback page, with the reasons for lost points."""
    lines = [f"{name}: {total_grade(grades)}"]
    for exercise, grade in grades.items():
        lines += ["", f"{exercise}: {grade}"]
        lines += [f"  {reason}" for reason in format_reasons(grade.points)]
        lines += [f"  most likely wrong: {grade.line}"] * bool(grade.line)
    return "\n".join(lines) + "\n"


def normalise_methods(source, methods):
    """Return the code of some methods without names and comments, to compare it.

    Returns "" if the code is short or invalid. The student's file must have run in a child process
    before, which shows that it doesn't crash Python's parser.
    """
    try:
        code = "\n".join(sorted(
            _normalise_function(node) for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef) and node.name in methods))
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


def find_copies(graded):
    """Return {submission: text}. A text names others with equal code: "ada (Linear); ben (Tanh)".

    graded  {submission: {exercise: Grade}}
    """
    return {name: "; ".join(f"{other} ({exercise})" for exercise, grade in own.items() if grade.code
                            for other, theirs in graded.items()
                            if other != name and theirs[exercise].code == grade.code)
            for name, own in graded.items()}


def format_csv(graded, references):
    """Return the text of grades.csv, with a row for each submission.

    graded      {submission: {exercise: Grade}}
    references  {exercise: Grade} with npdl's own code, to find submissions that copy it
    """
    copies = find_copies(graded | {"npdl": references})
    rows = [["submission", *references, "points", "of", "same as", "reason"]]
    for name, grades in graded.items():
        whole = total_grade(grades)
        reasons = {exercise: grade.not_graded or "".join(format_reasons(grade.points)[:1])
                   for exercise, grade in grades.items()}
        rows.append([name, *(grade.earned for grade in grades.values()), whole.earned,
                     "" if whole.not_graded else len(whole.points), copies[name],
                     "; ".join(f"{exercise}: {why}" for exercise, why in reasons.items() if why)])
    text = io.StringIO()
    csv.writer(text).writerows([f"'{cell}" if FORMULA.match(str(cell)) else cell for cell in row]
                               for row in rows)
    return text.getvalue()


def grade_class(folder, grader, out):
    """Grade a folder of submissions and return {submission: {exercise: Grade}}.

    grades.csv and a feedback page for each student are written into the folder `out`, which must be
    new or empty. Raises InputError if one of the folders can't be used.
    """
    submissions, out, graded = list_submissions(folder), check_new_folder(out), {}
    references = {one.name: Grade(code=normalise_methods(one.solution, one.methods))
                  for one, *_ in grader.exercises}
    with ThreadPool(count_usable_cores()) as pool:
        for name, grades in zip(submissions, pool.imap(grader.grade, submissions.values()),
                                strict=True):
            graded[name] = grades
            file = name.encode()[:200].decode(errors="ignore")      # the limit of file systems
            write_text(out / "feedback" / f"{file}.txt", format_feedback(name, grades))
            # Excel reads UTF-8 only if the file begins with this character
            write_text(out / "grades.csv", "\ufeff" + format_csv(graded, references))
            print(f"{name}: {total_grade(grades)}", flush=True)
    return graded


def write_results(path, place, grader):
    """Grade one submission, write results.json for Gradescope, and return the points as text.

    Raises InputError if the submission can't be graded. Then no results are written, and Gradescope
    reports that the autograder failed.
    """
    name = Path(place).name
    grades = grader.grade({name: Path(place)})
    total = total_grade(grades)
    if total.not_graded:
        raise InputError(f"{place}: {total}")
    tests = [{"name": point, "score": int(not reason), "max_score": 1, "output": reason}
             for point, reason in total.points.items()]
    write_json(Path(path), {"tests": tests, "output": format_feedback(name, grades),
                            "output_format": "text", "stdout_visibility": "hidden"})
    return str(total)
