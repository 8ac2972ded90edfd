"""What the layers ask of the arrays that they are handed: InputError at the door, by name."""

from npdl.errors import InputError


def check_real(owner, **arrays):
    """Raise InputError unless each is an array of real numbers."""
    for name, x in arrays.items():
        if not hasattr(x, "ndim") or getattr(getattr(x, "dtype", None), "kind", "f") not in "fiub":
            raise InputError(f"{owner}: {name.replace('_', ' ')} is {described(x)}; it must be an "
                             "array of real numbers")


def check_floats(owner, **arrays):
    """Raise InputError unless each is an array of floats with one axis or more."""
    for name, x in arrays.items():
        if not hasattr(x, "ndim") or x.dtype.kind != "f" or x.ndim == 0:
            raise InputError(f"{owner}: {name.replace('_', ' ')} is {described(x)}; it must be an "
                             "array of floats with an axis or more")


def check_mask(owner, mask, shape):
    """Raise InputError unless `mask` is None, or bools that broadcast to `shape`."""
    if mask is None:
        return
    lengths = zip(mask.shape[::-1], shape[::-1], strict=False) if hasattr(mask, "ndim") else ()
    if (not hasattr(mask, "ndim") or mask.dtype.kind != "b" or mask.ndim > len(shape)
            or any(n not in (1, full) for n, full in lengths)):
        raise InputError(f"{owner}: the mask is {described(mask)}; it must be bool and broadcast "
                         f"to {tuple(shape)}, True where something may be seen")


def described(x):
    """Dtype and shape of an array; of anything else, its type."""
    return f"{x.dtype} {x.shape}" if hasattr(x, "dtype") and hasattr(x, "shape") else type(
        x).__name__
