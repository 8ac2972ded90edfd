"""Evaluate the directives of a chapter's first sections: a picture, a sum by hand, a question.

    ```{picture} brackets     the caption; {f[0][1]} is computed from the trained model's record
    ```{sum}                  TeX with numbers only, then ---, then code that ends in holds(...)
    ```{ask}                  a question; `> expression`, evaluated with npdl and the records of
                              the chapter's models; `: text` with {answer}, the result
"""

import contextlib
import re
from dataclasses import replace

import numpy as np

from docs.book import checks, pictures, trained
from docs.book.equations.holds import Equation, find_number
from npdl.errors import InputError


def make_picture(part):
    """Return (SVG, caption) of a {picture}."""
    if part.given not in pictures.list_names():
        raise InputError(f"picture {part.given!r} is unknown; choose one of: "
                         f"{', '.join(pictures.list_names())}")
    words = _fill_in(" ".join(part.body.split()), {"np": np} | _read_record(part.given))
    return pictures.draw_picture(part.given, words), words


def check_sum(chapter, part):
    """Return the lines of TeX of a {sum}. Raises an error if one of its numbers is wrong."""
    rows = [row.strip() for row in part.body.split("\n") if row.strip()]
    joined = r", \quad ".join(rows)
    checks.run_check(chapter, replace(part, given="of the sum"), {"of the sum": joined},
                     checks.make_namespace(chapter.name))
    if any(one.operation == "~" and not find_number(one.parts[1])
           for chain in Equation(joined).statements for one in chain):
        raise InputError("in a sum, write a number after \\approx")
    return rows


def make_question(chapter, part):
    """Return (question, expression, answer as a sentence) of an {ask}."""
    lines = part.body.split("\n")
    words, expression, answer = (
        " ".join(line.lstrip(">: ") for line in lines if re.match("[>:]?", line)[0] == sign)
        for sign in ("", ">", ":"))
    if not words.strip() or not expression or not answer:
        raise InputError("an {ask} needs a question, a line > expression, and a line : answer")
    names = checks.make_namespace(chapter.name)
    for model in chapter.directives("picture"):
        names |= _read_record(model.given)
    names["answer"] = checks.evaluate(expression, names)
    words, answer = (_fill_in(text.strip(), names) for text in (words, answer))
    return words, expression, answer


def _read_record(name):
    """Return the record of a trained model with arrays for its lists, or {} for another name."""
    record = trained.read_record(name) if name in trained.MODELS else {}
    for key, value in record.items():
        with contextlib.suppress(ValueError):           # rows of several lengths stay a list
            if isinstance(value, list) and np.array(value).dtype.kind in "if":
                record[key] = np.array(value)
    return record


def _fill_in(words, names):
    """Replace each {expression} or {expression::format} in a text by its value."""
    def computed(match):
        expression, _, form = match[1].partition("::")
        return checks.evaluate(f"format({expression}, {form!r})", names)
    return re.sub(r"\{([^{}]+)\}", computed, words)
