"""What every layer promises, over all gradient-check cases."""

import numpy as np
import pytest

from npdl.core import Layer, Param, walk
from npdl.errors import InputError
from npdl.optim import AdamW
from npdl.study.gradcheck import cast, leaves, randomise
from tests.cases import all_cases, strided
from tests.running import arrays_in, build, case_rng, each

CASES = all_cases()
every_case = pytest.mark.parametrize("case", CASES, ids=str)


def that(condition):
    """The cases for which it holds; those that fail are kept, and fail in their own test."""
    def holds(case):
        try:
            return condition(build(case))
        except Exception:
            return True

    return pytest.mark.parametrize("case", [case for case in CASES if holds(case)], ids=str)


that_learn = that(lambda built: any(True for _ in built.layer.params()))
with_several_outputs = that(lambda built: isinstance(built.forward()[0], tuple))


def equal(first, second):
    """The same names with the same bits."""
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name, strict=True)


def close(found, wanted, relative, floor=0.0):
    """Every array within `relative` of its largest entry, or of `floor` where that is larger."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        scale = max(np.abs(array).max(initial=0), floor)
        error = np.abs(found[name] - array).max(initial=0)
        assert error <= relative * scale, f"{name}: {error:.2e} of {scale:.2e}"


@every_case
def test_a_second_backward_doubles_the_gradients(case):
    built = build(case)
    outputs, cache = built.forward()
    dout = built.upstream(outputs)
    once = built.gradients(dout, cache)
    twice = built.gradients(dout, cache)
    doubled = [name for name, _ in built.layer.params()]
    close({name: twice[name] for name in doubled},
          {name: 2 * once[name] for name in doubled}, 1e-14)
    equal({name: g for name, g in twice.items() if name not in doubled},
          {name: g for name, g in once.items() if name not in doubled})     # of the inputs


@every_case
def test_inputs_and_upstream_gradients_stay_as_they_are(case):
    built = build(case)
    outputs, cache = built.forward()
    dout = built.upstream(outputs)
    given = [array for nest in (built.inputs, built.options, dout) for array in arrays_in(nest)]
    data = [param.data for _, param in built.layer.params()]
    kept = [array.copy() for array in given + data]
    for array in given:
        array.flags.writeable = False                   # a write is an error where it happens
    _, cache = built.forward()
    built.gradients(dout, cache)
    for array, before in zip(given + data, kept, strict=True):
        np.testing.assert_array_equal(array, before)


@every_case
def test_the_cache_is_a_value(case):
    """A forward on other inputs, between forward and backward, changes nothing."""
    built = build(case)
    outputs, cache = built.forward()
    dout = built.upstream(outputs)
    wanted = built.gradients(dout, cache)
    built.layer.zero_grad()
    kept = each(outputs, np.copy)
    _, cache = built.forward()
    built.forward(inputs=each(built.inputs, lambda a: 0.5 * a, keep=True))
    equal(built.gradients(dout, cache), wanted)
    equal(dict(leaves(outputs)), dict(leaves(kept)))


@every_case
def test_the_layer_keeps_nothing_of_a_call(case):
    built = build(case)
    before = [{name: id(value) for name, value in vars(part).items()}
              for part in walk(built.layer)]
    outputs, cache = built.forward()
    built.gradients(built.upstream(outputs), cache)
    after = [{name: id(value) for name, value in vars(part).items()}
             for part in walk(built.layer)]
    assert after == before


@with_several_outputs
def test_a_bare_gradient_is_that_of_the_first_output(case):
    built = build(case)
    outputs, cache = built.forward()
    dout = built.upstream(outputs)
    nest = (dout[0], *(None for _ in dout[1:]))
    wanted = built.gradients(nest, cache)
    built.layer.zero_grad()
    equal(built.gradients(dout[0], cache), wanted)


@every_case
def test_strided_upstream_gradients(case):
    built = build(case)
    outputs, cache = built.forward()
    dout = built.upstream(outputs)
    wanted = built.gradients(dout, cache)
    built.layer.zero_grad()
    apart = each(dout, lambda a: strided(a) if np.ndim(a) else a)
    close(built.gradients(apart, cache), wanted, 1e-12, floor=1e-3)


@every_case
def test_float32_agrees_with_float64_and_stays_float32(case):
    exact = build(case)
    rough = exact.astype("float32")
    exact_out, exact_cache = exact.forward()
    rough_out, rough_cache = rough.forward()
    close(dict(leaves(rough_out)), dict(leaves(exact_out)), 1e-4, floor=1e-2)
    wanted = exact.gradients(exact.upstream(exact_out), exact_cache)
    found = rough.gradients(rough.upstream(rough_out, "float32"), rough_cache)
    largest = max((np.abs(g).max(initial=0) for g in wanted.values()), default=0)
    # Some gradients are zero in theory, or where a function is flat.
    close(found, wanted, 1e-4, floor=1e-2 * max(largest, 1))
    for what, nest in (("output", rough_out), ("gradient", tuple(found.values()))):
        for path, array in leaves(nest):
            assert array.dtype == np.float32, f"{what} {path} is {array.dtype}"


@that_learn
def test_every_array_stays_float32_in_an_optimizer_step(case):
    built = build(case).astype("float32")
    optimizer = AdamW(built.layer, weight_decay=0.1)
    outputs, cache = built.forward()
    built.gradients(built.upstream(outputs, "float32"), cache)
    optimizer.step()
    for name, param in built.layer.params():
        assert param.data.dtype == param.grad.dtype == np.float32, name
    assert optimizer.m.dtype == optimizer.v.dtype == optimizer.flat.data.dtype == np.float32


@every_case
def test_a_shadow_shares_the_data_and_owns_its_gradients(case):
    built = build(case)
    outputs, cache = built.forward()
    dout = built.upstream(outputs)
    wanted = built.gradients(dout, cache)
    built.layer.zero_grad()
    shadow = built.layer.shadow()
    _, cache = built.forward(layer=shadow)
    equal(built.gradients(dout, cache, layer=shadow), wanted)
    own = dict(built.layer.params())
    assert own.keys() == dict(shadow.params()).keys()
    for name, param in shadow.params():
        assert param.data is own[name].data and param.decay == own[name].decay
        assert not np.shares_memory(param.grad, own[name].grad) or not param.grad.size
        assert not own[name].grad.any(), f"{name}: the shadow wrote into the layer's gradient"


@every_case
def test_state_dict_round_trip(case):
    built = build(case)
    before, _ = built.forward()
    before = each(before, np.copy)
    saved = built.layer.state_dict()
    randomise(built.layer, case_rng("something else"))
    for name, param in built.layer.params():
        assert not np.shares_memory(saved[name], param.data)
    built.layer.load_state_dict(saved)
    equal(built.layer.state_dict(), saved)
    equal(dict(leaves(built.forward()[0])), dict(leaves(before)))


@every_case
def test_astype_copies(case):
    built = build(case)
    twin = built.layer.astype("float32")
    mine = dict(built.layer.params())
    assert [name for name, _ in twin.params()] == list(mine)
    for name, param in twin.params():
        assert param.data.dtype == param.grad.dtype == np.float32
        assert not np.shares_memory(param.data, mine[name].data)
        np.testing.assert_array_equal(param.data, mine[name].data.astype("float32"))
    again = built.layer.astype("float64")
    equal(again.state_dict(), built.layer.state_dict())


@every_case
def test_dotted_names_lead_to_the_parameters(case):
    layer = build(case).layer
    found = list(layer.params(frozen=True))
    assert len({name for name, _ in found}) == len({id(p) for _, p in found}) == len(found)
    for name, param in found:
        place = layer
        for part in name.split("."):
            place = place[int(part)] if part.isdigit() else getattr(place, part)
        assert place is param
    held = {id(value) for part in walk(layer) for value in vars(part).values()
            if isinstance(value, Param)}
    assert held == {id(param) for _, param in found}


def test_load_state_dict_refuses_and_changes_nothing():
    layer = build(next(case for case in CASES if str(case) == "Linear: (B, D)")).layer
    saved = layer.state_dict()
    other = {name: array + 1 for name, array in saved.items()}
    wrong = [
        ({"W": other["W"]}, "'b' is missing"),
        ({**other, "c": other["b"]}, "'c' is unknown"),
        ({**other, "W": other["W"].T}, r"'W' is float64 \(3, 4\)"),
        ({**other, "W": other["W"].astype("float32")}, "'W' is float32"),
    ]
    for arrays, message in wrong:
        with pytest.raises(InputError, match=message):
            layer.load_state_dict(arrays)
        equal(layer.state_dict(), saved)


def test_cast_leaves_integers_and_none_alone():
    ids = np.arange(3)
    kept_ids, none, (x,) = cast((ids, None, (np.ones(2),)), "float32")
    assert kept_ids is ids and none is None and x.dtype == np.float32


def test_base_layer_is_abstract():
    with pytest.raises(NotImplementedError):
        Layer().forward()
    with pytest.raises(NotImplementedError):
        Layer().backward()
