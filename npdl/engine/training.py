"""The steps that `compile_step` records: for a batch, a shard of it, or its distinct prefixes."""

from npdl.engine.prefix import model_on_rows
from npdl.functions import sum_by_index
from npdl.optim import clip_by_global_norm


def training_step(model, loss, optimizer, inputs, targets, options, lr, max_norm):
    """Make one update of the model's parameters, and return the loss before it."""
    optimizer.zero_grad()
    value = add_gradients(model, loss, inputs, targets, options, 1.0)
    update_parameters(optimizer, lr, max_norm)
    return value


def shard_step(model, loss, weight, inputs, targets, options):
    """Compute the gradients of a shard in a copy of the model. Return weight * the shard's loss."""
    model.zero_grad()
    return add_gradients(model, loss, inputs, targets, options, weight) * weight


def prefix_step(model, loss, weight, rows, entries, targets, counted):
    """Do the same as `shard_step` for the result of `prefix.make_rows` on the shard."""
    model.zero_grad()
    on_rows = model_on_rows(model)
    logits, cache = on_rows.forward(rows)                       # logits (M, V)
    value, c_loss = loss.forward(logits[entries], targets, counted)
    dlogits = loss.backward(weight, c_loss)                     # dlogits (B, C, V)
    on_rows.backward(sum_by_index(dlogits, entries, len(rows.needed)), cache)
    return value * weight


def update_step(models, optimizer, lr, max_norm):
    """Add all models' gradients to those of the first one, clip them, and update the parameters."""
    for replica in models[1:]:
        for (_, param), (_, twin) in zip(models[0].params(), replica.params(), strict=True):
            param.grad += twin.grad
    update_parameters(optimizer, lr, max_norm)


def add_gradients(model, loss, inputs, targets, options, weight):
    """Add the gradients of weight * loss to those of the model, and return the loss."""
    outputs, cache = model.forward(*inputs, **options)
    y = outputs[0] if isinstance(outputs, tuple) else outputs
    value, c_loss = loss.forward(y, *targets)
    dy = loss.backward(weight, c_loss)
    model.backward(dy[0] if isinstance(dy, tuple) else dy, cache)
    return value


def update_parameters(optimizer, lr, max_norm):
    """Clip the gradients, unless `max_norm` is None, and update the parameters."""
    if max_norm is not None:
        clip_by_global_norm(optimizer.params.values(), max_norm)
    optimizer.step(lr)
