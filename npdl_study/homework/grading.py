"""Grades a class: a folder of submissions, each a folder with a student's files of one homework.

    python -m npdl homework grade submissions --homework homework --out grades

A task, what stands in its marked places (`splice`), runs in a process that can but compute
(`isolated`); what that gives back is compared here (`judging`). None costs another its grade.
"""

import csv
import dataclasses
import hashlib
import io
import os
import platform
import secrets
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path

from npdl.errors import InputError
from npdl.files import read_json, reason, write_atomically, write_json
from npdl_study.containment import message
from npdl_study.homework.blanks import reached
from npdl_study.homework.handout import HANDED_OUT
from npdl_study.homework.isolated import NotGraded, answers, isolated
from npdl_study.homework.judging import POINTS, judged, questions
from npdl_study.homework.splice import NotOwn
from npdl_train.console import printable
from npdl_train.options import SECONDS, add_settings, count, setting, taken
from npdl_train.process import SEALS
from npdl_train.runs.config import usable_cores

MOST_BYTES = 1 << 20        # of a student's file
FORMULA = ("=", "+", "-", "@")          # a spreadsheet runs what begins so


@dataclasses.dataclass(frozen=True)
class Settings:
    """How long a class may take, and on how many cores."""

    limit: float = setting("", 60.0, "for each task", "SECONDS", SECONDS)
    jobs: int = setting("", usable_cores(), "tasks at a time", "N", count(256))


def tasks_of(homework):
    """[what `isolated` is asked] for each task of a homework folder, but its questions. Kept of
    npdl's is what a layer's own run calls, less what is to be written and its forward twin."""
    try:
        tasks = read_json(Path(homework) / HANDED_OUT)
        for task in tasks:
            asked, _ = questions(task["name"], 0, task["forward"])
            task["kept"] = reached(lambda asked=asked: answers(asked, {}))
            task["gone"] = {(sys.modules[module].__file__, name)
                            for module, hole in zip(task["own"], task["holes"], strict=True)
                            for name in (hole, hole.removesuffix("_backward"))}
        return tasks
    except (OSError, ValueError, TypeError, LookupError, InputError) as error:
        raise InputError(f"--homework {homework}: is no folder that `python -m npdl homework` "
                         f"wrote ({message(error)}); give the one that the class was given"
                         ) from error


def submissions_of(folder):
    """({name, as it can be shown: folder} of the submissions, by name; the names of the rest)."""
    try:
        folder = Path(folder).resolve()
        if Path.cwd().is_relative_to(folder):
            raise ValueError("Python is run in it, and takes students' folders for its modules; "
                             "go where submissions are not, say cd ..")
        found = {printable(place.name.replace("\\", "\\\\")): place
                 for place in sorted(folder.iterdir())}
        places = {name: place for name, place in found.items()
                  if place.is_dir() and not name.startswith(".")}
        if not places:
            raise ValueError("it holds no folders; zip files are to be unzipped")
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: cannot be read ({reason(error)}); give the folder that has "
                         "one folder for each student") from error
    return places, [name for name in found if name not in places]


def grade_class(folder, homework, out, limit=60.0, jobs=1, resume=False):
    """{name: {task: {"points", "reason"}}}, which `out` has too, after each submission; folders and
    options as the command has them.

    Raises InputError for folders that are none of these, CheckpointError for a full disk.
    """
    tasks, (submissions, others) = tasks_of(homework), submissions_of(folder)
    names, out = [task["name"] for task in tasks], Path(out)
    graded = _begun(out, names, resume)
    for name in others:
        print(f"{name}: passed over, for it is no student's folder")
    with ThreadPool(jobs) as pool:
        waiting = {name: [pool.apply_async(one_task, (place, task, seed, limit)) for task in tasks]
                   for name, place in submissions.items() if name not in graded
                   for seed in [secrets.randbelow(1 << 31)]}
        for name, results in waiting.items():
            graded[name] = {task: one.get() for task, one in zip(names, results, strict=True)}
            _write(out, names, graded, name)
    return graded


def one_task(place, task, seed, limit):
    """{"points", "reason"} of a task in a submission's folder; points of None where the grader
    failed."""
    try:
        text = _handed_in(place, f"{task['module']}.py")
        asked, wanted = questions(task["name"], seed, task["forward"])
        found = isolated(task | {"handed_in": text, "questions": asked}, limit)
        points, why, _ = judged(task["name"], found, wanted)
    except (NotOwn, NotGraded) as error:
        points, why = None if isinstance(error, NotGraded) else 0, str(error)
    except Exception as error:          # whatever it is, it may not cost the others their grades
        points, why = None, message(error)
    return {"points": points, "reason": printable(why[:4000])}


def _handed_in(place, name):
    """The bytes of the file of this name in a submission."""
    inside = sorted(os.listdir(place))              # raises what rglob is silent about
    if place.is_symlink():
        raise NotGraded("it is a link: put the folder itself there")
    found = [path for path in sorted(place.rglob(name)) if path.is_file() and not path.is_symlink()]
    if found[1:]:
        one, another = (path.relative_to(place) for path in found[:2])
        raise NotGraded(f"{name} is there {len(found)} times, {one} and {another}: leave one")
    if not found or found[0].stat().st_size > MOST_BYTES:
        raise NotOwn(f"{name} has more than 1 MiB" if found else
                     f"{name} is not there; there is {', '.join(inside[:9]) or 'nothing'}")
    return found[0].read_bytes()


def _begun(out, tasks, resume):
    """What is graded in `out` already; the folder is there then."""
    before = {"tasks": tasks, "submissions": {}}
    try:
        if resume and (out / "grades.json").exists():
            before = read_json(out / "grades.json")
        elif out.exists() and any(out.iterdir()):
            raise InputError("it is not empty: name another, or go on with --resume")
        if before["tasks"] != tasks:
            raise ValueError(f"its grades are of {', '.join(before['tasks'])}")
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "grades.json", before)         # so that --resume may go on from here
        (out / "students").mkdir(exist_ok=True)
        return {name: found for name, found in before["submissions"].items()
                if _sum(found) is not None}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"--out {out}: cannot be used ({reason(error)})") from error


def _sum(found):
    """The points of a submission, None when a task is not graded."""
    points = [told["points"] for told in found.values()]
    return None if None in points else sum(points)


def _write(out, tasks, graded, name):
    """Write all grades so far and the text of one submission, and say its points."""
    text, file = letter(name, graded[name]), name
    if len(name.encode()) > 120:        # no file can have a name of more than 255
        file = f"{name[:15]} {hashlib.sha512(name.encode()).hexdigest()}"
    write_json(out / "grades.json", {"tasks": tasks, "submissions": graded})
    for path, content in ((out / "grades.csv", table(tasks, graded)),
                          (out / "students" / f"{file}.txt", text)):
        write_atomically(path, lambda place, content=content: place.write(content.encode()))
    why = f": {reasons(graded[name])}" if _sum(graded[name]) is None else ""
    print(text.splitlines()[0] + why, flush=True)


def reasons(found):
    """Why a submission has not all points, in a line."""
    return "; ".join(f"{task}: {told['reason']}" for task, told in found.items() if told["reason"])


def letter(name, found):
    """A text for a student: the points of each task, and why."""
    lines = [f"{name}: {_of(_sum(found), len(found))}"]
    for task, told in found.items():
        lines += ["", f"{task}: {_of(told['points'], 1)}", f"  {told['reason']}".rstrip()]
    return "\n".join(lines).rstrip() + "\n"


def _of(points, tasks):
    return "not graded" if points is None else f"{points} of {POINTS * tasks}"


def table(tasks, graded):
    """grades.csv: a row for each submission, its points of each task and in all, and why."""
    rows = [["submission", *tasks, "points", "of", "reason"]]
    for name, found in graded.items():
        points = [*(told["points"] for told in found.values()), _sum(found)]
        rows.append([name, *("not graded" if n is None else str(n) for n in points),
                     str(POINTS * len(tasks)), reasons(found)])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [f"'{cell}" if cell.lstrip().startswith(FORMULA) else cell for cell in row]
        for row in rows)
    return text.getvalue()


def add_arguments(parser):
    """Add the options of `python -m npdl homework grade` to an argparse parser."""
    parser.add_argument("folder", metavar="FOLDER", help="one folder for each student")
    parser.add_argument("--homework", required=True, metavar="DIR",
                        help="the folder that the class was given")
    parser.add_argument("--out", required=True, metavar="DIR", dest="grades", help="a new or empty "
                        "folder, for grades.csv, grades.json and a text for each student")
    add_settings(parser, "grade", ("",), Settings(jobs="one for each core"))
    parser.add_argument("--resume", action="store_true",
                        help="go on in --out: who is graded there is not graded again")


def run(options):
    """Grade, write the grades, and say each submission's points."""
    if (sys.platform, platform.machine()) not in SEALS:
        raise InputError("grading needs Linux on x86_64 or aarch64; use WSL or a container")
    settings = taken(Settings, vars(options))
    print("note: submissions can compute, no more; a container is a second wall (page for "
          "teachers)", flush=True)
    graded = grade_class(options.folder, options.homework, options.grades, settings.limit,
                         settings.jobs, options.resume)
    failed = [_sum(found) for found in graded.values()].count(None)
    if failed:
        raise InputError(f"{options.grades}: {failed} of {len(graded)} submissions are not graded "
                         "(see above); mend what kept the grader from it, and go on with --resume")
    print(f"{options.grades}: grades.csv has a row for each submission, students a text for each")
