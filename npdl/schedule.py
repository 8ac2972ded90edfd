"""Learning rates as functions lr(step). The first update has step = 0."""

import math

from npdl.errors import InputError
from npdl.options import require_choice, require_not_negative, require_positive

SCHEDULES = ("constant", "linear", "cosine")


def schedule(kind="constant", lr=1e-3, total=10_000, warmup=0, lr_min=0.0):
    """Return a function that maps a step to a learning rate.

    The learning rate rises linearly from lr/warmup to lr during the first `warmup` steps. Then
    `kind` decides. For "constant" the learning rate stays at lr. Otherwise it falls to `lr_min` at
    step `total`, in a straight line ("linear") or along half a cosine ("cosine"). Raises InputError
    for another kind or an invalid number.
    """
    require_choice("schedule", kind, SCHEDULES)
    require_not_negative(lr=lr, lr_min=lr_min)
    require_positive(total=total)
    if type(warmup) is not int or warmup < 0 or (kind != "constant" and warmup >= total):
        raise InputError(f"warmup = {warmup!r}; it must be an integer from 0 to {total - 1}")

    def learning_rate_at(step):
        if step < warmup:
            return lr * (step + 1) / warmup
        if kind == "constant":
            return lr
        done = min(1.0, (step - warmup) / (total - warmup))
        share = 1 - done if kind == "linear" else (1 + math.cos(math.pi * done)) / 2
        return lr_min + (lr - lr_min) * share

    return learning_rate_at
