"""Find the first wrong line of a backward.

    report = blame(layer, x)
    print(report)                       # which line, what it computed, what it should have been
    assert_right(layer, x)              # in a test: fails with that report

First every gradient is checked (npdl_study.check). When one is wrong, each statement of the
backward is asked whether other values of it could make all gradients right
(npdl_study.blame.locate), and small changes of those that could are tried until one does
(npdl_study.blame.prove).
"""

import inspect

from npdl.errors import InputError, NpdlError
from npdl_study.blame.raised_exceptions import blame_exception
from npdl_study.blame.report import Blame
from npdl_study.blame.search import search
from npdl_study.check.subjects import Subject, Unfit, as_layer
from npdl_study.containment import held_off

__all__ = ["Blame", "assert_right", "blame"]


def blame(layer, *inputs, seed=None, forward=None, **options):
    """Check `layer` as gradcheck does and, when a gradient is wrong, find the line: a Blame.

    inputs    what forward takes; float arrays are taken in float64, parameters made random
    forward   a function in place of layer.forward, called with the layer first
    A forward that has arguments of its own called seed or forward gets these. A forward that raises
    is blamed too: on the line that did. Raises InputError for what is no layer, and when one of
    npdl's own layers refuses the inputs.
    """
    layer = as_layer(layer)
    taken = inspect.signature(layer.forward).parameters
    if seed is not None and "seed" in taken:
        options["seed"], seed = seed, None
    if forward is not None and "forward" in taken:
        options["forward"], forward = forward, None
    return examine(layer, inputs, options, forward, seed or 0)


def examine(layer, inputs, options=None, forward=None, seed=0):
    """The same, with the keywords of forward in a dict."""
    layer = as_layer(layer)
    try:
        subject = Subject(held_off(layer), inputs, options, forward, seed)
    except InputError as error:
        if type(layer).__module__.startswith("npdl."):
            raise
        if isinstance(error, Unfit):
            return Blame(False, kind=error.kind, diagnosis=str(error))
        return blame_exception(layer, error)
    except Exception as error:
        if isinstance(error, NpdlError) and type(layer).__module__.startswith("npdl."):
            raise
        return blame_exception(layer, error)
    return search(subject)


def assert_right(layer, *inputs, **options):
    """Raise AssertionError, with the whole report, unless every gradient of `layer` is right."""
    report = blame(layer, *inputs, **options)
    assert report.right, f"\n{report}"
