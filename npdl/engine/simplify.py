"""Simplify a recording: fewer operations that compute the same.

    grad[...] = 0
    t = x.T @ dy            becomes     grad = x.T @ dy
    grad = grad + t

The passes, in this order:

    move the guards to the front
    multiply tables instead of gathered rows (`gather`)
    merge equal operations
    drop operations whose results are not read
    assign the first gradient instead of adding it to zeros (above)
    compute x (B, S, D) @ W as one product of matrices
"""

from npdl.engine.gather import count_readers, multiply_tables
from npdl.engine.operation import View
from npdl.engine.recording import run_copy

PURE = {"take", "where", "erf", "copy", "sum_by_index"}     # besides every ufunc


def simplify(operations, results):
    """Return the simplified operations. `results` are Views that are read after the step."""
    operations = multiply_tables(guards_first(operations))
    operations = merge_equal(operations, results)
    operations = remove_dead(operations, results)
    operations = accumulate_first(operations)
    return [flatten_product(op) for op in operations]


def guards_first(operations):
    """Move the guards, and the operations that they need, in front of all others if possible.

    It is not possible for draws, and for operations that depend on the others or write what the
    others read. Usually, a guard that does not hold is found before anything has been written.
    """
    needed, wanted = set(), set()
    for op in reversed(operations):
        if op.kind == "guard" or op.output is not None and id(op.output.buffer) in wanted:
            needed.add(id(op))
            wanted.update(id(view.buffer) for view in op.reads if view.buffer.is_temporary)
    first, rest, read, written = [], [], set(), set()       # read and written by the rest
    for op in operations:
        inputs = {id(view.buffer) for view in op.reads}
        output = set() if op.output is None else {id(op.output.buffer)}
        if id(op) in needed and op.kind != "draw" and not (
                inputs & written or output & (read | written)):
            first.append(op)
        else:
            rest.append(op)
            read |= inputs
            written |= output
    return first + rest


def merge_equal(operations, results):
    """Compute once what is computed twice from the same values."""
    writers = count_writers(operations)
    kept, known, same, versions = [], {}, {}, {}
    result_buffers = {id(view.buffer) for view in results}
    for op in operations:
        op = op.replace(inputs=[_renamed(x, same) for x in op.inputs])
        key = _value_key(op, versions)
        once = op.output is not None and op.output.buffer.is_temporary and (
            writers[id(op.output.buffer)] == 1) and op.output.is_whole
        if key is not None and once and id(op.output.buffer) not in result_buffers:
            if key in known:
                same[id(op.output.buffer)] = known[key].buffer
                continue
            known[key] = op.output
        elif op.kind == "guard":
            if key in known:
                continue
            known[key] = True
        kept.append(op)
        if op.output is not None:
            versions[id(op.output.buffer)] = versions.get(id(op.output.buffer), 0) + 1
    return kept


def _renamed(x, same):
    return x._replace(buffer=same[id(x.buffer)]) if isinstance(x, View) and (
        id(x.buffer) in same) else x


def _value_key(op, versions):
    """Return a key that is equal for two operations if they compute the same value.

    Return None if this can't be decided.
    """
    if op.ufunc is None and op.kind not in PURE and op.kind != "guard" or (
            op.effect and op.kind != "guard"):
        return None
    inputs = tuple((x, versions.get(id(x.buffer), 0)) if isinstance(x, View) else
                   (type(x).__name__, repr(x)) for x in op.inputs)
    if op.kind == "guard":
        return op.kind, inputs, repr(op.options["convert"])
    return (op.kind, inputs, repr(op.options), op.output.shape, op.output.strides,
            op.output.dtype)


def remove_dead(operations, results):
    """Drop operations that reach no state, no guard and no result."""
    live = {id(view.buffer) for view in results}
    kept = []
    for op in reversed(operations):
        if op.effect or not op.output.buffer.is_temporary or id(op.output.buffer) in live:
            kept.append(op)
            live.update(id(view.buffer) for view in op.reads)
    return kept[::-1]


def accumulate_first(operations):
    """Replace "set to 0, then add the first gradient" by writing this gradient directly."""
    zeroed, changed, removed = {}, {}, set()
    writers, readers = count_writers(operations), count_readers(operations)
    makers = {}                                 # id of a buffer -> the index of its only writer
    for i, op in enumerate(operations):
        for view in op.reads:
            start = zeroed.pop(id(view.buffer), None)
            if start is None or op.kind != "add" or op.output != view or op.inputs[0] != view or (
                    not isinstance(op.inputs[1], View) or op.inputs[1].buffer is view.buffer):
                continue
            term = op.inputs[1]
            if term.shape != view.shape or term.dtype != view.dtype:
                continue
            removed.add(start)
            maker = makers.get(id(term.buffer))
            alone = maker is not None and (writers[id(term.buffer)], readers[id(term.buffer)]) == (
                1, 1) and term.is_whole and operations[maker].output.is_whole
            if alone and view.is_contiguous and maker > start:
                made = operations[maker]
                changed[maker] = made.replace(output=view.reshaped(*made.output.shape))
                removed.add(i)
            else:
                changed[i] = op.replace(kind="copy", inputs=[term], run=run_copy, ufunc=None,
                                        loop=None, options={})
        if op.output is None:
            continue
        makers[id(op.output.buffer)] = i
        zeroed.pop(id(op.output.buffer), None)
        if op.kind == "copy" and op.inputs[0] == 0 and type(op.inputs[0]) in (int, float) and (
                op.output.is_whole):
            zeroed[id(op.output.buffer)] = i
    return [changed.get(i, op) for i, op in enumerate(operations) if i not in removed]


def flatten_product(op):
    """Turn x (B, S, D) @ W (D, E), which is B products, into one product of (B * S, D) with W."""
    if op.kind != "matmul":
        return op
    a, b = op.inputs
    if a.ndim > 2 and b.ndim == 2 and a.is_contiguous and op.output.is_contiguous:
        return op.replace(inputs=[a.reshaped(a.size // a.shape[-1], a.shape[-1]), b],
                          output=op.output.reshaped(a.size // a.shape[-1], b.shape[-1]))
    return op


def count_writers(operations):
    """Return {id of a buffer: how many operations write into it}."""
    counts = {}
    for op in operations:
        if op.output is not None:
            counts[id(op.output.buffer)] = counts.get(id(op.output.buffer), 0) + 1
    return counts
