"""Cut an exercise out of a layer: its forward is complete, and its backward is blank.

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

FIRST, SECOND = "the first sizes", "other sizes"        # what the first two samples are called


@dataclass(frozen=True)
class Exercise:
    """A layer, "Linear" or "mine.py:MyLayer", whose backward is to be written."""

    layer: str

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
        words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.name)
        return Path(self.layer.rpartition(":")[0]).name if self.is_own else f"{words.lower()}.py"

    @functools.cached_property
    def methods(self):
        """Return the names of the methods to write: backward, then such as decode_backward."""
        return sorted((n for n in dir(self.cls) if "backward" in n), key=lambda n: n != "backward")

    @functools.cached_property
    def functions(self):
        """Return the functions that do the work of these methods, such as softmax_backward.

        They are blank as well. A layer that contains other layers may call such functions.
        """
        if any(self.samples[FIRST][0].children()):
            return []
        methods = [getattr(self.cls, name) for name in self.methods]
        called = {name: method.__globals__.get(name) for method in methods
                  for name in method.__code__.co_names if name.endswith("_backward")}
        return [function for function in called.values() if inspect.isfunction(function)]

    @property
    def blanks(self):
        """Return the methods and functions of the reference that the student writes."""
        return [*(getattr(self.cls, name) for name in self.methods), *self.functions]

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

    def text(self):
        """Return the text of the student's file."""
        return _own_text(self) if self.is_own else _library_text(self)


def _check_own(exercise):
    """Raise InputError unless a teacher's class can be an exercise."""
    cls, option = exercise.cls, f"--layers {exercise.layer}"
    found = vars(sys.modules[cls.__module__]).get(exercise.name)
    if found is not cls or not issubclass(cls, Layer) or "." in cls.__module__:
        raise InputError(f"{option}: an exercise needs a class that is derived from "
                         "npdl.core.Layer, with methods forward and backward, in no package")
    try:
        right = [gradcheck(layer, *inputs, **options).right
                 for layer, inputs, options in own_samples(cls)]
    except Exception as error:
        raise InputError(f"{option}: its sample raises {message(error)}; correct it first"
                         ) from error
    if not right or not all(right):
        raise InputError(f"{option}: needs a classmethod samples() that returns [(layer, inputs), "
                         "...], and correct gradients; see `python -m npdl blame "
                         f"{exercise.layer}`")


def _own_text(exercise):
    """Return a teacher's file with the methods and functions of the exercise blank."""
    module = sys.modules[exercise.cls.__module__]
    text = inspect.getsource(module)
    for function in exercise.blanks:
        if function.__module__ == module.__name__:
            text = text.replace(inspect.getsource(function), _blank(function, exercise))
    return text


def _library_text(exercise):
    """Return the text of an exercise of one of npdl's layers."""
    cls, name = exercise.cls, exercise.name
    given = [getattr(cls, _twin(blank)) for blank in exercise.methods]
    twins = [one.__globals__.get(_twin(one.__name__)) for one in exercise.functions]
    shown = [function for function in twins if function]
    doc = inspect.getdoc(cls)
    doc = textwrap.indent(f'"""{doc}{chr(10) * (chr(10) in doc)}"""', "    ")
    body = [f"{doc}\n", *(_given_method(method, name) for method in given),
            *(_blank(getattr(cls, blank), exercise) for blank in exercise.methods)]
    return "\n\n\n".join([
        f'"""Homework: write the backward of {name}."""\n\n{_imports(given + shown, shown)}',
        f"class {name}(npdl.{name}):\n" + "\n".join(body).rstrip(),
        *(inspect.getsource(function).rstrip() for function in shown)]) + "\n"


def _twin(name):
    """Return the name of the forward of a backward: softmax for softmax_backward."""
    return "forward" if name == "backward" else name.removesuffix("_backward")


def _given_method(method, name):
    owner = method.__qualname__.partition(".")[0]       # of which `super` is meant
    return inspect.getsource(method).replace("super()", f"super(npdl.{owner}, self)")


def _node(function):
    return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]


def _blank(function, exercise):
    """Return the source of a function with a body that says what to write."""
    source, name, doc = inspect.getsource(function), function.__name__, inspect.getdoc(function)
    lines = [f"def {name}({ast.unparse(_node(function).args)}):"]
    if doc and "=" not in doc:                          # an equation may be the answer
        lines += textwrap.indent(f'"""{doc}"""', "    ").splitlines()
    if name == "backward":
        lines += [f"    # {line}" for hint in _hints(exercise) for line in textwrap.wrap(hint, 90)]
    lines.append(f'    raise NotImplementedError("write {exercise.name}.{name}")')
    return textwrap.indent("\n".join(lines), source[: -len(source.lstrip())]) + "\n"


def _hints(exercise):
    """Return what a backward returns, accumulates and may call, as sentences."""
    layer, inputs, _ = exercise.samples[FIRST]
    names = list(inspect.signature(exercise.cls.forward).parameters)[1:]
    returned = [f"d{name}" for name, value in zip(names, inputs, strict=False)
                if any(True for _ in leaves(value))]
    own = [f"self.{name}.grad" for name, _ in layer.params() if "." not in name]
    parts = [re.sub(r"\.(\d+)", r"[\1]", f"self.{name}") for name, _ in layer.children()]
    usable = {f"{function.__globals__[name].__module__}.{name}"
              for function in exercise.functions or exercise.blanks
              for name in function.__code__.co_names
              if name.endswith("_backward") and name in function.__globals__}
    hints = {"Return": returned or ["None"], "Add the gradients of the parameters to": own,
             "Call the backward of": parts, "You may use": sorted(usable)}
    return [f"{hint} {', '.join(items)}." for hint, items in hints.items() if items]


def _imports(functions, defined):
    """Return the import statements that functions need, without those `defined` in the file."""
    names = {}                                          # {module: what the functions use of it}
    for function in functions:
        used = {n.id for n in ast.walk(_node(function)) if isinstance(n, ast.Name)}
        names.setdefault(function.__module__, set()).update(
            used & function.__globals__.keys() - {one.__name__ for one in defined})
    lines = [f"from {module} import {', '.join(sorted(used))}"
             for module, used in sorted(names.items()) if used]
    return "\n".join(["import npdl", *map(_wrapped, lines)])


def _wrapped(line):
    """Return an import statement in lines of at most 100 columns."""
    long = line.replace("import ", "import (") + ")"
    return line if len(line) <= 100 else textwrap.fill(long, 100, subsequent_indent="    ")
