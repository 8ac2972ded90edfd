"""What npdl promises about kills, resumes, strangers' files and odd numbers, measured.

    python -m tests.runs.trust            samples: a minute or two
    python -m tests.runs.trust --full     the figures of docs/trust.md
    python -m tests.runs.trust kills      some of the topics (see --help)

Each module has a `measure(full, folder)` that returns Figures, works in `folder`, and raises
AssertionError where a promise is broken. tests/runs/test_trust.py runs the samples.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One row of the table: what is promised, which test asks, and how far it got."""

    promise: str
    test: str
    figure: str
