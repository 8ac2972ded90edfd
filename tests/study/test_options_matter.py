"""Every option of every layer is exercised: who ignores it is found out, whatever the seed."""

import contextlib
import copy
import inspect

import numpy as np
import pytest

from npdl.core import named_layers
from npdl.errors import InputError
from npdl.layers.embedding import Embedding
from npdl_study.check import examples, samples
from npdl_study.check.samples import (
    layer_classes,
    option_values,
    outputs_and_gradients,
    sample,
    with_option,
)
from npdl_study.homework.isolated import answers
from npdl_study.homework.judging import POINTS, _question, losses
from npdl_study.trees import upstream
from tests.tools import slow
from tests.tools.cases import has_samples, is_composed

OPTIONS = [(name, option) for name, cls in layer_classes().items() if has_samples(cls)
           for option in dict.fromkeys(option for option, _ in option_values(cls))
           if name not in examples.STAND_INS]
PLAIN = int, float, str, bool, type(None)


def ignoring(cls, plain, option):
    """npdl's own solution, but made without an option, or deaf to one of forward."""
    class Ignoring(cls):
        def forward(self, *inputs, **options):
            names = list(inspect.signature(cls.forward).parameters)[1:]
            given = dict(zip(names, inputs, strict=False)) | options
            return known(self).forward(**{key: one for key, one in given.items() if key != option})

        def backward(self, dy, cache):
            own = known(self)
            dx = own.backward(dy, cache)
            for name, param in own.params():
                if name in dict(self.params()):
                    dict(self.params())[name].grad += param.grad
            return dx

    def known(layer):
        own = copy.deepcopy(plain)
        for name, param in own.params():
            given = dict(layer.params()).get(name, param).data
            param.data = given if given.shape == param.shape else param.data
            param.grad = np.zeros_like(param.data)
        return own

    return Ignoring


def reads(layer, plain, inputs, options):
    """Whether a backward reads what an option has changed of a layer: a value, or a sub-layer."""
    twins, read = dict(named_layers(plain)), []
    changed = {path: {name for name, value in vars(part).items() if isinstance(value, PLAIN)
                      and value != vars(twins[path]).get(name)}
               for path, part in named_layers(layer) if path in twins}
    outputs, cache = layer.forward(*inputs, **options)
    for path, part in named_layers(layer):
        if path not in twins or type(part).backward is not type(twins[path]).backward:
            return True
        part.__class__ = type(type(part).__name__, (type(part),), {
            "__getattribute__": lambda self, name, path=path: (
                read.append(name) if name in changed[path] else None,
                object.__getattribute__(self, name))[1]})
    layer.backward(upstream(outputs, np.random.default_rng(0)), cache)
    return bool(read)


@pytest.mark.parametrize("seed", slow.but(["0"], [0, 1, 2, 3]))
@pytest.mark.parametrize("name, option", [
    pytest.param(*pair, marks=[pytest.mark.slow] * is_composed(layer_classes()[pair[0]]))
    for pair in OPTIONS])
def test_who_ignores_an_option_loses_points(name, option, seed):
    """Of a backward alone, where it reads the option; of a forward and a backward, always."""
    cls, read, found_out = layer_classes()[name], False, False
    for i, (other, value) in enumerate(option_values(cls)):
        if other != option:
            continue
        (layer, inputs, options), (plain, _, _) = with_option(cls, option, value, seed)
        points, deaf = {}, ignoring(cls, plain, option)
        for forward in (True, False):
            asked = {f"option {i}": _question(cls, f"option {i}", seed, forward)}
            wanted = answers(copy.deepcopy(asked), {})
            assert not losses(name, wanted, wanted)
            lost = losses(name, answers(asked, {name: deaf}), wanted)
            points[forward] = len(POINTS) - len(lost)
        assert points[True] < 3, value
        found_out |= points[False] < 3
        read |= other in examples.VALUES and reads(layer, plain, inputs, options)
    assert found_out or not read


def test_sizes_are_no_defaults():
    """What the rows tell of a layer is not what it would be made with anyway."""
    for name, cls in layer_classes().items():
        for option, taken in inspect.signature(cls.__init__).parameters.items():
            if option in examples.SIZES - {"max_len"} and taken.default is not taken.empty:
                with contextlib.suppress(InputError):       # it does not go with the other sizes
                    default, without = (outputs_and_gradients(*sample(cls, **given)) for given in (
                        {option: taken.default}, {}))
                    assert not samples._same(default, without), (name, option)


def test_an_option_without_a_value_or_an_effect_is_named(monkeypatch):
    class Other(Embedding):
        def __init__(self, *sizes, loud=False, **keywords):
            super().__init__(*sizes, **keywords)

    with pytest.raises(InputError, match="Other: .*examples.py has no value for its option loud"):
        option_values(Other)
    monkeypatch.setitem(examples.VALUES, "loud", [True])
    assert option_values(Other)[0] == ("loud", True)
    with pytest.raises(InputError, match="Other: with loud=True no inputs give another answer"):
        with_option(Other, "loud", True)


def test_inputs_are_drawn_until_a_row_is_that_of_the_padding_id():
    for seed in range(40):
        (_, (ids,), _), _ = with_option(Embedding, "padding_id", 1, seed)
        assert (ids == 1).any()
