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
# The easiest first.
LAYERS = ("Tanh", "Linear", "Embedding", "CrossEntropy", "RNNCell", "Softmax", "LayerNorm",
          "LSTMCell", "GRUCell", "MultiHeadAttention")
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
        for cls in _in_order(find_class(_plain(name)) for name in layers or LAYERS):
            _one_layer(work, cls, stream(seed, 12))
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in work.text_files().items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"--out {out}: can't be written ({error.strerror}); choose a folder "
                              "that you may write to") from error
    return work


def _in_order(classes):
    """Each class once, the easiest first; those that LAYERS does not have come last."""
    order = {name: i for i, name in enumerate(LAYERS)}
    return sorted(dict.fromkeys(classes), key=lambda cls: order.get(cls.__name__, len(order)))


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
    name, student = cls.__name__, student_module(cls.__name__)
    reached = source.reached_by(cls)
    found = _functions(cls, work.forward, reached)
    if not found:
        way = "forward" if work.forward else "backward"
        raise InputError(f"{name} has no {way} of its own to write; choose the layer or the cell "
                         "that it is built on")
    if work.level == "line":
        work.holes.append(_a_line(work, cls, found, student, rng))
    else:
        work.holes += [source.blank_function(own, qualname, node, _owner(own, qualname),
                                             f"{student}.py") for own, qualname, node in found]
    title = f"{name}: write what raises NotImplementedError."
    work.files[f"{student}.py"] = _text(cls, [name], found, title)
    work.graded.append((student, name))


def _functions(cls, forward, reached):
    """[(Source, qualname, node)] of what is to be written: in the class, in its module, and in
    npdl.functions where its methods call a function there that is asked for."""
    module, helpers = source.Source(cls.__module__), source.Source("npdl.functions")
    own = module.functions(cls.__name__, forward, reached)
    shared = helpers.called(own.values(), forward) if own else {}
    shared = {name: f for name, f in shared.items() if (helpers.path, name) in reached}
    if not all(source.delegates(f, shared) for f in own.values()):
        shared = {}                                     # then they are there to be used
    chosen = {**own, **shared}
    return [(module if name in own else helpers, name, f) for name, f in chosen.items()
            if not source.delegates(f, chosen)]


def _text(cls, names, found, title):
    """The text of a student file: the classes, with all that they need to be understood."""
    module = next((s for s, _, _ in found if s.name == cls.__module__), None)
    helpers = next((s for s, _, _ in found if s.name == "npdl.functions"), None)
    module, helpers = module or source.Source(cls.__module__), helpers or source.Source(
        "npdl.functions")
    kept = module.closure(names)
    used = {n.id for name in kept for n in source.ast.walk(module.definitions[name])
            if isinstance(n, source.ast.Name)}
    shared = helpers.closure(used & set(helpers.definitions))
    return source.student_text([(module, kept), (helpers, shared)], title)


def _owner(module, qualname):
    return module.definitions[qualname.split(".")[0]] if "." in qualname else None


def _a_line(work, cls, found, student, rng):
    """One line, drawn among those that the sample runs through."""
    lines = [(own, name, f, s) for own, name, f in found
             for s in source.statements(f, work.forward)]
    for i in rng.permutation(len(lines)):
        own, name, function, statement = lines[i]
        hole = source.blank_line(own, name, function, _owner(own, name), f"{student}.py",
                                 statement)
        if _stops(_text(cls, [cls.__name__], found, "trial"), student, cls.__name__):
            return hole
        own.edits.clear()
    raise InputError(f"{cls.__name__} has no line that can be blanked alone; use --level layer")


def _stops(text, student, name):
    """Whether a student file stops at its hole."""
    try:
        source.run_sample(getattr(source.loaded(text, student), name))
    except NotImplementedError:
        return True
    return False


def _whole_lstm(work):
    reached = source.reached_by(find_class("LSTM")) | source.reached_by(find_class("LSTMCell"))
    module = source.Source(find_class("LSTM").__module__)
    found = [(module, qualname, f) for name in LSTM_PARTS
             for qualname, f in module.functions(name, work.forward, reached).items()]
    work.holes += [source.blank_function(own, qualname, f, _owner(own, qualname), "lstm.py")
                   for own, qualname, f in found]
    title = f"{', '.join(LSTM_PARTS)}: write what raises NotImplementedError."
    work.files["lstm.py"] = _text(find_class("LSTM"), LSTM_PARTS, found, title)
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
        print(f"  {hole.file:<23} {hole.qualname}{line}")
    print(f"read {Path(options.out) / 'README.md'}, then there: python -m pytest -q")
