"""Measure where a training step spends its time, by the source lines of the layers.

    step = compile_step(model, loss, optimizer)
    step(inputs, targets)
    print(format_report(profile(step.recorded)))

Each call of a replay is timed. If a call computes several operations (a group), its time is divided
among them in proportion to the entries that they compute.
"""

import linecache
import time
from dataclasses import dataclass, field
from pathlib import Path

from npdl.errors import InputError

SHOWN = 30              # lines of a report


@dataclass
class Line:
    """A source line, with its operations and their cost in one step.

    operations  the number of operations
    flop        the number of floating-point operations
    bytes       the number of bytes that are read or written
    groups      the indices of the calls that compute the operations
    seconds     the time of these operations
    """

    file: str
    number: int
    operations: int = 0
    seconds: float = 0.0
    flop: int = 0
    bytes: int = 0
    groups: set = field(default_factory=set)

    @property
    def text(self):
        return linecache.getline(self.file, self.number).strip()


def profile(recorded_step, repeats=10):
    """Measure a RecordedStep that has run before. Return its source lines, the slowest first.

    Each time is the smallest of `repeats` measurements. The parameters are restored at the end.
    """
    if not getattr(recorded_step, "recordings", None):
        raise InputError("profile: the step has no recording; make the step with threads=1, and "
                         "call it once before")
    recording = recorded_step.recordings[0]
    state = {view.buffer for op in recording.operations for view in op.written_views}
    saved = [(buffer.array, buffer.array.copy()) for buffer in state if not buffer.is_temporary]
    lowered, lines, counted = recording.lowered, {}, set()
    best = [float("inf")] * len(lowered.calls)
    for _ in range(repeats):
        for i, call in enumerate(lowered.calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
    for array, before in saved:
        array[...] = before
    for group, (seconds, operations) in enumerate(zip(best, lowered.call_operations, strict=True)):
        sizes = [find_largest_array_size(op) for op in operations]
        for op, size in zip(operations, sizes, strict=True):
            line = lines.setdefault(op.source, Line(*op.source))
            line.seconds += seconds * size / sum(sizes)
            line.groups.add(group)
            if op in counted:       # the NumPy target computes an operation in several calls
                continue
            counted.add(op)
            line.operations += 1
            line.flop += count_flop(op)
            line.bytes += sum(view.size * view.dtype.itemsize for view in op.views)
    return sorted(lines.values(), key=lambda line: -line.seconds)


def find_largest_array_size(op):
    """Return the size of the largest array that an operation reads or writes."""
    return max(1, *(view.size for view in op.views))


def count_flop(op):
    """Count floating-point operations: 2 for each multiply-add, otherwise 1 for each entry."""
    if op.output is None or op.kind in ("copy", "take", "getitem()", "draw"):
        return 0
    if op.kind == "matmul":
        return 2 * op.output.size * op.inputs[0].shape[-1]
    return find_largest_array_size(op)


def format_report(lines, max_lines=SHOWN):
    """Return a table of the most expensive lines."""
    total = sum(line.seconds for line in lines)
    table = [f"{'line':<34} {'ops':>5} {'ms':>8} {'share':>6} {'MFLOP':>8} {'MB':>7}  "
             f"{'call':<9} source"]
    for line in lines[:max_lines]:
        place = f"{Path(line.file).parent.name}/{Path(line.file).name}:{line.number}"
        groups = sorted(line.groups)
        group = f"{groups[0]}" + (f" +{len(groups) - 1}" if len(groups) > 1 else "")
        table.append(format_row(place, [line], total, f"{group:<9} {line.text[:60]}"))
    if rest := lines[max_lines:]:
        table.append(format_row(f"{len(rest)} other lines", rest, total))
    groups = len(set().union(*(line.groups for line in lines)))
    table.append(format_row("all", lines, total, f"in {groups} calls"))
    return "\n".join(table)


def format_row(title, lines, total_seconds, end=""):
    """Return a row of the report, with the sum of the cost of some lines."""
    operations, seconds, flop, count = (sum(getattr(line, name) for line in lines)
                                        for name in ("operations", "seconds", "flop", "bytes"))
    return (f"{title:<34} {operations:>5} {seconds * 1e3:>8.3f} {seconds / total_seconds:>6.1%} "
            f"{flop / 1e6:>8.2f} {count / 1e6:>7.2f}  {end}").rstrip()
