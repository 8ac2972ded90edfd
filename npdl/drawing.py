"""Whether pictures can be drawn: asked before anything is computed that will be drawn."""

import os

from npdl.errors import InputError


def check_drawing():
    """Raise InputError where matplotlib does not load, say for an odd MPLBACKEND."""
    try:
        import matplotlib  # noqa: F401
    except (ImportError, ValueError) as error:
        odd = os.environ.get("MPLBACKEND")
        what = f"MPLBACKEND={odd!r} is set" if odd else "npdl draws with it"
        raise InputError(f"matplotlib cannot be used ({' '.join(str(error).split())[:120]}); "
                         f"{what}: put that right first") from error
