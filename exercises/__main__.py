"""python -m exercises: work one question out, or run them all and print the ledger of claims."""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()  # Ctrl-C is quiet from here on

import argparse
import os
import shutil
import sys
from pathlib import Path

from exercises import ledger, lookup
from exercises.framework import failures, report
from npdl.errors import InputError, NpdlError
from npdl.files import write_atomically
from npdl_train.console import INTERRUPTED, OneLineParser, file_or_folder, open_streams

DESCRIPTION = """\
The questions of five course documents, 000 to 004, worked out by computing; and each claim that
their solutions make, judged by the same numbers.

  python -m exercises --list            the questions
  python -m exercises 000.2.4a          one: its worked solution, and the verdicts on its claims
  python -m exercises                   the verdicts on all claims (minutes)"""
HEADER = """\
number     question (document 000, question 2.4a is worked out by python -m exercises 000.2.4a)
"""


def parse(argv):
    parser = OneLineParser(
        prog="python -m exercises",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=DESCRIPTION,
    )
    parser.add_argument("question", nargs="*", metavar="QUESTION",
                        help="work out questions: numbers, 000.2.4 002.3, or words of one title")
    parser.add_argument("--list", action="store_true", help="all questions, one line each")
    parser.add_argument("--figures", metavar="DIR", type=file_or_folder,
                        help="draw the pictures into this folder")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--solution", action="store_true", help="the worked solution alone")
    parts.add_argument("--claims", action="store_true", help="the document's claims alone")
    parser.add_argument("--only", nargs="+", metavar="DOCUMENT", default=[],
                        help="only these documents, such as 000")
    parser.add_argument("--ledger", action="store_true",
                        help="write docs/generated/ledger.md again")
    options = parser.parse_args(argv)
    if options.ledger and options.only:
        raise InputError("--ledger with --only: the ledger holds every document; leave out --only")
    for part in ("solution", "claims"):
        if getattr(options, part) and not options.question:
            raise InputError(f"--{part} without a question: name one, such as 000.2.4; --list "
                             "shows all")
    for other in ("ledger", "only"):
        if options.question and getattr(options, other):
            raise InputError(f"--{other} with a question: it is for all questions; leave out one")
    return options


def run(options):
    """Do what the options say; the exit status."""
    if options.list:
        rows = lookup.listing(options.only)
        before = [None, *(number for number, *_ in rows)]
        print(HEADER, end="")
        for last, (number, title, _) in zip(before, rows, strict=False):
            print(f"{'' if number == last else number:<10} {title}")
        return 0
    asked = lookup.chosen(options.question)
    exercises = lookup.modules(options.only)
    if options.figures:
        try:
            Path(options.figures).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--figures {options.figures}: cannot be made ({error.strerror}); "
                             "choose another folder") from error
    if asked:
        return report(lookup.show(asked, options.solution, options.claims, options.figures))
    claims, solutions, drawn = ledger.gather(exercises, options.figures, sys.stderr)
    if options.ledger:
        page = ledger.as_markdown(claims).encode()
        write_atomically(ledger.LEDGER, lambda file: file.write(page))
    width = min(max(shutil.get_terminal_size((96, 24)).columns - 1, 60), 120)
    print(ledger.as_text(claims, width), end="")
    for path in [*drawn, *[ledger.LEDGER.relative_to(ledger.ROOT)] * options.ledger]:
        print(f"wrote {path}", file=sys.stderr)
    return report(failures(solutions, claims))


def main(argv=None):
    """The exit status: 2 on bad input, 1 where a check of our own fails, else 0."""
    open_streams()
    try:
        status = run(parse(argv))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader has seen enough: `python -m exercises | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except (NpdlError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
