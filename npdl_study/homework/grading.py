"""Grades a class: a folder of submissions, each a folder with a student's files of one homework.

    python -m npdl homework --out homework --layers Linear LayerNorm       what the class was given
    python -m npdl homework grade submissions --homework homework --out grades

Graded is what stands in the marked places (`splice`), in a process for each task (`isolated`) that
can do nothing but compute, and gives arrays back (`inside`); they are compared here (`judging`).
Grades are written after each submission, and none costs another its own.
"""

import ast
import csv
import hashlib
import io
import os
import platform
import secrets
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from npdl.console import printable
from npdl.errors import InputError
from npdl.files import read_json, reason, write_atomically, write_json
from npdl.process import SEALS
from npdl.training.config import usable_cores
from npdl_study.check.target import find_class
from npdl_study.containment import message
from npdl_study.homework.blanks import reached
from npdl_study.homework.inside import answers
from npdl_study.homework.isolated import RUNNING, NotGraded, end, isolated
from npdl_study.homework.judging import judged, questions
from npdl_study.homework.splice import handed_out, of_forward

POINTS = 3                  # of a task: gradients, other sizes, and with both of these manners
MOST_BYTES = 1 << 20        # of a student's file
FORMULA = ("=", "+", "-", "@")          # a spreadsheet runs what begins so
OUTSIDE = ("note: submissions can compute and nothing else: no files, network or other processes; "
           "a container is a second wall (the book's page for teachers has the line)")


def tasks_of(homework):
    """[what `isolated` is asked] for each task of a homework folder, but its questions."""
    try:
        path = Path(homework) / "test_homework.py"
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = next(ast.literal_eval(node.value) for node in tree.body
                     if isinstance(node, ast.Assign) and node.targets[0].id == "LAYERS")
        return [_task(path.with_name(f"{module}.py").read_text(encoding="utf-8"), module,
                      find_class(name).__name__, own) for (module, name), own in found.items()]
    except (OSError, SyntaxError, ValueError, StopIteration, InputError) as error:
        raise InputError(f"--homework {homework}: is no folder that `python -m npdl homework` "
                         f"wrote ({message(error)}); give the one that the class was given"
                         ) from error


def _task(text, module, name, originals):
    """What of npdl's is in the process: what a layer's own run calls, less what is to be written,
    and the forward twin of that."""
    places = [own.partition(":") for own in originals]
    holes = [qualname for _, _, qualname in places]
    pristine, imports = handed_out(text, holes)
    asked, _ = questions(name, 0, of_forward(holes))
    return {"module": module, "name": name, "holes": holes, "pristine": pristine,
            "imports": imports, "kept": reached(lambda: answers(asked, {})),
            "gone": {(sys.modules[where].__file__, gone) for where, _, hole in places
                     for gone in (hole, hole.removesuffix("_backward"))}}


def submissions_of(folder):
    """{name, as it can be shown: folder} of the submissions, by name."""
    try:
        places = sorted(p for p in Path(folder).iterdir()
                        if p.is_dir() and not p.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({reason(error)}); give the folder that has "
                         "one folder for each student") from error
    if not places:
        raise InputError(f"{folder}: holds no folders; give the one that has a folder for each "
                         "student")
    return {printable(place.name.replace("\\", "\\\\")): place for place in places}


def grade_class(folder, homework, out, limit=60.0, jobs=None, resume=False):
    """{name: what one_submission returns}, which `out` has too, after each submission.

    folder, homework, out   as the command has them; `limit` seconds for each task
    jobs                    submissions at a time (as many as there are cores if None)
    resume                  go on in `out`: who is graded there is not graded again
    Raises InputError for folders that are none of these and where Linux isn't the system,
    CheckpointError for a full disk.
    """
    if (sys.platform, platform.machine()) not in SEALS:
        raise InputError("grading needs Linux on x86_64 or aarch64; use WSL or a container")
    tasks, submissions = tasks_of(homework), submissions_of(folder)
    names = [task["name"] for task in tasks]
    graded = _begun(Path(out), names, resume)
    with ThreadPoolExecutor(jobs or usable_cores()) as pool:
        waiting = {name: pool.submit(one_submission, place, tasks, limit)
                   for name, place in submissions.items() if name not in graded}
        try:
            for name, future in waiting.items():
                graded[name] = future.result()
                _write(Path(out), names, graded, name)
        finally:                        # Ctrl-C, a full disk: nothing goes on
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(RUNNING):
                end(process)
    return graded


def one_submission(place, tasks, limit):
    """{"points", "seed", "tasks": {name: what one_task returns}}. Points of None: the grader failed
    at a task, and its "not graded" says how."""
    seed, found = secrets.randbelow(1 << 31), {}
    for task in tasks:
        try:
            found[task["name"]] = one_task(place, task, seed, limit)
        except Exception as error:      # whatever it is, it may not cost the others their grades
            why = str(error) if isinstance(error, NotGraded) else message(error)
            found[task["name"]] = {"points": None, "checks": {"not graded": _clean(why)}}
    points = [told["points"] for told in found.values()]
    return {"points": None if None in points else sum(points), "seed": seed, "tasks": found}


def one_task(place, task, seed, limit):
    """{"points", "checks": {check: "" or what is wrong}}."""
    text, why = _handed_in(place, f"{task['module']}.py")
    if not why:
        asked, wanted = questions(task["name"], seed, of_forward(task["holes"]))
        found, ended = isolated(task | {"text": text, "questions": asked}, limit)
        why = found.get("refused", "" if found else ended)
    if why:
        return {"points": 0, "checks": {"runs": _clean(why)}}
    checks, _ = judged(task["name"], found, wanted)
    if checks["gradients"] or checks["other sizes"]:
        del checks["manners"]
    return {"points": sum(not why for why in checks.values()),
            "checks": {check: _clean(why) for check, why in checks.items()}}


def _handed_in(place, name):
    """(the bytes of the file of this name in a submission, "" or why it has none)."""
    os.listdir(place)                   # raises what rglob is silent about
    found = [path.relative_to(place) for path in sorted(place.rglob(name))
             if path.is_file() and not path.is_symlink()]
    found = [path for path in found if not any(part.startswith((".", "__MACOSX"))
                                               for part in path.parts)]
    if place.is_symlink() or len(found) > 1:
        raise NotGraded(f"{name} is there {len(found)} times, {found[0]} and {found[1]}: leave one"
                        if found[1:] else "it is a link: put the folder itself there")
    if not found:
        return b"", f"{name} is not there"
    with open(place / found[0], "rb") as file:
        text = file.read(MOST_BYTES + 1)
    return text, f"{name} has more than {MOST_BYTES >> 20} MiB" * (len(text) > MOST_BYTES)


def _clean(what, most=4000):
    """What a process said, as text that changes no terminal."""
    return printable(str(what)[:most])


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
        (out / "students").mkdir(parents=True, exist_ok=True)
        return {name: found for name, found in before["submissions"].items()
                if found["points"] is not None}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"--out {out}: cannot be used ({reason(error)})") from error


def _write(out, tasks, graded, name):
    """Write all grades so far and the text of one submission, and say its points."""
    text = letter(name, graded[name])
    file = name
    if len(name.encode()) > 120:        # no file can have a name of more than 255
        file = (name.encode()[:60].decode(errors="ignore")
                + hashlib.sha256(name.encode()).hexdigest())
    write_json(out / "grades.json", {"tasks": tasks, "submissions": graded})
    for path, content in ((out / "grades.csv", table(tasks, graded)),
                          (out / "students" / f"{file}.txt", text)):
        write_atomically(path, lambda place, content=content: place.write(content.encode()))
    why = f": {reasons(graded[name])}" if graded[name]["points"] is None else ""
    print(text.splitlines()[0] + why, flush=True)


def reasons(found):
    """Why a submission has not all points, in a line."""
    return "; ".join(f"{name}: {why}" for name, told in found["tasks"].items()
                     for why in [w for w in told["checks"].values() if w][:1])


def letter(name, found):
    """A text for a student: the points of each task, and why."""
    def points(of, most):
        return f"{of} of {most}" if of is not None else "not graded"

    lines = [f"{name}: {points(found['points'], POINTS * len(found['tasks']))}"]
    for task, told in found["tasks"].items():
        lines += ["", f"{task}: {points(told['points'], POINTS)}"]
        for check, why in told["checks"].items():
            if why and not lines[-1].endswith(why.partition(" (")[0]):
                lines.append(f"  {check}: {why}")
    return "\n".join(lines) + "\n"


def table(tasks, graded):
    """grades.csv: a row for each submission, its points of each task and in all, and why."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["submission", *tasks, "points", "of", "reason"])
    for name, found in graded.items():
        points = [told["points"] for told in (*found["tasks"].values(), found)]
        cells = [name, *("not graded" if n is None else str(n) for n in points),
                 str(POINTS * len(tasks)), reasons(found)]
        rows.writerow([f"'{cell}" if cell.lstrip().startswith(FORMULA) else cell
                       for cell in cells])
    return text.getvalue()


def add_arguments(parser):
    """Add the options of `python -m npdl homework grade` to an argparse parser."""
    parser.add_argument("folder", metavar="FOLDER", help="one folder for each student")
    parser.add_argument("--homework", required=True, metavar="DIR",
                        help="the folder that the class was given")
    parser.add_argument("--out", required=True, metavar="DIR", dest="grades", help="a new or empty "
                        "folder, for grades.csv, grades.json and a text for each student")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS",
                        help="for each task (default: 60)")
    parser.add_argument("--jobs", type=int, default=None, metavar="N",
                        help="submissions at a time (default: one for each core)")
    parser.add_argument("--resume", action="store_true",
                        help="go on in --out: who is graded there is not graded again")


def run(options):
    """Grade, write the grades, and say each submission's points."""
    if not 0 < options.limit < 1e6:
        raise InputError(f"--limit {options.limit:g}: must be seconds, above 0")
    if options.jobs is not None and not 1 <= options.jobs <= 256:
        raise InputError(f"--jobs {options.jobs}: must be 1 to 256")
    for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:  # as with Ctrl-C
        signal.signal(number, signal.default_int_handler)
    print(OUTSIDE, flush=True)
    graded = grade_class(options.folder, options.homework, options.grades, options.limit,
                         options.jobs, options.resume)
    failed = sum(found["points"] is None for found in graded.values())
    if failed:
        raise InputError(f"{options.grades}: {failed} of {len(graded)} submissions are not graded "
                         "(see above); mend what kept the grader from it, and go on with --resume")
    print(f"{options.grades}: grades.csv has a row for each submission, students a text for each")
