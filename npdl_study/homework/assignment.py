"""The student edition: npdl's own layers with backwards (or forwards) blanked out, and tests.

    python -m npdl homework --out homework --layers Linear LayerNorm
    cd homework; python -m pytest

Levels: "layer" blanks the whole backward of each layer, "line" one line of each, "lstm" the LSTM,
its cell and its way through time. The files are made from npdl's source (blanks), graded
by grading.
"""

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from npdl.backend import stream
from npdl.errors import CheckpointError, InputError
from npdl_study.blame.blame import examine
from npdl_study.check.samples import own_samples, sample
from npdl_study.check.target import find_class
from npdl_study.containment import message
from npdl_study.homework import blanks as source
from npdl_study.homework import grading
from npdl_study.homework.handout import HANDED_OUT, handed_out, readme, test_file
from npdl_train.console import file_or_folder, set_description
from npdl_train.options import NATURAL, add_settings, check, setting, taken

LEVELS = ("layer", "line", "lstm")
# The easiest first, and what is called before what calls it.
LAYERS = ("Tanh", "Linear", "Embedding", "RNNCell", "Softmax", "CrossEntropy", "LayerNorm",
          "LSTMCell", "GRUCell", "ScaledDotAttention", "MultiHeadAttention")
# What the LSTM is made of: the classes of the level "lstm", the smallest first.
LSTM_PARTS = ("LSTMCell", "RecurrentLayer", "LSTMLayer", "Recurrent", "LSTM")


@dataclass(frozen=True)
class Settings:
    """What is left out."""

    level: str = setting("", "layer", "what is blanked: the backward of each layer, one line of "
                         "each, or the whole LSTM", allowed=LEVELS)
    seed: int = setting("", 0, "which line, with --level line", allowed=NATURAL)


class Homework:
    """Files to write: `files` {name: text}, `holes`, and `graded` [(student module, class)]; `own`
    {class: "mine.py:Class"} of those that are not npdl's."""

    def __init__(self, level, forward):
        self.level, self.forward = level, forward
        self.files, self.holes, self.graded, self.own = {}, [], [], {}

    def text_files(self):
        """{name: text} of everything in the folder."""
        return {**self.files, "test_homework.py": test_file(self), "README.md": readme(self),
                HANDED_OUT: json.dumps(handed_out(self))}


def homework(out, layers=None, level="layer", forward=False, seed=0):
    """Write a folder of exercises and return its Homework.

    out      a folder that does not exist yet, or is empty
    layers   names of npdl's layers (LAYERS if None), or "mine.py:Class"; not with level "lstm"
    level    "layer", "line" (which line, `seed` decides) or "lstm"
    forward  True blanks forwards out instead of backwards
    Raises InputError for a folder with something in it, an unknown layer or level, and a layer
    that has nothing to write; CheckpointError when the folder can't be written.
    """
    check(Settings(level, seed))
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
        names = layers or LAYERS
        _single_layers(work, _in_order(find_class(name) for name in names if ":" not in name),
                       stream(seed, 12))
        _own_layers(work, {name: find_class(name) for name in names if ":" in name})
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


def student_module(class_name):
    """LayerNorm -> layer_norm, GRUCell -> gru_cell; never a module of the standard library."""
    name = ""
    for i, letter in enumerate(class_name):
        before, after = class_name[i - 1 : i], class_name[i + 1 : i + 2]
        if letter.isupper() and i and (before.islower() or (before.isupper() and after.islower())):
            name += "_"
        name += letter.lower()
    return f"{name}_layer" if name in sys.stdlib_module_names else name


@dataclass
class Task:
    """A layer of the folder and what is to be written of it: [(Source, qualname, node)]."""

    cls: type
    found: list

    @property
    def name(self):
        return self.cls.__name__

    @property
    def asked(self):
        """{(module, qualname): node} of npdl's own."""
        return {(own.name, qualname): node for own, qualname, node in self.found}

    def leave_to(self, others):
        """Drop what a layer with less to write asks for too, unless nothing would be left."""
        fewer = [other.asked for other in others if len(other.found) < len(self.found)]
        rest = [entry for entry in self.found
                if not any((entry[0].name, entry[1]) in asked for asked in fewer)]
        self.found = rest or self.found


def _single_layers(work, classes, rng):
    """Holes and files of single layers. No file holds what another one asks for."""
    tasks = [Task(cls, _functions(cls, work.forward, source.reached_by(cls))) for cls in classes]
    for task in tasks:
        if not task.found:
            way = "forward" if work.forward else "backward"
            raise InputError(f"{task.name} has no {way} of its own to write; choose the layer or "
                             "the cell that it is built on")
    for task in sorted(tasks, key=lambda task: -len(task.found)):
        task.leave_to(tasks)
    lines = _lines(work, tasks) if work.level == "line" else {}
    for task in tasks:
        file = f"{student_module(task.name)}.py"
        if work.level == "line":
            work.holes.append(_a_line(task, lines, file, rng))
        else:
            work.holes += [source.blank_function(own, qualname, node, _owner(own, qualname), file)
                           for own, qualname, node in task.found]
    for task in tasks:
        student = student_module(task.name)
        elsewhere = {where: node for other in tasks if other is not task
                     for where, node in other.asked.items()}
        work.files[f"{student}.py"] = _text(task.cls, [task.name], task.found, elsewhere)
        work.graded.append((student, task.name))


def _own_layers(work, classes):
    """Holes and files of layers that are not npdl's, {"mine.py:Class": class}: the file that they
    stand in, whole but for these holes."""
    for name, cls in classes.items():
        _check_own(work, name, cls)
        work.own[cls.__name__] = name
    for module in dict.fromkeys(cls.__module__ for cls in classes.values()):
        own, file = source.Source(module), Path(sys.modules[module].__file__).name
        here = [cls for cls in classes.values() if cls.__module__ == module]
        found = {qualname: f for cls in here for qualname, f in own.functions(
            cls.__name__, work.forward, source.reached_by(cls)).items()}
        if not found:
            raise InputError(f"{file} has no {'forward' if work.forward else 'backward'} of its "
                             "own to write")
        work.holes += [source.blank_function(own, qualname, f, _owner(own, qualname), file)
                       for own, qualname, f in source.called_first(
                           [(own, qualname, f) for qualname, f in found.items()])]
        work.files[file] = own.edited()
        work.graded += [(file.removesuffix(".py"), cls.__name__) for cls in here]


def _check_own(work, name, cls):
    """Raise InputError for a layer of a teacher's that can't be an exercise."""
    path, names = Path(name.rpartition(":")[0]), [one for _, one in work.graded] + [*work.own]
    if work.level != "layer":
        raise InputError(f"layer {name!r}: a layer of your own goes with --level layer")
    if ("." in cls.__module__ or sys.modules[cls.__module__].__file__ != str(path.resolve())
            or path.name in work.files or cls.__name__ in names
            or path.stem in sys.stdlib_module_names):
        raise InputError(f"layer {name!r}: give a file.py:Class, the file in no package, with a "
                         "name, as its class has, that no other here and no module of Python has")
    for module, alias in source.imported(source.Source(cls.__module__)):
        if (other := path.parent / f"{(module or alias.name).split('.')[0]}.py").exists():
            raise InputError(f"layer {name!r}: it imports {other.name}, which students do not "
                             "have; give one file that needs no other")
    try:
        right = [examine(*given).right for given in own_samples(cls) or [sample(cls)]]
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"layer {name!r}: its sample raised {message(error)}; mend it") from error
    if not all(right):
        raise InputError(f"layer {name!r}: its own gradients are not right; see `python -m npdl "
                         f"blame {name}`")


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
    return source.called_first(
        [(module if name in own else helpers, name, f) for name, f in chosen.items()
         if not source.delegates(f, chosen)])


def _text(cls, names, found, elsewhere):
    """The text of a student file: the classes, with all that they need to be understood; what
    is to be written `elsewhere`, {(module, qualname): node}, is imported from npdl, and so is a
    function that has a line of it."""
    title = f"{', '.join(names)}: write what raises NotImplementedError."
    module = next((s for s, _, _ in found if s.name == cls.__module__), None)
    helpers = next((s for s, _, _ in found if s.name == "npdl.functions"), None)
    module, helpers = module or source.Source(cls.__module__), helpers or source.Source(
        "npdl.functions")
    own = {(s.name, qualname.split(".")[0]) for s, qualname, _ in found}
    answers = source.texts(elsewhere.values())
    left_out = {(name, qualname.split(".")[0]) for name, qualname in elsewhere} | {
        (s.name, name) for s in (module, helpers) for name, node in s.definitions.items()
        if isinstance(node, source.FUNCTIONS) and answers & source.texts([node])}
    left_out -= own
    names = [*names, *(name for s, name, _ in found if s is module and "." not in name)]
    kept = module.closure(names, left_out)
    used = {n.id for name in kept for n in source.ast.walk(module.definitions[name])
            if isinstance(n, source.ast.Name)}
    shared = helpers.closure(used & set(helpers.definitions), left_out)
    return source.student_text([(module, kept), (helpers, shared)], title)


def _owner(module, qualname):
    return module.definitions[qualname.split(".")[0]] if "." in qualname else None


def _lines(work, tasks):
    """{(module, qualname): the statements of which one may be asked}: none that stands in the
    folder a second time, as far as a layer has others."""
    functions = {where: node for task in tasks for where, node in task.asked.items()}
    count = Counter(source.ast.unparse(s) for node in functions.values()
                    for s in source.ast.walk(node) if isinstance(s, source.ast.stmt))
    every = {where: source.statements(node, work.forward) for where, node in functions.items()}
    once = {where: [s for s in some if count[source.ast.unparse(s)] == 1]
            for where, some in every.items()}
    return once | {where: every[where] for task in tasks
                   if not any(once[where] for where in task.asked) for where in task.asked}


def _a_line(task, lines, file, rng):
    """One line, drawn among those that the sample runs through; of the task only its function
    stays."""
    some = [(own, name, f, s) for own, name, f in task.found for s in lines[own.name, name]]
    for i in rng.permutation(len(some)):
        own, name, function, statement = some[i]
        hole = source.blank_line(own, name, function, _owner(own, name), file, statement)
        if _stops(_text(task.cls, [task.name], task.found, {}), file, task.name):
            lines[own.name, name] = [statement]     # the same, where another layer asks for it too
            task.found = [(own, name, function)]
            return hole
        own.edits.clear()
    raise InputError(f"{task.name} has no line that can be blanked alone; use --level layer")


def _stops(text, file, name):
    """Whether a student file stops at its hole."""
    try:
        source.run_sample(getattr(source.loaded(text, file.removesuffix(".py")), name))
    except NotImplementedError:
        return True
    return False


def _whole_lstm(work):
    reached = source.reached_by(find_class("LSTM")) | source.reached_by(find_class("LSTMCell"))
    module = source.Source(find_class("LSTM").__module__)
    found = source.called_first(
        [(module, qualname, f) for name in LSTM_PARTS
         for qualname, f in module.functions(name, work.forward, reached).items()])
    work.holes += [source.blank_function(own, qualname, f, _owner(own, qualname), "lstm.py")
                   for own, qualname, f in found]
    work.files["lstm.py"] = _text(find_class("LSTM"), LSTM_PARTS, found, {})
    work.graded += [("lstm", "LSTMCell"), ("lstm", "LSTMLayer"), ("lstm", "LSTM")]


COMMAND = """Write a folder of npdl's layers with backwards left out, and tests that grade them.

  python -m npdl homework --out homework
  python -m npdl homework --out homework --layers LayerNorm LSTMCell
  cd homework && python -m pytest -q                    the tests; each tells its first mistake
  python -m npdl homework grade FOLDER --homework homework --out grades"""


def add_arguments(parser):
    """Add the options of `python -m npdl homework` to an argparse parser."""
    set_description(parser, COMMAND)
    actions = parser.add_subparsers(dest="action", metavar="grade")
    grading.add_arguments(actions.add_parser(
        "grade", help="grade a class: see `python -m npdl homework grade -h`",
        description="Grade a folder of submissions."))
    parser.add_argument("--out", metavar="DIR", type=file_or_folder, help="a new or empty folder")
    parser.add_argument("--layers", nargs="+", metavar="LAYER",
                        help="npdl's layers by name, or mine.py:Class, a layer of yours that has a "
                        f"classmethod sample() or samples() (default: {' '.join(LAYERS)})")
    add_settings(parser, "homework", ("",), Settings())
    parser.add_argument("--forward", action="store_true", help="blank forwards instead")


def run(options):
    """Write the folder that the options ask for, and say what is in it; or grade a class."""
    if options.action == "grade":
        return grading.run(options)
    if options.out is None:
        raise InputError("--out is missing; name a new or empty folder")
    settings = taken(Settings, vars(options))
    made = homework(options.out, options.layers, settings.level, options.forward, settings.seed)
    print(f"{len(made.holes)} to write in {options.out}:")
    for hole in made.holes:
        line = f", the line of {hole.statement}" if hole.statement else ""
        print(f"  {hole.file:<23} {hole.qualname}{line}")
    print(f"read {Path(options.out) / 'README.md'}, then there: python -m pytest -q")
