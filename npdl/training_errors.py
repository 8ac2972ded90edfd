"""Checks of losses, optimizers and loaded arrays. Checks of layers and data are in npdl.errors."""

import math
import warnings

from npdl.errors import InputError, described, is_array, is_integer, require_number


def check_kinds(owner, **arrays):
    """Raise InputError unless, for each (array, kinds), the array's dtype.kind is in `kinds`."""
    words = {"f": "floats", "iu": "integers", "b": "bools"}
    for name, (array, kinds) in arrays.items():
        if not is_array(array) or array.dtype.kind not in kinds:
            raise InputError(f"{owner}: {name} is {described(array)}; it must hold {words[kinds]}")


def check_loss_shapes(logits, targets, counted):
    """Raise InputError unless `logits`, the shape of the logits, is (B, S, V) and the arrays fit.

    `targets` must be integers (B, S), and `counted` bools (B, S).
    """
    check_kinds("loss", targets=(targets, "iu"), counted=(counted, "b"))
    if len(logits) != 3 or targets.shape != logits[:2] or counted.shape != targets.shape:
        raise InputError(
            f"loss: logits {logits}, targets {targets.shape} and counted {counted.shape} "
            "do not fit; they must be (B, S, V), (B, S) and (B, S)"
        )


def require_betas(betas):
    """Raise InputError unless `betas` are two numbers, at least 0 and below 1."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise InputError(f"betas = {betas!r}; they must be two numbers")
    for i, beta in enumerate(betas):
        require_number(f"betas[{i}]", beta, lambda value: 0 <= value < 1, "at least 0 and below 1")


def require_finite(**numbers):
    """Raise InputError unless every named number is finite and 0 or more."""
    for name, value in numbers.items():
        require_number(name, value, lambda value: 0 <= value < math.inf,
                       "a finite number, 0 or more")


def check_layer(owner, layer):
    """Raise InputError unless `layer` has the method `params`, as every Layer has."""
    if not callable(getattr(layer, "params", None)):
        raise InputError(f"{owner}: given {described(layer)}; give a Layer, such as a model, and "
                         "not its parameters")


def require_layers(owner, layers, example):
    """Raise InputError, with an example, unless `layers` is a list of at least one Layer."""
    items = layers if isinstance(layers, (list, tuple)) else [layers]
    invalid = [described(layer) for layer in items
               if isinstance(layer, type) or not hasattr(layer, "backward")]
    if invalid or not items:
        raise InputError(f"{owner}: given {invalid[0] if invalid else 'nothing'}; give layers, "
                         f"such as {example}")


def checked_params(owner, params):
    """Return `params` as a list, after a check that they are trainable Params."""
    params = list(params) if hasattr(params, "__iter__") else [params]
    for param in params:
        if not hasattr(param, "grad") or not hasattr(param, "trainable"):
            raise InputError(f"{owner}: given {described(param)}; give Params, such as "
                             "optimizer.params.values()")
        check_trainable(owner, param)
    return params


def check_trainable(owner, param):
    """Raise InputError if a Param is frozen and so has no gradient."""
    if not param.trainable:
        raise InputError(f"{owner}: {param} is frozen and has no gradient; make the optimizer "
                         "after freezing")


def check_optimizer_state(own, state):
    """Raise InputError unless `state` has the entries of `own`, with arrays of the same shapes."""
    if not isinstance(state, dict) or state.keys() != own.keys():
        given = described(state)
        if isinstance(state, dict):
            given = ", ".join(map(str, state)) or "an empty dict"
        raise InputError(f"optimizer state: given {given}; it must have {', '.join(own)}")
    require_number("steps", state["steps"], lambda steps: is_integer(steps) and steps >= 0,
                   "an integer, 0 or more")
    for moment in own.keys() - {"steps"}:
        check_state_dict(own[moment], state[moment], f"{moment} of")


def check_state_dict(own, arrays, what="parameter"):
    """Raise InputError unless `arrays` has the names, shapes and dtypes of `own` {name: array}."""
    differing = sorted(own.keys() ^ arrays.keys())
    if differing:
        how = "missing" if differing[0] in own else "unknown"
        raise InputError(f"{what} {differing[0]!r} is {how} (in all, {len(differing)} names are "
                         "missing or unknown); give the arrays of a model of the same class, made "
                         "with the same options")
    for name, wanted in own.items():
        given = arrays[name]
        if not is_array(given) or (given.shape, given.dtype) != (wanted.shape, wanted.dtype):
            raise InputError(f"{what} {name!r} is {described(given)}; this model needs "
                             f"{described(wanted)}")


def warn_undropped():
    """Warn, once in a process, that a training step used no dropout."""
    warnings.warn("dropout had no effect: forward was called without rng before backward; train "
                  "with forward(.., rng=numpy.random.default_rng(0)), or with dropout 0",
                  stacklevel=1)
