"""What a chapter shows before it derives: a picture, a sum by hand, a question.

    ```{picture} brackets     the caption; {f[0][1]} is computed from what was kept of a model
    ```{sum}                  TeX with numbers alone, then ---, then code that ends in holds(...)
    ```{ask}                  words; `> expression`, computed from what the models kept and from
                              npdl; `: words` with the {answer}
"""

import contextlib
import re
from dataclasses import replace

import numpy as np

from docs.book import checks, pictures, trained
from docs.book.equations.holds import Equation, number_of
from npdl.errors import InputError


def picture(part):
    """Return (SVG, caption) of a {picture}."""
    if part.given not in pictures.names_of_all():
        raise InputError(f"picture {part.given!r}: there are: "
                         f"{', '.join(pictures.names_of_all())}")
    words = _filled(" ".join(part.body.split()), {"np": np} | _kept(part.given))
    return pictures.drawn(part.given, words), words


def summed(chapter, part):
    """Return the lines of TeX of a {sum}. Raises an error if a number in it is wrong."""
    rows = [row.strip() for row in part.body.split("\n") if row.strip()]
    joined = r", \quad ".join(rows)
    checks.check(chapter, replace(part, given="of the sum"), {"of the sum": joined},
                 checks.namespace(chapter.name))
    if any(one.operation == "~" and not number_of(one.parts[1])
           for chain in Equation(joined).statements for one in chain):
        raise InputError("what stands after \\approx in a sum is a number")
    return rows


def question(chapter, part):
    """Return (question, expression, answer in words) of an {ask}."""
    lines = part.body.split("\n")
    words, expression, answer = (
        " ".join(line.lstrip(">: ") for line in lines if re.match("[>:]?", line)[0] == sign)
        for sign in ("", ">", ":"))
    if not words.strip() or not expression or not answer:
        raise InputError("an {ask} has a question, > an expression, and : its answer")
    names = checks.namespace(chapter.name)
    for model in chapter.directives("picture"):
        names |= _kept(model.given)
    names["answer"] = checks.value(expression, names)
    words, answer = (_filled(text.strip(), names) for text in (words, answer))
    return words, expression, answer


def _kept(name):
    """Return the record of a trained model, {} without one; its lists of numbers are arrays."""
    found = trained.record(name) if name in trained.MODELS else {}
    for key, value in found.items():
        with contextlib.suppress(ValueError):           # rows of several lengths stay a list
            if isinstance(value, list) and np.array(value).dtype.kind in "if":
                found[key] = np.array(value)
    return found


def _filled(words, names):
    """Replace each {expression} or {expression::format} by its value."""
    def computed(match):
        expression, _, form = match[1].partition("::")
        return checks.value(f"format({expression}, {form!r})", names)
    return re.sub(r"\{([^{}]+)\}", computed, words)
