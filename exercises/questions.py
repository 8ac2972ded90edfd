"""Find a question by its number or by words of its title, and show what belongs to it."""

import importlib
import re
from types import ModuleType, SimpleNamespace

from exercises import ledger
from exercises.framework import answers, draw, failures, present
from npdl.errors import InputError

SHOWN = 8                                   # questions named in an error line
FIRST = ("d002_gradients_through_time",)    # of the scripts of one question, where to begin


def listing(only=()) -> list[tuple[str, str, ModuleType]]:
    """(number, title, module) of every question, in the order of the documents."""
    found = []
    for name in ledger.modules(only):
        module = importlib.import_module(f"exercises.{name}")
        found += [(f"{name[1:4]}.{number}", title, module)
                  for number, title in getattr(module, "TITLES", {}).items()]
    return sorted(found, key=lambda row: (
        ledger.natural(row[0]), row[2].__name__.removeprefix("exercises.") not in FIRST))


def pieces(number: str) -> list[str]:
    """ "2.4a" -> ["2", "4", "a"]."""
    return re.findall(r"\d+|[a-z]+", number.lower())


def within(number: str, wanted: str) -> bool:
    """Whether `number` is the question `wanted`, or a part of it: 2.4a of 2.4."""
    return pieces(number)[:len(pieces(wanted))] == pieces(wanted)


def find(text: str) -> list[tuple[str, str, ModuleType]]:
    """The rows of listing() that are meant by a number ("000.2.4") or by words of one title.

    Raises InputError where there is none, or where words fit several questions.
    """
    rows = listing()
    if re.fullmatch(r"\d{3}(\.\w+)*\.?", text):
        found = ([row for row in rows if within(row[0], text)]
                 or [row for row in rows if within(text, row[0])])
        if not found:
            raise InputError(f"question {text!r} is not there; --list shows all questions")
        return found
    found = [row for row in rows if all(word in row[1].lower() for word in text.lower().split())]
    if not found:
        raise InputError(f"no question has a number or a title like {text!r}; --list shows all")
    if len(found) > 1:
        names = ", ".join(number for number, *_ in found[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        raise InputError(f"{text!r} fits {len(found)} questions: {names}{more}; give a number, or "
                         "more words")
    return found


def belongs(number: str, wanted: list[str]) -> bool:
    """Whether a claim goes with one of the wanted questions: it is of a part, or of the whole."""
    return bool(number) and any(within(number, want) or within(want, number) for want in wanted)


def show(text: str, solution=False, claims=False, figures=None) -> list[str]:
    """Print the question that `text` means; the lines of framework.failures."""
    failed, chosen = [], {}
    for number, _, module in find(text):
        chosen.setdefault(module, []).append(number.split(".", 1)[1])
    options = SimpleNamespace(solution=solution, claims=claims)
    for place, (module, numbers) in enumerate(chosen.items()):
        if place:
            print("\n")
        solved, judged = answers(vars(module), options)
        if set(numbers) != set(module.TITLES):
            solved = [s for s in solved if s.number in numbers]
            judged = [c for c in judged if belongs(c.number, numbers)]
        drawn = draw(getattr(module, "figures", None), figures)
        present(module.QUESTION, judged, drawn, solved, module.TITLES,
                getattr(module, "GROUND", ""))
        if not claims and hasattr(module, "answered_in"):
            print("\n" + "\n".join(f"{number} is answered in {module.answered_in(number)}"
                                   for number in numbers))
        failed += failures(solved, judged)
    return failed
