"""What a chapter's "What it does" has: a trained model's picture, a sum by hand, a question.

    ```{model} brackets       the caption; {f[0][1]} is computed from what was kept of the model
    ```{moving} gate          the caption of a picture with sliders (moving.py)
    ```{sum}                  TeX with numbers alone, then ---, then code that ends in holds(...)
    ```{ask}                  words; `> expression`, computed from what the models kept and from
                              npdl; `: words` with the {answer}
"""

import re
from dataclasses import dataclass, replace

import numpy as np

from docs.book import checks, moving, trained
from npdl.study.equations.holds import Equation, number_of


def caption(chapter, part):
    """Return the caption of a model's picture."""
    return _filled(chapter, part, " ".join(part.body.split()),
                   {"np": np} | _known(trained.record(part.given)))


def picture(chapter, part):
    """Return (SVG, caption) of a {model}."""
    if part.given not in trained.MODELS:
        chapter.fail(part.line, f"model {part.given!r}: there are: {', '.join(trained.MODELS)}")
    words = caption(chapter, part)
    return trained.drawn(part.given, words), words


def moved(chapter, part):
    """Return (name, caption) of a {moving}."""
    if part.given not in moving.MOVED:
        chapter.fail(part.line, f"moving {part.given!r}: there are: {', '.join(moving.MOVED)}")
    return part.given, " ".join(part.body.split())


@dataclass
class Sum:
    """Its TeX, line by line, and the code that has the layer's own numbers for it."""

    lines: list
    code: str


def summed(chapter, part):
    """Compute the Sum of a directive. Raises BookError if a number in it is wrong."""
    tex, line, code = part.body.partition("\n---\n")
    if not line or "holds(" not in code:
        chapter.fail(part.line, "a sum is TeX, a line ---, and code that calls holds(...)")
    space = checks.namespace(chapter.name)
    joined = r", \quad ".join(filter(None, map(str.strip, tex.split("\n"))))
    lines = part.line + tex.count("\n") + 2
    checks.check(chapter, replace(part, body=code, line=lines, given="of the sum"),
                 {"of the sum": joined}, space)
    if any(op == "~" and not number_of(right) for chain in Equation(joined).statements
           for op, _, right in chain):
        chapter.fail(part.line, "what stands after \\approx in a sum is a number")
    return Sum([row.strip() for row in tex.split("\n") if row.strip()], code)


def question(chapter, part):
    """Return (question, expression, answer in words) of an {ask}."""
    lines = part.body.split("\n")
    told = {sign: " ".join(line[1:].strip() for line in lines if line.startswith(sign))
            for sign in (">", ":")}
    words = " ".join(line for line in lines if not line.startswith((">", ":")))
    if not words.strip() or not all(told.values()):
        chapter.fail(part.line, "an {ask} has a question, > an expression, and : its answer")
    names = checks.namespace(chapter.name)
    for model in chapter.directives("model"):
        names |= _known(trained.record(model.given))
    try:
        names["answer"] = eval(told[">"], names)
    except Exception as error:
        chapter.fail(part.line, f"{told['>']}: {type(error).__name__}: {error}")
    words, answer = (_filled(chapter, part, text, names) for text in (words.strip(), told[":"]))
    return words, told[">"], answer


def _known(record):
    """Return the record of a model with its lists of numbers as arrays."""
    return {name: np.array(value) if isinstance(value, list) and value
            and not isinstance(value[0], str) and _even(value) else value
            for name, value in record.items()}


def _even(value):
    try:
        return np.array(value).dtype.kind in "if"
    except ValueError:
        return False


def _filled(chapter, part, words, names):
    """Replace each expression in {braces} by its value, formatted as in an f-string."""
    def computed(match):
        expression, _, form = match[1].partition("::")
        return format(eval(expression, dict(names)), form)
    try:
        return re.sub(r"\{([^{}]+)\}", computed, words)
    except Exception as error:
        chapter.fail(part.line, f"{type(error).__name__}: {error}")
