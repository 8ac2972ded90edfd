"""Grades a class: a folder of submissions, each a folder with a student's files of one homework.

    python -m npdl homework --out homework --layers Linear LayerNorm       what the class was given
    python -m npdl homework grade submissions --homework homework --out grades

Every task of every submission runs in a process of its own (`homework_worker`), on a copy, with a
limit of time and of memory: one that never ends, or crashes, costs its own points only. Student
code is refused writing anywhere but in its copy, processes, threads and connections; this stops
accidents and plain attempts. It is no prison: what you would not run at all, grade in a container.

A task is worth three points: right gradients, right gradients of other numbers, and, with both,
good manners (nothing changed that was handed in, float32 stays float32). No point without a right
forward, with npdl's own layer at work inside, with a backward that calls forward, or for a file
that changes npdl.
"""

import ast
import contextlib
import csv
import io
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from npdl.errors import InputError
from npdl.files import new_folder, reason
from npdl.training.config import usable_cores
from npdl_study.containment import message

POINTS = 3
LARGEST = 1 << 20           # bytes of a student's file
FORMULA = ("=", "+", "-", "@", "\t", "\r")
MOST = 1 << 20              # characters that are read of what a process says


def tasks_of(homework):
    """[(module, class, what of npdl's own it must do without)] of a homework folder."""
    path = Path(homework) / "test_homework.py"
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = next(ast.literal_eval(node.value) for node in tree.body
                     if isinstance(node, ast.Assign) and node.targets[0].id == "LAYERS")
    except (OSError, SyntaxError, ValueError, StopIteration) as error:
        raise InputError(f"--homework {homework}: is no folder that `python -m npdl homework` "
                         f"wrote ({message(error)}); give the one that the class was given"
                         ) from error
    return [(module, name, own) for (module, name), own in found.items()]


def submissions_of(folder):
    """The submissions' folders, by name."""
    try:
        found = sorted(p for p in Path(folder).iterdir()
                       if p.is_dir() and not p.name.startswith("."))
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({reason(error)}); give the folder that has "
                         "one folder for each student") from error
    if not found:
        raise InputError(f"{folder}: holds no folders; give the folder that has one folder for "
                         "each student")
    return found


def grade_class(folder, homework, limit=60.0, jobs=None, tell=lambda line: None):
    """Grade every submission in `folder`; returns what grades.json holds.

    folder    one folder for each student
    homework  the folder that `python -m npdl homework` wrote
    limit     seconds for each task
    jobs      tasks at a time (as many as there are cores if None)
    tell      is called with a line for each submission that is done
    Raises InputError for a folder that is no homework, or has no submissions in it.
    """
    tasks, submissions = tasks_of(homework), submissions_of(folder)
    graded = {}
    with ThreadPoolExecutor(jobs or usable_cores()) as pool:
        waiting = {place.name: {name: pool.submit(one_task, place, module, name, own, limit)
                                for module, name, own in tasks} for place in submissions}
        try:
            for student, results in waiting.items():
                done = {name: future.result() for name, future in results.items()}
                graded[student] = {"points": _sum(done), "tasks": done}
                tell(_line(student, graded[student], POINTS * len(tasks)))
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {"points": POINTS * len(tasks), "tasks": [name for _, name, _ in tasks],
            "submissions": graded}


def _sum(done):
    points = [task["points"] for task in done.values()]
    return None if None in points else sum(points)


def _line(student, found, most):
    """A submission in a line: its points, or what the grader failed at."""
    if found["points"] is not None:
        return f"{student}: {found['points']} of {most}"
    name, why = next((name, task["checks"]["grader"]) for name, task in found["tasks"].items()
                     if task["points"] is None)
    return f"{student}: not graded: {name}: {why}"


def one_task(submission, module, name, own, limit):
    """{"points", "checks": {check: "" or what is wrong}, "seconds"} of one task, in a process.
    Points of None: the grader itself failed, and the check "grader" says how."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as copy:
        missing = _copied(submission, Path(copy), f"{module}.py")
        checks = {"runs": missing} if missing else _in_a_process(copy, module, name, own, limit)
    return {"points": None if "grader" in checks else _points(checks), "checks": checks,
            "seconds": round(time.monotonic() - began, 2)}


def _copied(submission, copy, wanted):
    """Copy a submission's own Python files, or say why the one that is wanted can't be graded."""
    for path in sorted(submission.glob("*.py")):
        if path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size <= LARGEST:
            shutil.copyfile(path, copy / path.name)
        elif path.name == wanted:
            return f"{wanted} has more than {LARGEST >> 20} MiB"
    return "" if (copy / wanted).exists() else f"{wanted} is not there"


def _points(checks):
    if any(checks.get(name, "not reached") for name in ("runs", "outputs", "your own work")):
        return 0
    right = [not checks[name] for name in checks if name.startswith("gradients")]
    polite = not checks.get("manners", "not reached")
    return min(sum(right), POINTS - 1) + int(all(right) and polite)


def _in_a_process(copy, module, name, own, limit):
    """The checks that a process of its own has made: those that it told before it ended."""
    secret = secrets.token_hex(16)      # read before student code is, so that it can't be told ours
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                   "PYTHONDONTWRITEBYTECODE": "1", "HOME": copy, "MPLBACKEND": "agg"}
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    asked = json.dumps({"folder": copy, "module": module, "name": name, "own": own,
                        "secret": secret})
    late = threading.Event()
    with subprocess.Popen(
            [sys.executable, "-P", "-m", "npdl_study.homework.homework_worker"], cwd=copy,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True, env={**environment, "PYTHONPATH": path}, encoding="utf-8",
            errors="replace") as process:
        timer = threading.Timer(limit, lambda: (late.set(), _kill(process)))
        timer.start()
        try:
            with contextlib.suppress(OSError):          # it is not there any more
                process.stdin.write(asked + "\n")
                process.stdin.close()
            said = _said(process.stdout.read(MOST), secret)
            status = process.wait()
            broken = "" if "ready" in said else process.stderr.read(MOST)
        finally:
            timer.cancel()
            _kill(process)              # Ctrl-C, too, leaves nothing running
    ended = (f"not at an end after {limit:g} seconds" if late.is_set() else
             f"crashed: ended by signal {-status}" if status < 0 else
             f"ended with exit status {status}" if status else "")
    if said.pop("ready", None) is None:
        last = (broken.strip().splitlines() or ["it said nothing"])[-1]
        return {"grader": f"{ended or 'ended'} before student code was read: {last}"}
    if said.pop("end", None) is None:
        ended = ended or "ended the program before its tests were done"
    return {"runs": ended, **said}


def _kill(process):
    """End a process and all that it started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _said(output, secret):
    """{check: result} of the whole lines that begin with the secret."""
    said = {}
    for line in output[: output.rfind("\n") + 1].splitlines():
        if line.startswith(secret):
            with contextlib.suppress(ValueError, TypeError):
                check, result = json.loads(line.removeprefix(secret))
                said[check] = str(result)
    return said


def table(grades):
    """grades.csv: a row for each submission, its points of each task and in all."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["submission", *grades["tasks"], "points", "of"])
    for student, found in grades["submissions"].items():
        points = [*(found["tasks"][name]["points"] for name in grades["tasks"]), found["points"]]
        # a name that begins like a formula would be one: a spreadsheet runs it
        rows.writerow([f"'{student}" if student.startswith(FORMULA) else student,
                       *("not graded" if n is None else n for n in points), grades["points"]])
    return text.getvalue()


def add_arguments(parser):
    """Add the options of `python -m npdl homework grade` to an argparse parser."""
    parser.add_argument("folder", metavar="FOLDER", help="one folder for each student")
    parser.add_argument("--homework", required=True, metavar="DIR",
                        help="the folder that the class was given")
    parser.add_argument("--out", required=True, metavar="DIR", dest="grades",
                        help="a new or empty folder, for grades.json and grades.csv")
    parser.add_argument("--limit", type=float, default=60, metavar="SECONDS",
                        help="for each task (default: 60)")
    parser.add_argument("--jobs", type=int, default=None, metavar="N",
                        help="tasks at a time (default: one for each core)")


def run(options):
    """Grade, write both files, and say each submission's points."""
    if not 0 < options.limit < 1e6:
        raise InputError(f"--limit {options.limit:g}: must be seconds, above 0")
    if options.jobs is not None and not 1 <= options.jobs <= 256:
        raise InputError(f"--jobs {options.jobs}: must be 1 to 256")
    with new_folder(options.grades) as folder:
        grades = grade_class(options.folder, options.homework, options.limit, options.jobs,
                             lambda line: print(line, flush=True))
        (folder / "grades.json").write_text(json.dumps(grades, indent=1) + "\n", encoding="utf-8")
        (folder / "grades.csv").write_text(table(grades), encoding="utf-8")
    failed = sum(found["points"] is None for found in grades["submissions"].values())
    if failed:
        raise InputError(f"{options.grades}: {failed} of {len(grades['submissions'])} submissions "
                         "are not graded, as the grader's own process failed: see above")
    print(f"{options.grades}: grades.json has the reasons, grades.csv a row for each submission")
