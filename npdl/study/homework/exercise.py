"""Make an exercise from a layer of npdl: a subclass whose backward is blank.

The file of the exercise also contains the forward of the layer, which a student may change.
"""

import ast
import copy
import inspect
import re
import textwrap

import numpy as np

from npdl.backend import make_rng
from npdl.study.check.samples import (
    make_example_call,
    make_random_float64_copy,
    make_sample_builders,
)
from npdl.study.check.target import find_npdl_class
from npdl.study.homework.answers import FIRST, SECOND
from npdl.study.trees import copy_tree, draw_upstream, leaves


class Exercise:
    """An exercise, in which a student writes the backward of a layer of npdl.

    cls        the class of npdl
    name       its name
    file       the name of the student's file, such as gru_cell.py for GRUCell
    methods    the names of the methods to write: "backward", and others that contain this word
    functions  functions that the student writes, too, because the methods call them, such as
               softmax_backward for Softmax; none if the layer contains other layers
    names      the names of forward's inputs
    blanks     npdl's own methods and functions, which the student has to write
    solution   npdl's source of the methods
    """

    def __init__(self, layer):
        self.cls = find_npdl_class(layer)
        self.name = self.cls.__name__
        words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.name)
        self.file = f"{words.lower()}.py"
        self.methods = [name for name in dir(self.cls) if "backward" in name]
        self.names = list(inspect.signature(self.cls.forward).parameters)[1:]
        methods = [getattr(self.cls, name) for name in self.methods]
        has_parts = any(make_example_call(self.cls)[0].children())
        self.functions = [] if has_parts else _find_called_backward_functions(methods)
        self.blanks = methods + self.functions
        self.solution = "\n".join(textwrap.dedent(inspect.getsource(one)) for one in methods)

    def make_test_cases(self, seed):
        """Return the test cases, {name: case}; npdl.study.check.examples specifies their sizes.

        A case is a dict. "layer" has random parameters and gradients. "inputs" and "options"
        are the arguments of forward, and "names" are the names of the inputs. "dy" is the upstream
        gradient. The seed only changes the random numbers.
        """
        first, second, _, *others = make_sample_builders(self.cls).items()
        cases, test_cases = [(FIRST, first[1]), (SECOND, second[1]), *others], {}
        for number, (name, build) in enumerate(cases):
            layer, inputs, options = build(make_rng(seed, 11, number))
            layer, inputs = make_random_float64_copy(layer, inputs, seed)
            with np.errstate(all="ignore"):
                outputs, _ = copy.deepcopy(layer).forward(*copy_tree(inputs), **options)
            rng = make_rng(seed, 17)
            for _, param in layer.params():     # backward must add to these gradients
                param.grad = rng.standard_normal(param.shape)
            test_cases[name] = {
                "layer": layer, "inputs": inputs, "options": options, "names": self.names,
                "dy": draw_upstream(outputs, make_rng(seed, 78))}
        return test_cases

    def format_student_file(self):
        """Return the text of the student's file."""
        given = [getattr(self.cls, _find_forward_name(blank)) for blank in self.methods]
        shown = [forward for one in self.functions if (
            forward := one.__globals__.get(_find_forward_name(one.__name__)))]
        doc = inspect.getdoc(self.cls)
        doc = textwrap.indent(f'"""{doc}\n"""' if "\n" in doc else f'"""{doc}"""', "    ")
        body = [f"{doc}\n", *(format_method_for_subclass(method) for method in given),
                *(_format_blank_function(getattr(self.cls, blank), self) for blank in self.methods)]
        return "\n\n\n".join([
            f'"""Homework: write the backward of {self.name}."""\n\n'
            + _format_imports(self.cls, given, shown),
            f"class {self.name}({self.cls.__module__}.{self.name}):\n" + "\n".join(body).rstrip(),
            *(inspect.getsource(function).rstrip() for function in shown)]) + "\n"


def _find_forward_name(backward_name):
    """Return the name of the forward of a backward: "softmax" for "softmax_backward"."""
    return "forward" if backward_name == "backward" else backward_name.removesuffix("_backward")


def format_method_for_subclass(method):
    """Return a method's source for a subclass, with `super(Class, self)` in place of `super()`."""
    owner = method.__qualname__.partition(".")[0]       # the class that `super` belongs to
    return inspect.getsource(method).replace("super()", f"super({method.__module__}.{owner}, self)")


def _format_blank_function(function, exercise):
    """Return the source of a function whose body is replaced by hints and NotImplementedError."""
    source, name, doc = inspect.getsource(function), function.__name__, inspect.getdoc(function)
    lines = [f"def {name}{inspect.signature(function)}:"]
    if doc and "=" not in doc:                          # an equation may be the answer
        lines += textwrap.indent(f'"""{doc}"""', "    ").splitlines()
    if name == "backward":
        lines += [f"    # {line}" for hint in _make_hints(exercise)
                  for line in textwrap.wrap(hint, 90)]
    lines.append(f'    raise NotImplementedError("write {exercise.name}.{name}")')
    return textwrap.indent("\n".join(lines), source[: -len(source.lstrip())]) + "\n"


def _make_hints(exercise):
    """Return sentences such as "Return dx." or "You may use softmax_backward."."""
    layer, inputs, _ = make_example_call(exercise.cls)
    returned = [f"d{name}" for name, value in zip(exercise.names, inputs, strict=False)
                if any(leaves(value))]
    argument = list(inspect.signature(exercise.cls.backward).parameters)[1]
    if argument in returned:            # the states before and after a step have the same name
        returned[returned.index(argument)] += \
            " (the gradient of the state before the step, nested like this state)"
    own = [f"self.{name}.grad" for name, _ in layer.params() if "." not in name]
    parts = [re.sub(r"\.(\d+)", r"[\1]", f"self.{name}") for name, _ in layer.children()]
    usable = _find_called_backward_functions(exercise.functions or exercise.blanks)
    hints = {"Return": returned or ["None"], "Add the gradients of the parameters to": own,
             "Call the backward of": parts,
             "You may use": sorted(f"{one.__module__}.{one.__name__}" for one in usable)}
    return [f"{hint} {', '.join(items)}." for hint, items in hints.items() if items]


def _find_called_backward_functions(functions):
    """Return the functions with names such as softmax_backward that some functions call."""
    called = {name: function.__globals__.get(name) for function in functions
              for name in function.__code__.co_names if name.endswith("_backward")}
    return [function for function in called.values() if inspect.isfunction(function)]


def _format_imports(cls, copied_methods, copied_functions):
    """Return the import statements of a student's file, which has a subclass of `cls`, as text.

    The file contains the source of these methods and functions of npdl, so the functions are not
    imported.
    """
    names = {}                                          # {module: names that are used}
    for function in copied_methods + copied_functions:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names.setdefault(function.__module__, set()).update(
            used & function.__globals__.keys() - {one.__name__ for one in copied_functions})
    lines = [f"import {module}" for module in sorted(
        {cls.__module__, *(method.__module__ for method in copied_methods)})]
    for module, used in sorted(names.items()):
        line = f"from {module} import {', '.join(sorted(used))}"
        if len(line) > 100:
            line = textwrap.fill(line.replace("import ", "import (") + ")", 100,
                                 subsequent_indent="    ")
        lines += [line] * bool(used)
    return "\n".join(lines)
