"""Write a homework folder: exercises, their tests, and a README for students.

    python -m npdl homework --out homework --layers Linear LayerNorm
    cd homework; python -m pytest
"""

import json
from pathlib import Path

from npdl.errors import InputError
from npdl.files import read_json
from npdl.study.check.target import find_class
from npdl.study.homework.exercise import Exercise
from npdl.study.homework.judge import ADD, DTYPE, KEEP, TOLERANCE

# The easiest first.
LAYERS = ("Tanh", "Linear", "Embedding", "RNNCell", "Softmax", "CrossEntropy", "LayerNorm",
          "LSTMCell", "GRUCell", "ScaledDotAttention", "MultiHeadAttention")
RECORD = "homework.json"
TEMPLATES = Path(__file__).with_name("templates")
BLAME = "- `python -m npdl blame {file}:{first}` finds the line that is most likely wrong.\n"
STEP = "- `python -m npdl step {first}` shows npdl's own solution, for afterwards.\n"


def read_homework(folder):
    """Return ({name: Exercise}, whether it is an exam) of a folder; InputError for another one."""
    try:
        record = read_json(Path(folder) / RECORD)
        exercises = [Exercise(layer) for layer in record["layers"]]
        return {one.name: one for one in exercises}, record["exam"]
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(f"{folder}: has no valid {RECORD}; give the folder that `python -m npdl "
                         "homework` wrote for the class") from error


def new_folder(out):
    """Return the path of a folder that is new or empty; raise InputError for another."""
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out}: is not an empty folder; give an empty or a new one")
    return out


def hand_out(out, layers=None, is_exam=False):
    """Write a homework folder and return its exercises, {name: Exercise}.

    out      a new or empty folder
    layers   names of npdl's layers (default: LAYERS), or "mine.py:Class" for one of your own
    is_exam  README and tests show neither fixes nor npdl's solution
    Raises InputError for a folder that isn't empty and for a layer that can't be an exercise.
    """
    out = new_folder(out)
    names = [layer if ":" in layer else find_class(layer).__name__ for layer in layers or LAYERS]
    names.sort(key=lambda name: LAYERS.index(name) if name in LAYERS else len(LAYERS))
    exercises = {one.name: one for one in map(Exercise, dict.fromkeys(names))}
    for exercise in exercises.values():
        exercise.check()
    texts = {one.file: one.text() for one in exercises.values()}
    if len(texts) < len(set(names)):
        raise InputError("--layers: two exercises have the same file or class; put each layer into "
                         "a file of its own, or hand out two folders")
    record = {"exam": is_exam, "layers": [f"{one.file}:{one.name}" if one.is_own else one.layer
                                          for one in exercises.values()]}
    texts |= {"README.md": _readme(exercises, is_exam), RECORD: json.dumps(record),
              "test_homework.py": (TEMPLATES / "test_homework.py").read_text()}
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    return exercises


def _readme(exercises, is_exam):
    first = next(iter(exercises.values()))
    rows = [f"| `{one.file}` | {', '.join(f'`{one.name}.{name}`' for name in one.methods)} |"
            for one in exercises.values()]
    helps = "" if is_exam else BLAME if first.is_own else BLAME + STEP
    return (TEMPLATES / "README.md").read_text().format(
        names=", ".join(exercises), rows="\n".join(rows), first=first.name,
        helps=helps.format(file=first.file, first=first.name), tolerance=TOLERANCE, add=ADD,
        keep=KEEP, dtype=DTYPE)
