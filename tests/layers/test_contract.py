"""Rules for all layers: for each call in the gradient-check cases, and for each class."""

import numpy as np
import pytest

from npdl.core import walk
from npdl.errors import CheckpointError, InputError
from npdl.safetensors import write
from npdl.study.check.samples import ROW
from npdl.study.check.subjects import randomise
from npdl.study.relative_error import relative_error
from npdl.study.trees import leaves
from tests.layers.cases import all_cases, strided
from tests.tools import slow
from tests.tools.running import build, make_case_rng, map_floats, yield_arrays

CASES = all_cases()
QUICK = [str(case) for case in CASES if not case.of_option and case.what != ROW[0]]
ONE_OF_EACH = {case.layer_class.__name__: case for case in reversed(CASES)}     # the first


def assert_equal_arrays(first, second):
    """Assert that both dicts have the same names and bitwise identical arrays."""
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name, strict=True)


def assert_close_arrays(actual, expected, max_error, floor=0.0):
    """Assert that the error relative to the largest entry or to `floor` is at most `max_error`."""
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        error = relative_error(actual[name], array, floor)
        assert error <= max_error, f"{name}: {error:.2e}"


class Called:
    """The outputs, cache and gradients of a case, whose input arrays are read-only."""

    def __init__(self, case):
        self.built = built = build(case)
        self.held = attribute_ids(built.layer)
        outputs, _ = built.forward()
        self.dout = built.draw_upstream(outputs)
        given = list(yield_arrays((built.inputs, built.options, self.dout)))
        data = [param.data for _, param in built.layer.params()]
        self.kept = [(array, array.copy()) for array in given + data]
        for array in given:
            array.flags.writeable = False               # writing raises an error
        self.outputs, self.cache = built.forward()
        self.values = {path: np.copy(a) for path, a in leaves(self.outputs)}
        self.gradients = built.compute_gradients(self.dout, self.cache)

    def recompute_gradients(self, dout=None, cache=None):
        self.built.layer.zero_grad()
        return self.built.compute_gradients(self.dout if dout is None else dout,
                                            cache or self.cache)


def attribute_ids(layer):
    return [{name: id(value) for name, value in vars(part).items()} for part in walk(layer)]


def check_no_array_is_modified(call):
    for array, before in call.kept:
        np.testing.assert_array_equal(array, before)


def check_layer_is_stateless(call):
    assert attribute_ids(call.built.layer) == call.held


def check_gradients_accumulate(call):
    twice = call.built.compute_gradients(call.dout, call.cache)
    learned = {name for name, _ in call.built.layer.params()}
    assert_close_arrays({name: twice[name] for name in learned},
                        {name: 2 * call.gradients[name] for name in learned}, 1e-14)
    assert_equal_arrays({name: g for name, g in twice.items() if name not in learned},
                        {name: g for name, g in call.gradients.items() if name not in learned})


def check_cache_is_independent(call):
    """Check that a forward on other inputs between forward and backward has no effect."""
    call.built.forward(inputs=map_floats(call.built.inputs, lambda a: 0.5 * a, keep=True))
    assert_equal_arrays(call.recompute_gradients(), call.gradients)
    assert_equal_arrays(dict(leaves(call.outputs)), call.values)


def check_single_upstream_gradient(call):
    if isinstance(call.outputs, tuple):
        alone = call.recompute_gradients((call.dout[0], *(None for _ in call.dout[1:])))
        assert_equal_arrays(call.recompute_gradients(call.dout[0]), alone)


def check_strided_upstream(call):
    apart = map_floats(call.dout, lambda a: strided(a) if np.ndim(a) else a)
    assert_close_arrays(call.recompute_gradients(apart), call.gradients, 1e-12, floor=1e-3)


def check_strided_inputs(call):
    """Check inputs, also of tokens, that are not contiguous or in column order."""
    for view in (strided, np.asfortranarray):
        inputs = map_floats(call.built.inputs,
                            lambda a, view=view: view(a) if np.ndim(a) else a, True)
        inputs = tuple(np.asfortranarray(a) if isinstance(a, np.ndarray) and a.ndim == 2 and
                       a.dtype == int else a for a in inputs)
        outputs, cache = call.built.forward(inputs=inputs)
        assert_close_arrays(dict(leaves(outputs)), call.values, 1e-12, floor=1e-2)
        assert_close_arrays(call.recompute_gradients(cache=cache), call.gradients, 1e-11, floor=1)


def check_float32(call):
    rough = call.built.astype("float32")
    outputs, cache = rough.forward()
    assert_close_arrays(dict(leaves(outputs)), call.values, 1e-4, floor=1e-2)
    found = rough.compute_gradients(rough.draw_upstream(outputs, "float32"), cache)
    largest = max((np.abs(g).max(initial=0) for g in call.gradients.values()), default=0)
    # Some gradients are zero in theory, or where a function is flat.
    assert_close_arrays(found, call.gradients, 1e-4, floor=1e-2 * max(largest, 1))
    for path, array in [*leaves(outputs), *found.items()]:
        assert array.dtype == np.float32, f"{path} is {array.dtype}"


CHECKS = (check_no_array_is_modified, check_layer_is_stateless, check_gradients_accumulate,
          check_cache_is_independent, check_single_upstream_gradient,
          check_strided_upstream, check_strided_inputs, check_float32)


@pytest.mark.parametrize("case", slow.mark_except(QUICK, CASES), ids=str)
def test_layer_contract(case):
    call = Called(case)
    for check in CHECKS:
        check(call)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_parameters_survive_saving_and_astype(name, tmp_path):
    built = build(ONE_OF_EACH[name])
    before = {path: np.copy(a) for path, a in leaves(built.forward()[0])}
    saved, mine = built.layer.state_dict(), dict(built.layer.params())
    twin = built.layer.astype("float32")
    assert [what for what, _ in twin.params()] == list(mine)
    for what, param in twin.params():
        assert param.data.dtype == param.grad.dtype == np.float32
        np.testing.assert_array_equal(param.data, mine[what].data.astype("float32"))
    assert_equal_arrays(built.layer.astype("float64").state_dict(), saved)
    built.layer.save(tmp_path / "layer.safetensors")
    for load, given in ((built.layer.load_state_dict, saved),
                        (built.layer.load, tmp_path / "layer.safetensors")):
        randomise(built.layer, make_case_rng("something else"))
        for what, param in built.layer.params():
            assert not np.shares_memory(saved[what], param.data)
        load(given)
        assert_equal_arrays(built.layer.state_dict(), saved)
        assert_equal_arrays(dict(leaves(built.forward()[0])), before)


def test_invalid_state_dict_changes_nothing(tmp_path):
    layer = build(ONE_OF_EACH["Linear"]).layer
    saved = layer.state_dict()
    other = {name: array + 1 for name, array in saved.items()}
    for arrays, message in (
            ({"W": other["W"]}, "'b' is missing"), ({**other, "c": other["b"]}, "'c' is unknown"),
            ({**other, "W": other["W"].T}, r"'W' is float64 \(4, 3\)"),
            ({**other, "W": other["W"].astype("float32")}, "'W' is float32")):
        with pytest.raises(InputError, match=message):
            layer.load_state_dict(arrays)
        assert_equal_arrays(layer.state_dict(), saved)
        write(tmp_path / "other", arrays)
        with pytest.raises(InputError, match="other, loaded into a Linear: .*" + message):
            layer.load(tmp_path / "other")
    (tmp_path / "other").write_text("no such file")
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        layer.load(tmp_path / "other")
    assert_equal_arrays(layer.state_dict(), saved)
