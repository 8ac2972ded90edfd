"""Grades a class: a folder of submissions, each a folder or a zip of a student's files.

    python -m npdl homework grade submissions --homework homework --out grades

What was handed in (`submissions`) in the marked places (`splice`) runs in a process that can but
compute (`isolated`); what that gives back is compared here (`judging`). None costs another its
grade, and a class has one seed: who hands in the same gets the same.
"""

import csv
import dataclasses
import hashlib
import io
import platform
import re
import secrets
import shlex
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path

from npdl.errors import InputError
from npdl.files import read_json, reason, write_atomically, write_json
from npdl_study.containment import message
from npdl_study.homework.blanks import reached
from npdl_study.homework.handout import HANDED_OUT, pickled
from npdl_study.homework.isolated import answers, isolated
from npdl_study.homework.judging import POINTS, losses, questions
from npdl_study.homework.services import write_autograder, write_results, write_workflow
from npdl_study.homework.submissions import NotGraded, NotOwn, find_file, listed
from npdl_train.console import file_or_folder, printable
from npdl_train.options import COUNT, SECONDS, add_settings, count, setting, taken
from npdl_train.process import SEALS
from npdl_train.runs.config import usable_cores

NEEDED = ("module", "holes", "forward", "pristine", "gone", "kept")
# A spreadsheet runs what begins so, in a cell or after what separates its cells.
FORMULA = re.compile(r"((?:^|[;\t|])[\s\"']*)(?=[=+\-@＝＋－＠])")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a class is graded."""

    seed: int | None = setting("", None, "of the class: what all are asked; drawn, and written "
                               "into the grades, if not given", "N", COUNT)
    alike: bool = setting("", False, "grade `layer norm.py` or `Layer_Norm (1).py` where there is "
                          "no layer_norm.py")
    limit: float = setting("", 60.0, "for each task", "SECONDS", SECONDS)
    jobs: int = setting("", usable_cores(), "tasks at a time", "N", count(256))
    visibility: str = setting("", "visible", "who sees results at Gradescope, and when",
                              allowed=("visible", "after_due_date", "after_published", "hidden"))


def tasks_of(homework):
    """[what `isolated` is asked] for each task of a homework folder, but its questions. Kept of
    npdl's is what a layer's own run calls, less what is to be written and its forward twin."""
    try:
        tasks = read_json(Path(homework) / HANDED_OUT)
        for task in tasks:
            asked, _ = questions(task.get("layer", task["name"]), 0, task["forward"])
            task["kept"] = reached(lambda asked=asked: answers(asked, {}))
            task["gone"] = {(sys.modules[module].__file__, name)
                            for hole, module in task["holes"].items() if module
                            for name in (hole, hole.removesuffix("_backward"))}
        return tasks
    except (OSError, ValueError, TypeError, LookupError, InputError) as error:
        raise InputError(f"--homework {homework}: is no folder that `python -m npdl homework` "
                         f"wrote ({message(error)}); give the one that the class was given"
                         ) from error


def submissions_of(folder):
    """({name, as it can be shown: folder or zip} of the submissions; the names of the rest)."""
    try:
        folder = Path(folder).resolve()
        if Path.cwd().is_relative_to(folder):
            raise ValueError("Python is run in it, and takes students' folders for its modules; "
                             "go where submissions are not, say cd ..")
        found = {printable(place.name.replace("\\", "\\\\")): place
                 for place in sorted(folder.iterdir())}
        places = {name: place for name, place in found.items() if not name.startswith(".")
                  and (place.is_dir() or place.suffix.lower() == ".zip" and place.is_file())}
        if not places:
            raise ValueError("it holds no folders and no zip files")
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: cannot be read ({reason(error)}); give the folder that has "
                         "one folder or zip for each student") from error
    return places, [name for name in found if name not in places]


@dataclasses.dataclass
class Grades:
    """What is in a folder of grades: a class's seed, {name: {task: what it got}}; and how a grade
    is computed again, the command but for --seed and --again."""

    out: Path
    tasks: list
    seed: int
    submissions: dict
    command: str = ""

    def keep(self, name, found):
        """Write a submission's grade into the grades so far, and its text, and say its points."""
        self.submissions[name] = found
        self.write()
        file = name
        if len(name.encode()) > 120:        # no file can have a name of more than 255
            file = f"{name[:15]} {hashlib.sha512(name.encode()).hexdigest()}"
        text = self.letter(name)
        for path, content in ((self.out / "grades.csv", self.table()),
                              (self.out / "students" / f"{file}.txt", text)):
            write_atomically(path, lambda place, content=content: place.write(content.encode()))
        why = f": {reasons(found)}" if sum_of(found) is None else ""
        print(text.splitlines()[0] + why, flush=True)

    def write(self):
        """grades.json: enough to go on from, and to compute any grade again."""
        write_json(self.out / "grades.json", {"tasks": self.tasks, "seed": self.seed,
                                              "submissions": self.submissions})

    def letter(self, name):
        """A text for a student: the points of each task, why, and how they are computed again."""
        found = self.submissions[name]
        lines = [f"{name}: {_of(sum_of(found), len(found))}"]
        for task, told in found.items():
            lines += ["", f"{task}: {_of(told['points'], 1)}"]
            lines += [f"  {told['reason']}"] if told["reason"] else []
            if told["others"]:
                lines.append(f"  Graded is {told['file']}, not {', '.join(told['others'])}.")
        again = f"--again {shlex.quote(name)}" if name[0] != "-" else shlex.quote(f"--again={name}")
        lines += ["", "The same grade again, digit for digit:",
                  f"  {self.command} --seed {self.seed} {again}"]
        return "\n".join(lines) + "\n"

    def table(self):
        """grades.csv: a row for each submission, its points of each task and in all, and why."""
        rows = [["submission", *self.tasks, "points", "of", "reason", "seed"]]
        for name, found in self.submissions.items():
            points = [*(told["points"] for told in found.values()), sum_of(found)]
            rows.append([name, *("not graded" if n is None else str(n) for n in points),
                         str(len(POINTS) * len(self.tasks)), reasons(found), str(self.seed)])
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [FORMULA.sub(r"\1'", cell) for cell in row] for row in rows)
        return text.getvalue()


def grade_class(folder, homework, out, settings=None, resume=False, again=()):
    """The Grades of a class, which `out` has too, after each submission; folders and options as
    the command has them.

    Raises InputError for folders that are none of these, CheckpointError for a full disk.
    """
    settings, tasks, (submissions, others) = (settings or Settings(), tasks_of(homework),
                                              submissions_of(folder))
    if unknown := [name for name in again if name not in submissions]:
        raise InputError(f"--again {unknown[0]}: there is no such submission; there is "
                         f"{', '.join([*submissions][:9])}")
    grades = _begun(Path(out), [task["name"] for task in tasks], settings, resume or again)
    grades.command = shlex.join(
        ["python", "-m", "npdl", "homework", "grade", str(folder), "--homework", str(homework),
         "--out", "again", *(["--alike"] if settings.alike else []),
         *([f"--limit={settings.limit:g}"] if settings.limit != Settings.limit else [])])
    for name in others:
        print(f"{name}: passed over, for it is no student's folder or zip")
    given = {name: read(place, tasks, settings.alike)
             for name, place in submissions.items() if not again or name in again}
    for name, files in given.items():
        if (before := grades.submissions.get(name)) and sum_of(before) is not None and not again:
            changed = [task for (task, told), file in zip(before.items(), files, strict=True)
                       if told["sha256"] != file["sha256"]]
            if changed:
                print(f"{name}: its files changed since they were graded: {', '.join(changed)}")
            given[name] = files if changed else None
    with ThreadPool(settings.jobs) as pool:
        waiting = {name: [pool.apply_async(one_task, (file, task, grades.seed, settings.limit))
                          for file, task in zip(files, tasks, strict=True)]
                   for name, files in given.items() if files}
        for name, results in waiting.items():
            grades.keep(name, {task: one.get() for task, one
                               in zip(grades.tasks, results, strict=True)})
    return grades


def grade_one(place, homework, settings):
    """{task: what it got} of one submission, a folder or zip."""
    tasks = tasks_of(homework)
    return {task["name"]: one_task(file, task, settings.seed, settings.limit)
            for task, file in zip(tasks, read(Path(place), tasks, settings.alike), strict=True)}


def read(place, tasks, alike):
    """What a submission holds of each task: its text, or the error of its absence; where it is,
    what has the same name, and a digest of it all."""
    every, files = [], None
    for task in tasks:
        found = {"text": b"", "error": None, "file": "", "others": []}
        try:
            files = listed(place) if files is None else files
            text, where, others = find_file(files, f"{task['module']}.py", alike)
            found |= {"text": text, "file": printable(where), "others": [*map(printable, others)]}
        except Exception as error:          # nor may this cost others anything
            found["error"] = error
        told = found["text"] + str(found["error"]).encode("utf-8", "replace")
        every.append(found | {"sha256": hashlib.sha256(told).hexdigest()})
    return every


def one_task(file, task, seed, limit):
    """{"points", "reason", ...} of what a submission holds of a task; points of None where the
    grader failed. Its process gets no more of the task than it needs: no answers of home."""
    lost = {}
    try:
        if file["error"]:
            raise file["error"]
        asked, wanted = questions(task.get("layer", task["name"]), seed, task["forward"])
        asked = pickled(asked, task["layer"]) if "layer" in task else asked
        found = isolated({name: task[name] for name in NEEDED} |
                         {"submitted": file["text"], "questions": asked}, limit)
        lost = losses(task["name"], found, wanted)
        points, why = len(POINTS) - len(lost), [*lost.values(), ("", "")][0][0]
    except (NotOwn, NotGraded) as error:
        points, why = None if isinstance(error, NotGraded) else 0, str(error)
    except Exception as error:          # whatever it is, it may not cost the others their grades
        points, why = None, message(error)
    return {"points": points, "reason": printable(why[:4000]),
            "lost": {point: printable(said[:4000]) for point, (said, _) in lost.items()},
            **{key: file[key] for key in ("file", "others", "sha256")}}


def _seeded(settings):
    """Settings with a seed, drawn where none was given."""
    return dataclasses.replace(settings, seed=settings.seed or 1 + secrets.randbelow(1 << 31))


def _begun(out, tasks, settings, goes_on):
    """The Grades that are in `out` already, or new ones; the folder is there then."""
    seed = settings.seed
    before = {"tasks": tasks, "seed": _seeded(settings).seed, "submissions": {}}
    try:
        if goes_on and (out / "grades.json").exists():
            before = read_json(out / "grades.json")
        elif out.exists() and any(out.iterdir()):
            raise InputError("it is not empty: name another, or go on with --resume")
        if before["tasks"] != tasks:
            raise ValueError(f"its grades are of {', '.join(before['tasks'])}")
        if seed not in (None, before["seed"]):
            raise ValueError(f"its class has seed {before['seed']}; leave --seed out")
        out.mkdir(parents=True, exist_ok=True)
        (out / "students").mkdir(exist_ok=True)
        grades = Grades(out, tasks, int(before["seed"]), before["submissions"])
        grades.table()                      # raises where these are no grades
        grades.write()                      # so that --resume may go on from here
        return grades
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"--out {out}: cannot be used ({reason(error)})") from error


def sum_of(found):
    """The points of a submission, None when a task is not graded."""
    points = [told["points"] for told in found.values()]
    return None if None in points else sum(points)


def reasons(found):
    """Why a submission has not all points, in a line."""
    return "; ".join(f"{task}: {told['reason']}" for task, told in found.items() if told["reason"])


def _of(points, tasks):
    return "not graded" if points is None else f"{points} of {len(POINTS) * tasks}"


def add_arguments(parser):
    """Add the options of `python -m npdl homework grade` to an argparse parser."""
    parser.add_argument("folder", metavar="FOLDER", nargs="?",
                        help="one folder or zip for each student")
    parser.add_argument("--homework", required=True, metavar="DIR",
                        help="the folder that the class was given")
    parser.add_argument("--out", metavar="DIR", dest="grades", help="a new or empty folder, for "
                        "grades.csv, grades.json and a text for each student")
    add_settings(parser, "grade", ("",), Settings(jobs="one for each core"))
    parser.add_argument("--resume", action="store_true", help="go on in --out: graded is who is "
                        "not yet, and whose files changed since")
    parser.add_argument("--again", nargs="+", default=[], metavar="NAME",
                        help="grade these submissions anew, and none but these")
    service = parser.add_mutually_exclusive_group()
    service.add_argument("--gradescope", metavar="FILE.zip", type=file_or_folder,
                         help="grade nobody, write the autograder that Gradescope runs")
    service.add_argument("--classroom", metavar="FILE.yml", type=file_or_folder,
                         help="grade nobody, write the workflow that GitHub Classroom runs")
    service.add_argument("--results", metavar="FILE.json", type=file_or_folder, help="FOLDER is "
                         "one submission; write what these services read (they call this)")


def run(options):
    """Grade, write the grades, and say each submission's points."""
    if (sys.platform, platform.machine()) not in SEALS:
        raise InputError("grading needs Linux on x86_64 or aarch64; use WSL or a container")
    settings = taken(Settings, vars(options))
    if made := options.gradescope or options.classroom:
        settings = _seeded(settings)
        tasks_of(options.homework)                      # raises where that is none
        (write_autograder if options.gradescope else write_workflow)(made, options.homework,
                                                                     settings)
        print(f"{made}: written, with seed {settings.seed} for the class")
        return
    if options.folder is None or not (options.results or options.grades):
        raise InputError("FOLDER and --out are needed: whose work, and where grades are written")
    if options.results:
        found = grade_one(options.folder, options.homework, settings := _seeded(settings))
        if sum_of(found) is None:
            raise InputError(f"{options.folder}: not graded: {reasons(found)}")
        write_results(options.results, found, settings)
        print(f"{options.results}: {_of(sum_of(found), len(found))}")
        return
    print("note: submissions can compute, no more; a container is a second wall (page on "
          "grading)", flush=True)
    graded = grade_class(options.folder, options.homework, options.grades, settings,
                         options.resume, options.again).submissions
    failed = [sum_of(found) for found in graded.values()].count(None)
    if failed:
        raise InputError(f"{options.grades}: {failed} of {len(graded)} submissions are not graded "
                         "(see above); mend what kept the grader from it, and go on with --resume")
    print(f"{options.grades}: grades.csv has a row for each submission, students a text for each")
