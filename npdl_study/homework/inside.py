"""What runs in a process of a student's code: it is handed questions, and hands back arrays.

No right answer is in there, no forward when backwards were asked for, no backward of npdl's but
those that the layer calls, and Linux lets it do nothing but compute (`npdl.process.seal`).
"""

import functools
import gc
import importlib
import io
import os
import pickle
import sys
import types
from pathlib import Path

import numpy as np

from npdl import backend, core, errors, functions, process
from npdl.core import walk
from npdl_study.containment import called
from npdl_study.homework.splice import MODULES, NotOwn, sentence, student_names
from npdl_study.trees import copied, leaves, placed, tupled

NPDL = os.path.dirname(core.__file__) + os.sep
ENGINE = {module.__file__ for module in (backend, core, errors, functions, process)}
MOST_SAID = 4 << 20         # bytes of an answer


def answers(questions, classes, place=None):
    """{"shape/kind/name": array} that layers answer to {shape: question} (`judging.questions`).

    classes   {name: class} to stand for npdl's own of these names
    place     the student's file, for the lines of errors
    Kinds: output, gradient; after, what was handed in, as it is then; again, the gradients of a
    second backward, added to the first; or "shape/error", an exception in a sentence.
    """
    found = {}
    for shape, question in questions.items():
        name = type(question["layer"]).__name__
        try:
            some = called(functools.partial(_answered, question, classes), name)
        except Exception as error:
            some = {"error": np.array(sentence(error, name, place))}
        found |= {f"{shape}/{path}": array for path, array in some.items()}
    return found


def _answered(question, classes):
    layer, names, inputs = question["layer"], question["names"], question.get("inputs", ())
    for part in walk(layer):
        part.__class__ = classes.get(type(part).__name__, type(part))
    found = {}

    def keep(kind, nest, name):
        found.update({f"{kind}/{path}": np.array(array) for path, array in leaves(nest, name)})

    def backward(kind):
        dy = copied(question["dy"])
        returned, _ = placed(layer.backward(dy, cache), question["floats"])
        for name, value in zip(names, tupled(returned), strict=False):
            keep(kind, value, name)
        for name, param in layer.params():
            keep(kind, param.grad, name)
        return dy

    cache = question.get("cache")
    with np.errstate(all="ignore"):
        if inputs:
            outputs, cache = layer.forward(*inputs, **question["options"])
            keep("output", outputs, "y")
            if _shapes(outputs) != _shapes(question["dy"]):
                return found            # to be judged as it is
        keep("after", backward("gradient"), "dy")
        for name, value in zip(names, inputs, strict=False):
            keep("after", value, name)
        backward("again")
    return found


def _shapes(nest):
    return [array.shape for _, array in leaves(nest)]


def main():
    """Answer what standard input asks; a byte says that student code comes now, then an npz."""
    asked = pickle.load(sys.stdin.buffer)
    for name in (*MODULES, *asked["imports"]):
        importlib.import_module(name)
    np.savez(io.BytesIO(), np.zeros(1))         # imports what it needs
    _take_out(asked["gone"], asked["kept"])
    out, nowhere = open(os.dup(1), "wb", 0), open(os.devnull, "w")
    process.confine(asked["parent"], AS=2 << 30, CPU=int(asked["limit"]) + 2, CORE=0,
                    FSIZE=MOST_SAID)
    process.seal()
    sys.stdout = sys.stderr = nowhere           # student code prints to nobody
    out.write(b".")
    packed = io.BytesIO()
    np.savez(packed, **_work(asked))
    out.write(packed.getvalue())
    os._exit(0)


def _take_out(gone, kept):
    """Have all functions of npdl's raise that are in `gone`, {(file, name)}, or neither in `kept`
    nor in the ENGINE's files."""
    for function in gc.get_objects():
        if type(function) is types.FunctionType:
            code = function.__code__
            file, where = code.co_filename, (code.co_filename, code.co_qualname)
            taken = where in gone or file not in ENGINE and where not in kept
            if taken and file.startswith(NPDL):
                function.__code__ = _gone.__code__.replace(co_freevars=code.co_freevars)


def _gone(*given, **options):
    raise NotImplementedError("this function of npdl's is not in this process: write it yourself")


def _work(asked):
    """{name: array} of a student's answers, or {"refused": why}."""
    place = Path(f"{asked['module']}.py")
    try:
        names = student_names(place, asked["holes"], asked["text"], asked["pristine"])
    except NotOwn as error:
        return {"refused": np.array(str(error))}
    return answers(asked["questions"], names, place)


if __name__ == "__main__":
    main()
