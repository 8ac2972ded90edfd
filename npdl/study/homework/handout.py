"""Write a homework folder: exercises, their tests, and a README for students.

    python -m npdl homework --out homework --layers Linear LayerNorm
    cd homework; python -m pytest
"""

import dataclasses
import json
from pathlib import Path

from npdl.errors import CheckpointError, InputError
from npdl.files import read_json
from npdl.study.check.target import find_class
from npdl.study.homework.exercise import Exercise
from npdl.study.homework.judge import ADD, DTYPE, KEEP, TOLERANCE

# The easiest first.
LAYERS = ("Tanh", "Linear", "Embedding", "RNNCell", "Softmax", "CrossEntropy", "LayerNorm",
          "LSTMCell", "GRUCell", "ScaledDotAttention", "MultiHeadAttention")
RECORD = "homework.json"
TEMPLATES = Path(__file__).with_name("templates")


@dataclasses.dataclass
class Homework:
    """The exercises of a folder, and the texts of their files as they were handed out.

    In an exam, README and tests show neither fixes nor npdl's solution.
    """

    exercises: dict                         # {name: Exercise}
    texts: dict                             # {file name: text}
    is_exam: bool = False

    def record(self):
        """Return the content of RECORD."""
        return {"exam": self.is_exam, "texts": self.texts, "exercises": [
            [one.layer, one.forward] for one in self.exercises.values()]}


def read_homework(folder):
    """Return the Homework of a folder. Raises InputError if it is not one."""
    try:
        record = read_json(Path(folder) / RECORD)
        exercises = [Exercise(layer, forward) for layer, forward in record["exercises"]]
        return Homework({one.name: one for one in exercises}, record["texts"], record["exam"])
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise InputError(f"{folder}: has no valid {RECORD}; give the folder that `python -m npdl "
                         "homework` wrote for the class") from error


def new_folder(out):
    """Return the path of a folder that is new or empty; raise InputError for another."""
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out}: is not an empty folder; give an empty or a new one")
    return out


def hand_out(out, layers=None, forward=False, is_exam=False):
    """Write a homework folder and return its Homework.

    out      a new or empty folder
    layers   names of npdl's layers (default: LAYERS), or "mine.py:Class" for one of your own
    forward  True leaves the forwards blank instead of the backwards
    Raises InputError for a folder that isn't empty and for a layer that can't be an exercise,
    CheckpointError if the folder can't be written.
    """
    out = new_folder(out)
    names = [layer if ":" in layer else find_class(layer).__name__ for layer in layers or LAYERS]
    names.sort(key=lambda name: LAYERS.index(name) if name in LAYERS else len(LAYERS))
    exercises = [Exercise(name, forward) for name in dict.fromkeys(names)]
    for exercise in exercises:
        exercise.check()
    made = Homework({one.name: one for one in exercises}, {}, is_exam)
    for exercise in exercises:
        if exercise.file in made.texts:
            raise InputError(f"--layers: two exercises have the file {exercise.file}; put each "
                             "layer into a file of its own, or hand out two folders")
        made.texts[exercise.file] = exercise.text()
    try:
        out.mkdir(parents=True, exist_ok=True)
        test = (TEMPLATES / "test_homework.py").read_text()
        for name, text in {**made.texts, "README.md": _readme(made), "test_homework.py": test,
                           RECORD: json.dumps(made.record())}.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"--out {out}: can't be written ({error.strerror}); give a folder "
                              "that you may write to") from error
    return made


def _readme(homework):
    first, *_ = exercises = homework.exercises.values()
    commands = {"python -m pytest -q": "test everything",
                f"python -m pytest -q -k {first.name}": "test one layer"}
    if not homework.is_exam and not first.forward:
        commands[f"python -m npdl blame {first.file}:{first.name}"] = "find the wrong line"
    if not homework.is_exam and not first.is_own:
        commands[f"python -m npdl step {first.name}"] = "afterwards: npdl's own solution"
    width = max(map(len, commands))
    rows = [f"| `{one.file}` | {', '.join(f'`{one.name}.{blank}`' for _, blank in one.methods)} | "
            "`{}` |".format(one.equation.replace("`", "").replace("|", "\\|")) for one in exercises]
    return (TEMPLATES / "README.md").read_text().format(
        way=first.way, given="backward" if first.forward else "forward",
        names=", ".join(homework.exercises), rows="\n".join(rows),
        commands="\n".join(f"{command:<{width}}   # {does}" for command, does in commands.items()),
        blame=", and the line that is most likely wrong" * (not first.forward),
        outputs=" and each correct output" * first.forward, tolerance=TOLERANCE, add=ADD, keep=KEEP,
        dtype=DTYPE)
