"""Run layers on the grader's questions; what they compute are arrays.

The reference runs in the grader's process, a student's class in a process of its own (child) and in
the tests at home. Nothing here knows a right answer.
"""

import codecs
import linecache
import sys
import traceback
import types

import numpy as np

from npdl.study.trees import by_input, copied, leaves, tupled

BLANK = "not written yet"


class Refused(Exception):
    """A file can't be graded; the text is the reason, for the student."""


def as_class(questions, cls):
    """Return the grader's questions, {case: question}, about layers of a student's class."""
    for question in questions.values():
        question["layer"].__class__ = cls
    return questions


def load_class(text, file, name):
    """Return the class `name` of a student's file, whose content is given as bytes.

    Raises Refused if the file can't be run or has no such class.
    """
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):     # as some editors write
        text = text.decode("utf-16", "replace").encode()
    lines = text.decode("utf-8", "replace").splitlines(True)
    linecache.cache[file] = (0, None, lines, file)      # so that nobody has to read the file again
    module = types.ModuleType(name)
    module.__file__ = file
    try:
        exec(compile(text, file, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        raise Refused(f"the file can't be run: {describe(error, file)}") from error
    if not isinstance(cls := vars(module).get(name), type):
        raise Refused(f"the file has no class {name}")
    return cls


def describe(error, file):
    """Return an exception as one line, with the last line of the student's file it came through."""
    if isinstance(error, SyntaxError):
        return (f"line {error.lineno}: {error.msg} (Python {sys.version_info[0]}."
                f"{sys.version_info[1]} reads it, and knows no newer syntax)")
    if isinstance(error, NotImplementedError) and str(error).startswith("write "):
        return BLANK
    lines = [f"line {frame.lineno}, `{frame.line}`: "
             for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{''.join(lines[-1:])}{type(error).__name__}: {str(error)[:500]}".rstrip(": ")


def answer_all(questions, file=""):
    """Return {"case/kind/name": array} that the layers of {case: question} compute.

    Kinds: gradient; again, the gradients after a second backward; after, the arrays that forward
    and backward were given. "case/error" is a sentence, if the code raised.
    """
    found = {}
    for case, question in questions.items():
        try:
            with np.errstate(all="ignore"):
                for path, array in _answers(**question):
                    found[f"{case}/{path}"] = array
        except (Exception, SystemExit) as error:
            found[f"{case}/error"] = describe(error, file)
    return found


def _answers(layer, inputs, options, dy, names):
    _, cache = layer.forward(*inputs, **options)
    is_float = [any(True for _ in leaves(value)) for value in inputs]
    for kind in ("gradient", "again"):
        given = copied(dy)
        returned, _ = by_input(layer.backward(given, cache), is_float)
        yield from _arrays(kind, dict(zip(names, tupled(returned), strict=False)))
        yield from _arrays(kind, {name: param.grad for name, param in layer.params()})
        yield from _arrays("after", {"dy": given, **dict(zip(names, inputs, strict=False))})
        yield from _arrays("after", {f"{name}.data": p.data for name, p in layer.params()})


def _arrays(kind, nests):
    for name, nest in nests.items():
        for path, array in leaves(nest, name):
            yield f"{kind}/{path}", np.array(array, float)
