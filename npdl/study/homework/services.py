"""The grader at Gradescope: the zip that it runs, and the results that it shows.

Gradescope unpacks the zip into /autograder/source, runs setup.sh once, runs run_autograder for each
submission in /autograder/submission, and reads /autograder/results/results.json
(gradescope-autograders.readthedocs.io/en/latest/specs).
"""

import shutil
import tempfile
from pathlib import Path

import npdl
from npdl.errors import InputError
from npdl.files import write_json
from npdl.study.homework.grading import feedback, summary
from npdl.study.homework.handout import TEMPLATES


def write_autograder(path, homework, seed, seconds):
    """Write Gradescope's zip: npdl, a homework folder, and one seed for the class."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(Path(npdl.__file__).parent, Path(folder, "npdl"),
                        ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copytree(homework, Path(folder, "homework"))
        for name in ("setup.sh", "run_autograder"):
            text = (TEMPLATES / name).read_text()
            Path(folder, name).write_text(text.replace("SEED", f"{seed}").replace(
                "SECONDS", f"{seconds:g}"))
            Path(folder, name).chmod(0o755)
        shutil.make_archive(path.removesuffix(".zip"), "zip", folder)


def write_results(path, place, grader):
    """Grade one submission, write the results as Gradescope reads them, and return the points.

    Raises InputError if it can't be graded. Then there are no results, and Gradescope says that
    the autograder failed.
    """
    grades = grader.grade({Path(place).name: Path(place)})
    if (points := summary(grades)).startswith("not graded"):
        raise InputError(f"{place}: {points}")
    tests = [{"name": f"{name}: {point}", "score": int(not reason), "max_score": 1,
              "output": reason} for name, grade in grades.items()
             for point, reason in grade.points.items()]
    write_json(Path(path), {"tests": tests, "output": feedback(Path(place).name, grades),
                            "output_format": "text", "stdout_visibility": "hidden"})
    return points
