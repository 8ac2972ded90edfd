"""What a function's arguments are, by their names: a cache, a learning rate, gradients."""

import functools
import inspect
import types

CACHES = ("cache", "caches", "ctx", "context", "memory", "saved", "tape")
RATES = ("lr", "learning_rate", "eta", "step_size", "rate")


def takes_cache(backward):
    """Whether an argument of a bound backward is no gradient, by its name (dh_next, dc), nor a
    learning rate."""
    flags = {p.name for p in _parameters(backward) if isinstance(p.default, bool)}
    names = [name for name in positional(backward) if name not in (*rates_of(backward), *flags)]
    return len(names) > 1 and (names[0] in CACHES or not (
        names[-1].startswith(("d", "g")) or names[-1].endswith(("_grad", "_bar"))))


def rates_of(backward):
    """The arguments of a backward that are learning rates: it updates what it learns itself."""
    return [p.name for p in _parameters(backward)[1:] if p.name in RATES]


def positional(function):
    """The names of the positional arguments of a function."""
    return [p.name for p in _parameters(function)
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]


def needed(function):
    """How many positional arguments a function needs."""
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
               for p in _parameters(function))


def _parameters(function):
    """The parameters of a function, looked at once: every run asks for them."""
    return _found_parameters(getattr(function, "__func__", function), inspect.ismethod(function))


@functools.lru_cache(maxsize=256)
def _found_parameters(function, bound):
    function = types.MethodType(function, function) if bound else function
    return tuple(inspect.signature(function).parameters.values())
