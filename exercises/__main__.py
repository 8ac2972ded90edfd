"""python -m exercises: run every exercise and print the ledger of claims."""

if __name__ == "__main__":
    from npdl.script import begin

    begin()  # Ctrl-C is quiet from here on

import json
import os
import shutil
import sys
from pathlib import Path

from exercises import ledger
from npdl.errors import InputError, NpdlError
from npdl.script import INTERRUPTED, OneLineParser, open_streams, place
from npdl.training.files import is_file


def parse(argv):
    parser = OneLineParser(
        prog="python -m exercises",
        description="Answer the documents' questions by computing, and judge what they claim.",
    )
    parser.add_argument("--only", nargs="+", metavar="DOCUMENT", default=[],
                        help="only these documents, such as 000")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", type=place,
                        help="write the claims as JSON to FILE, or to standard output")
    parser.add_argument("--ledger", action="store_true", help="write exercises/LEDGER.md again")
    parser.add_argument("--figures", metavar="DIR", type=place,
                        help="draw the pictures into this folder")
    options = parser.parse_args(argv)
    if options.ledger and options.only:
        raise InputError("--ledger with --only: the ledger holds every document; leave out --only")
    return options


def run(options):
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


def main(argv=None):
    open_streams()
    try:
        run(parse(argv))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough: `python -m exercises | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return INTERRUPTED
    except (NpdlError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
