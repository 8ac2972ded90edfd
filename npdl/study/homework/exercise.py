"""Cut an exercise out of a layer: its forward is complete and its backward blank, or the reverse.

An exercise of one of npdl's layers is a subclass with one method to write; the other method is
shown. An exercise of a teacher's layer is the teacher's file with the same methods blank.
"""

import ast
import functools
import inspect
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from npdl.backend import stream
from npdl.core import Layer
from npdl.errors import InputError
from npdl.study.check.gradcheck import gradcheck
from npdl.study.check.samples import every_sample, own_samples
from npdl.study.check.target import find_class
from npdl.study.containment import message
from npdl.study.trees import leaves

WIDTH = 100
FIRST, SECOND = "the first sizes", "other sizes"        # what the first two samples are called


@dataclass(frozen=True)
class Exercise:
    """A layer, "Linear" or "mine.py:MyLayer", whose backward (or forward) is to be written."""

    layer: str
    forward: bool = False

    @functools.cached_property
    def cls(self):
        """Return the reference class."""
        return find_class(self.layer)

    @property
    def is_own(self):
        """Return True if the layer is a teacher's."""
        return ":" in self.layer

    @property
    def name(self):
        """Return the name of the class."""
        return self.layer.rpartition(":")[2]

    @property
    def file(self):
        """Return the name of the student's file: gru_cell.py for GRUCell."""
        if self.is_own:
            return Path(self.layer.rpartition(":")[0]).name
        name = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.name).lower()
        return f"{name}_layer.py" if name in sys.stdlib_module_names else f"{name}.py"

    @property
    def way(self):
        """Return the method that the student writes: "forward" or "backward"."""
        return "forward" if self.forward else "backward"

    @functools.cached_property
    def methods(self):
        """Return [(name of given method, name of blank one)], such as (forward, backward)."""
        names = sorted((n for n in dir(self.cls) if "backward" in n), key=lambda n: n != "backward")
        pairs = [(re.sub("^backward$", "forward", n).removesuffix("_backward"), n) for n in names]
        return [pair[::-1] if self.forward else pair for pair in pairs
                if hasattr(self.cls, pair[0])]

    @functools.cached_property
    def functions(self):
        """Return [(given function or None, blank function)] that do the work of these methods.

        `softmax_backward` is the answer to Softmax.backward, so it is blank as well. A layer that
        contains other layers may call such functions.
        """
        if any(self.samples[FIRST][0].children()):
            return []
        pairs = {}
        for method in (getattr(self.cls, name) for pair in self.methods for name in pair):
            for name in method.__code__.co_names:
                function = method.__globals__.get(name)
                if inspect.isfunction(function) and name.endswith("_backward"):
                    twin = function.__globals__.get(name.removesuffix("_backward"))
                    pairs[name] = (function, twin) if self.forward else (twin, function)
        return [pair for pair in pairs.values() if pair[1] is not None]

    @property
    def blank_functions(self):
        """Return the methods and functions of the reference that the student writes."""
        return [*(getattr(self.cls, blank) for _, blank in self.methods),
                *(blank for _, blank in self.functions)]

    @functools.cached_property
    def samples(self):
        """Return {case: (layer, inputs, options)}: see `draw`."""
        return self.draw(0)

    def draw(self, seed):
        """Return {case: (layer, inputs, options)} from the table of examples: each option too.

        The table decides all sizes, so that only the numbers depend on the seed.
        """
        if self.is_own:
            return {FIRST if i == 1 else f"sample {i}": one
                    for i, one in enumerate(own_samples(self.cls), 1)}
        first, second, _, *options = every_sample(self.cls).items()
        cases = [(FIRST, first[1]), (SECOND, second[1]), *options]
        return {case: build(stream(seed, 11, i)) for i, (case, build) in enumerate(cases)}

    def check(self):
        """Raise InputError unless the layer can be an exercise."""
        if self.is_own:
            _check_own(self)
        elif type(self.samples[FIRST][0]) is not self.cls:
            names = ", ".join(one.__name__ for one in self.cls.__subclasses__())
            raise InputError(f"--layers {self.layer}: is a base class; choose one of {names}")

    @property
    def equation(self):
        """Return the first sentence of the class's docstring."""
        text = " ".join((inspect.getdoc(self.cls) or "").split("\n\n")[0].split())
        return re.split(r"(?<=\w)\. (?=[A-Z])", text)[0].rstrip(".:")

    def text(self):
        """Return the text of the student's file."""
        return _own_text(self) if self.is_own else _library_text(self)


def _check_own(exercise):
    """Raise InputError unless a teacher's class can be an exercise."""
    cls, option = exercise.cls, f"--layers {exercise.layer}"
    path = exercise.layer.rpartition(":")[0]
    found = vars(sys.modules[cls.__module__]).get(exercise.name)
    if found is not cls or not issubclass(cls, Layer):
        raise InputError(f"{option}: an exercise needs a class that is derived from "
                         "npdl.core.Layer; write forward and backward as its methods")
    if not path.endswith(".py") or "." in cls.__module__ or exercise.forward:
        raise InputError(f"{option}: give FILE.py:Class, the file in no package, without --forward")
    try:
        reports = [gradcheck(one, *inputs, **options) for one, inputs, options in own_samples(cls)]
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{option}: its sample raises {message(error)}; correct it first"
                         ) from error
    if not reports or not all(report.right for report in reports):
        raise InputError(f"{option}: needs a classmethod samples() that returns [(layer, inputs), "
                         "...], and correct gradients; see `python -m npdl blame "
                         f"{exercise.layer}`")


def _library_text(exercise):
    """Return the text of an exercise of one of npdl's layers."""
    cls, name = exercise.cls, exercise.name
    given = [getattr(cls, given) for given, _ in exercise.methods]
    methods = [_given_method(method, name) for method in given]
    blanks = ["\n".join(_blank(_node(getattr(cls, blank)), "    ", exercise))
              for _, blank in exercise.methods]
    doc = inspect.getdoc(cls) or f"{name}, as npdl has it."
    doc = textwrap.indent(f'"""{doc}{chr(10) * (chr(10) in doc)}"""', "    ")
    body = [doc, *(blanks + methods if exercise.forward else methods + blanks)]
    shown = [function for function, _ in exercise.functions if function]
    return "\n\n\n".join([
        f'"""Homework: write the {exercise.way} of {name}."""\n\n{_imports(given + shown, shown)}',
        f"class {name}(npdl.{name}):\n" + "\n\n".join(body),
        *(inspect.getsource(function).rstrip() for function in shown)]) + "\n"


def _given_method(method, name):
    owner = method.__qualname__.partition(".")[0]       # of which `super` is meant
    return inspect.getsource(method).rstrip().replace("super()", f"super(npdl.{owner}, self)")


def _node(function):
    return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]


def _blank(node, indent, exercise):
    """Return the lines of a function, an ast node, with a body that says what to write."""
    lines = [f"{indent}def {node.name}({ast.unparse(node.args)}):"]
    doc = ast.get_docstring(node)
    if doc and "=" not in doc:                          # an equation may be the answer
        lines += textwrap.indent(f'"""{doc}"""', f"{indent}    ").splitlines()
    if node.name == "backward":
        lines += textwrap.wrap(_hint(exercise), WIDTH, initial_indent=f"{indent}    # ",
                               subsequent_indent=f"{indent}    # ")
    return [*lines, f'{indent}    raise NotImplementedError("write {exercise.name}.{node.name}")']


def _hint(exercise):
    """Return, in sentences, what a backward returns, accumulates and may call."""
    layer, inputs, _ = exercise.samples[FIRST]
    names = list(inspect.signature(exercise.cls.forward).parameters)[1:]
    returned = [f"d{name}" for name, value in zip(names, inputs, strict=False)
                if any(True for _ in leaves(value))]
    own = [f"self.{name}.grad" for name, _ in layer.params() if "." not in name]
    parts = [re.sub(r"\.(\d+)", r"[\1]", f"self.{name}") for name, _ in layer.children()]
    functions = [blank for _, blank in exercise.functions] or exercise.blank_functions
    usable = {f"{f.__globals__[name].__module__}.{name}" for f in functions
              for name in f.__code__.co_names
              if name.endswith("_backward") and name in f.__globals__}
    return " ".join([f"Return {', '.join(returned) or None}.",
                     *[f"Add the gradients of the parameters to {' and '.join(own)}."] * bool(own),
                     *[f"Call the backward of {', '.join(parts)}."] * bool(parts),
                     *[f"You may use {' and '.join(sorted(usable))}."] * bool(usable)])


def _imports(functions, defined):
    """Return the import statements that functions need, without those `defined` in the file."""
    names = {}                                          # {module, or None: what is imported of it}
    for function in functions:
        module = sys.modules[function.__module__]
        origins = {alias.asname or alias.name: (getattr(node, "module", None), ast.unparse(alias))
                   for node in ast.parse(inspect.getsource(module)).body
                   if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}
        for name in {n.id for n in ast.walk(_node(function)) if isinstance(n, ast.Name)}:
            if name in vars(module) and vars(module)[name] not in defined:
                source, alias = origins.get(name, (module.__name__, name))
                names.setdefault(source, set()).add(alias)
    plain = [f"import {alias}" for alias in sorted(names.pop(None, ()))]
    return "\n".join([*plain, *[""] * bool(plain), "import npdl",
                      *(_import_line(module, sorted(names[module])) for module in sorted(names))])


def _import_line(module, names):
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= WIDTH else (
        f"from {module} import (\n" + "".join(f"    {name},\n" for name in names) + ")")


def _own_text(exercise):
    """Return a teacher's file with the methods and functions of the exercise blank."""
    lines = inspect.getsource(sys.modules[exercise.cls.__module__]).splitlines()
    blanks = {function.__qualname__ for function in exercise.blank_functions}
    found = []
    for node in ast.parse("\n".join(lines)).body:
        inside = [(f"{node.name}.", one) for one in node.body] if isinstance(node, ast.ClassDef) \
            else [("", node)]
        found += [one for prefix, one in inside if isinstance(one, ast.FunctionDef)
                  and prefix + one.name in blanks]
    for node in reversed(found):
        lines[node.lineno - 1 : node.end_lineno] = _blank(node, " " * node.col_offset, exercise)
    return "\n".join(lines) + "\n"
