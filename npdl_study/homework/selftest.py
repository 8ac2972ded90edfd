"""What the tests in a homework folder ask: is this layer right, and if not, what is wrong first?"""

from pathlib import Path

from npdl.errors import InputError
from npdl.files import read_json
from npdl_study.blame.blame import blame
from npdl_study.containment import message, time_limit
from npdl_study.homework.handout import HANDED_OUT, unpacked
from npdl_study.homework.isolated import answers
from npdl_study.homework.judging import instance, losses, questions
from npdl_study.homework.splice import student_names
from npdl_study.homework.submissions import NotGraded, NotOwn, find_file, listed

LIMIT = 60.0            # seconds for a layer, as in class


def first_trouble(name):
    """What is wrong with a class of the current folder, and "" when all is right: what grading the
    class says, in its words."""
    try:
        with time_limit(LIMIT, ""):
            return _trouble(name)
    except (NotOwn, NotGraded, InputError) as trouble:
        return str(trouble)
    except (OSError, ValueError, LookupError, TypeError) as trouble:
        return f"{message(trouble)}: put back what you were given"


def _trouble(name):
    task, = (task for task in read_json(HANDED_OUT) if task["name"] == name)
    text, where, _ = find_file(listed(Path.cwd()), f"{task['module']}.py")
    place = Path(where).absolute()
    names = student_names(place, task, task["pristine"], text)
    asked, wanted = (unpacked(task["given"]) if "given" in task else
                     questions(name, 0, task["forward"]))
    lost = losses(name, answers(asked, names, place), wanted)
    why, shape = [*lost.values(), ("", "")][0]
    told = shape and _blamed(student_names(place, task, task["text"], text)[name], shape)
    return f"{why}\n\n{told}" if told else why


def _blamed(cls, shape):
    """Where `blame`, which needs forward, sees a mistake. It can't look under a debugger, say."""
    try:
        layer, inputs, options = instance(cls, shape, 0)
        report = blame(layer, *inputs, **options)
        return "" if report.right else str(report)
    except Exception as error:
        return f"blame can't look: {message(error)}"
