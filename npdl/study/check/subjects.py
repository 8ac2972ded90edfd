"""Prepare a layer and its inputs for a check, by the class Subject.

A Subject runs forward and backward of a float64 copy of the layer. Each run gives the same result:
random generators are reset before it, and parameters and inputs are restored after each backward.
"""

import contextlib
import itertools

import numpy as np

from npdl.backend import make_rng, to_device
from npdl.core import rebuild, walk
from npdl.study.check.adapters import Adapter, Uncheckable, get_forward_argument_names
from npdl.study.check.learned import find_gradient_key
from npdl.study.containment import is_npdl_class
from npdl.study.trees import (
    cast_tree,
    copy_tree,
    draw_upstream,
    is_equal,
    is_float,
    leaves,
    map_leaves,
    match_gradients_to_inputs,
    preserve_values,
    select_paths,
)


class Subject:
    """A float64 copy of a layer with random parameters, and float64 inputs.

    params  {name: Param} of the layer
    arrays  {name: array} of all parameters and float inputs; names are "W" or "input state.0". If
            an array is changed, the next run uses the changed values.
    dout    random upstream gradients, nested as the outputs are
    paths   a tuple of the paths of the output arrays; "1.0" is the first array in the second output
    uses    a list of tuples of paths; for each tuple, backward is checked once, with upstream
            gradients for the outputs at these paths
    notes   sentences on the outputs whose gradients are not compared
    ambiguous      descriptions of returned gradients that belong to no input
    returned_none  the names of the inputs for which backward returned None
    The parameters are random, unless `keep_params` is True. Raises Uncheckable if forward returns
    no float array, or if a second run returns other outputs.
    """

    def __init__(self, layer, inputs, options=None, seed=0, keep_params=False):
        self.layer, self.seed = layer.astype("float64"), seed
        self.ambiguous, self.returned_none = [], set()
        self.count, self.notes = None, []       # count: see _set_compared_outputs
        self.inputs, self.options = cast_tree(tuple(inputs), "float64"), options or {}
        self.names = get_forward_argument_names(layer)
        named = self._input_arrays = dict(self._name_input_arrays(leaves(self.inputs)))
        self._store_generator_states()
        if not all(is_npdl_class(type(part)) for part in walk(self.layer)):
            self._prepare_student_layer()
        if not keep_params:
            randomise(self.layer, make_rng(seed, 77))
        outputs = self._run_forward_twice()
        self.dout = draw_upstream(outputs, make_rng(seed, 78))
        if getattr(self.layer, "is_loss", False):
            self.dout = ones_like(outputs)
        self.paths = tuple(path for path, _ in leaves(self.dout))
        if not self.paths:
            raise Uncheckable(f"{self.name}.forward returned no float array; return an "
                              "array or a tuple of arrays")
        self.uses = [self.paths, *(some for n in (1, 2) if n < len(self.paths)
                                   for some in itertools.combinations(self.paths, n))]
        self.params, rng = dict(self.layer.params()), make_rng(seed, 79)
        self._start_gradients = {name: rng.standard_normal(param.shape)
                                 for name, param in self.params.items()}
        self.arrays = {name: param.data for name, param in self.params.items()} | {
            name: array for name, array in named.items() if isinstance(array, np.ndarray)}

    def _store_generator_states(self):
        """Find the random generators among the arguments and attributes, and store their states."""
        places = [dict(enumerate(self.inputs)), self.options, *map(vars, walk(self.layer))]
        found = {id(value): value.bit_generator for held in places for value in held.values()
                 if isinstance(value, np.random.Generator)}
        self._generators = [(one, one.state) for one in found.values()]

    def _prepare_student_layer(self):
        """Run a layer with a student's code: find parameters, generators and outputs to compare.

        Some code creates its parameters in the first run. An exception is ignored here, because the
        next run raises it again.
        """
        before = np.random.get_state()
        with (np.errstate(all="ignore"), preserve_values((), self.inputs),
              self._use_first_generator_states()):
            try:
                if isinstance(self.layer, Adapter):
                    self.layer = self.layer.copy_with_lazy_parameters(self.inputs, self.options)
                outputs, cache = self.run_forward()
                with preserve_values([p for _, p in self.layer.params()], self.inputs):
                    if not is_npdl_class(type(self.layer)):     # not only a part is a student's
                        self._set_compared_outputs(outputs)
                    if isinstance(self.layer, Adapter):
                        outputs, cache = self.run_forward()
                        dout = ones_like(outputs)
                        self.layer = self.layer.copy_with_learned_parameters(dout, cache)
                self.layer = self.layer.astype("float64")
            except Uncheckable:
                raise
            except Exception:
                pass
            finally:
                is_global_used = not is_equal(before[1:3], np.random.get_state()[1:3])
                np.random.set_state(before)
        self._store_generator_states()
        if is_global_used:
            first = np.random.MT19937(self.seed).state
            self._generators.append((np.random.get_bit_generator(), first))

    def _set_compared_outputs(self, outputs):
        """Set `count`, the number of outputs whose gradients backward takes; None means all."""
        several = len(outputs) if isinstance(outputs, tuple) else 1
        count = max(getattr(self.layer, "num_upstreams", 1), 1)
        if count < several and (count > 1 or getattr(self.layer, "is_loss", False)
                                or self._takes_only_first_gradient(outputs)):
            self.count = count
            first = "the first" + f" {count}" * (count > 1)
            self.notes = [f"forward returns {several} outputs, but backward takes the gradient "
                          f"of {first} only, so the other outputs are not checked"]

    def _takes_only_first_gradient(self, outputs):
        """Return True if backward takes only the gradient of the first output.

        Backward runs twice, with the gradients of all outputs and with the first gradient only. The
        result of a run is 0 if the gradients have the right shapes, 1 if not, and 2 if backward
        raises an exception. If it raises the same exception both times, the gradients aren't the
        cause, so False is returned. Raises Uncheckable if it raises two different exceptions.
        """
        results, texts = [], []
        for given in (outputs, outputs[0]):
            try:
                returned = self.layer.backward(ones_like(given), self.run_forward()[1])
                found = self.name_returned_gradients(returned)
                results.append(int(any(
                    np.shape(found.get(name, array)) != np.shape(array)
                    for name, array in self._input_arrays.items())))
            except Exception as error:
                results.append(2)
                texts.append(repr(error))
        if len({*texts}) == 2:
            together, alone = texts
            raise Uncheckable(f"forward returns several outputs, but {self.name}.backward accepts "
                              f"neither their gradients together ({together}) nor only the first "
                              f"gradient ({alone}). Give backward one argument for each gradient")
        return results[1] < results[0]

    @property
    def name(self):
        return type(self.layer).__name__

    def copy_with_inputs(self, inputs, seed_offset=0, keep_params=False):
        """Return a Subject of this layer with other inputs; `seed_offset` is added to the seed."""
        return type(self)(self.layer, inputs, self.options, self.seed + seed_offset, keep_params)

    def run_forward(self):
        """Return (outputs, cache) of forward."""
        inputs = map_leaves(self.inputs, lambda leaf: leaf)     # forward may add to a dict
        with self._use_first_generator_states():
            returned = self.layer.forward(*inputs, **self.options)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise Uncheckable(f"{self.name}.forward must return its output and a Cache: return y, "
                              "cache")
        outputs, cache = returned
        if self.count is not None:
            outputs = outputs[0] if self.count == 1 else outputs[: self.count]
        return outputs, cache

    def compute_outputs(self):
        """Return the float arrays that forward returns, in the order of `paths`."""
        return [array for _, array in leaves(self.run_forward()[0])]

    def copy_upstream(self, used_outputs):
        """Return upstream gradients for the outputs at these paths, nested as the outputs are.

        All other outputs have None if the layer is npdl's, and zeros if it is a student's.
        """
        zeros = not is_npdl_class(type(self.layer))
        return copy_tree(select_paths(self.dout, used_outputs, zeros))

    def backward(self, dout, cache):
        """Run backward once and return {name: gradient}; names without a gradient are left out.

        Before the run, each param.grad is filled with random numbers. Backward must add to these
        numbers, which are then subtracted from the gradients.
        """
        for name, param in self.params.items():
            param.grad = self._start_gradients[name].copy()
        with preserve_values(self.params.values(), self.inputs), self._use_first_generator_states():
            returned = copy_tree(self.layer.backward(dout, cache))     # a gradient may be an input
        missing = getattr(self.layer, "missing", ())
        of_params = {name: subtract_gradients(param.grad, self._start_gradients[name])
                     for name, param in self.params.items() if name not in missing}
        return of_params | self.name_returned_gradients(returned)

    def name_returned_gradients(self, gradients):
        """Return {name: gradient} for an array, a tuple, a list or a dict that backward returned.

        In a dict, the key of the gradient of an input x is "x" or "dx".
        """
        if isinstance(gradients, dict):
            keys = {name: find_gradient_key(name.split()[-1].rpartition(".")[2], gradients)
                    for name in self._input_arrays}
            self.ambiguous = [repr(key) for key, value in gradients.items()
                              if value is not None and key not in keys.values()]
            return {name: to_float_array(gradients[key])
                    for name, key in keys.items() if key is not None}
        if len(self.inputs) == 1 and isinstance(self.inputs[0], (tuple, list)) and not (
                isinstance(gradients, tuple) and len(gradients) == 1):
            gradients = (gradients,)
        gradients = match_gradients_to_inputs(
            gradients, [any(True for _ in leaves(a)) for a in self.inputs])
        rest = gradients[max(len(self.inputs), len(self.names)):]   # except missing states
        self.ambiguous = [f"an array {np.shape(g)}" for g in rest if g is not None]
        self.returned_none = {name for name, g in zip(self.names, gradients, strict=False)
                              if g is None and any(x is not None for x in gradients)}
        return dict(self._name_input_arrays(leaves(tuple(map(nest_like, gradients, self.inputs)))))

    def _name_input_arrays(self, arrays_by_path):
        """Yield (name, array) for pairs (path, array); the path "1.0" may become "input state.0".

        The first number of a path stands for an argument of forward, whose name replaces it.
        """
        for path, array in arrays_by_path:
            first, dot, rest = path.partition(".")
            number = int(first)
            name = self.names[number] if number < len(self.names) else first
            yield f"input {name}{dot}{rest}", array

    def _run_forward_twice(self):
        """Run forward twice and return its outputs; raise Uncheckable if the two runs differ."""
        with np.errstate(all="ignore"):
            held, outputs = copy_tree(self.inputs), copy_tree(self.run_forward()[0])
            if not is_equal(held, self.inputs):
                raise Uncheckable(f"{self.name}.forward changes its inputs in place, so "
                                  "later code sees other numbers; write into a new array")
            again = self.run_forward()[0]
        if not is_equal(outputs, again):
            raise Uncheckable(f"{self.name}.forward returns other outputs in a second run on the "
                              "same inputs. If it draws random numbers, draw them from NumPy's "
                              "global generator, or from a generator that is an argument of "
                              "forward or an attribute of the layer")
        return outputs

    @contextlib.contextmanager
    def _use_first_generator_states(self):
        """Reset random generators to their first states in the `with` block, then restore them."""
        before = [one.state for one, _ in self._generators]
        for one, state in self._generators:
            one.state = state
        try:
            yield
        finally:
            for (one, _), state in zip(self._generators, before, strict=True):
                one.state = state


def ones_like(outputs):
    """Return upstream gradients of 1, nested as the outputs are."""
    return map_leaves(outputs, lambda y: np.ones(np.shape(y)) if is_float(y) else None)


def subtract_gradients(after, before):
    """Return after - before; `after` alone if the shapes differ, and None if it is no array."""
    found = to_float_array(after)
    return found - before if found is not None and found.shape == before.shape else found


def to_float_array(value):
    """Return a value as a float array, or None if that is impossible."""
    with contextlib.suppress(TypeError, ValueError):
        return np.asarray(value, float)


def nest_like(gradient, value):
    """Return the gradient of the input `value`, nested as this input is; None if it can't be."""
    if isinstance(value, np.ndarray) and gradient is not None:
        return to_float_array(gradient)
    if not isinstance(value, (tuple, list)) or gradient is None:
        return gradient
    is_alike = isinstance(gradient, (tuple, list)) and len(gradient) == len(value)
    return rebuild(value, list(map(nest_like, gradient, value))) if is_alike else None


def randomise(layer, rng, scale=0.5):
    """Draw every parameter from a normal distribution with the standard deviation `scale`.

    The mean is 0 for matrices and 1 for vectors, because a gain near 0 hides errors.
    """
    for _, param in layer.params():
        centre = 1.0 if param.data.ndim == 1 else 0.0
        param.data[...] = to_device(centre + scale * rng.standard_normal(param.data.shape))
