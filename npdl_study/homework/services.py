"""The grader where courses hand in: an autograder's zip for Gradescope, a workflow for GitHub
Classroom, and the results that these read. Inside is the judge of the class, with one seed.

Gradescope unpacks the zip into /autograder/source, runs setup.sh once and run_autograder for each
submission in /autograder/submission, and reads /autograder/results/results.json
(gradescope-autograders.readthedocs.io/en/latest/specs). GitHub Classroom's reporter sums the scores
of a step's output (classroom-resources/autograding-grading-reporter).
"""

import base64
import hashlib
import json
import os
import shlex
import sys
import zipfile
from pathlib import Path

import numpy as np

import npdl
from npdl.errors import InputError
from npdl.files import read_json, write_atomically, write_json
from npdl_study.check.target import find_class
from npdl_study.homework.handout import HANDED_OUT
from npdl_study.homework.judging import POINTS

PACKAGES, SCRIPTS = ("npdl", "npdl_train", "npdl_study"), ("setup.sh", "run_autograder")
SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, when it makes the image: a Python with the NumPy of this homework.
set -e
cd "$(dirname "${{BASH_SOURCE[0]}}")"
fits='import sys, numpy; assert sys.version_info >= (3, 11) and numpy.__version__ == "{numpy}"'
python=python3
if ! "$python" -c "$fits" 2>/dev/null; then
    apt-get update
    new=python3.12
    apt-get install -y $new-venv || {{ new=python3.11; apt-get install -y $new-venv; }}
    $new -m venv venv
    venv/bin/pip install numpy=={numpy}
    python=$PWD/venv/bin/python
fi
printf '#!/bin/sh\\nexec "%s" "$@"\\n' "$python" > python
chmod +x python
"""
RUN = """\
#!/usr/bin/env bash
# Gradescope runs this for each submission.
here=$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)
cd "$here/source"
exec ./python -m npdl homework grade "$here/submission" --homework homework {options} \\
    --results "$here/results/results.json"
"""
WORKFLOW = """\
# .github/workflows/classroom.yml of the repository that students begin from; npdl's wheel lies
# beside the homework there. Protect both, and this file, in the assignment's settings.
name: Autograding Tests
on: [push, workflow_dispatch]
permissions:
  checks: write
  actions: read
  contents: read
jobs:
  run-autograding-tests:
    runs-on: ubuntu-latest
    if: github.actor != 'github-classroom[bot]'
    steps:
      - uses: actions/checkout@v4
        with:
          path: submission
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: |
          python -m pip install numpy=={numpy} \\
            submission/npdl_textbook-{version}-py3-none-any.whl
      - id: npdl
        run: |
          echo "{digest}  submission/{handed_out}" | sha256sum --check
          python -P -m npdl homework grade submission --homework submission {options} \\
            --results results.json
      - uses: classroom-resources/autograding-grading-reporter@v1
        env:
          NPDL_RESULTS: "${{{{ steps.npdl.outputs.result }}}}"
        with:
          runners: npdl
"""


def options_of(settings):
    """The settings of a class as options of the command."""
    return shlex.join([f"--seed={settings.seed}", f"--limit={settings.limit:g}",
                       f"--visibility={settings.visibility}", *["--alike"] * settings.alike])


def write_autograder(path, homework, settings):
    """Write Gradescope's zip for a homework folder: the same bytes for the same."""
    homework, files = Path(homework), {}
    tasks = read_json(homework / HANDED_OUT)
    for task in tasks:
        if "layer" in task:         # a teacher's file comes along, beside npdl
            own = Path(sys.modules[find_class(task["layer"]).__module__].__file__)
            files[own.name], task["layer"] = own.read_bytes(), f"{own.name}:{task['name']}"
    for package in PACKAGES:
        root = Path(sys.modules[package].__file__).parent
        files |= {f"{package}/{file.relative_to(root).as_posix()}": file.read_bytes()
                  for file in root.rglob("*.py")}
    files |= {f"homework/{HANDED_OUT}": json.dumps(tasks).encode(),
              "setup.sh": SETUP.format(numpy=np.__version__).encode(),
              "run_autograder": RUN.format(options=options_of(settings)).encode()}

    def write(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(files.items()):
                entry = zipfile.ZipInfo(name)           # of a fixed date
                entry.external_attr = (0o755 if name in SCRIPTS else 0o644) << 16
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED)

    write_atomically(Path(path), write)


def write_workflow(path, homework, settings):
    """Write GitHub Classroom's workflow for a homework folder."""
    content = (Path(homework) / HANDED_OUT).read_bytes()
    if any("layer" in task for task in json.loads(content)):
        raise InputError("--classroom: the solution of a layer of yours would lie in each "
                         "student's repository; use --gradescope, or grade the class yourself")
    text = WORKFLOW.format(numpy=np.__version__, version=npdl.__version__, handed_out=HANDED_OUT,
                           digest=hashlib.sha256(content).hexdigest(),
                           options=options_of(settings))
    write_atomically(Path(path), lambda file: file.write(text.encode()))


def write_results(path, found, settings):
    """Write what Gradescope shows of {task: what it got}: a test for each point, with the reason
    why it is lost; and in a step of GitHub's, the same as its output `result`."""
    tests = []
    for task, told in found.items():
        lost = told["lost"] or dict.fromkeys(POINTS, told["reason"]) if told["reason"] else {}
        tests += [{"name": f"{task}: {point}", "score": int(point not in lost), "max_score": 1,
                   "status": "failed" if point in lost else "passed",
                   "output": lost.get(point, ""), "visibility": settings.visibility}
                  for point in POINTS]
    others = [f"Graded is {told['file']}, not {', '.join(told['others'])}."
              for told in found.values() if told["others"]]
    write_json(Path(path), {"tests": tests, "output": "\n".join(others), "output_format": "text",
                            "stdout_visibility": "hidden",
                            "extra_data": {"seed": settings.seed, "npdl": npdl.__version__}})
    if step := os.environ.get("GITHUB_OUTPUT"):
        passed = all(test["score"] for test in tests)
        result = {"version": 1, "status": "pass" if passed else "fail", "max_score": len(tests),
                  "tests": [{"name": test["name"], "score": test["score"],
                             "status": "pass" if test["score"] else "fail",
                             "message": test["output"]} for test in tests]}
        with open(step, "a", encoding="utf-8") as file:
            file.write(f"result={base64.b64encode(json.dumps(result).encode()).decode()}\n")
