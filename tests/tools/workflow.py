"""Print the commands of a workflow in .github/workflows:  python -m tests.tools.workflow site

To print only some steps, add their names. `.ci/run` runs the commands.
"""

import re
import sys
import textwrap
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / ".github" / "workflows"
STEP = re.compile(r"^( *)- name: (.*)\n +run: (?:([^|\n].*)|\|\n((?:\1    .*\n|\n)+))", re.M)


def read_steps(workflow):
    """Return {name of a step: its commands} of the steps that run commands, in order."""
    text = (FOLDER / f"{workflow}.yml").read_text(encoding="utf-8")
    return {name: line or textwrap.dedent(block) for _, name, line, block in STEP.findall(text)}


if __name__ == "__main__":
    workflow, *names = sys.argv[1:]
    found = read_steps(workflow)
    print("\n".join(found[name].rstrip("\n") for name in names or found))
