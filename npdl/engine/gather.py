"""Multiply an embedding matrix once, instead of the rows that are looked up in it.

    x = table[ids]                      with fewer rows in the table (V) than ids (M)
    y = x @ W               becomes     y = (table @ W)[ids]
    dW = x.T @ dy           becomes     dW = table.T @ sums
    dx = dy @ W.T
    dtable[v] = sum of dx[m]    becomes     dtable = sums @ W.T

Here sums[v] is the sum of dy[m]. Both sums are over all m with ids[m] == v. For example, an LSTM
then multiplies each embedding once, and not once for every token of the batch.
"""

from collections import Counter

import numpy as np

from npdl.engine.array_functions import make_run, sum_by_index_of
from npdl.engine.operation import Buffer, Operation, View, contiguous_strides, may_overlap
from npdl.engine.recording import run_take


def multiply_before_lookup(operations):
    """Return the operations with (table @ W)[ids] in place of table[ids] @ W."""
    takes, writes, rewritten = {}, {}, []
    readers = Counter(view.buffer for op in operations for view in op.reads)
    for i, op in enumerate(operations):
        for view in op.writes:
            writes.setdefault(view.buffer, []).append((i, op))
    for i, op in enumerate(operations):
        if op.kind == "take" and _is_row_lookup(op) and len(writes[op.output.buffer]) == 1:
            takes[op.output.buffer] = i, op
        replaced = None
        if op.kind == "matmul" and all(x.ndim == 2 for x in op.inputs):
            replaced = _rewrite_forward(op, takes, writes, i) or _rewrite_backward(
                op, takes, writes, i)
        elif op.kind == "sum_by_index":
            replaced = _rewrite_sum(op, writes, readers, i)
        rewritten += replaced or [op]
    return rewritten


def _is_changed(views, writes, since, now):
    """Return True if an operation after number `since` and before `now` writes into a view."""
    return any(since < i < now and may_overlap(view, op.output) for view in views
               for i, op in writes.get(view.buffer, ()))


def _is_row_lookup(op):
    """Return True if a look-up reads whole rows of a matrix into a contiguous array."""
    table, index = op.inputs
    return table.ndim == 2 and op.output.is_whole and op.output.buffer.is_temporary and (
        index.is_contiguous and index.dtype.name == "int64")


def _find_lookup(x, takes, writes, now):
    """Find the look-up x = table[index] that computed x (M, D). Return (table, index) or None.

    The table must have fewer than M rows. The table and the index must not have changed between the
    look-up and operation number `now`. `takes` is {buffer: (number, look-up)}, and `writes` is
    {buffer: [(number, operation)]} with all operations that write into the buffer.
    """
    if x.buffer not in takes:
        return None
    place, take = takes[x.buffer]
    table, index = take.inputs
    pitch = table.shape[1] * table.dtype.itemsize
    if x.shape[1] != table.shape[1] or x.offset % pitch or x.strides[0] % pitch or (
            x.strides[1] != x.dtype.itemsize):
        return None
    rows = View(index.buffer, index.offset + x.offset // pitch * 8, x.shape[:1],
                (x.strides[0] // pitch * 8,), index.dtype)
    if table.shape[0] >= x.shape[0] or _is_changed((table, rows), writes, place, now):
        return None
    return table, rows


def _new_temporary(shape, dtype):
    strides = contiguous_strides(shape, dtype.itemsize)
    nbytes = shape[0] * shape[1] * dtype.itemsize
    return View(Buffer("temporary", 0, nbytes), 0, shape, strides, dtype)


def _rewrite_forward(op, takes, writes, now):
    lookup = _find_lookup(op.inputs[0], takes, writes, now)
    if lookup is None:
        return None
    table, rows = lookup
    product = _new_temporary((table.shape[0], op.output.shape[1]), op.output.dtype)
    return [op.replace(inputs=[table, op.inputs[1]], output=product),
            op.replace(kind="take", inputs=[product, rows], run=run_take, ufunc=None, loop=None,
                       options={})]


def _rewrite_backward(op, takes, writes, now):
    x, dy = op.inputs
    lookup = _find_lookup(_transpose_view(x), takes, writes, now)
    if lookup is None or dy.dtype != op.output.dtype:
        return None
    table, rows = lookup
    sums = _new_temporary((table.shape[0], dy.shape[1]), dy.dtype)
    size = table.shape[0]
    return [op.replace(kind="sum_by_index", inputs=[dy, rows], output=sums, ufunc=None, loop=None,
                       run=make_run(sum_by_index_of(size)), options={"size": size}),
            op.replace(inputs=[_transpose_view(table), sums])]


def _rewrite_sum(op, writes, readers, now):
    """Replace a sum of rows of dx = dy @ W.T: first sum the rows of dy, then multiply by W.T.

    Return None if another operation reads dx, or if the sum has more than half as many rows as dx.
    """
    dx, index = op.inputs
    simple = dx.ndim == 2 and index.ndim == 1 and index.is_contiguous
    pieces = _find_products(dx, writes, readers, now) if simple else []
    size, weights = op.options["size"], {product.inputs[1] for _, product in pieces}
    if len(weights) != 1 or 2 * size > dx.shape[0]:
        return None
    total, operations = None, []
    for start, product in pieces:
        dy = product.inputs[0]
        rows = index._replace(offset=index.offset + start * index.strides[0], shape=dy.shape[:1])
        sums = _new_temporary((size, dy.shape[1]), dy.dtype)
        operations.append(op.replace(inputs=[dy, rows], output=sums))
        if total is not None:
            both = _new_temporary(sums.shape, sums.dtype)
            operations.append(Operation("add", [total, sums], both, np.add, ufunc=np.add,
                                        loop=(dy.dtype,) * 3, source=op.source))
            sums = both
        total = sums
    return [*operations, product.replace(inputs=[total, product.inputs[1]], output=op.output)]


def _find_products(x, writes, readers, now):
    """Return [(row, product)] for the matrix products whose results are stacked in x (M, D).

    `row` is the first row of x that the product fills. Return [] if x contains anything else, or
    if anything else reads one of the results.
    """
    def product_of(view):
        """Return the one product whose result fills a view's buffer, or None."""
        writers = writes.get(view.buffer, ())
        if len(writers) != 1 or not view.buffer.is_temporary or readers[view.buffer] != 1:
            return None
        i, op = writers[0]
        good = op.kind == "matmul" and op.output == view and view.is_whole and (
            op.inputs[0].ndim == op.inputs[1].ndim == 2)
        return op if good and not _is_changed(op.inputs, writes, i, now) else None
    if product_of(x):
        return [(0, product_of(x))]
    if not x.is_whole or not x.buffer.is_temporary or readers[x.buffer] != 1:
        return []
    pieces, row = [], 0
    pitch = x.shape[1] * x.dtype.itemsize
    for _, op in sorted(writes[x.buffer], key=lambda each: each[1].output.offset):
        part, source = op.output, op.inputs[0]
        product = product_of(source) if op.kind == "copy" and isinstance(source, View) else None
        if not product or part.offset != row * pitch or not part.is_contiguous or (
                part.shape != source.shape or part.dtype != source.dtype):
            return []
        pieces.append((row, product))
        row += part.shape[0]
    return pieces if row == x.shape[0] else []


def _transpose_view(x):
    return x._replace(shape=x.shape[::-1], strides=x.strides[::-1])
