"""What the tests in a homework folder ask: is this layer right, and if not, what is wrong first?"""

from pathlib import Path

from npdl_study.blame.blame import blame
from npdl_study.containment import message
from npdl_study.homework.isolated import answers
from npdl_study.homework.judging import instance, judged, questions
from npdl_study.homework.splice import NotOwn, of_forward, student_names


def first_trouble(module, name, originals):
    """What is wrong with a class of module.py in the current folder, and "" when all is right.

    originals   npdl's own functions that were to be written, "npdl.layers.linear:Linear.backward"
    """
    place, holes = Path(f"{module}.py").absolute(), [own.partition(":")[2] for own in originals]
    try:
        names = student_names(place, holes, place.read_bytes())
    except (NotOwn, OSError) as trouble:
        return str(trouble)
    asked, wanted = questions(name, 0, of_forward(holes))
    _, why, at = judged(name, answers(asked, names, place), wanted)
    return why + "".join(f"\n\n{_blamed(names[name], shape)}" for shape in at[:1])


def _blamed(cls, shape):
    """Where `blame` sees a mistake. It can't look under a debugger, say."""
    try:
        layer, inputs, options = instance(cls, shape, 0)
        return str(blame(layer, *inputs, **options))
    except Exception as error:
        return f"blame can't look: {message(error)}"
