"""Find the first wrong line of a backward.

    report = blame(layer, x)
    print(report)                       # which line, what it computed, what it should have been
    assert_right(layer, x)              # in a test: fails with that report

First every gradient that the backward gives is compared with its numerical value. When one is
wrong, every value on the way to it is compared too (npdl_study.trace.judge), and of the statements that
did not write what is known to be right those are found that could mend it with other values
(npdl_study.blame.trials). Small edits of these are tried (npdl_study.blame.edits), then what is missing in
their numbers is looked for (npdl_study.blame.terms).
"""

from npdl.errors import NpdlError
from npdl_study.blame.report import Blame
from npdl_study.blame.search_new import Search, ended
from npdl_study.check.check import Check
from npdl_study.check.guard import held_off, refuse_unfit
from npdl_study.trace.trace import refuse_debugger

__all__ = ["Blame", "assert_right", "blame"]


def blame(layer, *inputs, seed=0, forward=None, prepared=None, **options):
    """Check `layer` as gradcheck does and, when a gradient is wrong, find the line: a Blame.

    inputs    what forward takes; float arrays are taken in float64, parameters made random
    forward   a function in place of layer.forward, called with the layer first
    A forward that raises is blamed too: on the line that did. Raises InputError when a debugger
    or a coverage tool is attached, and when one of npdl's own layers refuses the inputs.
    """
    refuse_debugger()
    refuse_unfit(layer)
    layer = held_off(layer)
    try:
        check = prepared or Check(layer, inputs, options, forward, seed)
    except Exception as error:
        if isinstance(error, NpdlError) and type(layer).__module__.startswith("npdl."):
            raise
        return ended(layer, error)
    return Search(check).run()


def assert_right(layer, *inputs, **options):
    """Raise AssertionError, with the whole report, unless every gradient of `layer` is right."""
    report = blame(layer, *inputs, **options)
    assert report.right, f"\n{report}"
