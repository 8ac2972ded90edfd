"""Backwards that are not written as npdl's are, made into Layers.

    y, cache = layer.forward(x)           dx = layer.backward(dy, cache)         a Layer, as it is
    y = layer.forward(x)                  dx = layer.backward(dy)                cache in self
    y, cache = f_forward(x, w)            dx, dw = f_backward(dy, cache)         two functions
    y, back = f_forward(x, w)             dx, dw = back(dy)                      a closure
    y = F.forward(ctx, x, w)              dx, dw = F.backward(ctx, dy)           static methods

The cache may come first; a loss's backward may take no gradient, and any the inputs again; one that
takes a learning rate is believed to subtract it times the gradient. Gradients may be returned by
name, or in lists. What a class that is no Layer learns, `learned` knows.
"""

import contextlib
import copy
import inspect

import numpy as np

from npdl.core import Cache, Layer, Param, walk
from npdl.errors import InputError
from npdl_study.check.arguments import CACHES, needed, positional, rates_of, takes_cache
from npdl_study.check.learned import attributes, candidates, gradient_names, in_turn, is_constant
from npdl_study.trees import is_float, leaves, mapped, restored, tupled


def as_layer(thing):
    """A Layer of what can be checked. Raises InputError for anything else."""
    if isinstance(thing, tuple) and len(thing) == 2 and all(map(callable, thing)):
        return functions(getattr(thing[0], "__name__", "f"), *thing)()
    if inspect.isclass(thing) and of_context(thing) is not None:
        return of_context(thing)()
    if not inspect.isclass(thing) and keeps_cache_in_self(type(thing)):
        return thing if isinstance(thing, InSelf) else in_self(type(thing))(thing, made=True)
    if not isinstance(thing, Layer):
        raise InputError(f"a layer is needed, not {type(thing).__name__}; give an instance of a "
                         "class such as class Mine(Layer)")
    refuse_cycle(thing)
    return thing


def refuse_cycle(layer, around=(), path="self"):
    """Raise InputError for a layer that holds itself."""
    if any(layer is other for other in around):
        raise InputError(f"{type(layer).__name__} holds itself, as {path}: parameters could not "
                         "be counted to an end; hold the parts of a layer, not the layer they "
                         "belong to")
    for name, child in layer.children():
        refuse_cycle(child, (*around, layer), f"{path}.{name}")


class Functions(Layer):
    """Two functions as a layer without parameters: each array that forward takes is an input."""

    def forward(self, *inputs, **options):
        self.given = inputs
        returned = self.run(*inputs, **options)
        if not isinstance(returned, tuple) or len(returned) < 2:
            raise InputError(f"{self.run.__name__} must return its output and a cache: "
                             "return out, cache")
        *outputs, cache = returned
        return (outputs[0] if len(outputs) == 1 else tuple(outputs)), cache

    def backward(self, dout, cache):
        returned = scaled(*undone(self.undo, dout, (cache,), self.run, self.given))
        if isinstance(returned, list) and len(self.given) > 1:
            returned = tuple(returned)
        return tupled(in_order(returned, self.run, self.given))


def in_order(returned, forward, inputs):
    """Gradients that a backward returned by the names of forward's arguments, as a tuple; of an
    argument that is a dict, a dict; what is left in the end, in one too."""
    names = list(inspect.signature(forward).parameters)[: len(inputs)]
    known = {key for name, value in zip(names, inputs, strict=False) for key in (
        value if isinstance(value, dict) else (name,))}
    if not isinstance(returned, dict) or not returned.keys() & {
            other for name in known for other in (name, *gradient_names(str(name)))}:
        return returned
    rest = dict(returned)

    def taken(name):
        own = next((n for n in (name, *gradient_names(str(name))) if n in rest), None)
        return None if own is None else rest.pop(own)

    found = [{key: taken(key) for key in value} if isinstance(value, dict) else taken(name)
             for name, value in zip(names, inputs, strict=False)]
    return (*found, rest) if rest else tuple(found)


def undone(backward, dout, cache, forward, inputs):
    """(what a backward returns, called as it wants to be; what is to be multiplied by): handed by
    their names the inputs that it takes again; a loss's, that takes no gradient, none."""
    rates, given = rates_of(backward), dict(zip(positional(forward), inputs, strict=False))
    names = [name for name in positional(backward) if name not in rates]
    needs, many = needed(backward) - len(rates), isinstance(dout, tuple)
    again = [n for n in names if n in given] if len(names) == needs > len(cache) + (
        len(dout) if many else 1) else []
    last = not many and np.size(dout) == 1              # backward(self, dout=1)
    if len(names) > len(again) + len(cache) and not (last and inspect.signature(
            backward).parameters[names[0]].default in (1, 1.0)):
        douts, last = dout if many and needs - len(again) - len(cache) > 1 else (dout,), False
    elif last:
        douts = ()
    else:
        raise InputError(f"{backward.__qualname__} takes no gradient, as only that of a loss can, "
                         "whose output is one number: write backward(self, dout)")
    rest = (*cache, *douts) if names and names[0] in CACHES else (*douts, *cache)
    left = iter(rest)
    handed = [given[n] if n in again else next(left) for n in names] if again else rest
    return backward(*handed, **dict.fromkeys(rates, 1.0)), np.reshape(dout, ()) if last else None


def scaled(gradients, scale):
    """A nest of gradients times a number."""
    return gradients if scale is None else mapped(
        gradients, lambda g: g if g is None else np.asarray(g) * scale)


def pulled(dout, back):
    """The backward of a forward that returned what it made as its cache."""
    if isinstance(back, (tuple, list)) and any(map(callable, back)):
        return tuple(one and one(dout) for one in back)
    if isinstance(back, dict) and all(map(callable, back.values())):
        return {name: one(dout) for name, one in back.items()}
    if not callable(back):
        raise InputError("forward must return its output and a function: return out, backward")
    return back(dout)


def functions(name, forward, backward=pulled, sample=None):
    """A Layer class of two functions; `sample()` returns forward's arguments."""
    def run(self, /, *inputs, **options):
        return Functions.forward(self, *inputs, **options)

    own = inspect.Parameter("_", inspect.Parameter.POSITIONAL_ONLY)     # forward's may be self
    signature = inspect.signature(forward)
    run.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])
    body = {"forward": run, "run": staticmethod(forward), "undo": staticmethod(backward),
            "__module__": forward.__module__, "__doc__": forward.__doc__}
    if sample is not None:
        body["sample"] = classmethod(lambda cls: (cls(), sample()))
    return type(name, (Functions,), body)


class Context:
    """What forward(ctx, x) keeps for backward(ctx, dy)."""

    def save_for_backward(self, *arrays):
        self.saved_tensors = arrays


def of_context(cls):
    """A Layer class of a class with static forward(ctx, x) and backward(ctx, dy); or None."""
    names = [list(inspect.signature(f).parameters)[:1] for f in map(
        vars(cls).get, ("forward", "backward")) if isinstance(f, staticmethod)]
    if len(names) < 2 or not names[0] or names[0][0] not in CACHES:
        return None

    def forward(*inputs, **options):
        context = Context()
        return *tupled(cls.forward(context, *inputs, **options)), context

    signature = inspect.signature(cls.forward)
    forward.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
    forward.__module__, own = cls.__module__, getattr(cls, "sample", None)

    def sample():
        found = tupled(own())
        return found[1:] if found and found[0] is cls else found
    return functions(cls.__name__, forward, cls.backward, own and sample)


class ObjectRun:
    """One run of an object that keeps its cache in itself: the object, `now` of what it was made
    of in this run, and the cache that its forward returned beside, in a tuple."""

    def __init__(self, made, now):
        self.made, self.now, self.cache = made, now, ()


class InSelf(Layer):
    """A layer that keeps its cache in itself: backward(dout), after a forward that returns out.

    Each forward runs on a copy of the object as it was made, which is the cache: what an object
    remembers of other runs is not in it. What it learns is known by its names, and after
    `find_params` by where a backward has left its gradient.
    """

    def __init__(self, made):
        self.made, self.count, self.returned, self.extra, self.absent = made, None, [], [], set()
        self.could = {} if isinstance(made, Layer) else candidates(made)
        self.held = {}
        self._hold(path for path, one in self.could.items() if one.is_known)

    def _hold(self, paths):
        for path in paths:
            value = self.could[path].value
            self.held.setdefault(path, value if isinstance(value, Param) else Param(value))

    def params(self, frozen=False):
        yield from self.made.params(frozen) if isinstance(self.made, Layer) else self.held.items()

    def _anew(self):
        """A Run of the object as it was made, with the arrays and generators of this one."""
        memo = {id(value): value for param in self.held.values() for value in (param, param.data)}
        if not isinstance(self.made, Layer) and not takes_cache(self.made.backward):
            memo |= {id(value): value for _, _, _, value in attributes(self.made)
                     if isinstance(value, np.random.Generator) or is_constant(value)}
            with contextlib.suppress(Exception):        # it may hold what can't be copied
                return ObjectRun(copy.deepcopy(self.made, memo), lambda one: memo.get(id(one), one))
        return ObjectRun(self.made, lambda one: one)

    def forward(self, *inputs, **options):
        self.given, run, backward = inputs, self._anew(), self.made.backward
        returned = run.made.forward(*inputs, **options)
        several = isinstance(returned, tuple) and len(returned) > 1
        if takes_cache(backward) and (several or needed(backward) > 1):
            if not several and not {*positional(backward)} & {*positional(self.made.forward)}:
                raise InputError(f"{type(self.made).__name__}.forward must return its output and "
                                 "a cache: return out, cache")
            if not several:                             # it takes the inputs again
                return returned, run
            *outputs, cache = returned
            run.cache = (cache,)
            return (outputs[0] if len(outputs) == 1 else tuple(outputs)), run
        if isinstance(returned, tuple) and isinstance(returned[-1], Cache):
            raise InputError(f"{type(self.made).__name__}.forward returns a cache, and its "
                             "backward takes none: write backward(self, dy, cache)")
        return returned, run

    def backward(self, dout, run):
        for one in self.could.values():
            left = one.left(run.now, {})
            if isinstance(left, np.ndarray) and left.flags.writeable:
                left[...] = 0                           # some write into it, some add
        before = {path: param.data.copy() for path, param in self.held.items()}
        found, scale = undone(run.made.backward, dout, run.cache, self.made.forward, self.given)
        gradients, given = self._sorted_out(found, self.count)
        self.absent = set()
        for path, param in self.held.items():
            if self.could[path].value is param:         # a Param: that was added to
                continue
            gradient = self.could[path].left(run.now, given)
            if gradient is None and path in self.returned:
                gradient = given.get(self.returned.index(path))
            if gradient is None and rates_of(run.made.backward):
                gradient = before[path] - self.could[path].at(run.now)
            if gradient is None:
                self.absent.add(path)
            elif np.shape(gradient) == param.grad.shape:
                param.grad += scaled(gradient, scale)
            else:
                param.grad = np.asarray(gradient)
        return scaled(gradients, scale)

    def _sorted_out(self, returned, count=None):
        """(the gradients of the inputs, {name or number: gradient} of all others): of `count`
        inputs, in the order in which forward takes them."""
        if isinstance(self.made, Layer):
            return returned, {}
        first, *others = self.given or (None,)
        if isinstance(first, np.ndarray) and isinstance(returned, list) and not others and len(
                returned) == len(first) and np.shape(returned[0]) == first.shape[1:]:
            returned = np.array(returned)               # dxs, a list of time steps
        returned = in_order(returned, self.made.forward, self.given)
        items = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        if isinstance(first, (tuple, list)) and not others:
            return returned, {}
        dicts = [isinstance(item, dict) and not any(isinstance(v, dict) for v in self.given)
                 for item in items]
        plain = [item for item, named in zip(items, dicts, strict=True) if not named]
        given = {key: value for item, named in zip(items, dicts, strict=True) if named
                 for key, value in item.items()}
        count = len(self.given) if count is None else count
        more = [part for item in plain[count:] for part in (
            item if isinstance(item, (tuple, list)) else [item])]
        plain = plain[:count]
        return plain[0] if len(plain) == 1 else tuple(plain) or None, given | dict(enumerate(more))

    def find_params(self, inputs, options):
        """Try where the backward leaves the gradients of what could be learned: hold what has one,
        know the order of those that it returns, and what has no place."""
        outputs, run = self.forward(*inputs, **options)
        with restored(self.held.values(), self.given):
            found, _ = undone(run.made.backward, mapped(outputs, lambda y: np.ones(np.shape(
                y)) if is_float(y) else None), run.cache, self.made.forward, self.given)
        floats = [any(True for _ in leaves(value)) for value in self.given]
        for count in (len(floats), sum(floats)):
            own, given = self._sorted_out(found, count)
            left = [path for path, one in self.could.items() if one.left(run.now, given) is not None
                    or rates_of(run.made.backward) and not np.array_equal(
                        one.at(run.now), one.value)]
            more = [value for key, value in given.items()
                    if isinstance(key, int) and value is not None]
            self.returned = in_turn([p for p in self.could if p not in left], more, self.could)
            if self.returned or not more and isinstance(own, tuple) and all(
                    g is None for g, f in zip(own, floats, strict=False) if not f):
                break
        self.count = count if self.returned else None
        self._hold(path for path in self.could if path in left or path in self.returned)
        self.extra = [] if self.returned else [f"an array {np.shape(value)}" for value in more]
        names = {name for path in self.could for name in self.could[path].names}
        self.extra += [repr(key) for key in given if not isinstance(key, int) and key not in names]

    @property
    def updates(self):
        """Whether the backward subtracts the gradients itself."""
        return bool(self.could and rates_of(self.made.backward))

    def unplaced(self, run):
        """{path: Candidate} of the arrays of which no gradient was found, and which forward leaves
        as they are: no state of its own."""
        return {path: one for path, one in self.could.items() if path not in self.held
                and np.array_equal(one.at(run.now), one.value)}

    def _copy(self, copy_param, memo, copy_array=lambda array: array):
        if isinstance(self.made, Layer):
            return super()._copy(copy_param, memo, copy_array)
        found = {id(value): value for _, _, _, value in attributes(self.made) if is_constant(value)}
        for path, param in self.held.items():
            twin = copy_param(param)
            found[id(self.could[path].value)] = twin if self.could[path].value is param else \
                twin.data
        twin = type(self)(copy.deepcopy(self.made, found), made=True)
        twin._hold(self.held)
        twin.count, twin.returned, twin.extra = self.count, self.returned, self.extra
        return twin


def in_self(cls):
    """A Layer class that runs a class whose cache is in self."""
    def __init__(self, *arguments, made=False, **keywords):
        InSelf.__init__(self, arguments[0] if made else cls(*arguments, **keywords))

    def forward(self, *inputs, **options):
        return InSelf.forward(self, *inputs, **options)

    __init__.__signature__ = inspect.signature(cls.__init__)
    forward.__signature__ = inspect.signature(cls.forward)
    body = {"__init__": __init__, "forward": forward, "__module__": cls.__module__,
            "__doc__": cls.__doc__}
    if hasattr(cls, "sample"):
        def sample(own):
            first, *rest = cls.sample()
            return (own(first, made=True), *rest)
        body["sample"] = classmethod(sample)
    return type(cls.__name__, (InSelf,), body)


def holders(layer):
    """A layer and its parts; of what was made a Layer, the objects that it was made of."""
    if not isinstance(layer, InSelf) or isinstance(layer.made, Layer):
        return list(walk(layer.made if isinstance(layer, InSelf) else layer))
    found = {id(layer.made): layer.made}
    for _, owner, _, item in attributes(layer.made):
        found |= {id(part): part for part in (owner, item) if part is owner or hasattr(
            item, "grad") and hasattr(item, "__dict__")}
    return list(found.values())


def keeps_cache_in_self(cls):
    """Whether a class needs to be made a Layer: its backward takes a gradient alone; or it is no
    Layer, and has a forward and a backward."""
    if issubclass(cls, InSelf):
        return True
    backward = getattr(cls, "backward", None)
    if issubclass(cls, Functions) or not inspect.isfunction(backward) or backward is Layer.backward:
        return False
    return needed(backward) == 2 or not issubclass(cls, Layer) and callable(
        getattr(cls, "forward", None))
