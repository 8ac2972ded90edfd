"""Grades a class: a folder of submissions, each a folder with a student's files of one homework.

    python -m npdl homework --out homework --layers Linear LayerNorm       what the class was given
    python -m npdl homework grade submissions --homework homework --out grades

Every task of every submission runs in a process of its own, on a copy, with a limit of time and of
memory: one that never ends, or crashes, costs its own points only. Student code may write into its
copy and nowhere else, and may start no process and open no connection; this stops accidents and
plain attempts. It is no prison: what you would not run at all, grade in a container.

A task is worth three points: right gradients, right gradients of other numbers, and, with both,
good manners (nothing changed that was handed in, float32 stays float32). No point without a right
forward, or with npdl's own layer at work inside.
"""

import ast
import csv
import io
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from npdl.errors import InputError
from npdl.study import homework_grade as grade
from npdl.study.guard import message
from npdl.training.config import usable_cores
from npdl.training.files import new_folder, reason

POINTS = 3
MEMORY = 4 << 30            # bytes of addresses a submission may use
LARGEST = 1 << 20           # bytes of a student's file
LONGEST = 2000              # characters of a reason
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
FORBIDDEN = ("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn",
             "os.startfile", "os.kill", "os.killpg", "subprocess.", "socket.", "ctypes.",
             "os.chmod", "os.chown", "os.link", "os.symlink", "os.setxattr", "os.removexattr")
PLACES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.utime", "os.chdir")


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
                points = sum(task["points"] for task in done.values())
                graded[student] = {"points": points, "tasks": done}
                tell(f"{student}: {points} of {POINTS * len(tasks)}")
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {"points": POINTS * len(tasks), "tasks": [name for _, name, _ in tasks],
            "submissions": graded}


def one_task(submission, module, name, own, limit):
    """{"points", "checks": {check: "" or what is wrong}, "seconds"} of one task, in a process."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as copy:
        missing = _copied(submission, Path(copy), f"{module}.py")
        checks = {"runs": missing} if missing else _in_a_process(copy, module, name, own, limit)
    return {"points": _points(checks), "checks": checks,
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
    return min(sum(right), POINTS - 1) + int(all(right) and not checks["manners"])


def _in_a_process(copy, module, name, own, limit):
    """The checks that a process of its own has made: those that it told before it ended."""
    secret = secrets.token_hex(16)      # read before student code is, so that it can't be told ours
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1",
                   "PYTHONDONTWRITEBYTECODE": "1", "HOME": copy, "MPLBACKEND": "agg"}
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", __name__], cwd=copy, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**environment, "PYTHONPATH": path}, encoding="utf-8", errors="replace")
    asked = json.dumps({"folder": copy, "module": module, "name": name, "own": own,
                        "secret": secret})
    try:
        output, _ = process.communicate(asked, timeout=limit)
        ended = ("" if process.returncode == 0 else f"crashed: ended by signal "
                 f"{-process.returncode}" if process.returncode < 0 else
                 f"ended with exit status {process.returncode}")
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        ended = f"not at an end after {limit:g} seconds"
    finally:
        process.kill()                  # Ctrl-C, too, leaves nothing running
    said = [json.loads(line.removeprefix(secret)) for line in output.splitlines()
            if line.startswith(secret)]
    checks = dict(said)
    if not checks.pop("end", False):
        ended = ended or "ended the program before its tests were done"
    return {"runs": ended, **checks}


def _checks(name):
    """{check: what asserts it}, in the order of a homework folder's own tests."""
    checks = {
        "outputs": grade.assert_outputs,
        "gradients": grade.assert_gradients,
        "gradients of other numbers": lambda cls: grade.assert_gradients(cls, seed=1),
        "manners": grade.assert_manners,
    }
    if name == "LSTM":
        checks["gradients of a stack"] = grade.assert_stacked
    return checks


def _worker():
    """Grade one task: what is asked comes in by standard input, a line for each check goes out."""
    asked = json.loads(sys.stdin.readline())
    import npdl.study.blame  # noqa: F401  (before the guard: it need not be allowed anything)

    channel = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):            # student code prints to nobody
        os.dup2(nowhere, number)

    def say(check, result):
        os.write(channel, f"{asked['secret']}{json.dumps([check, result])}\n".encode())

    _limit_memory()
    sys.path.append(asked["folder"])
    sys.addaudithook(_guard(asked["folder"]))
    cls, trouble = None, ""
    try:
        cls = grade.load(asked["module"], asked["name"])
    except AssertionError as error:
        trouble = str(error)
    checks = {**_checks(asked["name"]),
              "your own work": lambda cls: grade.assert_own(cls, asked["own"])}
    for check, assertion in checks.items():
        say(check, (trouble or _result(assertion, cls))[:LONGEST])
    say("end", True)


def _result(assertion, cls):
    try:
        assertion(cls)
    except AssertionError as error:
        return str(error) or "an assertion failed"
    except BaseException as error:      # sys.exit in student code is one, too
        return message(error)
    return ""


def _limit_memory():
    try:
        import resource
    except ImportError:                 # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _guard(folder):
    """An audit hook that lets code write below `folder` alone, and start or reach nothing."""
    inside = os.path.join(os.path.realpath(folder), "")

    def outside(place):
        return isinstance(place, int) or not (
            os.path.realpath(os.fsdecode(place)) + os.sep).startswith(inside)

    def hook(event, arguments):
        if event.startswith(FORBIDDEN):
            raise PermissionError(f"{event} is not allowed in homework")
        if event in PLACES:
            spoils = any(map(outside, arguments[: 2 if event == "os.rename" else 1]))
        elif event == "open" and not isinstance(arguments[0], int):
            place, _, flags = arguments     # of what is reached by an opened folder, nothing tells
            spoils = ((flags or 0) & WRITING or os.path.isdir(place)) and outside(place)
        else:
            spoils = False
        if spoils:
            raise PermissionError(f"{event} outside of its own folder is not allowed")

    return hook


def table(grades):
    """grades.csv: a row for each submission, its points of each task and in all."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["submission", *grades["tasks"], "points", "of"])
    for student, found in grades["submissions"].items():
        rows.writerow([student, *(found["tasks"][name]["points"] for name in grades["tasks"]),
                       found["points"], grades["points"]])
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
    print(f"{options.grades}: grades.json has the reasons, grades.csv a row for each submission")


if __name__ == "__main__":
    _worker()
