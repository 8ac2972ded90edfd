"""What the tests of the device path share."""

import contextlib

import numpy as np

from npdl import backend
from npdl.backend import to_host
from npdl.study.trees import cast, mapped
from npdl.train.config import Config

# tests/engine/test_cuda.py compares the engines.
SETTINGS = [{"engine": "recorded", "dropout": 0.1}] + [
    {"engine": "plain", **settings} for settings in (
        {"clip": 1.0}, {"dropout": 0.1}, {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "adam", "norm": "pre"}, {"orders": (2, 3), "p": 5, "batch": 9},
        {"positions": "learned", "tied": True, "decay": "matrices", "bias": False})]


def small_config(model, settings, **more):
    """A Config of a model that trains in no time; None where the settings are not its own."""
    if model == "lstm" and {"norm", "positions"} & settings.keys():
        return None
    return Config(model=model, **{"p": 7, "width": 16, "heads": 2, "steps": 4, **settings, **more})


def on_device(nest):
    """The same nest with its arrays on the device; `lengths` are read on the host."""
    if isinstance(nest, dict):
        return {key: value if key == "lengths" else on_device(value)
                for key, value in nest.items()}
    return mapped(nest, lambda leaf: backend.to_device(leaf) if isinstance(leaf, np.ndarray)
                  else leaf)


def on_host(nest):
    """The same nest with contiguous arrays, as a copy to a device makes them."""
    if isinstance(nest, dict):
        return {key: on_host(value) for key, value in nest.items()}
    return mapped(nest, lambda leaf: np.ascontiguousarray(leaf).reshape(leaf.shape)
                  if isinstance(leaf, np.ndarray) else leaf)


def arrays_in(nest):
    """The arrays of a nest, on the host, in order."""
    if isinstance(nest, (tuple, list)):
        return [array for item in nest for array in arrays_in(item)]
    return [np.asarray(to_host(nest))] if hasattr(nest, "dtype") else []


def upstream(outputs, rng):
    """Random gradients in the nest of `outputs`, for the float arrays in it."""
    return mapped(outputs, lambda y: None if y is None or y.dtype.kind != "f"
                  else rng.standard_normal(y.shape).astype(y.dtype))


def run_case(case, place, dtype=None, unwaited=contextlib.nullcontext):
    """Outputs, returned gradients and parameters' gradients of one case, on the host. `dtype`
    replaces the case's own; `unwaited` is a context for what must not wait for the device."""
    with backend.using("numpy"):
        layer, inputs, options = case.build(backend.stream(3, 5))
    if dtype is not None:
        layer, inputs = layer.astype(dtype), cast(tuple(inputs), dtype)
        options = {name: cast(value, dtype) for name, value in options.items()}
    layer = layer.to_backend()
    randomise_on_host(layer)
    inputs, options = place(tuple(inputs)), place(dict(options))
    forward = (lambda *a, **k: case.forward(layer, *a, **k)) if case.forward else layer.forward
    with unwaited():
        outputs, cache = forward(*inputs, **options)
    dout = place(upstream(outputs, backend.stream(7)))
    with unwaited():
        returned = layer.backward(dout, cache)
    grads = [to_host(p.grad) for _, p in layer.params() if p.trainable]
    return arrays_in(outputs) + arrays_in(returned) + grads


def randomise_on_host(layer):
    """The same random parameters on either backend."""
    twin_rng = backend.stream(9)
    for _, param in layer.params():
        if param.trainable:
            values = twin_rng.standard_normal(param.data.shape).astype(param.data.dtype)
            param.data[...] = backend.to_device(values)


def assert_same_records(found, wanted, rel=1e-4):
    """Records of metrics with the same keys, and numbers that agree up to rounding."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        for key, value in other.items():
            if isinstance(value, float):
                np.testing.assert_allclose(one[key], value, rtol=rel, err_msg=key)
            else:
                assert one[key] == value, key
