"""Define the commands `python -m npdl homework` and `python -m npdl homework grade`."""

from pathlib import Path

from npdl.cli.console import checked_path_text, set_description
from npdl.errors import InputError
from npdl.study.homework.grading import Grader, grade_submissions, write_gradescope_results
from npdl.study.homework.handout import LAYERS, read_homework, write_autograder, write_homework
from npdl.study.homework.sandbox import can_restrict_system_calls

HAND_OUT = """Write layers whose backward is blank, with tests and a README for students.

  python -m npdl homework --out homework
  python -m npdl homework --out homework --layers LayerNorm LSTMCell
  cd homework && python -m pytest -q                    the tests
  python -m npdl homework grade FOLDER --homework homework --out grades"""
GRADE = """Grade a folder of submissions: write grades.csv and a feedback page for each student.

  python -m npdl homework grade FOLDER --homework homework --out grades
  python -m npdl homework grade --homework homework --gradescope autograder.zip"""
NO_SANDBOX = ("note: submissions run without a sandbox, because this system has no seccomp filter. "
              "A submission can do anything that your account can do; grade in a container")


def add_arguments(parser):
    """Add the options of `python -m npdl homework` to an argparse parser."""
    set_description(parser, HAND_OUT)
    actions = parser.add_subparsers(dest="action", metavar="grade")
    parser.add_argument("--out", metavar="DIR", type=checked_path_text,
                        help="a new or empty folder")
    parser.add_argument("--layers", nargs="+", metavar="LAYER",
                        help=f"names of layers of npdl (default: {' '.join(LAYERS)})")
    parser.add_argument("--exam", action="store_true",
                        help="leave fixes and npdl's solution out of the README and the tests")
    grade = actions.add_parser("grade", help="grade submissions; see homework grade --help")
    set_description(grade, GRADE)
    grade.add_argument("folder", metavar="FOLDER", nargs="?",
                       help="a folder with a folder or a zip for each student, or with the files "
                       "of a Canvas download")
    grade.add_argument("--homework", required=True, metavar="DIR",
                       help="the homework folder that you gave to the students")
    grade.add_argument("--out", metavar="DIR", dest="grades",
                       help="a new or empty folder for grades.csv and feedback")
    service = grade.add_mutually_exclusive_group()
    service.add_argument("--gradescope", metavar="FILE.zip", type=checked_path_text,
                         help="write an autograder for Gradescope instead of grading")
    service.add_argument("--results", metavar="FILE.json", type=checked_path_text,
                         help="grade FOLDER as one submission, and write results for Gradescope")


def run(options):
    """Write a homework folder, or grade submissions."""
    if options.action == "grade":
        _run_grade_command(options)
        return
    if options.out is None:
        raise InputError("--out is missing; give a new or empty folder")
    exercises = write_homework(options.out, options.layers, options.exam)
    print(f"{options.out} has these exercises:")
    for exercise in exercises.values():
        blanks = ", ".join(f"{exercise.name}.{blank}" for blank in exercise.methods)
        print(f"  {exercise.file:<24} {blanks}")
    print(f"read {Path(options.out) / 'README.md'}; in that folder run: python -m pytest -q")


def _run_grade_command(options):
    exercises, _ = read_homework(options.homework)
    if options.gradescope:
        if options.folder or options.grades:
            raise InputError("--gradescope writes an autograder and grades nothing; leave out "
                             "FOLDER and --out")
        write_autograder(options.gradescope, options.homework)
        print(f"{options.gradescope.removesuffix('.zip')}.zip is written; choose the base image "
              "Ubuntu 24.04 at Gradescope")
        return
    if options.folder is None or not (options.results or options.grades):
        raise InputError("give FOLDER, which has the submissions, and --out, a folder for grades")
    if not (is_sealed := can_restrict_system_calls()):
        print(NO_SANDBOX, flush=True)
    grader = Grader(exercises, is_sealed)
    if options.results:
        points = write_gradescope_results(options.results, options.folder, grader)
        print(f"{options.results}: {points}")
        return
    graded = grade_submissions(options.folder, grader, options.grades)
    if missing := [name for name, grades in graded.items()
                   if any(grade.not_graded for grade in grades.values())]:
        more = f" and {len(missing) - 9} more" * (len(missing) > 9)
        raise InputError(f"{', '.join(missing[:9])}{more} can't be graded; {options.grades}/"
                         "grades.csv says why; remove the cause, and grade into a new folder")
    print(f"{options.grades}/grades.csv has a row for each submission, and {options.grades}/"
          "feedback has a page for each")
