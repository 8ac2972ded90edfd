"""What every exercise shares: the claim, its verdict, how a script prints and runs.

A script begins with these two lines, so that it runs by its path as well as by its name:

    import sys
    from pathlib import Path
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

It defines QUESTION (the question in our words), claims() and, where there is something to see,
figures(folder); it ends with

    if __name__ == "__main__":
        sys.exit(run_script(globals()))
"""

import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from npdl.errors import InputError
from npdl.script import INTERRUPTED, OneLineParser, open_streams, place

VERDICTS = ("confirmed", "wrong", "under-specified", "convention", "no answer given", "essay")


@dataclass(frozen=True)
class Claim:
    """One checkable statement of a document, and what computing says about it."""

    document: str  # "000"
    question: str  # "Q3", as the document numbers it
    part: str  # "b"
    claim: str  # restated in our own words, one line
    documents_answer: str
    computed: str  # ours, with numbers
    verdict: str  # one of VERDICTS
    evidence: str  # one line: an error, a count, a counter-example

    def __post_init__(self):
        for field in fields(self):
            text = getattr(self, field.name)
            if not isinstance(text, str):
                raise InputError(
                    f"Claim.{field.name} is {type(text).__name__}: it must be a string"
                )
            if "\n" in text:
                raise InputError(f"Claim.{field.name} has a line break: it must be one line")
            if not text.strip() and field.name != "part":
                raise InputError(f"Claim.{field.name} is empty: say what it is")
        if self.verdict not in VERDICTS:
            raise InputError(f"verdict {self.verdict!r}: it must be one of {', '.join(VERDICTS)}")


def judge(holds: bool, if_true: str = "confirmed", if_false: str = "wrong") -> str:
    """The verdict that a computed comparison gives."""
    return if_true if holds else if_false


def present(question: str, claims: list[Claim], figures=()) -> None:
    """Print what a script shows: the question, then each claim with our answer and the proof."""
    print(paragraph(question))
    for claim in claims:
        print()
        print(paragraph(f"{claim.question}{claim.part and ' ' + claim.part}: {claim.claim}"))
        for name, text in (
            ("document", claim.documents_answer),
            ("computed", claim.computed),
            ("evidence", claim.evidence),
            ("verdict", claim.verdict.upper()),
        ):
            print(paragraph(f"{name:<9} {text}", indent=2, hang=10))
    for path in figures:
        print(f"\nwrote {path}")


def paragraph(text: str, indent: int = 0, hang: int = 0, width: int = 100) -> str:
    """text wrapped for a terminal; the lines after the first are `hang` columns further in."""
    if "\n" in text.strip():
        return "\n".join(paragraph(line, indent, hang, width) for line in text.strip().split("\n"))
    first, later = " " * indent, " " * (indent + hang)
    return textwrap.fill(text, width, initial_indent=first, subsequent_indent=later)


def run_script(module: dict, figures: Callable | None = None, argv=None) -> int:
    """Run one exercise from its globals(): print it, draw with --figures; 2 on bad input.

    `module` may also be the function claims itself, with `figures` beside it.
    """
    open_streams()
    if callable(module):
        module = {"claims": module, "figures": figures, "__doc__": module.__doc__}
    parser = OneLineParser(description=(module.get("__doc__") or "").split("\n")[0])
    parser.add_argument("--figures", metavar="DIR", type=place,
                        help="draw the pictures into this folder")
    options = parser.parse_args(argv)
    try:
        claims = module["claims"]()
        drawn = draw(module.get("figures"), options.figures)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (InputError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    present(module.get("QUESTION") or module.get("__doc__") or "", claims, drawn)
    return 0


def draw(figures: Callable | None, folder: str | None) -> list[Path]:
    """Call figures(folder), making the folder; [] when there is nothing to draw or nowhere."""
    if figures is None or folder is None:
        return []
    Path(folder).mkdir(parents=True, exist_ok=True)
    return list(figures(Path(folder)))
