"""A process for a student's code: `isolated` starts it and reads what it says, `main` runs in it.

It is handed questions and hands back arrays. In there is no right answer, no forward when backwards
were asked for, no backward but those that the layer calls; Linux lets it but compute (`seal`).
"""

import gc
import importlib
import io
import os
import pickle
import subprocess
import sys
import types
from pathlib import Path

import numpy as np

from npdl import backend, core, errors, functions
from npdl_study.containment import called
from npdl_study.homework.splice import MODULES, sentence, student_names
from npdl_study.homework.submissions import NotGraded, NotOwn
from npdl_study.trees import by_input, copied, leaves, tupled
from npdl_train import process

NPDL = os.path.dirname(core.__file__) + os.sep
ENGINE = {module.__file__ for module in (backend, core, errors, functions, process)}
# What Python, to read a file, and npdl's checks import late.
LATE = ("unicodedata", "encodings.cp1252", "encodings.latin_1", "numpy.ma")
MOST_SAID = 4 << 20         # bytes of an answer


def isolated(asked, limit):
    """{name: array} that a process of student code answers. Raises NotOwn when it does not."""
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
                   "PYTHONHASHSEED": "0",       # the same order of sets, whenever it is graded
                   "PYTHONPATH": process.import_paths()}
    with (open(os.memfd_create("given"), "w+b") as given,       # no disk, which may be full
          open(os.memfd_create("begun"), "w+b", 0) as begun,
          open(os.memfd_create("answer"), "w+b") as out):
        pickle.dump(asked | {"limit": limit, "parent": os.getpid(), "begun": begun.fileno()}, given)
        given.seek(0)
        try:
            status = subprocess.run([sys.executable, "-BPm", __spec__.name], timeout=limit,
                                    stdin=given, stdout=out, stderr=out, env=environment,
                                    start_new_session=True, pass_fds=[begun.fileno()]).returncode
            ended = (f"ended by signal {-status}" if status < 0 else
                     "ended the program before its tests were done")
        except subprocess.TimeoutExpired:
            ended = f"not at an end after {limit:g} seconds"
        out.seek(0)
        said = out.read(MOST_SAID)
        is_begun = os.fstat(begun.fileno()).st_size
    if not is_begun:                    # the process's own traceback
        last = said.decode(errors="replace").splitlines()[-1:]
        raise NotGraded(f"{ended}, before student code was read: {' '.join(last)}")
    found = _unpacked(said)
    if not found or "refused" in found:
        raise NotOwn(found.get("refused", ended))
    return found


def _unpacked(said):
    """{name: array} of a stranger's answer: floats, and texts where errors are told; or {}."""
    try:
        with np.load(io.BytesIO(said), allow_pickle=False) as found:
            size = sum(entry.file_size for entry in found.zip.infolist())
            arrays = {name: found[name] for name in found.files if size <= MOST_SAID}
        return {name: array for name, array in arrays.items()
                if array.dtype.kind == ("f" if name.count("/") > 1 else "U")
                and str(array)}                         # raises where a text is none
    except Exception:
        return {}


def answers(questions, classes, place=None):
    """{"shape/kind/name": array} that layers answer to {shape: question} (`judging.questions`);
    `classes`, {name: class}, stand for npdl's own, `place` is the student's file.

    Kinds: output, gradient; again, the gradients of a second backward, added to the first; after,
    what was handed in, as it is then; or "shape/error", an exception in a sentence, in the end.
    """
    found = {}
    for shape, question in questions.items():
        name, told = type(question["layer"]).__name__, _answered(question, classes)
        try:
            with np.errstate(all="ignore"):
                called(lambda s=shape, t=told: found.update((f"{s}/{k}", a) for k, a in t), name)
        except Exception as error:
            found[f"{shape}/error"] = np.array(sentence(error, name, place))
    return found


def _answered(question, classes):
    layer, names, inputs = question["layer"], question["names"], question.get("inputs", ())
    if question.get("called"):
        function, given = question["called"]
        own = vars(sys.modules[type(layer).__module__])[function]
        yield from _arrays("output", {function: classes.get(function, own)(*copied(given))})
    for part in core.walk(layer):
        part.__class__ = classes.get(type(part).__name__, type(part))
    cache = question.get("cache")
    if inputs:
        outputs, cache = layer.forward(*inputs, **question["options"])
        yield from _arrays("output", {"y": outputs} | {
            name: p.data for name, p in layer.params(frozen=True) if not p.trainable})
    for kind in ("gradient", "again"):
        dy = copied(question["dy"])
        returned, _ = by_input(layer.backward(dy, cache), question["floats"])
        yield from _arrays(kind, dict(zip(names, tupled(returned), strict=False)))
        yield from _arrays(kind, {name: param.grad for name, param in layer.params()})
        yield from _arrays("after", {"dy": dy, **dict(zip(names, inputs, strict=False))})
        yield from _arrays("after", {f"{name}.data": p.data for name, p in layer.params()})
        yield from _arrays("after", {} if inputs else {"cache": cache})


def _arrays(kind, nests):
    for name, nest in nests.items():
        for path, array in leaves(nest, name):
            yield f"{kind}/{path}", np.array(array)


def main():
    """Answer standard input by an npz. That student code comes now, another file's length says."""
    asked = pickle.load(sys.stdin.buffer)
    late = [name for name in MODULES if name.rpartition(".")[2].encode() in asked["submitted"]]
    for name in (*late, *LATE):
        importlib.import_module(name)
    exec(asked["pristine"], {"__name__": "handed_out"})     # imports too
    np.__all__[:] = [name for name in np.__all__ if name in vars(np)]       # of import *
    np.savez(io.BytesIO(), np.zeros(1))         # imports what it needs
    _take_out(asked["gone"], asked["kept"])
    out, nowhere = open(os.dup(1), "wb", 0), open(os.devnull, "w", errors="replace")
    process.confine(asked["parent"], AS=2 << 30, CPU=int(asked["limit"]) + 2, CORE=0,
                    FSIZE=MOST_SAID)
    process.seal()
    sys.stdout = sys.stderr = nowhere           # student code prints to nobody
    os.write(asked["begun"], b".")
    place, packed = Path(f"{asked['module']}.py"), io.BytesIO()
    try:
        names = student_names(place, asked, asked["pristine"], asked["submitted"])
        questions = asked["questions"]
        if isinstance(questions, bytes):        # of a class that only the student's file has here
            questions = pickle.loads(questions)
        np.savez(packed, **answers(questions, names, place))
    except NotOwn as error:
        np.savez(packed, refused=str(error))
    out.write(packed.getvalue())
    os._exit(0)


def _take_out(gone, kept):
    """Have npdl's functions raise: `gone`, and forwards and backwards not `kept` nor ENGINE's."""
    for function in [one for one in gc.get_objects() if type(one) is types.FunctionType]:
        code = function.__code__
        file, where = code.co_filename, (code.co_filename, code.co_qualname)
        ward = file not in ENGINE and where not in kept and "ward" in code.co_qualname
        if (where in gone or ward) and file.startswith(NPDL):
            function.__code__ = _gone.__code__.replace(co_freevars=code.co_freevars)


def _gone(*given, **options):
    raise NotImplementedError("this function of npdl's is not in this process: write it yourself")


if __name__ == "__main__":
    main()
