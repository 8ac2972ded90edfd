"""Simplify a recording: compute the same results with fewer operations.

    grad[...] = 0
    t = x.T @ dy            becomes     grad = x.T @ dy
    grad = grad + t

The passes, in this order:

    move the guards to the front
    multiply an embedding matrix instead of the rows looked up in it (`gather`)
    merge equal operations
    drop operations whose results nothing reads
    assign the first gradient instead of adding it to zeros (as in the example)
    compute x (B, S, D) @ W as one product of matrices instead of B products
"""

from collections import Counter

from npdl.engine.gather import multiply_embedding_once
from npdl.engine.operation import View


def simplify(operations, results):
    """Return the simplified operations. `results` are Views that are read after the step."""
    operations = multiply_embedding_once(move_guards_forward(operations))
    operations = merge_equal_operations(operations, results)
    operations = assign_first_gradients(remove_unused_operations(operations, results), results)
    return [flatten_batched_product(op) for op in operations]


def move_guards_forward(operations):
    """Move the guards, and the operations that they need, to the front if possible.

    A guard checks a value in a replay. If a guard at the front fails, the replay has usually
    written nothing yet. Random draws stay in place, and so does each operation that must run after
    an operation that stays.
    """
    needed, wanted = set(), set()
    for op in reversed(operations):
        if op.kind == "guard" or any(view.buffer in wanted for view in op.written_views):
            needed.add(op)
            wanted.update(view.buffer for view in op.read_views if view.buffer.is_temporary)
    first, rest = split_off_movable(operations, {op for op in needed if op.kind != "draw"})
    return first + rest


def split_off_movable(operations, chosen):
    """Return (first, rest): `first` are the chosen operations that can be moved before the rest."""
    first, rest, read, written = [], [], set(), set()       # read and written by the rest
    for op in operations:
        inputs = {view.buffer for view in op.read_views}
        outputs = {view.buffer for view in op.written_views}
        if op in chosen and not (inputs & written or outputs & (read | written)):
            first.append(op)
        else:
            rest.append(op)
            read |= inputs
            written |= outputs
    return first, rest


def merge_equal_operations(operations, results):
    """Drop each operation that computes the same value as an earlier operation."""
    writers = Counter(view.buffer for op in operations for view in op.written_views)
    remaining, known, replacements, write_counts = [], {}, {}, Counter()    # writes until now
    fixed = {view.buffer for view in results}
    for op in operations:
        op = op.replace(inputs=[_replace_buffer(x, replacements) for x in op.inputs])
        key = _make_value_key(op, write_counts)
        if key is not None and all(
                view.covers_buffer and view.buffer.is_temporary and view.buffer not in fixed
                and writers[view.buffer] == 1 for view in op.written_views):
            first = known.setdefault(key, op)
            if first is not op:
                replacements |= {view.buffer: first.output.buffer for view in op.written_views}
                continue
        remaining.append(op)
        write_counts.update(view.buffer for view in op.written_views)
    return remaining


def _replace_buffer(value, replacements):
    return value._replace(buffer=replacements[value.buffer]) if isinstance(value, View) and (
        value.buffer in replacements) else value


def _make_value_key(op, write_counts):
    """Return a key that is equal for all operations that compute the same value.

    Return None for an operation that may compute another value when it is repeated. `write_counts`
    is {buffer: the number of operations so far that have written into it}.
    """
    if op.kind == "draw" or op.kind.endswith("()"):
        return None
    inputs = tuple((x, write_counts[x.buffer]) if isinstance(x, View) else
                   (type(x).__name__, repr(x)) for x in op.inputs)
    return (op.kind, inputs, repr(op.options),
            *((view.shape, view.strides, view.dtype) for view in op.written_views))


def remove_unused_operations(operations, results):
    """Drop the operations that no state, guard or result depends on."""
    live = {view.buffer for view in results}
    remaining = []
    for op in reversed(operations):
        if op.has_effect or any(not view.buffer.is_temporary or view.buffer in live
                                for view in op.written_views):
            remaining.append(op)
            live.update(view.buffer for view in op.read_views)
    return remaining[::-1]


def assign_first_gradients(operations, results):
    """Replace "set to 0, then add the first gradient" by writing this gradient directly."""
    zeroed, changed, removed = {}, {}, set()
    readers = Counter(view.buffer for op in operations for view in op.read_views)
    readers.update(view.buffer for view in results)
    writers = Counter(view.buffer for op in operations for view in op.written_views)
    makers = {}                                 # buffer -> the index of its last writer
    for i, op in enumerate(operations):
        for view in op.read_views:
            start = zeroed.pop(view.buffer, None)
            if start is None or op.kind != "add" or op.output != view or op.inputs[0] != view:
                continue
            term = op.inputs[1]
            if not isinstance(term, View) or makers.get(term.buffer, -1) < start or (
                    term.shape != view.shape or term.dtype != view.dtype):
                continue
            maker = operations[makers[term.buffer]]
            if view.covers_buffer and term.covers_buffer and maker.output.covers_buffer and (
                    term.buffer.is_temporary and (
                        writers[term.buffer] == readers[term.buffer] == 1)):
                changed[makers[term.buffer]] = maker.replace(
                    output=maker.output._replace(buffer=view.buffer))
                removed |= {start, i}
        for view in op.written_views:
            makers[view.buffer] = i
            zeroed.pop(view.buffer, None)
        if op.kind == "copy" and op.inputs[0] == 0 and type(op.inputs[0]) in (int, float) and (
                op.output.covers_buffer):
            zeroed[op.output.buffer] = i
    return [changed.get(i, op) for i, op in enumerate(operations) if i not in removed]


def flatten_batched_product(op):
    """Replace B products x (B, S, D) @ W by one of a (B * S, D) matrix. Keep other operations."""
    if op.kind != "matmul":
        return op
    a, b = op.inputs
    if a.ndim > 2 and b.ndim == 2 and a.is_contiguous and op.output.is_contiguous:
        return op.replace(inputs=[a.reshaped(a.size // a.shape[-1], a.shape[-1]), b],
                          output=op.output.reshaped(a.size // a.shape[-1], b.shape[-1]))
    return op
