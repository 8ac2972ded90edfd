"""What every layer promises: of a call in every gradient-check case, of a layer once a class."""

import numpy as np
import pytest

from npdl.core import Param, walk
from npdl.errors import CheckpointError, InputError
from npdl.safetensors import write
from npdl.study.check.samples import ROW
from npdl.study.check.subjects import randomise
from npdl.study.relative_error import relative_error
from npdl.study.trees import leaves
from tests.layers.cases import all_cases, strided
from tests.tools import slow
from tests.tools.running import arrays_in, build, case_rng, covers, map_floats, npdl_layers

CASES = all_cases()
QUICK = [str(case) for case in CASES if not case.of_option and case.what != ROW[0]]
ONE_OF_EACH = {cls.__name__: case for cls in npdl_layers() for case in reversed(CASES)
               if covers(case.layer_class, cls)}        # the first; test_gradcheck.py misses one
every_class = pytest.mark.parametrize("name", ONE_OF_EACH)


def equal(first, second):
    """The same names with the same bits."""
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name, strict=True)


def close(found, wanted, relative, floor=0.0):
    """Every array within `relative` of its largest entry, or of `floor` where that is larger."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        error = relative_error(found[name], array, floor)
        assert error <= relative, f"{name}: {error:.2e}"


class Called:
    """A case run once on arrays that may not be written into, with all that it gave."""

    def __init__(self, case):
        self.built = built = build(case)
        self.held = attributes(built.layer)
        outputs, _ = built.forward()
        self.dout = built.upstream(outputs)
        given = list(arrays_in((built.inputs, built.options, self.dout)))
        data = [param.data for _, param in built.layer.params()]
        self.kept = [(array, array.copy()) for array in given + data]
        for array in given:
            array.flags.writeable = False               # a write is an error where it happens
        self.outputs, self.cache = built.forward()
        self.values = {path: np.copy(a) for path, a in leaves(self.outputs)}
        self.gradients = built.gradients(self.dout, self.cache)

    def again(self, dout=None, cache=None):
        self.built.layer.zero_grad()
        return self.built.gradients(self.dout if dout is None else dout, cache or self.cache)


def attributes(layer):
    return [{name: id(value) for name, value in vars(part).items()} for part in walk(layer)]


def nothing_is_written(call):
    for array, before in call.kept:
        np.testing.assert_array_equal(array, before)


def the_layer_keeps_nothing(call):
    assert attributes(call.built.layer) == call.held


def a_second_backward_adds_the_same(call):
    twice = call.built.gradients(call.dout, call.cache)
    learned = {name for name, _ in call.built.layer.params()}
    close({name: twice[name] for name in learned},
          {name: 2 * call.gradients[name] for name in learned}, 1e-14)
    equal({name: g for name, g in twice.items() if name not in learned},
          {name: g for name, g in call.gradients.items() if name not in learned})


def the_cache_is_a_value(call):
    """A forward on other inputs, between forward and backward, changes nothing."""
    call.built.forward(inputs=map_floats(call.built.inputs, lambda a: 0.5 * a, keep=True))
    equal(call.again(), call.gradients)
    equal(dict(leaves(call.outputs)), call.values)


def a_bare_gradient_is_that_of_the_first_output(call):
    if isinstance(call.outputs, tuple):
        alone = call.again((call.dout[0], *(None for _ in call.dout[1:])))
        equal(call.again(call.dout[0]), alone)


def strided_upstream_gradients(call):
    apart = map_floats(call.dout, lambda a: strided(a) if np.ndim(a) else a)
    close(call.again(apart), call.gradients, 1e-12, floor=1e-3)


def strided_inputs(call):
    """In rows with gaps, and in columns (tokens too)."""
    for view in (strided, np.asfortranarray):
        inputs = map_floats(call.built.inputs,
                            lambda a, view=view: view(a) if np.ndim(a) else a, True)
        inputs = tuple(np.asfortranarray(a) if isinstance(a, np.ndarray) and a.ndim == 2 and
                       a.dtype == int else a for a in inputs)
        outputs, cache = call.built.forward(inputs=inputs)
        close(dict(leaves(outputs)), call.values, 1e-12, floor=1e-2)
        close(call.again(cache=cache), call.gradients, 1e-11, floor=1)


def float32_stays_and_agrees(call):
    rough = call.built.astype("float32")
    outputs, cache = rough.forward()
    close(dict(leaves(outputs)), call.values, 1e-4, floor=1e-2)
    found = rough.gradients(rough.upstream(outputs, "float32"), cache)
    largest = max((np.abs(g).max(initial=0) for g in call.gradients.values()), default=0)
    # Some gradients are zero in theory, or where a function is flat.
    close(found, call.gradients, 1e-4, floor=1e-2 * max(largest, 1))
    for path, array in [*leaves(outputs), *found.items()]:
        assert array.dtype == np.float32, f"{path} is {array.dtype}"


PROMISES = (nothing_is_written, the_layer_keeps_nothing, a_second_backward_adds_the_same,
            the_cache_is_a_value, a_bare_gradient_is_that_of_the_first_output,
            strided_upstream_gradients, strided_inputs, float32_stays_and_agrees)


@pytest.mark.parametrize("case", slow.mark_except(QUICK, CASES), ids=str)
def test_a_call_keeps_every_promise(case):
    call = Called(case)
    for promise in PROMISES:
        promise(call)


@every_class
def test_a_replica_shares_the_data_and_owns_its_gradients(name):
    call = Called(ONE_OF_EACH[name])
    layer = call.built.layer
    layer.zero_grad()
    replica = layer.replica()
    _, cache = call.built.forward(layer=replica)
    equal(call.built.gradients(call.dout, cache, layer=replica), call.gradients)
    own = dict(layer.params(frozen=True))
    assert own.keys() == dict(replica.params(frozen=True)).keys()
    for what, param in replica.params(frozen=True):         # running statistics, too
        assert param.data is own[what].data and param.decay == own[what].decay
        assert param.trainable == own[what].trainable
        if param.trainable:
            assert not np.shares_memory(param.grad, own[what].grad) or not param.grad.size
            assert not own[what].grad.any(), f"{what}: the replica wrote into the layer's gradient"


@every_class
def test_state_dict_a_file_and_astype_copy(name, tmp_path):
    built = build(ONE_OF_EACH[name])
    before = {path: np.copy(a) for path, a in leaves(built.forward()[0])}
    saved, mine = built.layer.state_dict(), dict(built.layer.params())
    twin = built.layer.astype("float32")
    assert [what for what, _ in twin.params()] == list(mine)
    for what, param in twin.params():
        assert param.data.dtype == param.grad.dtype == np.float32
        np.testing.assert_array_equal(param.data, mine[what].data.astype("float32"))
    equal(built.layer.astype("float64").state_dict(), saved)
    built.layer.save(tmp_path / "layer.safetensors")
    for load, given in ((built.layer.load_state_dict, saved),
                        (built.layer.load, tmp_path / "layer.safetensors")):
        randomise(built.layer, case_rng("something else"))
        for what, param in built.layer.params():
            assert not np.shares_memory(saved[what], param.data)
        load(given)
        equal(built.layer.state_dict(), saved)
        equal(dict(leaves(built.forward()[0])), before)


@every_class
def test_dotted_names_lead_to_the_parameters(name):
    layer = build(ONE_OF_EACH[name]).layer
    found = list(layer.params(frozen=True))
    assert len({what for what, _ in found}) == len({id(p) for _, p in found}) == len(found)
    for what, param in found:
        place = layer
        for part in what.split("."):
            place = place[int(part)] if part.isdigit() else getattr(place, part)
        assert place is param
    held = {id(value) for part in walk(layer) for value in vars(part).values()
            if isinstance(value, Param)}
    assert held == {id(param) for _, param in found}


def test_load_state_dict_refuses_and_changes_nothing(tmp_path):
    layer = build(ONE_OF_EACH["Linear"]).layer
    saved = layer.state_dict()
    other = {name: array + 1 for name, array in saved.items()}
    for arrays, message in (
            ({"W": other["W"]}, "'b' is missing"), ({**other, "c": other["b"]}, "'c' is unknown"),
            ({**other, "W": other["W"].T}, r"'W' is float64 \(4, 3\)"),
            ({**other, "W": other["W"].astype("float32")}, "'W' is float32")):
        with pytest.raises(InputError, match=message):
            layer.load_state_dict(arrays)
        equal(layer.state_dict(), saved)
        write(tmp_path / "other", arrays)
        with pytest.raises(InputError, match="other, loaded into a Linear: .*" + message):
            layer.load(tmp_path / "other")
    (tmp_path / "other").write_text("no such file")
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        layer.load(tmp_path / "other")
    equal(layer.state_dict(), saved)
