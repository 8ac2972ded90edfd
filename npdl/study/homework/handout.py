"""Write a homework folder, with exercises, their tests and a README; write Gradescope's zip."""

import json
import shutil
import tempfile
from pathlib import Path

import npdl
from npdl.errors import InputError
from npdl.files import read_json
from npdl.study.containment import write_text
from npdl.study.homework.answers import ADD, KEEP, TOLERANCE
from npdl.study.homework.exercise import Exercise

# The default exercises; the easiest comes first.
LAYERS = ("Tanh", "Linear", "Embedding", "RNNCell", "Softmax", "CrossEntropy", "LayerNorm",
          "LSTMCell", "GRUCell", "ScaledDotAttention", "MultiHeadAttention")
RECORD = "homework.json"
TEMPLATES = Path(__file__).with_name("templates")
HELPS = """- `python -m npdl blame {file}:{first}` finds the line that is most likely wrong.
- `python -m npdl step {first}` shows npdl's own solution; run it when you are done.
"""


def read_homework(folder):
    """Return (exercises, is_exam) of a homework folder; `exercises` is {name: Exercise}.

    Raises InputError if the folder is not one that `write_homework` wrote.
    """
    try:
        record = read_json(Path(folder) / RECORD)
        return {one.name: one for one in map(Exercise, record["layers"])}, record["exam"]
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(f"{folder} has no valid {RECORD}; give the folder that `python -m npdl "
                         "homework` wrote for the class") from error


def check_new_folder(out):
    """Return the path of a new or empty folder; raise InputError for any other folder."""
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out} is not an empty folder; give an empty or a new one")
    return out


def write_homework(out, layers=None, is_exam=False):
    """Write a homework folder and return its exercises, {name: Exercise}.

    out      the path of a new or empty folder
    layers   the names of layers of npdl, or None for LAYERS
    is_exam  True leaves fixes and npdl's solution out of the README and the tests
    Raises InputError if the folder isn't empty, or if a name is not that of a layer of npdl.
    """
    out = check_new_folder(out)
    exercises = {one.name: one for one in map(Exercise, layers or LAYERS)}
    texts = {one.file: one.format_student_file() for one in exercises.values()} | {
        "README.md": _format_readme(exercises, is_exam),
        "test_homework.py": (TEMPLATES / "test_homework.py").read_text(),
        RECORD: json.dumps({"exam": is_exam, "layers": list(exercises)})}
    for name, text in texts.items():
        write_text(out / name, text)
    return exercises


def _format_readme(exercises, is_exam):
    first = next(iter(exercises.values()))
    rows = [f"| `{one.file}` | {', '.join(f'`{one.name}.{name}`' for name in one.methods)} |"
            for one in exercises.values()]
    helps = "" if is_exam else HELPS.format(file=first.file, first=first.name)
    return (TEMPLATES / "README.md").read_text().format(
        names=", ".join(exercises), rows="\n".join(rows), first=first.name, helps=helps,
        tolerance=TOLERANCE, add=ADD, keep=KEEP)


def write_autograder(path, homework):
    """Write a zip for Gradescope with npdl, a homework folder and two scripts.

    Gradescope unpacks the zip into /autograder/source, runs setup.sh once, runs run_autograder for
    each submission in /autograder/submission, and reads /autograder/results/results.json
    (gradescope-autograders.readthedocs.io/en/latest/specs).
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(Path(npdl.__file__).parent, Path(folder, "npdl"),
                        ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copytree(homework, Path(folder, "homework"))
        for name in ("setup.sh", "run_autograder"):
            Path(shutil.copy(TEMPLATES / name, folder)).chmod(0o755)
        shutil.make_archive(path.removesuffix(".zip"), "zip", folder)
