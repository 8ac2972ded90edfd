"""What the tests in a homework folder ask: is this layer right, and if not, what is wrong first?"""

from pathlib import Path

from npdl_study.blame.blame import blame
from npdl_study.check.target import find_class
from npdl_study.containment import message
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
    checks, at = judged(name, answers(cls, shapes, 0, place),
                        answers(find_class(name), shapes, 0))
    wrong = checks["gradients"] or checks["other sizes"]
    if wrong:
        return wrong + "".join(f"\n\n{blamed(cls, shape, 0)}" for shape in at[:1])
    return checks["manners"] and f"the gradients are right, but {checks['manners']}"


def blamed(cls, shape, seed):
    """Where `blame` sees a mistake. It can't look under a debugger, say."""
    try:
        layer, inputs, options = instance(cls, shape, seed)
        return str(blame(layer, *inputs, seed=seed % 1000, **options))
    except Exception as error:
        return f"blame can't look: {message(error)}"
