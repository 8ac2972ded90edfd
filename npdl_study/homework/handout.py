"""What is in a homework folder beside its exercises: README, tests, the exercises as handed out."""

import ast
import base64
import importlib
import io
import operator
import pickle
import sys
import types
import zlib
from pathlib import Path

from npdl_study.check.target import find_class
from npdl_study.homework.judging import ADDED, FLOAT32, KEPT, SAME, questions

# [task], the easiest first: a class (name) of module.py; the functions that are to be written there
# (holes, {"Linear.backward": "npdl.layers.linear", where npdl has it}); whether these are forwards;
# the module's text, and the same without the forward of what is to be written (pristine); of a
# teacher's layer where it is (layer), and what is asked at home, with the answers (given).
HANDED_OUT = "handed_out.json"
README = """\
# Homework: {title}

{count} to write. Every place says `raise NotImplementedError` and tells the equation; put your
own lines there. Nothing else has to change.

| | file | write | equation |
|--:|---|---|---|
{rows}

The easiest come first. What a hole needs stands in its file, or is imported from npdl where
another file asks you for it.

## How

The tests need pytest: `python -m pip install pytest`.

```sh
{commands}
```

## Rules of npdl

- `y, cache = layer.forward(x)`, then `dx = layer.backward(dy, cache)`. `dx` has the shape of `x`.
- The cache is what forward left for backward, as named fields: `cache.x_hat`.
- A parameter is a `Param`: its numbers are `self.W.data`, so `self.W.data.T` where the mathematics
  says W transposed, and its gradient is `self.W.grad`, of the same shape.
- {added}.
- Layers over the last axis take any axes before it: `(2, 3, D)`, and `(4, 2, 3, D)` too.
- {kept}. An array of your own may be, in place.
- Write `xp.exp(x)` where you would write `np.exp(x)`. {float32}.
{more}
Helpers and constants of your own belong into the same file. The tests, here and in class, set your
functions into the file as it was handed out (`handed_out.json`), with what they use of yours: what
else you change in it is not graded. They may use NumPy, math and what the file imports; a backward
that calls forward, to take differences, is no derivation.

The tests compare your outputs and gradients with right ones in float64, to {limit} of the
largest entry, for more than one size, number of axes and option (`bias=False`), and tell the first
thing that is wrong with each layer.{source}
"""

FORWARD = """\
- `return y, Cache(name=..., ...)`: the hints name the fields that the backward, which is there
  already, reads.
"""

SOURCE = """ These files were made from npdl's own source, so npdl has
a solution to each: look at it afterwards."""

UNUSED = """\
- `gradients_of(dy, outputs, name)` is `dy` in the shape of the outputs: zeros for the None that an
  output has whose gradient nothing needs.
"""

TEST = '''\
"""Grades this folder: python -m pytest -q"""

import pytest
from npdl_study.homework.selftest import first_trouble

LAYERS = [
{layers}
]
WRONG = set()           # files; what else is wrong in one is told once this is right


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer[1])
def test(layer):
    file, name = layer
    if file in WRONG:
        pytest.skip(f"{{name}} is made of what is not right yet in {{file}}.py")
    trouble = first_trouble(name)
    if trouble:
        WRONG.add(file)
        pytest.fail(trouble, pytrace=False)
'''


def test_file(work):
    """The text of test_homework.py."""
    return TEST.format(layers="\n".join(f"    {layer}," for layer in work.graded))


def handed_out(work):
    """What HANDED_OUT holds."""
    tasks = []
    for module, name in work.graded:
        text = work.files[f"{module}.py"]
        holes = {hole.qualname: "" if name in work.own else hole.original.partition(":")[0]
                 for hole in work.holes if hole.file == f"{module}.py"}
        tasks.append({"module": module, "name": name, "holes": holes, "forward": work.forward,
                      "text": text,
                      "pristine": text if work.forward else without_forward(text, holes)})
        if name in work.own:
            given = pickled(questions(work.own[name], 0, work.forward), work.own[name])
            tasks[-1] |= {"layer": work.own[name],
                          "given": base64.b64encode(zlib.compress(given)).decode()}
    return tasks


def unpacked(text):
    """The value of a "given"; the file that its classes stand in is a module of its name here."""
    return pickle.loads(zlib.decompress(base64.b64decode(text)))


def pickled(value, layer):
    """Bytes of a value that has instances of a teacher's layer, "mine.py:Class"."""
    file = io.BytesIO()
    _Pickler(file, sys.modules[find_class(layer).__module__]).dump(value)
    return file.getvalue()


class _Pickler(pickle.Pickler):
    """Names what a teacher's file defines by that file, whatever its module is called here."""

    def __init__(self, file, module):
        super().__init__(file)
        self.module = module

    def reducer_override(self, value):
        if value is self.module:
            return importlib.import_module, (Path(value.__file__).stem,)
        if (isinstance(value, (type, types.FunctionType))
                and value.__module__ == self.module.__name__):
            return operator.attrgetter(value.__qualname__), (self.module,)
        return NotImplemented


def without_forward(text, holes):
    """The text of an exercise in which the forward of what is to be written raises."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (
                node.name == "forward" or f"{node.name}_backward" in holes):
            node.body = ast.parse("raise NotImplementedError('forward is not in this process: "
                                  "derive the backward')").body
    return ast.unparse(tree)


def readme(work):
    """The text of README.md."""
    way = "forward" if work.forward else "backward"
    names = ", ".join(name for _, name in work.graded)
    title = {"layer": f"the {way} of {names}", "line": f"one line of each {way} ({names})",
             "lstm": f"the whole LSTM, {way}"}[work.level]
    rows = "\n".join(
        f"| {i} | `{h.file}` | `{h.qualname}`{f', `{h.statement}`' if h.statement else ''} | "
        f"`{h.equation.replace('`', '').replace('|', chr(92) + '|')}` |"
        for i, h in enumerate(work.holes, 1))
    used = any("gradients_of" in text for text in work.files.values())
    more = FORWARD if work.forward else UNUSED if used else ""
    count = "1 thing" if len(work.holes) == 1 else f"{len(work.holes)} things"
    return README.format(title=title, count=count, rows=rows, commands=_commands(work),
                         more=more, limit=f"{SAME:g}", source="" if work.own else SOURCE,
                         added=ADDED, kept=KEPT, float32=FLOAT32)


def _commands(work):
    module, name = work.graded[0]
    lines = [("python -m pytest -q", "what is left, and what is wrong"),
             (f"python -m pytest -q -k {name}", "one layer alone")]
    if not work.forward:
        lines.append((f"python -m npdl blame {module}.py:{name}", "the first wrong line"))
    if name not in work.own:
        lines.append((f"python -m npdl step {name}", "npdl's own, line by line: the solution"))
    width = max(len(command) for command, _ in lines)
    return "\n".join(f"{command:<{width}}    # {what}" for command, what in lines)
