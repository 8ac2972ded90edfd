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
        self._add("optimizer", optimizer, Attributes(optimizer, names), names)
        for name in optimizer.moments:
            moments = getattr(optimizer, name)
            self._add(f"optimizer.{name}", moments, moments.values(), moments)
        self._look("model", model)
        self._look("optimizer.params", optimizer.params)
        _, self.all, self.kinds, self.now, _, values = map(list, zip(*self.owners, strict=True))
        self.now.append([self])                 # an end, which none of them holds
        self.values = [*itertools.chain(*values), self]

    def _add(self, where, owner, now, names):
        """Hold the values that are found in `now`, today and whenever one looks."""
        names, values = list(names), list(now)
        self.owners.append((where, owner, type(owner), now, names, values))
        return zip(names, values, strict=True)

    def _look(self, where, value):
        """Hold what is below a value."""
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        if isinstance(value, (Layer, Param, NoBias, dict)):
            held = value if isinstance(value, dict) else vars(value)
            below = self._add(where, value, held.values(), held)
        elif isinstance(value, (list, tuple)):
            below = self._add(where, value, value, range(len(value)))
        else:
            if is_array(value) and is_host():
                self.tables.append((where, value, value.copy()))
            return
        for name, each in below if not isinstance(value, Param) else ():
            self._look(f"{where}.{name}", each)

    def check(self):
        """Raise InputError, naming it, for what is another."""
        now = itertools.chain.from_iterable(self.now)
        if not all(map(operator.is_, now, self.values)) or list(map(type, self.all)) != self.kinds:
            self._look_closely()
        for where, array, numbers in self.tables:
            if not xp.array_equal(array, numbers):
                refuse(where)

    def _look_closely(self):
        for where, owner, kind, now, names, values in self.owners:
            now = list(now)
            if type(owner) is not kind or len(now) != len(values):
                refuse(where)
            if not all(map(operator.is_, now, values)):
                for name, old, new in zip(names, values, now, strict=True):
                    if old is not new and not same(old, new):
                        refuse(f"{where}.{name}")


class Attributes:
    """Some attributes of an object, each as it is when one looks."""

    def __init__(self, owner, names):
        self.owner, self.names = owner, names

    def __iter__(self):
        return map(getattr, itertools.repeat(self.owner), self.names)


def same(old, new):
    """Whether two numbers, strings or the like are equal, and of one kind."""
    return isinstance(new, (int, float, str)) and type(old) is type(new) and old == new


def refuse(what):
    raise InputError(f"{what} was changed since the engine was made; make the engine afterwards, "
                     "and one for each model")
