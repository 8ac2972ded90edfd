"""The training steps that `compile_step` records and replays.

They compute a whole batch, a *shard* (the part of a batch that one thread computes), or the
distinct prefixes of a shard (npdl.engine.prefix).
"""

from npdl.engine.prefix import make_prefix_model
from npdl.functions import sum_by_index
from npdl.optim import clip_by_global_norm


def training_step(model, loss, optimizer, inputs, targets, options, lr, max_norm):
    """Update the model's parameters once. Return the loss of the batch before this update."""
    optimizer.zero_grad()
    value = add_gradients(model, loss, inputs, targets, options, 1.0)
    update_parameters(optimizer, lr, max_norm)
    return value


def set_shard_gradients(model, loss, weight, inputs, targets, options):
    """Compute the gradients of weight * (the loss of a part of the batch). Return this product."""
    model.zero_grad()
    return add_gradients(model, loss, inputs, targets, options, weight) * weight


def set_prefix_gradients(model, loss, weight, rows, entries, targets, loss_mask):
    """Do the same as `set_shard_gradients`, on the distinct prefixes of make_prefix_rows."""
    model.zero_grad()
    on_rows = make_prefix_model(model)
    logits, cache = on_rows.forward(rows)                       # logits (M, V)
    value, c_loss = loss.forward(logits[entries], targets, loss_mask)
    dlogits = loss.backward(weight, c_loss)                     # dlogits (B, C, V)
    on_rows.backward(sum_by_index(dlogits, entries, len(rows.needed)), cache)
    return value * weight


def sum_gradients_and_update(models, optimizer, lr, max_norm):
    """Sum the gradients of all models in the first model, and update its parameters."""
    for replica in models[1:]:
        for (_, param), (_, twin) in zip(models[0].params(), replica.params(), strict=True):
            param.grad += twin.grad
    update_parameters(optimizer, lr, max_norm)


def add_gradients(model, loss, inputs, targets, options, weight):
    """Add the gradients of weight * loss to each param.grad of the model; return the loss."""
    outputs, cache = model.forward(*inputs, **options)
    y = outputs[0] if isinstance(outputs, tuple) else outputs
    value, c_loss = loss.forward(y, *targets)
    dy = loss.backward(weight, c_loss)
    model.backward(dy[0] if isinstance(dy, tuple) else dy, cache)
    return value


def update_parameters(optimizer, lr, max_norm):
    """Clip the gradients to the norm `max_norm` (None: no limit), and update the parameters."""
    if max_norm is not None:
        clip_by_global_norm(optimizer.params.values(), max_norm)
    optimizer.step(lr)
