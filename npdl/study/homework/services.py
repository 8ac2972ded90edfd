"""The grader at Gradescope: the zip that it runs, and the results that it shows.

Gradescope unpacks the zip into /autograder/source, runs setup.sh once, runs run_autograder for each
submission in /autograder/submission, and reads /autograder/results/results.json
(gradescope-autograders.readthedocs.io/en/latest/specs).
"""

import inspect
import zipfile
from pathlib import Path

import npdl
from npdl.errors import InputError
from npdl.files import write_json
from npdl.study.homework.grading import summary
from npdl.study.homework.handout import RECORD, TEMPLATES

SCRIPTS = "setup.sh", "run_autograder"


def write_autograder(path, homework, exercises, seed, seconds):
    """Write Gradescope's zip: npdl, the record of a homework folder, and one seed for the class."""
    root = Path(npdl.__file__).parent
    files = {file.relative_to(root.parent).as_posix(): file.read_bytes()
             for file in root.rglob("*") if file.is_file() and file.suffix != ".pyc"}
    files |= {one.file: Path(inspect.getfile(one.cls)).read_bytes()
              for one in exercises.values() if one.is_own}
    files[f"homework/{RECORD}"] = Path(homework, RECORD).read_bytes()
    options = f"--seed={seed} --limit={seconds:g}"
    files |= {name: (TEMPLATES / name).read_text().replace("OPTIONS", options).encode()
              for name in SCRIPTS}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o755 if name in SCRIPTS else 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)


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
    lines = [f"{name}, most likely wrong: {grade.line}" for name, grade in grades.items()
             if grade.line]
    write_json(Path(path), {"tests": tests, "output": "\n".join(lines), "output_format": "text",
                            "stdout_visibility": "hidden"})
    return points
