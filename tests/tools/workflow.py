"""What a workflow of .github/workflows runs, as a script:  python -m tests.tools.workflow site

With names of steps behind it, these alone. So CI runs the very lines that run there.
"""

import re
import sys
import textwrap
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / ".github" / "workflows"
STEP = re.compile(r"^( *)- name: (.*)\n +run: (?:([^|\n].*)|\|\n((?:\1    .*\n|\n)+))", re.M)


def steps(workflow):
    """{name of a step: its commands} of those that run commands, in their order."""
    text = (FOLDER / f"{workflow}.yml").read_text(encoding="utf-8")
    return {name: line or textwrap.dedent(block)
            for _, name, line, block in STEP.findall(text)}


if __name__ == "__main__":
    workflow, *names = sys.argv[1:]
    found = steps(workflow)
    print("\n".join(found[name].rstrip("\n") for name in names or found))
