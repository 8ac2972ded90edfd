"""Grades student layers: outputs, gradients, manners. Each assert_ function raises AssertionError.

A hole that is not filled yet, an error in the student's file and a gradient that is wrong are said
in a line or a table; `blame` adds the first wrong line where it can. `first_trouble` says of a
layer what the first check finds, and no more: the others would tell the same mistake again.
"""

import importlib
import inspect
import os
import sys
import traceback

import numpy as np

from npdl.backend import stream
from npdl.core import Layer
from npdl_study.check.differences import LIMIT
from npdl_study.check.gradcheck import Report, gradcheck
from npdl_study.check.samples import sample
from npdl_study.check.subjects import randomise
from npdl_study.check.target import as_float64, find_class
from npdl_study.containment import called, message
from npdl_study.trace.nudge import upstream
from npdl_study.trees import cast, leaves

OWN = tuple(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), name, "")
            for name in ("npdl", "npdl_study"))
SAME = 1e-10
# What the tests call of a layer, beside forward and backward.
TESTED = {"sample", "__getattribute__", "__getattr__", "__copy__", "__deepcopy__",
          *(name for name in vars(Layer) if not name.startswith("__"))} - {"forward", "backward"}


def first_trouble(module, name, originals):
    """What is wrong with a class of a student file, by the first check that finds something, and
    "" when all is right. `originals` as in assert_own."""
    try:
        cls = load(module, name)
        for check in checks_of(name).values():
            check(cls)
        assert_own(cls, originals)
    except AssertionError as error:
        return str(error)
    return ""


def load(module, name):
    """The class of a student file beside the tests. A file that can't be imported, and a class
    that is npdl's own, are a failure of this layer alone."""
    try:
        cls = getattr(importlib.import_module(module), name, None)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        at = _place(error, module)          # a SyntaxError says itself where it is
        trouble = f"{module}.py can't be imported: {message(error)}" + (f" ({at})" if at else "")
    else:
        own = inspect.isclass(cls) and cls.__module__ == module
        trouble = "" if own else f"{module}.py has no class {name} of its own: write it there"
    if trouble:
        raise AssertionError(trouble)
    return cls


def assert_own(cls, originals):
    """The student's code does its work without npdl's own functions `originals`, each given as
    "module:qualname", and its backward without its forward: differences are no derivation."""
    watch = Watch(cls, originals)
    layer, inputs, options = sample(cls)

    def run():
        outputs, cache = layer.forward(*inputs, **options)
        layer.backward(upstream(outputs, 0), cache)

    watch.during(_of_student, run, cls)
    watch.refuse()


class Watch:
    """Sees what the student's code calls while it runs for the assertions in `during`."""

    active = []                     # the innermost last

    def __init__(self, cls, originals):
        self.name, self.found = cls.__name__, ""
        twin = find_class(cls.__name__)
        self.borrowed = {_place_of(_function(where)): where.split(":")[1] for where in originals}
        self.forwards = {_place_of(getattr(c, "forward", None)) for c in (cls, twin)}
        self.backward = _place_of(getattr(cls, "backward", None))
        self.names = {name for _, _, name in (*self.borrowed, *self.forwards, self.backward)}
        self.bases = twin.__mro__
        self.tested = TESTED.difference(*(vars(c) for c in twin.__mro__ if c not in Layer.__mro__))

    def during(self, work, *given):
        """Run work(*given) watched."""
        self.active.append(self)
        try:
            work(*given)
        finally:
            self.active.remove(self)

    def refuse(self):
        """Raise AssertionError if something was seen that is not the student's own work."""
        if self.found:
            raise AssertionError(self.found)

    def see(self, frame, event, argument):
        """A profile function."""
        if event != "call" or frame.f_code.co_name not in self.names or self.found:
            return
        place = _place_of(frame)
        if place in self.borrowed:
            self.found = f"{self.name} calls npdl's own {self.borrowed[place]}: write it yourself"
        elif place == self.backward or place in self.forwards:
            self._look_at(frame)
        if place in self.forwards:
            while (frame := frame.f_back) is not None:
                if _place_of(frame) == self.backward:
                    self.found = (f"{self.name}.backward calls forward: derive it, differences "
                                  "are no derivation")

    def _look_at(self, frame):
        """Whether the layer that runs leaves alone what the tests need: with a params() of its
        own, it could keep a gradient from them."""
        layer = frame.f_locals[frame.f_code.co_varnames[0]]
        layer = layer[0] if isinstance(layer, tuple) else layer         # def forward(*given)
        own = set(getattr(layer, "__dict__", ())).union(
            *(vars(c) for c in type(layer).__mro__ if c not in self.bases))
        if own & self.tested:
            self.found = (f"{self.name} has {', '.join(sorted(own & self.tested))} of its own, "
                          "which the tests need as it is in Layer: take it out")


def _function(where):
    module, _, qualname = where.partition(":")
    found = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def _place_of(what):
    """Where the code of a function or a frame stands: the same for a copy, and for a module that
    is imported again; never the same for equal lines of two files."""
    code = what.f_code if hasattr(what, "f_code") else getattr(what, "__code__", None)
    return (code.co_filename, code.co_firstlineno, code.co_name) if code else ("", 0, "")


def _of_student(work, cls):
    """What `work` returns; what the student's code raises is a failure in one sentence."""
    before = sys.getprofile()
    if Watch.active:
        sys.setprofile(Watch.active[-1].see)
    try:
        return called(work, cls.__name__)
    except AssertionError as error:
        trouble = str(error)
    except NotImplementedError as error:
        trouble = " ".join(str(error).split())
    except Exception as error:
        at = _place(error, cls.__module__)
        trouble = f"{cls.__name__} raised {message(error)}" + (f" ({at})" if at else "")
    finally:
        if Watch.active:
            sys.setprofile(before)
    raise AssertionError(trouble)


def _place(error, module):
    """Where in a student's file an exception came from: "linear.py, line 40: ..."."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(OWN)
           and os.path.basename(f.filename) == f"{module}.py"]
    return f"{module}.py, line {own[-1].lineno}: {own[-1].line}" if own else ""


def assert_outputs(cls, seed=0):
    """forward returns what npdl's class of the same name returns, to rounding."""
    found = _of_student(lambda: _outputs(cls, seed), cls)
    wanted = _outputs(find_class(cls.__name__), seed)
    assert found.keys() == wanted.keys(), (
        f"{cls.__name__}.forward returned arrays at {sorted(found)}; wanted {sorted(wanted)}")
    for path, array in wanted.items():
        own = np.asarray(found[path])
        assert own.shape == np.shape(array), (
            f"{cls.__name__}.forward: output {path} has shape {own.shape}, not {np.shape(array)}")
        error = np.abs(own - array).max(initial=0)
        assert error <= SAME * max(1, np.abs(array).max(initial=0)), (
            f"{cls.__name__}.forward: output {path} is off by {error:.2g}")


def _outputs(cls, seed):
    layer, inputs, options = sample(cls, seed)
    layer, inputs = as_float64(layer, inputs, seed)
    return dict(leaves(layer.forward(*inputs, **options)[0]))


def assert_gradients(cls, seed=0):
    """backward's gradients are those of forward, by central differences."""
    layer, inputs, options = _of_student(lambda: sample(cls, seed), cls)
    _check(layer, inputs, options, seed)


def assert_stacked(cls):
    """The same for two layers, sequences of several lengths, and a state to start from."""
    rng = stream(0, 13)
    x = rng.standard_normal((3, 4, 2))
    state = tuple(rng.standard_normal((2, 3, 3)) for _ in range(2))
    _check(cls(2, 3, num_layers=2), (x, state), {"lengths": np.array([4, 1, 3])}, 0)


def _check(layer, inputs, options, seed):
    report = _of_student(lambda: gradcheck(layer, *inputs, seed=seed, **options), type(layer))
    wrong = [row for row in report.rows if row.error > LIMIT]
    if wrong:
        names = ", ".join(row.name for row in wrong)
        numbers = f", with other numbers (seed {seed})" if seed else ""
        raise AssertionError(f"the gradient of {names} is wrong{numbers}\n\n"
                             + _told(Report(wrong), layer, inputs, options, seed))
    if report.faults:                           # the others may come from the first
        raise AssertionError(f"manners: the gradients are right, but {report.faults[0]}")


def _told(report, layer, inputs, options, seed):
    """Where `blame` sees the mistake; the table, too, where it sees no reason or can't look (under
    a debugger, say)."""
    try:
        from npdl_study.blame.blame import blame

        found = blame(layer, *inputs, seed=seed, **options)
    except Exception as error:
        return f"{report}\nblame can't look: {message(error)}"
    if found.right:                             # it has seen other numbers
        return str(report)
    if found.line and found.diagnosis:
        return str(found)
    for row in report.rows:
        row.diagnosis = "" if row.kind == "unknown" else row.diagnosis
    return f"{report}\n\n{found}"


def assert_manners(cls):
    """Inputs, cache and upstream gradients are unchanged; float32 in, float32 out."""
    layer, inputs, options = _of_student(lambda: sample(cls), cls)
    layer, inputs = layer.astype("float32"), cast(inputs, "float32")
    randomise(layer, stream(0, 14))                     # a gain of 1 hides what is written into dy
    kept = [array.copy() for _, array in leaves(inputs)]
    name = cls.__name__
    outputs, cache = _of_student(lambda: layer.forward(*inputs, **options), cls)
    dout = _float32(upstream(outputs, 0))
    given = [np.array(array) for _, array in leaves(dout)]
    returned = _of_student(lambda: layer.backward(dout, cache), cls)
    for before, (_, after) in zip(kept, leaves(inputs), strict=True):
        assert np.array_equal(before, after), f"{name} changes an input: write into a copy"
    for before, (_, after) in zip(given, leaves(dout), strict=True):
        assert np.array_equal(before, after), f"{name}.backward changes dy: write into a copy"
    arrays = [*leaves(outputs), *leaves(returned)] + [(n, p.grad) for n, p in layer.params()]
    for path, array in arrays:
        assert np.asarray(array).dtype == np.float32, (
            f"{name}: {path} is {np.asarray(array).dtype}, not float32: a number or an array "
            "of another dtype came in")


def _float32(nest):
    """A nest in float32, numbers of no dimension too."""
    if isinstance(nest, (tuple, list)):
        items = [_float32(item) for item in nest]
        return type(nest)(*items) if hasattr(nest, "_fields") else tuple(items)
    return None if nest is None else np.asarray(nest, np.float32)[()]


def checks_of(name):
    """{what is checked: assertion} for a class of this name, in their order."""
    checks = {"outputs": assert_outputs, "gradients": assert_gradients,
              "gradients of other numbers": lambda cls: assert_gradients(cls, seed=1),
              "manners": assert_manners}
    return checks | ({"gradients of a stack": assert_stacked} if name == "LSTM" else {})
