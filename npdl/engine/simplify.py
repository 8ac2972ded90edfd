"""Simplify a recording."""

from npdl.engine.operation import View


def simplify(operations, results):
    return remove_dead(operations, results)


def remove_dead(operations, results):
    """Drop operations that reach no state, no guard and no result."""
    live = {id(view.buffer) for view in results}
    kept = []
    for op in reversed(operations):
        if op.effect or not op.output.buffer.is_temporary or id(op.output.buffer) in live:
            kept.append(op)
            live.update(id(view.buffer) for view in op.reads)
    return kept[::-1]
