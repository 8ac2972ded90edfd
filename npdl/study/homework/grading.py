"""Grade submissions: points, a CSV, and a feedback page for each student.

All submissions are asked the same questions, and none can cost another one its grade.
"""

import csv
import dataclasses
import functools
import hashlib
import io
import pickle
import re
from multiprocessing.pool import ThreadPool

from npdl.exceptions import printable
from npdl.study.containment import message, written
from npdl.study.homework.answers import BLANK, Refused
from npdl.study.homework.handout import new_folder
from npdl.study.homework.judge import answer_right, ask, award, lose_all
from npdl.study.homework.sandbox import NotGraded, run_student
from npdl.study.homework.similarity import find_copies, fingerprint, reference_fingerprint
from npdl.study.homework.submissions import list_submissions, read_file

FORMULA = re.compile(r"[\s\"']*[=+\-@＝＋－＠]")     # spreadsheets calculate such a cell


@dataclasses.dataclass
class Grade:
    """The grade of an exercise: {point: "" or why it is lost}, or why it is `not_graded`.

    `line` is the most likely mistake, `file` the one that was graded, `others` those of its name.
    """

    points: dict = dataclasses.field(default_factory=dict)
    not_graded: str = ""
    line: str = ""
    file: str = ""
    others: list = dataclasses.field(default_factory=list)
    fingerprint: str = ""           # of the code

    @property
    def earned(self):
        return sum(not reason for reason in self.points.values())

    def __str__(self):
        return "not graded" if self.not_graded else f"{self.earned} of {len(self.points)}"

    def reasons(self):
        """Return why points are lost, as lines; a reason that all have in common is one line."""
        if self.not_graded:
            return [self.not_graded]
        if len(set(self.points.values())) == 1:
            return [reason for reason in set(self.points.values()) if reason]
        return [f"{point}: {reason}" for point, reason in self.points.items() if reason]

    def is_full(self):
        return not self.not_graded and self.earned == len(self.points)


class Grader:
    """Grades exercises with the questions of one seed, each within a time limit."""

    def __init__(self, homework, seed, seconds, is_sealed):
        self.homework, self.seed, self.seconds = homework, seed, seconds
        self.is_sealed = is_sealed
        self.prepared = functools.cache(self._prepare)

    def _prepare(self, name):
        """Return (right answers, what `run_student` needs of an exercise)."""
        exercise = self.homework.exercises[name]
        asked = ask(exercise, self.seed)
        return answer_right(asked), {
            "file": f"/{exercise.file}", "name": name, "way": exercise.way,
            "handed_out": self.homework.texts[exercise.file], "questions": pickle.dumps(asked),
            "module": exercise.cls.__module__ * exercise.is_own, "find_line": False,
            "asked": {(f.__module__, f.__qualname__) for f in exercise.blank_functions}}

    def grade_submission(self, places):
        """Return {exercise: Grade} of what a student handed in, {name: path}."""
        return {name: self._grade(exercise, places)
                for name, exercise in self.homework.exercises.items()}

    def _grade(self, exercise, places):
        grade = Grade()
        try:
            wanted, task = self.prepared(exercise.name)
            text, grade.file, grade.others = read_file(places, exercise.file)
            task = task | {"submitted": text}
            found = run_student(task, self.seconds, self.is_sealed)
            grade.fingerprint = fingerprint(text, {blank for _, blank in exercise.methods})
            grade.points = award(found, wanted, exercise.forward)
            if not (grade.is_full() or exercise.forward or BLANK in grade.points.values()):
                grade.line = self._find_line(task)
        except Refused as error:
            grade.points = lose_all(wanted, exercise.forward, str(error))
        except NotGraded as error:
            grade.not_graded = str(error)
        except Exception as error:          # it must not cost other submissions their grades
            grade.not_graded = message(error)
        grade.not_graded = printable(grade.not_graded[:900])
        grade.points = {point: printable(why[:900]) for point, why in grade.points.items()}
        return grade

    def _find_line(self, task):
        """Return the most likely mistake, or "": from another process, with npdl complete."""
        try:
            found = run_student(task | {"find_line": True}, self.seconds, self.is_sealed)
            return printable(found.get("line", "")[:300])
        except (Refused, NotGraded):
            return ""


def summary(grades):
    """Return "3 of 5", or why a submission, {exercise: Grade}, is not graded."""
    if reasons := [f"{name}: {one.not_graded}" for name, one in grades.items() if one.not_graded]:
        return f"not graded: {'; '.join(reasons)}"
    return (f"{sum(one.earned for one in grades.values())} of "
            f"{sum(len(one.points) for one in grades.values())}")


def feedback(name, grades):
    """Return the feedback page of a student."""
    lines = [f"{name}: {summary(grades)}"]
    for exercise, grade in grades.items():
        lines += ["", f"{exercise}: {grade}", *(f"  {reason}" for reason in grade.reasons())]
        lines += [f"  most likely wrong: {grade.line}"] * bool(grade.line)
        lines += [f"  graded is {grade.file}, not {', '.join(grade.others)}"] * bool(grade.others)
    return "\n".join(lines) + "\n"


def table(graded, references):
    """Return grades.csv: a row for each submission of {submission: {exercise: Grade}}.

    `references` has the fingerprints of npdl's own solutions, {exercise: digest}.
    """
    copies = find_copies({name: {one: grade.fingerprint for one, grade in grades.items()}
                          for name, grades in graded.items()} | {"npdl": references})
    rows = [["submission", *references, "points", "of", "same as", "reason"]]
    for name, grades in graded.items():
        is_graded = not any(grade.not_graded for grade in grades.values())
        points, of = summary(grades).split(" of ") if is_graded else ("not graded", "")
        rows.append([name, *(grade.earned if not grade.not_graded else "not graded"
                             for grade in grades.values()), points, of, copies[name],
                     "; ".join(f"{one}: {grade.reasons()[0]}" for one, grade in grades.items()
                               if not grade.is_full())])
    text = io.StringIO()
    csv.writer(text).writerows([f"'{cell}" if FORMULA.match(str(cell)) else cell for cell in row]
                               for row in rows)
    return text.getvalue()


def grade_class(folder, homework, out, seed=1, seconds=60.0, jobs=1, is_sealed=False):
    """Grade a folder of submissions; return {submission: {exercise: Grade}}.

    The folder `out`, new or empty, gets grades.csv and a feedback page for each student. Raises
    InputError for a folder that can't be used.
    """
    submissions, others = list_submissions(folder)
    for name in others:
        print(f"{name}: skipped, it is not a submission")
    out, graded = new_folder(out), {}
    references = {name: reference_fingerprint(one) for name, one in homework.exercises.items()}
    grader = Grader(homework, seed, seconds, is_sealed)
    for name in homework.exercises:
        grader.prepared(name)               # raises if a teacher's file is missing
    with ThreadPool(jobs) as pool:
        waiting = {name: pool.apply_async(grader.grade_submission, (places,))
                   for name, places in submissions.items()}
        for name, result in waiting.items():
            graded[name] = result.get()
            file = name if len(name.encode()) < 120 else hashlib.sha256(name.encode()).hexdigest()
            written(out / "feedback" / f"{file}.txt", feedback(name, graded[name]))
            written(out / "grades.csv", "\ufeff" + table(graded, references))   # as Excel needs it
            print(f"{name}: {summary(graded[name])}", flush=True)
    return graded
