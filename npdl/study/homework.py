"""The student edition: npdl's own layers with backwards (or forwards) blanked out, and tests.

    python -m npdl homework --out homework --layers Linear LayerNorm
    cd homework; python -m pytest

Levels: "layer" blanks the whole backward of each layer, "line" one line of each, "lstm" the LSTM,
its cell and its way through time. The files are made from npdl's source (homework_source), graded
by homework_grade.
"""

import sys
from pathlib import Path

from npdl.backend import stream
from npdl.errors import CheckpointError, InputError
from npdl.script import place
from npdl.study import homework_source as source
from npdl.study.homework_text import readme, test_file
from npdl.study.target import find_class

LEVELS = ("layer", "line", "lstm")
LAYERS = ("Linear", "Softmax", "LayerNorm", "Embedding", "CrossEntropy", "RNNCell", "LSTMCell",
          "GRUCell", "MultiHeadAttention")
# What the LSTM is made of: the classes of the level "lstm", the smallest first.
LSTM_PARTS = ("LSTMCell", "RecurrentLayer", "LSTMLayer", "Recurrent", "LSTM")


class Homework:
    """Files to write: `files` {name: text}, `holes`, and `graded` [(student module, class)]."""

    def __init__(self, level, forward):
        self.level, self.forward = level, forward
        self.files, self.holes, self.graded = {}, [], []

    def text_files(self):
        """{name: text} of everything in the folder."""
        return {**self.files, "test_homework.py": test_file(self), "README.md": readme(self)}


def homework(out, layers=None, level="layer", forward=False, seed=0):
    """Write a folder of exercises and return its Homework.

    out      a folder that does not exist yet, or is empty
    layers   names of npdl's layers (LAYERS if None); not with level "lstm"
    level    "layer", "line" (which line, `seed` decides) or "lstm"
    forward  True blanks forwards out instead of backwards
    Raises InputError for a folder with something in it, an unknown layer or level, and a layer
    that has nothing to write; CheckpointError when the folder can't be written.
    """
    if level not in LEVELS:
        raise InputError(f"level {level!r} is unknown; choose one of: {', '.join(LEVELS)}")
    if level == "lstm" and layers:
        raise InputError("--layers does not go with --level lstm, which is about the LSTM; leave "
                         "one of the two out")
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out}: is not an empty folder; choose one that is, or a new name")
    work = Homework(level, forward)
    if level == "lstm":
        _whole_lstm(work)
    else:
        for name in dict.fromkeys(layers or LAYERS):
            _one_layer(work, find_class(_plain(name)), stream(seed, 12))
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in work.text_files().items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"--out {out}: can't be written ({error.strerror}); choose a folder "
                              "that you may write to") from error
    return work


def _plain(name):
    if ":" in name:
        raise InputError(f"layer {name!r}: exercises are made of npdl's own layers; give a name "
                         "such as LayerNorm")
    return name


def student_module(class_name):
    """LayerNorm -> layer_norm, GRUCell -> gru_cell; never a module of the standard library."""
    name = ""
    for i, letter in enumerate(class_name):
        before, after = class_name[i - 1 : i], class_name[i + 1 : i + 2]
        if letter.isupper() and i and (before.islower() or (before.isupper() and after.islower())):
            name += "_"
        name += letter.lower()
    return f"{name}_layer" if name in sys.stdlib_module_names else name


def _one_layer(work, cls, rng):
    module = source.Source(cls.__module__)
    name, student = cls.__name__, student_module(cls.__name__)
    functions = module.functions(name, work.forward, source.reached_by(cls))
    if not functions:
        way = "forward" if work.forward else "backward"
        raise InputError(f"{name} has no {way} of its own to write; choose the layer or the cell "
                         "that it is built on")
    kept = {name, *(f for f in functions if "." not in f)}
    title = f"{name}: write what raises NotImplementedError."
    chosen = _a_line if work.level == "line" else _whole_functions
    edits, holes = chosen(work, module, functions, kept, student, rng)
    work.files[f"{student}.py"] = source.student_text(module, kept, title, edits)
    work.holes += holes
    work.graded.append((student, name))


def _owner(module, qualname):
    return module.definitions[qualname.split(".")[0]] if "." in qualname else None


def _whole_functions(work, module, functions, kept, student, rng):
    pairs = [source.blank_function(module, name, f, _owner(module, name), f"{student}.py")
             for name, f in functions.items()]
    return [edit for edit, _ in pairs], [hole for _, hole in pairs]


def _a_line(work, module, functions, kept, student, rng):
    """One line, drawn among those that the sample runs through."""
    lines = [(name, f, s) for name, f in functions.items()
             for s in source.statements(f, work.forward)]
    for i in rng.permutation(len(lines)):
        name, function, statement = lines[i]
        edit, hole = source.blank_line(module, name, function, _owner(module, name),
                                       f"{student}.py", statement)
        text = source.student_text(module, kept, "trial", [edit])
        if _stops(text, student, work_class(kept, module)):
            return [edit], [hole]
    raise InputError(f"{work_class(kept, module)} has no line that can be blanked alone; use "
                     "--level layer")


def work_class(kept, module):
    """The class among the names that a student file keeps."""
    return next(n for n in kept if isinstance(module.definitions[n], source.ast.ClassDef))


def _stops(text, student, name):
    """Whether a student file stops at its hole."""
    try:
        source.run_sample(getattr(source.loaded(text, student), name))
    except NotImplementedError:
        return True
    return False


def _whole_lstm(work):
    reached = source.reached_by(find_class("LSTM")) | source.reached_by(find_class("LSTMCell"))
    module, edits = source.Source(find_class("LSTM").__module__), []
    for name in LSTM_PARTS:
        for qualname, function in module.functions(name, work.forward, reached).items():
            edit, hole = source.blank_function(module, qualname, function,
                                               module.definitions[name], "lstm.py")
            edits.append(edit)
            work.holes.append(hole)
    title = f"{', '.join(LSTM_PARTS)}: write what raises NotImplementedError."
    work.files["lstm.py"] = source.student_text(module, LSTM_PARTS, title, edits)
    work.graded += [("lstm", "LSTMCell"), ("lstm", "LSTMLayer"), ("lstm", "LSTM")]


def add_arguments(parser):
    """Add the options of `python -m npdl homework` to an argparse parser."""
    parser.add_argument("--out", required=True, metavar="DIR", type=place,
                        help="a new or empty folder")
    parser.add_argument("--layers", nargs="+", metavar="LAYER",
                        help=f"npdl's layers by name (default: {' '.join(LAYERS)})")
    parser.add_argument("--level", choices=LEVELS, default="layer",
                        help="what is blanked: the backward of each layer, one line of each, or "
                        "the whole LSTM (default: layer)")
    parser.add_argument("--forward", action="store_true", help="blank forwards instead")
    parser.add_argument("--seed", type=int, default=0,
                        help="which line, with --level line (default: 0)")


def run(options):
    """Write the folder that the options ask for, and say what is in it."""
    if options.seed < 0:
        raise InputError(f"--seed {options.seed}: must be 0 or more")
    made = homework(options.out, options.layers, options.level, options.forward, options.seed)
    print(f"{len(made.holes)} to write in {options.out}:")
    for hole in made.holes:
        line = f", the line of {hole.statement}" if hole.statement else ""
        print(f"  {hole.file:<24}{hole.qualname}{line}")
    print(f"read {Path(options.out) / 'README.md'}, then there: python -m pytest -q")
