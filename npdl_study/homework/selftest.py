"""What the tests in a homework folder ask: is this layer right, and if not, what is wrong first?"""

from pathlib import Path

from npdl_study.blame.blame import blame
from npdl_study.check.guard import message
from npdl_study.check.target import find_class
from npdl_study.homework.judging import answers, instance, judged, shapes_of
from npdl_study.homework.splice import NotOwn, student_class


def first_trouble(module, name, originals):
    """What is wrong with a class of module.py in the current folder, and "" when all is right.

    originals   npdl's own functions that were to be written, "npdl.layers.linear:Linear.backward"
    """
    place = Path(f"{module}.py").absolute()
    try:
        cls, _, _ = student_class(place, name, [own.partition(":")[2] for own in originals])
    except NotOwn as trouble:
        return str(trouble)
    shapes = shapes_of(name, 0)
    checks = judged(name, answers(cls, shapes, 0, place), answers(find_class(name), shapes, 0))
    wrong = checks["gradients"] or checks["other sizes"]
    if "gradient of" in wrong:
        return f"{wrong}\n\n{blamed(cls, wrong_at(checks, shapes), 0)}".rstrip()
    return wrong or checks["manners"] and f"the gradients are right, but {checks['manners']}"


def wrong_at(checks, shapes):
    """The shapes at which wrong gradients may be wrong."""
    return ["sample"] if checks["gradients"] else sorted({*shapes} - {"sample", "float32"})[::-1]


def blamed(cls, shapes, seed):
    """Where `blame` sees a mistake at one of these shapes. It can't look under a debugger, say."""
    for shape in shapes:
        try:
            layer, inputs, options = instance(cls, shape, seed)
            report = blame(layer, *inputs, seed=seed % 1000, **options)
        except Exception as error:
            return f"blame can't look: {message(error)}"
        if not report.right:
            return str(report)
    return ""
