"""Param, Cache and Layer.

A layer is its parameters plus two methods. ``y, cache = layer.forward(x)`` returns the output and a
cache with the arrays that backward needs. ``dx = layer.backward(dy, cache)`` adds to each
``param.grad`` and returns the gradient of the input.

If forward has several outputs, dy is a tuple with the gradient of each, and None for an output that
was not used. If dy is a single array, it is the gradient of the first output. If forward has
several inputs, backward returns a tuple with the gradient of each, and None for an input of
integers.
"""

import copy

from npdl.backend import to_device, to_host, xp
from npdl.errors import InputError, check_gradient, check_state_dict, describe
from npdl.options import FLOATS, require_bool
from npdl.safetensors import read, write


class _Discard:
    """The `grad` of a frozen Param. It takes no memory, and adding to it has no effect."""

    def __iadd__(self, *given):
        return self

    __isub__ = __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __iadd__
    __getitem__ = __setitem__ = __iadd__                    # grad[i] += gradient

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        return out[0] if out else self                      # add.at(grad, i, g), add(.., out=grad)


class Param:
    """A parameter: its array `data`, and an array `grad` of this shape, to which backward adds.

    Optimizers apply weight decay to it only if `decay` is True. If `trainable` is False, the Param
    is frozen: it is saved and copied with the model, but it has no gradient, and optimizers don't
    update it. A Param that is made with trainable=False (running statistics, quantized weights) is
    always frozen.
    """

    def __init__(self, data, decay=True, trainable=True):
        require_bool(decay=decay, trainable=trainable)
        if hasattr(data, "mask"):
            raise InputError("Param: the data is a masked array, and a parameter has no mask; give "
                             "data.filled(0) or data.data")
        self.data = to_device(data)
        if trainable and self.data.dtype.name not in FLOATS:
            raise InputError(f"Param: the data is {describe(self.data)}; it must be float32 or "
                             "float64")
        self.decay = decay
        self._can_learn = trainable
        self.trainable = trainable

    @property
    def shape(self):
        return self.data.shape

    @property
    def trainable(self):
        return not isinstance(self.grad, _Discard)

    @trainable.setter
    def trainable(self, trainable):
        learns = trainable and self._can_learn
        self.grad = xp.zeros(self.data.shape, self.data.dtype) if learns else _Discard()

    def like(self, data):
        """Return a Param with the array `data`, its own gradient, and this Param's settings."""
        twin = Param(data, self.decay, self._can_learn)
        twin.trainable = self.trainable
        return twin

    def __repr__(self):
        return f"Param(shape={self.data.shape}, dtype={self.data.dtype})"


class NoBias:
    """A placeholder for b in a layer without a bias. Its data is 0, so x W + b can be computed.

    Adding to its gradient has no effect. It is not a Param, so it is not listed, saved or updated.
    """

    data, trainable = 0.0, False

    def __init__(self, *shape):
        self.shape = shape
        self.grad = _Discard()


class Cache:
    """The arrays that forward stores for backward, as named fields."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __repr__(self):
        return f"Cache({', '.join(f'{name}: {describe(x)}' for name, x in vars(self).items())})"


def flatten_items(value, name):
    """Yield (dotted name, item) for all items of `value`, the attribute `name` of a layer.

    Nested lists, tuples and dicts are flattened. For example, a list Ws yields ("Ws.0", Ws[0]), and
    a dict p yields ("p.W", p["W"]). Any other value yields (name, value).
    """
    if isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flatten_items(item, f"{name}.{key}")
    else:
        yield name, value


def rebuild(container, items):
    """Return a copy of a list, tuple or dict with `items` in place of its values."""
    if isinstance(container, dict):
        twin = copy.copy(container)
        twin.update(zip(container, items, strict=True))
        return twin
    kind = type(container)
    return kind(*items) if hasattr(container, "_fields") else kind(items)


def map_nested(function, nested):
    """Return a copy of `nested` (nested tuples, lists, dicts) with function(item) for each item."""
    if isinstance(nested, (tuple, list, dict)):
        items = nested.values() if isinstance(nested, dict) else nested
        return rebuild(nested, [map_nested(function, item) for item in items])
    return function(nested)


class Layer:
    """Base class of layers and models.

    A layer finds its parameters (Param) and sub-layers (Layer) among its attributes, also in lists,
    tuples and dicts.
    """

    def __setattr__(self, name, value):
        if name == "params" and not callable(value):
            raise InputError("self.params is the method that lists a layer's Params; give the "
                             "attribute another name, and make each of its arrays a Param")
        super().__setattr__(name, value)

    is_embedding = False  # True for embedding matrices, which count_params can leave out

    def forward(self, *inputs):
        raise NotImplementedError

    def backward(self, *gradients):
        raise NotImplementedError

    def children(self):
        """Yield (name, layer) for the sub-layers that this layer holds directly."""
        for name, item in self._named_items():
            if isinstance(item, Layer):
                yield name, item

    def _named_items(self):
        for name, value in vars(self).items():
            yield from flatten_items(value, name)

    def params(self, with_frozen=False):
        """Yield (dotted name, Param) for the trainable Params, or for all if `with_frozen`.

        A Param that is used several times is yielded once, under its first name.
        """
        seen = set()
        for prefix, layer in named_layers(self):
            for name, p in layer._named_items():
                if isinstance(p, Param) and id(p) not in seen and (with_frozen or p.trainable):
                    seen.add(id(p))
                    yield f"{prefix}.{name}" if prefix else name, p

    def zero_grad(self):
        """Set every gradient to zero. Call it once before each training step."""
        for _, param in self.params():
            param.grad[...] = 0

    def set_trainable(self, trainable):
        """Freeze (False) or unfreeze (True) every parameter. Make the optimizer after this call."""
        for _, param in self.params(with_frozen=True):
            param.trainable = trainable

    def replica(self):
        """Return a copy for a worker thread: it shares the data, but has its own gradients.

        A Param that is used twice (weight tying) is also one Param in the copy.
        """
        return self._copy(lambda param: param.like(param.data), {})

    def _copy(self, copy_param, memo, copy_array=lambda array: array):
        """Return a copy of this layer. copy_param copies its Params, and copy_array its arrays.

        `memo` is {id of a Param or layer: its copy}. The first call gets {}, and fills it.
        """
        def copy_item(value):
            if id(value) not in memo:
                if isinstance(value, Param):
                    memo[id(value)] = copy_param(value)
                elif isinstance(value, Layer):
                    memo[id(value)] = value._copy(copy_param, memo, copy_array)
                else:
                    return copy_array(value) if hasattr(value, "dtype") else value
            return memo[id(value)]

        twin = copy.copy(self)
        for name, value in vars(self).items():
            setattr(twin, name, map_nested(copy_item, value))
        return twin

    def astype(self, dtype):
        """Return a copy of this layer with its float parameters converted to another dtype."""
        def cast(param):
            is_float = param.data.dtype.kind == "f"
            return param.like(param.data.astype(dtype) if is_float else param.data)

        return self._copy(cast, {})

    def to_backend(self):
        """Return a copy of this layer with its parameters on the current backend (CPU or GPU)."""
        return self._copy(lambda param: param.like(to_host(param.data)), {},
                          lambda array: to_device(to_host(array)))

    def state_dict(self):
        """Return {dotted name: NumPy array}, copies of all parameters, including frozen ones."""
        return {name: to_host(param.data).copy() for name, param in self.params(with_frozen=True)}

    def load_state_dict(self, arrays):
        """Copy `arrays`, the result of a `state_dict`, into the parameters.

        Raises InputError, and changes nothing, if a name, a shape or a dtype differs.
        """
        params = dict(self.params(with_frozen=True))
        check_state_dict({name: param.data for name, param in params.items()}, arrays)
        for name, param in params.items():
            param.data[...] = to_device(arrays[name])

    def save(self, path):
        """Write all parameters, including frozen ones, into a safetensors file, atomically."""
        write(path, self.state_dict())

    def load(self, path):
        """Read the parameters from a file that `save` wrote for a layer with the same sizes.

        Raises CheckpointError if the file is not a safetensors file or is damaged, and InputError
        if its names, shapes or dtypes differ from those of this layer.
        """
        arrays = read(path)
        try:
            self.load_state_dict(arrays)
        except InputError as error:
            raise InputError(f"{path}, loaded into a {type(self).__name__}: {error}") from None

    def count_params(self, embeddings=True):
        """Return the number of trainable parameters.

        With embeddings=False, the embedding matrices of tokens and positions are not counted.
        """
        skip = () if embeddings else embedding_names(self)
        return sum(p.data.size for name, p in self.params() if name not in skip)

    def summary(self, file=None):
        """Print a table of the parameters, and their count with and without embeddings."""
        rows = [(name, str(p.shape), p.data.size) for name, p in self.params()]
        rows += [("total", "", self.count_params()),
                 ("without embeddings", "", self.count_params(embeddings=False))]
        width = max([len(name) for name, _, _ in rows] + [30])
        print(f"{'parameter':<{width}}  {'shape':>14}  {'count':>12}", file=file)
        for name, shape, size in rows:
            print(f"{name:<{width}}  {shape:>14}  {size:>12,}", file=file)


def embedding_names(layer):
    """Return the dotted names of the embedding matrices in a layer."""
    matrices = {id(p) for part in walk(layer) if part.is_embedding for _, p in part.params()}
    return {name for name, param in layer.params() if id(param) in matrices}


def walk(layer):
    """Return an iterator over the layer and every layer below it."""
    return (part for _, part in named_layers(layer))


def named_layers(layer, name=""):
    """Yield (dotted name, layer) for the layer and every layer below it."""
    yield name, layer
    for child_name, child in layer.children():
        yield from named_layers(child, f"{name}.{child_name}" if name else child_name)


def require_layers(owner, layers, expected="a Layer, such as a model, and not its parameters"):
    """Raise InputError, ending with `expected`, unless `layers` is a Layer or a list of them."""
    items = layers if isinstance(layers, (list, tuple)) else [layers]
    invalid = [describe(layer) for layer in items
               if isinstance(layer, type) or not hasattr(layer, "backward")]
    if invalid or not items:
        raise InputError(f"{owner}: got {invalid[0] if invalid else 'nothing'}; give {expected}")


def checked_gradients(dout, outputs, owner):
    """Return the upstream gradient `dout` in the form of `outputs`: an array, or a tuple of arrays.

    None, the gradient of an unused output, becomes zeros. If there are several outputs and `dout`
    is one array, it is the gradient of the first output. Raises InputError if a gradient does not
    have the shape of its output. `owner` is the name of the layer in the error message.
    """
    if isinstance(outputs, tuple):
        if not isinstance(dout, (tuple, list)):
            dout = (dout,) + (None,) * (len(outputs) - 1)
        if len(dout) != len(outputs):
            raise InputError(f"{owner}: backward was given {len(dout)} gradients; give one for "
                             f"each of the {len(outputs)} outputs of forward")
        return tuple(checked_gradients(d, y, owner) for d, y in zip(dout, outputs, strict=True))
    if dout is None:
        return xp.zeros_like(outputs)
    check_gradient(dout, outputs.shape, owner)
    return dout
