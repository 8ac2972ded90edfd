"""Every attribute of every layer, model and optimizer that the fast wing takes, changed while an
engine lives: it refuses, or computes what the textbook does."""

import copy

from npdl.backend import stream
from npdl.core import Layer, NoBias, Param
from npdl.errors import InputError
from tests.fast.cases import assert_close, both, build, drawn
from tests.fast.refusals import refusal

HELD = (Layer, Param, NoBias, dict, list)       # what has attributes, or items, of its own


def items_in(owner):
    """The attributes of an object, or the items of a dict or a list, as {key: value}."""
    if isinstance(owner, list):
        return dict(enumerate(owner))
    return owner if isinstance(owner, dict) else vars(owner)


def put(owner, key, value):
    (owner if isinstance(owner, (dict, list)) else vars(owner))[key] = value


def found(root, path):
    for key in path:
        root = items_in(root)[key]
    return root


def paths(owner, path=(), seen=None):
    """The place of each attribute and item below `owner`, once."""
    seen = set() if seen is None else seen
    for key, value in list(items_in(owner).items()):
        yield (*path, key)
        if isinstance(value, HELD) and id(value) not in seen:
            seen.add(id(value))
            yield from paths(value, (*path, key), seen)


def another(value):
    """A value of its kind that is not it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}!"
    if isinstance(value, (int, float)):
        return value * 1.5 + 0.1 if isinstance(value, float) else value + 1
    if isinstance(value, tuple):
        return tuple(each * 0.9 if isinstance(each, float) else each + 1 for each in value)
    return 0 if value is None else copy.copy(value)


def replaced(root, path):
    """Put another value in a place; returns what undoes it."""
    owner, value = found(root, path[:-1]), found(root, path)
    put(owner, path[-1], another(value))
    return lambda: put(owner, path[-1], value)


def written_over(root, path):
    """Change the numbers of an array in its place."""
    array = found(root, path)
    before = array.copy()
    array += 1
    return lambda: array.__setitem__(..., before)


def added(root, path):
    """One more attribute than there was."""
    owner = found(root, path)
    put(owner, "new", 1)
    return lambda: vars(owner).pop("new")


def of_another_class(root, path):
    owner = found(root, path)
    kind = type(owner)
    owner.__class__ = type("Own", (kind,), {})
    return lambda: setattr(owner, "__class__", kind)


def every_change(root):
    """(how, path) of each change of each attribute below a model or an optimizer."""
    yield of_another_class, ()
    for path in paths(root):
        value = found(root, path)
        yield replaced, path
        if hasattr(value, "dtype"):
            yield written_over, path
        if isinstance(value, (Layer, Param, NoBias)):
            yield added, path
            yield of_another_class, path


def rng():
    return stream(3, 5)


def assert_refused(fast, batch, what):
    """By everything that the engine does."""
    for call in (lambda: fast.step(batch, rng), lambda: fast.measure(batch), lambda: fast.clip(1.0),
                 fast.update):
        assert "since the engine was made; make the engine afterwards" in refusal(call), what


def assert_obeyed(fast, plain, batch, what):
    """A step of both is the same, and so are the numbers after an update."""
    parameters = dict(fast.model.params(frozen=True))
    assert_close(fast.step(batch, rng), plain.step(batch, rng), what)
    for name, param in plain.model.params():
        assert_close(parameters[name].grad, param.grad, what)
    assert_close(fast.clip(0.5), plain.clip(0.5), what)
    fast.update(), plain.update()
    for name, param in plain.model.params(frozen=True):
        assert_close(parameters[name].data, param.data, what)


def assert_every_change(kind, chosen, optimizer, threads):
    """Each change refused or obeyed; returns the places of which each holds, and the workers."""
    chosen = {"num_layers": 1, "dropout": 0.2, **chosen}
    plain, fast = both(lambda: build(kind, **chosen), optimizer, threads=threads)
    batch, places = drawn("few shared", "ragged"), {"refused": set(), "obeyed": set()}
    with plain, fast:
        assert_obeyed(fast, plain, batch, "as they were")
        numbers, moments = plain.model.state_dict(), plain.optimizer.state_dict()
        for name in ("model", "optimizer"):
            root, twin = getattr(fast, name, fast.flat.optimizer), getattr(plain, name)
            for change, path in list(every_change(root)):
                what, undo = f"{change.__name__} {name}.{path}", change(root, path)
                try:
                    fast.step(batch, rng)
                except InputError:
                    assert_refused(fast, batch, what)
                    undo()
                    places["refused"].add((change.__name__, name, path))
                else:
                    again = change(twin, path)
                    assert_obeyed(fast, plain, batch, what)
                    places["obeyed"].add((change.__name__, name, path))
                    undo(), again()
                    for own in (plain, fast):
                        own.model.load_state_dict(numbers)
                        getattr(own, "optimizer", fast.flat.optimizer).load_state_dict(moments)
        assert_obeyed(fast, plain, batch, "as they were again")
    return places, fast
