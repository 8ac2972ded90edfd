"""What breaks in npdl, or in an exercise, says nothing about a document: no claim turns to wrong,
or to a slip."""

import functools
import importlib
import inspect

import numpy as np
import pytest

from exercises import ledger
from npdl.errors import InputError
from tests.tools.exercise_mutation import forget, measured, plain

METHODS = ("forward", "backward", "count_params", "split", "join", "weight", "start", "advance")
AGAINST = ("wrong", "slip")
PARTS = {"d000_birnn": "birnn_claims", "d000_lora_costs": "lora_cost_claims"}
NAMES = [name for name in ledger.modules() if name != "d004_study"]     # it runs nothing


def broken(function):
    """The function with numbers that are a little off; what it keeps for backward stays."""
    @functools.wraps(function)
    def wrong(*given, **named):
        result = function(*given, **named)
        return (off(result[0]), *result[1:]) if type(result) is tuple else off(result)

    return wrong


def off(value):
    if type(value) is tuple:
        return tuple(map(off, value))
    if isinstance(value, np.ndarray):
        return value * 1.01 + 0.001 if value.dtype.kind == "f" else value
    return value + 1 if type(value) is int else value


def borrowed(module):
    """(owner, name) of npdl's functions, and of its classes' methods, that a module uses."""
    for name, thing in vars(module).items():
        if not getattr(thing, "__module__", "").startswith("npdl."):
            continue
        if inspect.isfunction(thing):
            yield module, name
        elif inspect.isclass(thing):
            yield from ((thing, method) for method in METHODS
                        if inspect.isfunction(getattr(thing, method, None)))


def own(modules):
    """{function: its owners and names} of what the modules, and their neighbours, compute with."""
    found = {}
    for module in modules:
        for name, thing in vars(module).items():
            if inspect.isclass(thing) and thing.__module__ == module.__name__:
                for method, function in vars(thing).items():
                    if inspect.isfunction(function) and not method.startswith("__"):
                        found.setdefault(function, []).append((thing, method))
            elif not inspect.isclass(thing):
                found.setdefault(plain(thing), []).append((module, name))
    names = {module.__name__.removeprefix("exercises.") for module in modules}
    return {function: found[function] for name in sorted(names | {"probes", "neurons"})
            for function in measured(name) if function in found}


def against(module):
    """The claims that a document makes in vain, as they stand now."""
    forget()
    return {(claim.part, claim.claim) for claim in module.claims() if claim.verdict in AGAINST}


def turned(monkeypatch, module, sites):
    """The claims that turn against a document while what stands at one of the sites is broken."""
    before, found = against(module), []
    for owners in sites:
        with monkeypatch.context() as patch:
            for owner, name in owners:
                patch.setattr(owner, name, broken(getattr(owner, name)))
            try:
                found += [(owners[0][1], *row) for row in against(module) - before]
            except (InputError, ValueError):            # the run ends, and says why
                pass
    forget()
    return found


def modules_of(name):
    return [importlib.import_module(f"exercises.{part}")
            for part in dict.fromkeys((name, PARTS.get(name, name)))]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_breaks_in_npdl_is_no_verdict_on_a_document(monkeypatch, name):
    modules = modules_of(name)
    used = sorted({pair for part in modules for pair in borrowed(part)}, key=str)
    assert turned(monkeypatch, modules[0], [[pair] for pair in used]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_breaks_in_an_exercise_is_no_verdict_on_a_document(monkeypatch, name):
    modules = modules_of(name)
    assert turned(monkeypatch, modules[0], own(modules).values()) == []
