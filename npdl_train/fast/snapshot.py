"""The one list of all that the wing reads of a model and its optimizer, as it was when it was read.

The wing keeps copies: numbers side by side (npdl_train.fast.flat_parameters), shadows of the model
in other processes. So whatever is another now is refused, at once and however many workers there
are:

- of each layer, each bias and each Param its class and every attribute;
- of the optimizer its class, the Params that it updates and its moments. All else of it (`lr`,
  `betas`, `steps`, ...) goes with each update (FlatParameters.settings), and is obeyed.

A number or a string is the same by its value, anything else as an object; a list, a tuple and a
dict by what they hold. The arrays of Params and moments may have other numbers, which are shared;
a layer's own array (sinusoidal positions) may not: it is refused, but on a GPU, where to look would
be to wait; there it is read anew at each step, and obeyed.
"""

import functools
import itertools
import operator

from npdl.backend import is_host, xp
from npdl.core import Layer, NoBias, Param
from npdl.errors import InputError, is_array


class Snapshot:
    """What is read of a model (None: of the Params alone) and of its optimizer. `check()` raises
    InputError where it is another by now."""

    def __init__(self, model, optimizer):
        self.seen, self.owners, self.tables = set(), [], []
        names = ("params", *optimizer.moments)
        self._add("optimizer", optimizer, functools.partial(some_of, optimizer, names), names)
        for name in optimizer.moments:
            moments = getattr(optimizer, name)
            self._add(f"optimizer.{name}", moments, moments.values, moments)
        self._look("model", model)
        self._look("optimizer.params", optimizer.params)
        _, owners, self.kinds, self.reads, *_ = map(list, zip(*self.owners, strict=True))
        self.all, self.objects = owners, self._objects()

    def _add(self, where, owner, read, names):
        names, values = list(names), list(read())
        self.owners.append((where, owner, type(owner), read, names, values))
        return zip(names, values, strict=True)

    def _look(self, where, value):
        """Hold what is below a value."""
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        if isinstance(value, (Layer, Param, NoBias, dict)):
            held = value if isinstance(value, dict) else vars(value)
            below = self._add(where, value, held.values, held)
        elif isinstance(value, (list, tuple)):
            below = self._add(where, value, functools.partial(list, value), range(len(value)))
        else:
            if is_array(value) and is_host():
                self.tables.append((where, value, value.copy()))
            return
        for name, each in below if not isinstance(value, Param) else ():
            self._look(f"{where}.{name}", each)

    def _objects(self):
        """The ids of what all hold. Those of what was held first are its own, since it is kept."""
        return list(map(id, itertools.chain.from_iterable(map(operator.call, self.reads))))

    def check(self):
        """Raise InputError, naming it, for what is another."""
        if self._objects() != self.objects or list(map(type, self.all)) != self.kinds:
            self._look_closely()
        for where, array, numbers in self.tables:
            if not xp.array_equal(array, numbers):
                refuse(where)

    def _look_closely(self):
        for where, owner, kind, read, names, values in self.owners:
            now = list(read())
            if type(owner) is not kind or len(now) != len(values):
                refuse(where)
            if not all(map(operator.is_, now, values)):
                for name, old, new in zip(names, values, now, strict=True):
                    if old is not new and not same(old, new):
                        refuse(f"{where}.{name}")


def some_of(owner, names):
    return [getattr(owner, name) for name in names]


def same(old, new):
    """Whether two numbers, strings or the like are equal, and of one kind."""
    return isinstance(new, (int, float, str)) and type(old) is type(new) and old == new


def refuse(what):
    raise InputError(f"{what} was changed since the engine was made; make the engine afterwards, "
                     "and one for each model")
