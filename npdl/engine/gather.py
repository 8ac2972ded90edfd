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

from npdl.engine.array_functions import add_out_argument
from npdl.engine.operation import Buffer, Operation, View, contiguous_strides, may_overlap
from npdl.engine.recording import run_take
from npdl.functions import sum_by_index


def multiply_embedding_once(operations):
    """Return the operations with (table @ W)[ids] in place of table[ids] @ W."""
    lookups, writers, rewritten = {}, {}, []
    readers = Counter(view.buffer for op in operations for view in op.read_views)
    for i, op in enumerate(operations):
        for view in op.written_views:
            writers.setdefault(view.buffer, []).append((i, op))
    for i, op in enumerate(operations):
        if op.kind == "take" and _is_row_lookup(op) and len(writers[op.output.buffer]) == 1:
            lookups[op.output.buffer] = i, op
        replaced = None
        if op.kind == "matmul" and all(x.ndim == 2 for x in op.inputs):
            replaced = (_rewrite_forward_product(op, lookups, writers, i)
                        or _rewrite_weight_gradient(op, lookups, writers, i))
        elif op.kind == "sum_by_index":
            replaced = _rewrite_embedding_gradient(op, writers, readers, i)
        rewritten += replaced or [op]
    return rewritten


def _is_written_between(views, writers, after, before):
    """Return True if an operation after number `after` and before `before` writes into a view."""
    return any(after < i < before and may_overlap(view, op.output) for view in views
               for i, op in writers.get(view.buffer, ()))


def _is_row_lookup(op):
    """Return True if a look-up reads whole rows of a matrix into a contiguous array."""
    table, index = op.inputs
    return table.ndim == 2 and op.output.covers_buffer and op.output.buffer.is_temporary and (
        index.is_contiguous and index.dtype.name == "int64")


def _find_table_and_index(view, lookups, writers, op_number):
    """Find the look-up table[index] that computed `view` (M, D). Return (table, index) or None.

    The table must have fewer than M rows. The table and the index must not have changed between the
    look-up and operation `op_number`. `lookups` is {buffer: (number, look-up)}, and `writers` is
    {buffer: [(number, operation)]} with all operations that write into the buffer.
    """
    if view.buffer not in lookups:
        return None
    take_number, take = lookups[view.buffer]
    table, index = take.inputs
    pitch = table.shape[1] * table.dtype.itemsize
    if view.shape[1] != table.shape[1] or view.offset % pitch or view.strides[0] % pitch or (
            view.strides[1] != table.dtype.itemsize):
        return None
    rows = View(index.buffer, index.offset + view.offset // pitch * 8, view.shape[:1],
                (view.strides[0] // pitch * 8,), index.dtype)
    if table.shape[0] >= view.shape[0] or (
            _is_written_between((table, rows), writers, take_number, op_number)):
        return None
    return table, rows


def _new_temporary_view(shape, dtype):
    strides = contiguous_strides(shape, dtype.itemsize)
    nbytes = shape[0] * shape[1] * dtype.itemsize
    return View(Buffer("temporary", 0, nbytes), 0, shape, strides, dtype)


def _rewrite_forward_product(op, lookups, writers, op_number):
    lookup = _find_table_and_index(op.inputs[0], lookups, writers, op_number)
    if lookup is None:
        return None
    table, rows = lookup
    product = _new_temporary_view((table.shape[0], op.output.shape[1]), op.output.dtype)
    return [op.replace(inputs=[table, op.inputs[1]], output=product),
            op.replace(kind="take", inputs=[product, rows], run=run_take, loop=None,
                       options={})]


def _rewrite_weight_gradient(op, lookups, writers, op_number):
    x, dy = op.inputs
    lookup = _find_table_and_index(_transpose_view(x), lookups, writers, op_number)
    if lookup is None or dy.dtype != op.output.dtype:
        return None
    table, rows = lookup
    sums = _new_temporary_view((table.shape[0], dy.shape[1]), dy.dtype)
    return [op.replace(kind="sum_by_index", inputs=[dy, rows, table.shape[0]], output=sums,
                       loop=None, run=add_out_argument(sum_by_index), options={}),
            op.replace(inputs=[_transpose_view(table), sums])]


def _rewrite_embedding_gradient(op, writers, readers, op_number):
    """Replace a sum of rows of dx = dy @ W.T: first sum the rows of dy, then multiply by W.T.

    Return None if another operation reads dx, or if the sum has more than half as many rows as dx.
    """
    dx, index, size = op.inputs
    pieces = _find_stacked_products(dx, writers, readers, op_number) if dx.ndim == 2 else []
    weights = {product.inputs[1] for _, product in pieces}
    if len(weights) != 1 or 2 * size > dx.shape[0]:
        return None
    total, operations = None, []
    for start, product in pieces:
        dy = product.inputs[0]
        rows = index._replace(offset=index.offset + start * index.strides[0], shape=dy.shape[:1])
        sums = _new_temporary_view((size, dy.shape[1]), dy.dtype)
        operations.append(op.replace(inputs=[dy, rows, size], output=sums))
        if total is not None:
            both = _new_temporary_view(sums.shape, sums.dtype)
            operations.append(Operation("add", [total, sums], both, np.add,
                                        loop=(dy.dtype,) * 3, source=op.source))
            sums = both
        total = sums
    return [*operations, product.replace(inputs=[total, product.inputs[1]], output=op.output)]


def _find_stacked_products(view, writers, readers, op_number):
    """Return [(row, product)] for the matrix products whose results are stacked in `view` (M, D).

    `row` is the first row that the product fills. Return [] if the view contains anything else, or
    if anything else reads one of the results.
    """
    def find_only_product(view):
        """Return the one product whose result fills a view's buffer, or None."""
        writes = writers.get(view.buffer, ())
        if len(writes) != 1 or not view.buffer.is_temporary or readers[view.buffer] != 1:
            return None
        i, op = writes[0]
        good = op.kind == "matmul" and op.output == view and view.covers_buffer and (
            op.inputs[0].ndim == op.inputs[1].ndim == 2)
        return op if good and not _is_written_between(op.inputs, writers, i, op_number) else None
    if find_only_product(view):
        return [(0, find_only_product(view))]
    if not view.covers_buffer or not view.buffer.is_temporary or readers[view.buffer] != 1:
        return []
    pieces, row = [], 0
    pitch = view.shape[1] * view.dtype.itemsize
    for _, op in sorted(writers[view.buffer], key=lambda pair: pair[1].output.offset):
        part, source = op.output, op.inputs[0]
        is_copy = op.kind == "copy" and isinstance(source, View)
        product = find_only_product(source) if is_copy else None
        if not product or part.offset != row * pitch or not part.is_contiguous or (
                part.shape != source.shape or part.dtype != source.dtype):
            return []
        pieces.append((row, product))
        row += part.shape[0]
    return pieces if row == view.shape[0] else []


def _transpose_view(x):
    return x._replace(shape=x.shape[::-1], strides=x.strides[::-1])
