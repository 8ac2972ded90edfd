"""Make an exercise from a layer of npdl: a subclass whose backward is blank.

The file of the exercise also contains the forward of the layer, which a student may change.
"""

import ast
import copy
import functools
import inspect
import re
import textwrap
from dataclasses import dataclass

import numpy as np

from npdl.backend import stream
from npdl.study.check.samples import all_samples, to_float64
from npdl.study.check.target import find_class
from npdl.study.homework.answers import FIRST, SECOND
from npdl.study.trees import copy_tree, leaves, random_upstream


@dataclass(frozen=True)
class Exercise:
    """An exercise, in which a student writes the backward of npdl's class `name`."""

    name: str

    @functools.cached_property
    def cls(self):
        """Return the class of npdl."""
        return find_class(self.name)

    @property
    def file(self):
        """Return the name of the student's file, such as gru_cell.py for GRUCell."""
        words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.name)
        return f"{words.lower()}.py"

    @functools.cached_property
    def methods(self):
        """Return the names of the methods to write: "backward", then others that contain it."""
        return sorted((n for n in dir(self.cls) if "backward" in n), key=lambda n: n != "backward")

    @functools.cached_property
    def functions(self):
        """Return the functions that these methods call, such as softmax_backward.

        They are blank as well. If the layer contains other layers, its methods may call functions
        such as softmax_backward, and the result is [].
        """
        if any(self.first["layer"].children()):
            return []
        methods = [getattr(self.cls, name) for name in self.methods]
        called = {name: method.__globals__.get(name) for method in methods
                  for name in method.__code__.co_names if name.endswith("_backward")}
        return [function for function in called.values() if inspect.isfunction(function)]

    @property
    def solution(self):
        """Return npdl's own source of these methods."""
        return "\n".join(textwrap.dedent(inspect.getsource(getattr(self.cls, name)))
                         for name in self.methods)

    @property
    def blanks(self):
        """Return npdl's own methods and functions that the student has to write."""
        return [*(getattr(self.cls, name) for name in self.methods), *self.functions]

    @functools.cached_property
    def first(self):
        """Return the first question of the tests at home."""
        return self.ask(0)[FIRST]

    def ask(self, seed):
        """Return the questions, {case: question}.

        A question is a dict with a layer, whose parameters and gradients are random, and with the
        inputs, the options and the upstream gradient. npdl.study.check.examples specifies the cases
        and the sizes. The seed only changes the random numbers.
        """
        first, second, _, *options = all_samples(self.cls).items()
        cases = [(FIRST, first[1]), (SECOND, second[1]), *options]
        return {case: _question(*build(stream(seed, 11, i)), seed)
                for i, (case, build) in enumerate(cases)}

    def text(self):
        """Return the text of the student's file."""
        given = [getattr(self.cls, _twin(blank)) for blank in self.methods]
        twins = [one.__globals__.get(_twin(one.__name__)) for one in self.functions]
        shown = [function for function in twins if function]
        doc = inspect.getdoc(self.cls)
        doc = textwrap.indent(f'"""{doc}\n"""' if "\n" in doc else f'"""{doc}"""', "    ")
        body = [f"{doc}\n", *(_given_method(method) for method in given),
                *(_blank(getattr(self.cls, blank), self) for blank in self.methods)]
        return "\n\n\n".join([
            f'"""Homework: write the backward of {self.name}."""\n\n'
            + _imports(self.cls, given, shown),
            f"class {self.name}({self.cls.__module__}.{self.name}):\n" + "\n".join(body).rstrip(),
            *(inspect.getsource(function).rstrip() for function in shown)]) + "\n"


def _question(layer, inputs, options, seed):
    layer, inputs = to_float64(layer, inputs, seed)
    with np.errstate(all="ignore"):
        outputs, _ = copy.deepcopy(layer).forward(*copy_tree(inputs), **options)
    rng = stream(seed, 17)
    for _, param in layer.params():     # backward must add to these gradients
        param.grad = rng.standard_normal(param.shape)
    return {"layer": layer, "inputs": inputs, "options": options,
            "dy": random_upstream(outputs, stream(seed, 78)),
            "names": list(inspect.signature(type(layer).forward).parameters)[1:]}


def _twin(name):
    """Return the forward's name: "forward" for "backward", "softmax" for "softmax_backward"."""
    return "forward" if name == "backward" else name.removesuffix("_backward")


def _given_method(method):
    owner = method.__qualname__.partition(".")[0]       # the class that `super` belongs to
    return inspect.getsource(method).replace("super()", f"super({method.__module__}.{owner}, self)")


def parse_function(function):
    """Return the syntax tree of a function."""
    return ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]


def _blank(function, exercise):
    """Return the source of a function whose body is replaced by hints and NotImplementedError."""
    source, name, doc = inspect.getsource(function), function.__name__, inspect.getdoc(function)
    lines = [f"def {name}({ast.unparse(parse_function(function).args)}):"]
    if doc and "=" not in doc:                          # an equation may be the answer
        lines += textwrap.indent(f'"""{doc}"""', "    ").splitlines()
    if name == "backward":
        lines += [f"    # {line}" for hint in _hints(exercise) for line in textwrap.wrap(hint, 90)]
    lines.append(f'    raise NotImplementedError("write {exercise.name}.{name}")')
    return textwrap.indent("\n".join(lines), source[: -len(source.lstrip())]) + "\n"


def _hints(exercise):
    """Return sentences on the values that backward returns and the functions that it may call."""
    layer, inputs = exercise.first["layer"], exercise.first["inputs"]
    returned = [f"d{name}" for name, value in zip(exercise.first["names"], inputs, strict=False)
                if any(True for _ in leaves(value))]
    own = [f"self.{name}.grad" for name, _ in layer.params() if "." not in name]
    parts = [re.sub(r"\.(\d+)", r"[\1]", f"self.{name}") for name, _ in layer.children()]
    usable = {f"{function.__globals__[name].__module__}.{name}"
              for function in exercise.functions or exercise.blanks
              for name in function.__code__.co_names
              if name.endswith("_backward") and name in function.__globals__}
    hints = {"Return": returned or ["None"], "Add the gradients of the parameters to": own,
             "Call the backward of": parts, "You may use": sorted(usable)}
    argument = list(inspect.signature(exercise.cls.backward).parameters)[1]
    if argument in returned:            # the states before and after a step have the same name
        start, *_, end = parse_function(exercise.cls.forward).body
        returned[returned.index(argument)] = _gradients(start.targets[0])
        hints[f"{argument} is the pair"] = [_gradients(end.value.elts[0])]
    return [f"{hint} {', '.join(items)}." for hint, items in hints.items() if items]


def _gradients(names):
    """Return "(dh, dc)" for the syntax tree of (h, c)."""
    return f"({', '.join(f'd{name.id}' for name in names.elts)})"


def _imports(cls, given, shown):
    """Return the import statements of a student's file.

    cls    the class of npdl from which the student's class is derived
    given  the methods in the file
    shown  the functions in the file, which are not imported
    """
    names = {}                                          # {module: names that are used}
    for function in given + shown:
        used = {n.id for n in ast.walk(parse_function(function)) if isinstance(n, ast.Name)}
        names.setdefault(function.__module__, set()).update(
            used & function.__globals__.keys() - {one.__name__ for one in shown})
    lines = [f"from {module} import {', '.join(sorted(used))}"
             for module, used in sorted(names.items()) if used]
    modules = sorted({cls.__module__, *(method.__module__ for method in given)})
    return "\n".join([*(f"import {module}" for module in modules), *map(_wrapped, lines)])


def _wrapped(line):
    """Return an import statement in lines of at most 100 columns."""
    long = line.replace("import ", "import (") + ")"
    return line if len(line) <= 100 else textwrap.fill(long, 100, subsequent_indent="    ")
