"""What a check asks: what may be a gradient, or may need one, and has no place.

`questions(subject, missing)` gives sentences. An array that forward reads, and of which no gradient
was found, may be learned or a constant; an input of which none came back may be a target. Which it
is only the author knows; nothing of that kind is passed over.
"""

import numpy as np

from npdl_study.check.adapters import InSelf
from npdl_study.check.learned import gradient_names
from npdl_study.trees import copied, leaves, same

# Inputs that are held against what a layer computes, or choose among it, and do not learn.
TARGETS = {"t", "y", "target", "targets", "label", "labels", "truth", "gold", "mask", "ytrue",
           "expected", "onehot", "ytruth", "actual", "ts", "ys", "m", "lengths"}
MOVED = 1e-3                    # of its size: by so much an array is moved, to see if it is read


def questions(subject, missing):
    """({name: note} of the inputs that need no gradient, [question]) on a Subject that ran
    backward; `missing` names what got none."""
    excused = {name: f"{name}: backward returns no gradient for it, as of what does not learn"
               for name in missing if is_target(subject, name)}
    layer, own, found = subject.layer, type(subject.layer).__name__, []
    for name in (n for n in missing if n not in excused):
        if name in subject.params:
            short = name.rpartition(".")[2].partition("[")[0]
            found.append(f"{own}.backward leaves no gradient of {name}: write self.d{short} = ..., "
                         "or put it into self.grads as it stands in self.params")
        else:
            found.append(f"{name}: backward returned no gradient for it; is it an input that "
                         "learns, or leads to one? Then return its gradient; else return None in "
                         "its place")
    extra = [*subject.extra, *getattr(layer, "extra", ())]
    if extra:
        how = "return them as {'W': dW}, or leave them in self.dW" if isinstance(
            layer, InSelf) else "add them to the Params: self.W.grad += dW" if subject.params else \
            "return one for each input of forward, in its order, or a dict by their names"
        found.append(f"backward returns {', '.join(extra)} beside the gradients of the inputs, and "
                     f"it is not known of what: not compared; {how}")
    return excused, found + [asked for asked in of_arrays(subject) if asked]


def is_target(subject, name):
    """Whether an input needs no gradient: None is returned in its place, or it is a target, by its
    name, or by its numbers, 0 and 1 alone."""
    if name in subject.params:
        return False
    plain = name.removeprefix("input ")
    numbers = np.unique(subject.arrays[name])
    last = plain.rpartition(".")[2].lower()
    return plain in subject.nones or last.replace("_", "") in TARGETS or last.startswith(
        "running") or set(numbers) == {0.0, 1.0}


def of_arrays(subject):
    """Questions on the float arrays that a layer holds, and forward reads, without a gradient."""
    layer = subject.layer
    if isinstance(layer, InSelf):
        if not layer.could or isinstance(layer.made, type(None)):
            return
        outputs, run = subject.run()
        for path, one in layer.unplaced(run).items():
            if is_read(subject, one.value):
                hint = left_beside(one, run)
                at = "self." + path[: path.rfind(one.name)] * (one.owner is not layer.made)
                hint = f"; is it {at}{hint}? Call that {at}d{one.names[0]}" if hint else (
                    f"; is it learned? Then leave its gradient in {at}d{one.names[0]}, or return "
                    f"it as {{'{one.names[0]}': ...}}; of a constant say so: "
                    f"{at}{one.name}.setflags(write=False)")
                yield f"{path} {one.value.shape}: forward reads it, and no gradient was found{hint}"
        return
    for part, name in subject.bare:
        words = {word for cls in type(part).__mro__ for f in vars(cls).values()
                 if hasattr(f, "__code__") for word in (*f.__code__.co_names,
                                                        *f.__code__.co_varnames)}
        known = words.intersection(gradient_names(name))
        beside = "" if known else next((n for n, value in vars(part).items() if name != n
                                        and name.lower() in n.lower() and np.shape(
                                            value) == vars(part)[name].shape), "")
        if known:
            yield (f"{name} is an array with a gradient of its own, d{name}, and was not checked; "
                   f"make it a Param: self.{name} = Param(...), and self.{name}.grad += in "
                   "backward")
        elif beside:
            yield (f"backward may leave a gradient in self.{beside}, and it is not known as that "
                   f"of {name}: it was not compared. Make {name} a Param")


def left_beside(one, run):
    """The name of what a run left in the owner of a Candidate, that may be its gradient: it is
    called after it, and has its shape."""
    return next((name for name, value in vars(run.now(one.owner)).items()
                 if one.names[0].lower() in name.lower() and name != one.name
                 and isinstance(value, np.ndarray) and value.shape == one.value.shape), "")


def is_read(subject, array):
    """Whether the outputs change with an array that a layer holds."""
    with np.errstate(all="ignore"):
        before, was = [np.array(a) for _, a in leaves(subject.run()[0])], copied(array)
        try:
            array *= 1 + MOVED
            array += MOVED
            after = [np.array(a) for _, a in leaves(subject.run()[0])]
        except Exception:
            return True
        finally:
            array[...] = was
    return not all(map(same, before, after))
