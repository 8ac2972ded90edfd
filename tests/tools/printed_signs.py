"""One sign changed in a printed equation: does the check of its chapter fail?

    python -m tests.tools.printed_signs             # every sign of every equation
    python -m tests.tools.printed_signs --only 6 --first

A sign is a + or a - of an equation, or one put before what stands right of an =. Each is changed in
a copy of the chapter, whose checks are then run as the build runs them. What survives is listed.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

from docs.book import chapter, checks

# Signs that may be changed: what is printed then is true as well, or bounds as well.
TRUE = {
    "softmax-2": "c may be any number",
    "heads-11": "both gradients are zero",
    "grokking-15": "theta and g_perp are orthogonal: their sum is as long as their difference",
}


def changes(tex):
    """[(what was changed, the TeX with it)] of each sign of an equation."""
    found, depth = [], 0
    for i, letter in enumerate(tex):
        depth += (letter in "{([") - (letter in "})]")
        if letter in "+-":
            found.append((i, tex[:i] + "+-"[letter == "+"] + tex[i + 1:]))
        if letter == "=" and depth == 0 and not re.match(r"\s*(0\b|\\\w+e\b)", tex[i + 1:]):
            found.append((i, f"{tex[:i + 1]} -{tex[i + 1:]}"))
    return [(f"{tex[:i].count(chr(10)) + 1}:{i} {tex[max(0, i - 12): i + 12]!r}", made)
            for i, made in found]


def refused(path, label, tex, made, folder):
    """Whether the chapter with the changed equation fails at that equation's check."""
    text = path.read_text(encoding="utf-8")
    old, new = (f"```{{equation}} {label}\n{body}\n```" for body in (tex, made))
    assert text.count(old) == 1
    copy = Path(folder, path.name)
    copy.write_text(text.replace(old, new), encoding="utf-8")
    chapter.read.cache_clear()
    try:
        checks.run(chapter.read(copy))
    except chapter.BookError as error:
        return f" {label} " in str(error) or f" {label}:" in str(error)
    return False


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="only these chapters")
    parser.add_argument("--first", action="store_true", help="one sign of each equation")
    options = parser.parse_args(argv)
    equations = tried = 0
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        for path in chapter.paths():
            if options.only and int(path.name[:2]) not in options.only:
                continue
            for label, part in chapter.read(path).equations.items():
                signs = changes(part.body)[: 1 if options.first else None]
                equations, tried = equations + bool(signs), tried + len(signs)
                lost = [what for what, made in signs
                        if not refused(path, label, part.body, made, folder)]
                survived += [(label, what) for what in lost if label not in TRUE]
    for label, what in survived:
        print(f"{label}: {what} changed, and the check passes")
    print(f"{tried} signs of {equations} equations changed, {tried - len(survived)} noticed")
    return bool(survived)


if __name__ == "__main__":
    sys.exit(main())
