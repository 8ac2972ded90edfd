"""python -m exercises: work one question out, or run them all and print the ledger of claims."""

if __name__ == "__main__":
    from npdl.console import begin

    begin()  # Ctrl-C is quiet from here on

import json
import shutil
import sys
from pathlib import Path

from exercises import ledger, questions
from exercises.framework import add_parts, failures, guarded, report
from npdl.console import OneLineParser, place
from npdl.errors import InputError
from npdl.files import is_file


def parse(argv):
    parser = OneLineParser(
        prog="python -m exercises",
        description="Answer the documents' questions by computing, and judge what they claim.",
    )
    parser.add_argument("question", nargs="*", metavar="QUESTION",
                        help="work out one question: its number, 000.2.4, or words of its title")
    parser.add_argument("--list", action="store_true", help="all questions, one line each")
    add_parts(parser)
    parser.add_argument("--only", nargs="+", metavar="DOCUMENT", default=[],
                        help="only these documents, such as 000")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", type=place,
                        help="write the claims as JSON to FILE, or to standard output")
    parser.add_argument("--ledger", action="store_true", help="write exercises/LEDGER.md again")
    options = parser.parse_args(argv)
    if options.ledger and options.only:
        raise InputError("--ledger with --only: the ledger holds every document; leave out --only")
    for part in ("solution", "claims"):
        if getattr(options, part) and not options.question:
            raise InputError(f"--{part} without a question: name one, such as 000.2.4; --list "
                             "shows all")
    for other in ("json", "ledger", "only"):
        if options.question and getattr(options, other):
            raise InputError(f"--{other} with a question: it is for all questions; leave out one")
    return options


def run(options):
    """Do what the options say; the exit status."""
    if options.list:
        rows = questions.listing(options.only)
        before = [None, *(number for number, *_ in rows)]
        ledger.write("-", "".join(f"{'' if number == last else number:<10} {title}\n"
                                  for last, (number, title, _) in zip(before, rows, strict=False)))
        return 0
    if options.json and not Path(options.json).absolute().parent.is_dir():
        raise InputError(f"--json {options.json}: its folder does not exist; make it first")
    if options.json not in (None, "-") and not is_file(options.json, or_nothing=True):
        raise InputError(f"--json {options.json}: is there and is not a file; give a file's path")
    if options.figures:
        try:
            Path(options.figures).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--figures {options.figures}: cannot be made ({error.strerror}); "
                             "choose another folder") from error
    if options.question:
        return report(questions.show(" ".join(options.question), options.solution, options.claims,
                                     options.figures))
    claims, drawn = ledger.gather(ledger.modules(options.only), options.figures, sys.stderr)
    if not claims:
        raise InputError(f"no exercises in {ledger.FOLDER.name}/: there is nothing to run")
    if options.json:
        text = json.dumps(ledger.as_data(claims), indent=1, ensure_ascii=False) + "\n"
        ledger.write(options.json, text)
    if options.ledger:
        ledger.write(ledger.LEDGER, ledger.as_markdown(claims))
    if options.json != "-":
        width = min(max(shutil.get_terminal_size((96, 24)).columns - 1, 60), 120)
        ledger.write("-", ledger.as_text(claims, width))
    for path in [*drawn, *([ledger.LEDGER.relative_to(ledger.FOLDER.parent)]
                           if options.ledger else [])]:
        print(f"wrote {path}", file=sys.stderr)
    return report(failures([], claims))


def main(argv=None):
    return guarded(lambda: run(parse(argv)))


if __name__ == "__main__":
    sys.exit(main())
