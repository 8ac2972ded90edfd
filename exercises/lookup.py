"""Find questions by their numbers or by words of a title, and show what belongs to them."""

import re

from exercises import asked as asked_for
from exercises import ledger
from exercises.framework import (
    claims_of,
    draw,
    failures,
    modules,
    name_of,
    present,
    solutions_of,
)
from npdl.errors import InputError

SHOWN = 8                                   # questions named in an error line
NUMBER = r"\d{3}(\.\w+)*\.?"
FIRST = ("d002.gradients_through_time",)    # of the exercises of one question, where to begin


def listing(only=()):
    """(number, title, module) of every question, in the order of the documents."""
    found = [(f"{name_of(module)[1:4]}.{number}", title, module)
             for module in modules(only) for number, title in module.TITLES.items()]
    return sorted(found, key=lambda row: (ledger.natural(row[0]), name_of(row[2]) not in FIRST))


def pieces(number):
    """ "2.4a" -> ["2", "4", "a"]."""
    return re.findall(r"\d+|[a-z]+", number.lower())


def within(number, wanted):
    """Whether `number` is the question `wanted`, or a part of it: 2.4a of 2.4."""
    return pieces(number)[:len(pieces(wanted))] == pieces(wanted)


def find(text):
    """The rows of listing() that are meant by a number ("000.2.4") or by words of one title.

    A number that has no row of its own means its parts, else the closest question that it is a
    part of. Raises InputError where there is none, or where words fit several questions.
    """
    rows = listing()
    if re.fullmatch(NUMBER, text):
        above = [row for row in rows if within(text, row[0])]
        closest = max((len(pieces(row[0])) for row in above), default=0)
        found = ([row for row in rows if within(row[0], text)]
                 or [row for row in above if len(pieces(row[0])) == closest])
        if not found:
            raise InputError(f"question {text!r} is not there; --list shows all questions")
        return found
    found = [row for row in rows if all(word in row[1].lower() for word in text.lower().split())]
    if not found:
        raise InputError(f"no question has a number or a title like {text!r}; --list shows all")
    if len(found) > 1:
        names = ", ".join(number for number, *_ in found[:SHOWN])
        hidden = len(found) - SHOWN
        more = f" and {hidden} more" if hidden > 0 else ""
        raise InputError(f"{text!r} fits {len(found)} questions: {names}{more}; give a number, or "
                         "more words")
    return found


def chosen(texts):
    """{exercise: the numbers in it} of what was asked: numbers, or the words of one title."""
    numbers = [text for text in texts if re.fullmatch(NUMBER, text)]
    words = " ".join(text for text in texts if text not in numbers)
    found = {}
    for text in [*numbers, *[words] * bool(words)]:
        for number, _, module in find(text):
            own = found.setdefault(module, [])
            own += [n for n in [number.split(".", 1)[1]] if n not in own]
    return found


def belongs(number, wanted):
    """Whether a claim goes with one of the wanted questions: it is of a part, or of the whole."""
    return bool(number) and any(within(number, want) or within(want, number) for want in wanted)


def show(asked, solution=False, claims=False, figures=None):
    """Print what `chosen` found, solutions or claims alone if so wished; our failures' lines."""
    failed = []
    for place, (module, numbers) in enumerate(asked.items()):
        if place:
            print("\n")
        solved = [] if claims else solutions_of(module)
        judged = [] if solution else claims_of(module)
        if set(numbers) != set(module.TITLES):
            solved = [s for s in solved if s.number in numbers]
            judged = [c for c in judged if belongs(c.number, numbers)]
        drawn = draw(module, figures)
        present(module.QUESTION, judged, drawn, solved, module.TITLES,
                getattr(module, "GROUND", ""))
        for number in numbers * (not claims):
            for line in asked_for.lines(f"{name_of(module)[1:4]}.{number}"):
                print(line)
        if not claims and hasattr(module, "answered_in"):
            print("\n" + "\n".join(f"{number} is answered in {module.answered_in(number)}"
                                   for number in numbers))
        failed += failures(solved, judged)
    return failed
