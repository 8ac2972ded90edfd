"""Work out the questions of five documents from university courses, and judge their claims.

  python -m exercises --list            list the questions
  python -m exercises 000.2.4a          work one out: its solution, and verdicts on the claims
  python -m exercises                   print the verdicts on all claims
"""

if __name__ == "__main__":
    from npdl.cli.console import prepare_script

    prepare_script()                      # Ctrl-C ends the program without a traceback

import os
import sys

from exercises import course
from npdl.cli.console import (
    Help,
    OneLineParser,
    checked_path_text,
    run_guarded,
    run_until_output_closes,
)
from npdl.errors import InputError


def print_selected(options):
    """Print what the options select; return the exit status, 1 if our computation failed."""
    if options.list:
        print("\n".join(f"{asked.number:<10} {asked.title}" for asked in course.find_questions()))
        return 0
    if unknown := [text for text in options.question if not course.find_questions(text)]:
        raise InputError(f"no question has the number {unknown[0]!r}; --list shows all numbers")
    questions = [asked.run() for text in options.question or [""]
                 for asked in course.find_questions(text)]
    texts = [text for asked in questions for text in (
        asked.format_solution(), asked.format_verdicts("## What the document says"))]
    print(*filter(None, texts if options.question else course.format_all_claims(questions)),
          sep="\n\n", end="\n\n")
    for asked in questions:
        if options.figures and asked.picture:
            print(f"wrote {asked.save_picture(options.figures)}")
        for what in asked.failed:
            print(f"{course.FAILED}: {asked.number}: {what}", file=sys.stderr)
    return int(any(asked.failed for asked in questions))


def main(argv=None):
    """Run the command and return the exit status, 2 for bad input."""
    parser = OneLineParser(prog="python -m exercises", description=__doc__, formatter_class=Help)
    parser.add_argument("question", nargs="*", metavar="QUESTION",
                        help="a question's number, such as 000.2.4; 000 is the document. The parts "
                             "of the question, such as 000.2.4a, are included")
    parser.add_argument("--list", action="store_true", help="list all questions")
    parser.add_argument("--figures", metavar="DIR", type=checked_path_text,
                        help="draw the pictures of the questions into this folder")
    options = parser.parse_args(argv)
    if options.figures and os.path.isfile(options.figures):
        parser.error(f"--figures {options.figures} exists and is not a folder; give another name")
    return run_guarded("python -m exercises", lambda: run_until_output_closes(
        print_selected, options))


if __name__ == "__main__":
    sys.exit(main())
