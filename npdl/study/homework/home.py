"""The tests of a homework folder: is a layer right, and if not, which gradients are wrong?"""

import copy
from pathlib import Path

from npdl.errors import InputError
from npdl.study.blame.blame import blame
from npdl.study.check.samples import own_samples
from npdl.study.containment import message, time_limit
from npdl.study.homework.answers import BLANK, Refused, answer_all, as_class, load_module
from npdl.study.homework.handout import read_homework
from npdl.study.homework.judge import answer_right, ask, award

LIMIT = 60.0            # seconds for a layer, as in class
SEED = 0                # of the numbers in the tests; a class has another


def names():
    """Return the names of the layers in the current folder."""
    return list(read_homework(".").exercises)


def find_problems(name):
    """Return what is wrong with a layer of the current folder, as text; "" if all is right.

    The reasons are those of the grader. The answers to a teacher's own layer are not here, so it
    is checked by its numerical gradients.
    """
    homework = read_homework(".")
    exercise, lines, samples = homework.exercises[name], [], []
    path = Path(exercise.file).resolve()
    try:
        with time_limit(LIMIT, ""):
            module = load_module(path.read_bytes(), str(path), name)
            if exercise.is_own:
                samples = own_samples(vars(module)[name])
            else:
                asked = ask(exercise, SEED)
                wanted = answer_right(asked)
                questions = as_class(asked, vars(module)[name])
                found = answer_all(copy.deepcopy(questions), str(path))
                points = award(found, wanted, exercise.forward)
                lines = [f"{point}: {reason}" for point, reason in points.items() if reason]
                if lines and lines[0].endswith(BLANK):
                    return f"{name}.{exercise.way} is {BLANK}"
                if lines and not exercise.forward:
                    samples = [(one["layer"], one["inputs"], one["options"])
                               for one in questions.values()]
            return "\n".join(lines + _blamed(samples, homework.is_exam))
    except (Refused, InputError, OSError) as error:
        return str(error)


def _blamed(samples, is_exam):
    """Return what `blame` finds in the first sample with a wrong gradient, as lines."""
    for layer, inputs, options in samples:
        try:
            report = blame(layer, *inputs, **options)
        except Exception as error:
            return [f"blame failed: {message(error)}"]
        if not report.right:
            return ["", f"most likely wrong: line {report.line}: {report.source.strip()}"
                    if is_exam and report.line else str(report)]
    return []
