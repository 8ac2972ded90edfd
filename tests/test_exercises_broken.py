"""What breaks in npdl says nothing about a document: no claim turns to wrong, or to a slip."""

import importlib
import inspect

import numpy as np
import pytest

from exercises import ledger
from npdl.errors import InputError
from tests.exercise_mutation import forget

METHODS = ("forward", "backward", "count_params", "split", "join", "weight", "start", "advance")
AGAINST = ("wrong", "slip")
PARTS = {"d000_birnn": "birnn_claims", "d000_lora_costs": "lora_cost_claims"}
NAMES = [name for name in ledger.modules() if name != "d004_study"]     # it runs nothing


def broken(function):
    """The function with numbers that are a little off; what it keeps for backward stays."""
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


def against(module):
    """The claims that a document makes in vain, as they stand now."""
    forget()
    return {(claim.part, claim.claim) for claim in module.claims() if claim.verdict in AGAINST}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_breaks_in_npdl_is_no_verdict_on_a_document(monkeypatch, name):
    module, *parts = [importlib.import_module(f"exercises.{part}")
                      for part in (name, PARTS.get(name, name))]
    before, turned = against(module), []
    used = {pair for part in (module, *parts) for pair in borrowed(part)}
    for owner, thing in sorted(used, key=str):
        with monkeypatch.context() as patch:
            patch.setattr(owner, thing, broken(getattr(owner, thing)))
            try:
                turned += [(thing, *row) for row in against(module) - before]
            except InputError:                          # the run ends, and says why
                pass
    forget()
    assert turned == []
