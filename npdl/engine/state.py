"""Copies of the objects of a step, such as a model and its optimizer, with recorded arrays.

    mirror = Mirror(recorder, varying=set())
    model, optimizer = mirror.copy((model, optimizer))  # the copies; a step runs on them
    mirror.record_assignments()                         # find what the step assigned to the copies

A step that is recorded assigns new values only to the copies. So the originals never contain
recorded arrays, even after an interrupt. A copied array shares its memory with the original: if the
step writes into a parameter, it writes into the original.

A layer's numbers (a dropout rate, eps, a padding id) are *settings*: they are constants of the
recording, and `is_current` returns True if they are still the same. A number that a step changes,
such as the optimizer's count of steps, is an input of every replay instead.
"""

import functools
import types
import weakref
from collections import Counter
from copy import copy as shallow_copy
from enum import Enum

import numpy as np

from npdl.backend import is_device_array
from npdl.core import map_nested, rebuild
from npdl.engine.operation import Number, find_base_array
from npdl.engine.recorded_array import Recorded, Unsupported

COUNTER = "steps"           # an attribute that is known to change in every step
MISSING = object()
_owned = weakref.WeakValueDictionary()      # {(id of a container, key, i): array made for replays}
PLAIN = (bool, int, float, complex, np.generic, str, bytes, range, slice, frozenset, type(None),
         type, np.dtype, np.ufunc, Enum, types.FunctionType, types.BuiltinFunctionType,
         types.ModuleType)


class Mirror:
    """Copies of objects such as a model, in which arrays are recorded arrays.

    varying          {(id of a container, key)} of the numbers that a step changes; a container is
                     a list, a dict, or the __dict__ of an object. (id, key, np.ndarray) means that
                     the step assigns arrays
    counters         (container, key, Number) for each of these numbers
    assignments      (container, key, value) for each of these numbers that the step has assigned
    scalars          (container, key, array) for each NumPy scalar that a step changes; replays
                     compute with `array`, which has one entry
    keeps_structure  True if a replay can repeat all assignments
    """

    def __init__(self, recorder, varying):
        self.recorder, self.varying, self.counters, self.assignments = recorder, varying, [], []
        self._copies, self._replaced, self.keeps_structure = {}, set(), True
        self.scalars = []
        self._class_settings = {}   # {(class, name): value}
        self._containers = []       # (container, copy, {key: value}, {key: copied value})

    def copy(self, value):
        """Return the copy of a value. An object that occurs twice has one copy."""
        if isinstance(value, PLAIN):
            if has_objects_in_closure(value):
                raise Unsupported(f"the function {value.__name__} of the model has objects in its "
                                  "closure, which can't be copied; make them attributes of a "
                                  "layer")
            return value
        if id(value) not in self._copies:
            self._copies[id(value)] = self._make_copy(value)
        return self._copies[id(value)]

    def _make_copy(self, value):
        if isinstance(value, np.ndarray) or is_device_array(value):
            known = type(value) is np.ndarray or is_device_array(value)
            if not known or value.dtype.kind not in "fiub":
                raise Unsupported(f"the model has a {type(value).__name__} of dtype {value.dtype}, "
                                  "which can't be copied; use a NumPy array of floats, integers or "
                                  "bools")
            return self.recorder.wrap_array(value, "state")
        if is_random_generator(value):
            return self.recorder.wrap_generator(value)
        if isinstance(value, tuple):
            return rebuild(value, [self.copy(item) for item in value])
        if isinstance(value, types.MethodType):
            return types.MethodType(value.__func__, self.copy(value.__self__))
        if isinstance(value, functools.partial):
            return functools.partial(self.copy(value.func), *map(self.copy, value.args), **{
                name: self.copy(x) for name, x in value.keywords.items()})
        is_container = isinstance(value, (list, dict))
        if not is_container and not hasattr(value, "__dict__"):
            raise Unsupported(f"the model has a {type(value).__name__}, which can't be copied; "
                              "keep this object outside of the model")
        copy = shallow_copy(value) if is_container else object.__new__(type(value))
        self._copies[id(value)] = copy          # its entries may contain the value itself
        if is_container:
            copy.clear()
            self._copy_entries(value, copy)
        else:
            self._class_settings |= {
                (kind, name): x for kind in type(value).__mro__ for name, x in vars(kind).items()
                if isinstance(x, (int, float, str, tuple, np.generic, np.ndarray, type(None)))
                and not name.startswith("__")}
        if hasattr(value, "__dict__"):
            self._copy_entries(vars(value), vars(copy))
        return copy

    def _copy_entries(self, container, copy):
        """Copy the entries of a list or a dict into `copy`."""
        originals = get_entries(container)
        copies = {key: self._copy_entry(container, key, value)
                  for key, value in originals.items()}
        if isinstance(copy, dict):
            copy.update(copies)
        else:
            copy.extend(copies.values())
        self._containers.append((container, copy, originals, copies))

    def own_assigned_arrays(self):
        """Replace the arrays into which replays write by copies: the user may keep the originals.

        Return True if an array was replaced. An array that shares its memory with another attribute
        is not replaced. A copy isn't either, so that two steps can write into the same copy.
        """
        roots = Counter(id(find_base_array(x)) for _, _, originals, _ in self._containers
                        for value in originals.values() if not isinstance(value, (list, dict))
                        for x in find_leaves(is_array, value))
        replaced = False
        for container, _, originals, _ in self._containers:
            for key, value in originals.items():
                if isinstance(value, np.generic):
                    continue
                place, arrays = (id(container), key), find_leaves(is_array, value)
                if (*place, np.ndarray) in self.varying and any(
                        _owned.get((*place, i)) is not x for i, x in enumerate(arrays)) and all(
                        roots[id(find_base_array(x))] == 1 for x in arrays):
                    container[key] = map_nested(copy_array, value)
                    for i, x in enumerate(find_leaves(is_array, container[key])):
                        _owned[*place, i] = x
                    replaced = True
        return replaced

    def refuse_ids(self):
        """Raise Unsupported if the objects contain the id of an object: its copy has another id."""
        for container, _, originals, _ in self._containers:
            plain = [x for x in originals.values() if not isinstance(x, (list, dict))]
            if find_leaves(lambda x: type(x) is int and x in self._copies or (
                    isinstance(x, frozenset) and not x.isdisjoint(self._copies)),
                    [*originals, plain]) or any(
                    id(key) in self._copies for key in originals if not isinstance(key, tuple)):
                raise Unsupported(f"a {type(container).__name__} of the model refers to an object "
                                  "by its id(), or by the object as a key of a dict, but the step "
                                  "is recorded with a copy of the object; use names")

    def _copy_entry(self, container, key, value):
        if isinstance(value, np.generic) and (id(container), key, np.ndarray) in self.varying:
            self.scalars.append((container, key, np.array(value)))
            return self.recorder.wrap_array(self.scalars[-1][2], "scalar")
        varies = (id(container), key) in self.varying or key == COUNTER and type(value) is int
        if not varies or not isinstance(value, (int, float)):
            return self.copy(value)
        number = Number(self.recorder, value)
        self.counters.append((container, key, number))
        return number

    def is_current(self):
        """Return True if the originals still have the arrays and settings that were copied."""
        try:
            return all(len(container) == len(originals) and all(
                container[key] is value or is_same_plain_value(container[key], value)
                or is_input(copies[key], value) and type(container[key]) is type(value)
                for key, value in originals.items())
                for container, _, originals, copies in self._containers) and all(
                vars(kind)[name] is value or is_same_plain_value(vars(kind)[name], value)
                for (kind, name), value in self._class_settings.items())
        except KeyError:
            return False

    def record_assignments(self):
        """Set `assignments` and `keeps_structure` from the new values in the copies.

        If the step assigned a new array to an attribute, a copy into the old array is recorded. If
        the step changed a number, this number is added to `varying`.
        """
        moves = []
        for container, copy, _, copies in reversed(self._containers):       # parents first
            entries = get_entries(copy)
            if copies.keys() - entries.keys():
                raise Unsupported("the step removes an attribute or an item of the model; assign "
                                  "None to it instead")
            for key, new in entries.items():
                old, pairs = copies.get(key, MISSING), []
                if isinstance(old, Number) and isinstance(new, (int, float, Number)):
                    self.assignments.append((container, key, new))
                    continue
                place = id(container), key, np.ndarray
                keeps = self._collect_array_changes(old, new, pairs)
                if not keeps or place not in self.varying and any(a is not b for a, b in pairs):
                    self.keeps_structure = False
                    is_number = isinstance(new, Number) or isinstance(old, (int, float)) and (
                        isinstance(new, (int, float)))
                    self.varying.add(place[:2] if is_number else place)
                if id(copy) not in self._replaced:      # its arrays are already in `moves`
                    moves += pairs
        buffers = {(old.buffer, new.buffer) for old, new in moves}
        if any(len(set(side)) < len(buffers) for side in zip(*buffers, strict=True)):
            self.keeps_structure = False    # arrays share memory only before, or only after, a step
        moves = [(old, new if new.buffer.is_temporary else new.copy())
                 for old, new in moves if old.value is not new.value]
        for old, new in moves:
            old[...] = new

    def _collect_array_changes(self, old, new, moves):
        """Append (array in `old`, array in `new`) to `moves` for each array.

        Return False if `old` and `new` have different structures.
        """
        if type(new) is np.ndarray:
            new = self.recorder.wrap_array(new, "constant")
        if type(old) is not type(new):
            return False
        if isinstance(old, np.ndarray):
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                return False
            moves.append((old, new))
            return True
        if old is new or is_same_plain_value(old, new):
            return True
        self._replaced.update((id(old), id(getattr(old, "__dict__", old))))
        before, after = get_entries(old), get_entries(new)
        return before is not None and before.keys() == after.keys() and all(
            self._collect_array_changes(before[key], after[key], moves) for key in before)


def is_array(value):
    """Return True for an array on the CPU or the GPU, and for a NumPy scalar."""
    return isinstance(value, (np.ndarray, np.generic)) or is_device_array(value)


def copy_array(value):
    """Return a copy of an array, an array with the entry of a NumPy scalar, or another value."""
    if isinstance(value, np.generic):
        return np.array(value)
    return value.copy() if is_array(value) else value


def find_leaves(condition, nested):
    """Return the items of nested tuples, lists and dicts for which condition(item) is true."""
    leaves = []
    map_nested(lambda x: leaves.append(x) if condition(x) else None, nested)
    return leaves


def get_entries(container):
    """Return the entries {key: value} of a dict, list, tuple or object; None for other values."""
    if isinstance(container, (list, tuple)):
        return dict(enumerate(container))
    has_attributes = hasattr(container, "__dict__") and not isinstance(
        container, (*PLAIN, functools.partial, types.MethodType))
    return dict(container) if isinstance(container, dict) else (
        dict(vars(container)) if has_attributes else None)


def has_objects_in_closure(function):
    """Return True for a function whose closure has variables that are not plain values."""
    cells = getattr(function, "__closure__", None) or ()
    return not all(isinstance(cell.cell_contents, PLAIN) for cell in cells)


def is_random_generator(value):
    """Return True if a value draws random numbers, as NumPy's generators do."""
    return callable(getattr(value, "random", None)) and not isinstance(
        value, (types.ModuleType, type))


def is_input(copied, value):
    """Return True if every replay reads the value, a number, again."""
    return isinstance(copied, Recorded) and isinstance(value, (int, float, np.generic))


def is_same_plain_value(a, b):
    """Return True if two values are equal numbers or texts of the same type."""
    kinds = (bool, int, float, str, np.generic)
    return type(a) is type(b) and isinstance(a, kinds) and (a == b or a != a and b != b)
