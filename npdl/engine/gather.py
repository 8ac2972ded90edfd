"""Multiply a table once, in the place of its many gathered rows.

    x = table[ids]                      with fewer rows in the table (V) than ids (M)
    y = x @ W               becomes     y = (table @ W)[ids]
    dW = x.T @ dy           becomes     dW = table.T @ sums,   sums[v] = sum of dy[m], ids[m] = v

So an LSTM multiplies the embeddings of a vocabulary, not those of every token of the batch.
"""

from npdl.engine.array_functions import sum_by_index_run
from npdl.engine.operation import Buffer, View, contiguous_strides, overlap
from npdl.engine.recording import run_take


def multiply_tables(operations):
    """Return the operations with products of gathered rows replaced."""
    takes, writes, found = {}, {}, []
    for i, op in enumerate(operations):
        if op.output is not None:
            writes.setdefault(id(op.output.buffer), []).append((i, op.output))
    for i, op in enumerate(operations):
        if op.kind == "take" and _is_simple(op) and len(writes[id(op.output.buffer)]) == 1:
            takes[id(op.output.buffer)] = i, op
        replaced = None
        if op.kind == "matmul" and all(x.ndim == 2 for x in op.inputs):
            replaced = _forward(op, takes, writes, i) or _backward(
                op, takes, writes, i)
        found += replaced or [op]
    return found


def _is_simple(op):
    """Return True if a take reads whole rows of a matrix into a contiguous array."""
    table, index = op.inputs
    return table.ndim == 2 and table.is_contiguous and op.output.is_whole and (
        op.output.buffer.is_temporary and index.is_contiguous and index.dtype.name == "int64")


def _gathered(x, takes, writes, now):
    """Return (table, index) of a view (M, D) of gathered rows, if both are unchanged."""
    if id(x.buffer) not in takes:
        return None
    place, take = takes[id(x.buffer)]
    table, index = take.inputs
    pitch = table.shape[1] * table.dtype.itemsize
    if x.shape[1] != table.shape[1] or x.offset % pitch or x.strides[0] % pitch or (
            x.strides[1] != x.dtype.itemsize):
        return None
    rows = View(index.buffer, index.offset + x.offset // pitch * 8, x.shape[:1],
                (x.strides[0] // pitch * 8,), index.dtype)
    changed = any(place < i < now and overlap(view, other) for view in (table, rows)
                  for i, other in writes.get(id(view.buffer), ()))
    return None if changed or table.shape[0] >= x.shape[0] else (table, rows)


def _temporary(shape, dtype):
    strides = contiguous_strides(shape, dtype.itemsize)
    nbytes = shape[0] * shape[1] * dtype.itemsize
    return View(Buffer("temporary", 0, nbytes), 0, shape, strides, dtype)


def _forward(op, takes, writes, now):
    found = _gathered(op.inputs[0], takes, writes, now)
    if found is None:
        return None
    table, rows = found
    product = _temporary((table.shape[0], op.output.shape[1]), op.output.dtype)
    return [op.replace(inputs=[table, op.inputs[1]], output=product),
            op.replace(kind="take", inputs=[product, rows], run=run_take, ufunc=None, loop=None,
                       options={})]


def _backward(op, takes, writes, now):
    x, dy = op.inputs
    found = _gathered(_transposed(x), takes, writes, now)
    if found is None or dy.dtype != op.output.dtype:
        return None
    table, rows = found
    sums = _temporary((table.shape[0], dy.shape[1]), dy.dtype)
    size = table.shape[0]
    return [op.replace(kind="sum_by_index", inputs=[dy, rows], output=sums, ufunc=None, loop=None,
                       run=sum_by_index_run(size), options={"size": size}),
            op.replace(inputs=[_transposed(table), sums])]


def _transposed(x):
    return x._replace(shape=x.shape[::-1], strides=x.strides[::-1])
