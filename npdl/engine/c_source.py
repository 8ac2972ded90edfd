"""Write a group of operations as one C function.

Its outer loop goes over the rows, and inner loops go along a row. LayerNorm's `c = x - mean` and
`v = (c * c).sum(-1, keepdims=True)` become

    for (size_t i = 0; i < rows; i++) {
      float m = mean[i];
      float s = 0;
      for (size_t j = 0; j < 128; j++) { float c = x[i * 128 + j] - m; s += c * c; }
      v[i] = s;
    }

An operation joins the open inner loop if both have the same width. The operation may read only the
current entry of arrays that the loop writes, and write only the current entry of arrays that the
loop reads. A temporary array that only this group uses becomes a C variable. If a later loop
reads it, it becomes a row of scratch memory.
"""

import itertools
import math

import numpy as np

from npdl.engine.c_math import EXPRESSIONS, TYPES
from npdl.engine.operation import may_overlap
from npdl.engine.rows import REDUCTIONS, Operand, make_row_operation, merge_axes
from npdl.engine.schedule import row_pitch

WIDE = 4096         # a float32 sum over longer rows is accumulated in double


class GroupSource:
    """Writes the C function of one group of operations.

    text      the source
    views     the Views whose addresses are P[1], P[2], .. of the function's argument P; P[0] is the
              address of the scratch memory
    scratch   bytes of scratch memory
    """

    def __init__(self, name, group):
        self.row_ops, self.local = self._reshape_row_ops(group.row_ops), group.local
        self.views, self.scratch, self._numbers = [], 0, itertools.count(1)
        self._pointer_names, self._scratch_rows, self._used = {}, {}, set()
        self._stores = {}                   # {line that stores a row of scratch: the local buffer}
        self._lines, self._before, self._moving, self._after = [], [], [], []
        self._loop = None                   # the open loop along the row
        self._scalars = {}                  # {Operand: C variable}, if a row shares one entry
        self._choose_row_loops()
        for k, row_op in enumerate(self.row_ops):
            getattr(self, f"_write_{row_op.form}")(k, row_op)
        self._close_loop()
        lines = [line for line in self._lines
                 if line not in self._stores or self._stores[line] in self._used]
        scratch = [row for key, row in self._scratch_rows.items() if key in self._used]
        self.text = self._format_function(name, lines, scratch)

    def _reshape_row_ops(self, row_ops):
        return flatten_to_one_row(row_ops)

    def _choose_row_loops(self):
        """Merge nested loops over rows into one, if each array then has a constant stride."""
        operands = [x for row_op in self.row_ops for x in row_op.operands if not self._is_local(x)]
        self.sizes, leads = merge_axes(self.row_ops[0].sizes, [x.lead for x in operands])
        self._leads = dict(zip(operands, leads, strict=True))

    def _is_local(self, operand):
        return operand.view.buffer in self.local

    # Forms of operations

    def _write_elementwise(self, i, row_op):
        """Write the code of an elementwise operation."""
        names = self._input_expressions(row_op)
        dtypes = [x.view.dtype if isinstance(x, Operand) else None for x in row_op.inputs]
        value = operation_expression(row_op.op, names, dtypes)
        self._open_loop(row_op.width)
        self._lines.append(f"{row_op.output.c_type} v{i} = {value};")
        self._write_output(row_op.output, f"v{i}", row_op.width)

    def _write_row_reduction(self, i, row_op):
        """Write the code of a sum, maximum or minimum along each row."""
        (x,) = self._input_expressions(row_op)
        kind = row_op.output.c_type
        if row_op.op.kind == "add.reduce":
            is_wide = row_op.width > WIDE or row_op.op.options.get("dtype") == np.float64
            wide = "double" if is_wide else kind
            self._open_reduction_loop(row_op.width, f"{wide} s{i} = 0;", f"+:s{i}")
            self._lines.append(f"s{i} += {x};")
            self._close_loop()
        else:
            sign, order = ("-", ">") if row_op.op.kind.startswith("max") else ("", "<")
            self._open_reduction_loop(
                row_op.width, f"{kind} s{i} = {sign}({kind})INFINITY; {kind} n{i} = 0;",
                f"{'max' if order == '>' else 'min'}:s{i}", f"+:n{i}")
            self._lines.append(f"{kind} v{i} = {x}; s{i} = v{i} {order} s{i} ? v{i} : s{i}; "
                               f"n{i} += v{i} != v{i} ? v{i} : 0;")
            self._close_loop()
            self._lines.append(f"s{i} += n{i};")                # NaN if an entry is NaN
        self._lines.append(f"{kind} r{i} = ({kind})s{i};")
        self._write_output(row_op.output, f"r{i}", 1)

    def _write_column_sum(self, i, row_op):
        """Write the code of a sum over the rows.

        All rows are added to a row of scratch memory, which is copied to the result at the end.
        """
        (x,) = self._input_expressions(row_op)
        width, key = row_op.width, ("column_sum", i)
        total = self._add_scratch_row(key, "double", width)
        self._used.add(key)
        self._before.append(f"for (size_t j = 0; j < {width}; j++) {total}[j] = 0;")
        self._open_loop(width)
        self._lines.append(f"{total}[{0 if width == 1 else 'j'}] += {x};")
        out, kind = self._add_pointer(row_op.output), row_op.output.c_type
        step = row_op.output.inner // row_op.output.view.dtype.itemsize
        self._after.append(f"for (size_t j = 0; j < {width}; j++) "
                           f"{out}[j * {step}] = ({kind}){total}[j];")

    # Loops along a row

    def _open_loop(self, width):
        """Make sure that a loop over `width` entries is open. A width of 1 needs no loop."""
        if width == 1:
            self._close_loop()
        elif self._loop is None or self._loop.width != width:
            self._close_loop()
            self._loop = Loop(width, len(self._lines))

    def _open_reduction_loop(self, width, declaration, *reductions):
        """Open a loop for a reduction. The C line `declaration` declares the result's variables."""
        if width == 1:
            self._close_loop()
            self._lines.append(declaration)
            return
        self._open_loop(width)
        self._loop.before.append(declaration)
        self._loop.reductions += reductions

    def _close_loop(self):
        if self._loop is not None:
            loop, self._loop = self._loop, None
            self._lines[loop.start:loop.start] = [*loop.before, *self._make_loop_head(loop)]
            self._lines += self._make_loop_tail(loop)

    def _make_loop_head(self, loop):
        clauses = "".join(f" reduction({clause})" for clause in loop.reductions)
        return [f"#pragma omp simd{clauses}", f"for (size_t j = 0; j < {loop.width}; j++) {{"]

    def _make_loop_tail(self, loop):
        return ["}"]

    # Values

    def _input_expressions(self, row_op):
        """Return a C expression for the current entry of each of an operation's inputs.

        Begin a new loop if the operation can't be added to the open loop.
        """
        loop, inputs = self._loop, [x for x in row_op.inputs if isinstance(x, Operand)]
        if loop is not None and (loop.width != row_op.width or any(
                x not in loop.values and any(may_overlap(x.view, v) for v in loop.written)
                for x in inputs) or any(
                x != row_op.output and may_overlap(x.view, row_op.output.view) for x in loop.read)):
            self._close_loop()
        self._open_loop(row_op.width)
        return [self._entry_variable(x, row_op.width) if isinstance(x, Operand) else
                number_literal(x) for x in row_op.inputs]

    def _entry_variable(self, operand, width):
        """Return the C variable that holds an operand's current entry."""
        if self._loop is not None and operand in self._loop.values:
            return self._loop.values[operand]
        if operand.inner == 0 or width == 1:
            return self._row_variable(operand)
        name = f"x{next(self._numbers)}"
        self._lines.append(f"{operand.c_type} {name} = {self._entry_expression(operand, width)};")
        self._loop.values[operand] = name
        self._loop.read.append(operand)
        return name

    def _row_variable(self, operand):
        """Return the C variable of an operand that has only one entry for each row."""
        if operand not in self._scalars:
            name = f"y{next(self._numbers)}"
            line = f"{operand.c_type} {name} = {self._entry_expression(operand, 1)};"
            (self._lines if self._loop is None else self._loop.before).append(line)
            self._scalars[operand] = name
        return self._scalars[operand]

    def _write_output(self, operand, value, width):
        """Add a C line that stores `value` in `operand`. A row that no line reads is not stored."""
        for known in (self._scalars, self._loop.values if self._loop else {}):
            for old in [old for old in known if may_overlap(old.view, operand.view)]:
                del known[old]
        if self._loop is not None:
            self._loop.values[operand] = value
            self._loop.written.append(operand.view)
        else:
            self._scalars[operand] = value
        line = self._make_store(self._entry_expression(operand, width, is_written=True), value)
        self._lines.append(line)
        if self._is_local(operand):
            self._stores[line] = operand.view.buffer

    def _make_store(self, entry, value):
        return f"{entry} = {value};"

    def _entry_expression(self, operand, width, is_written=False):
        """Return the C expression (such as `p1[j]`) of an operand's entry j in memory."""
        step, size = operand.inner // operand.view.dtype.itemsize, operand.view.dtype.itemsize
        j = "" if width == 1 or step == 0 else "j" if step == 1 else f"j * {step}"
        if not self._is_local(operand):
            return f"{self._add_pointer(operand)}[{j or 0}]"
        buffer, pitch = operand.view.buffer, row_pitch(operand, self.row_ops[0].sizes)
        if not is_written:
            self._used.add(buffer)
        row = self._add_scratch_row(buffer, operand.c_type, pitch // size)
        start = operand.view.offset % pitch // size
        return f"{row}[{' + '.join(filter(None, [str(start) if start or not j else '', j]))}]"

    def _add_scratch_row(self, key, c_type, width):
        name = f"b{len(self._scratch_rows)}"
        return self._scratch_rows.setdefault(key, (name, c_type, width))[0]

    def _add_pointer(self, operand):
        if operand not in self._pointer_names:
            self.views.append(operand.view)
            k, kind, lead = len(self.views), operand.c_type, self._leads[operand]
            line = f"{kind} *p{k} = ({kind} *)P[{k}] + {offset_expression(lead, operand.view)};"
            (self._moving if any(lead) else self._before).append(line)
            self._pointer_names[operand] = f"p{k}"
        return self._pointer_names[operand]

    def _format_function(self, name, lines, scratch_rows):
        """Return the source. `scratch_rows` has (name, C type, width) of each row of scratch."""
        for row, kind, width in scratch_rows:
            self._before.insert(0, f"{kind} *{row} = ({kind} *)(P[0] + {self.scratch});")
            self.scratch += -(-width * 8 // 64) * 64
        return "\n".join([f"void {name}(char **P) {{", *self._before, *loop_heads(self.sizes),
                          *self._moving, *lines, "}" * len(self.sizes), *self._after, "}", ""])


class Loop:
    """A C loop along a row, whose lines are still being generated.

    before      lines in front of the loop
    reductions  an operator and a variable for each reduction, such as "+:s1"
    values      {Operand: C variable}
    written     the Views that the loop has written
    read        the Operands that the loop has read from memory
    """

    def __init__(self, width, start):
        self.width, self.start = width, start
        self.before, self.reductions, self.values = [], [], {}
        self.written, self.read = [], []


def flatten_to_one_row(row_ops):
    """Return RowOperations as operations on one long row, or unchanged if this is impossible."""
    if any(x.form != "elementwise" or x.width != row_ops[0].width for x in row_ops):
        return row_ops
    flat = [make_row_operation(row_op.op, row_count=1) for row_op in row_ops]
    return row_ops if None in flat else flat


def loop_heads(sizes):
    """Return the heads of C loops with the indices i0, i1, .."""
    return [f"for (size_t i{axis} = 0; i{axis} < {n}; i{axis}++) {{"
            for axis, n in enumerate(sizes)]


def offset_expression(strides, view):
    """Return a C expression for the offset (in entries) of the entry with indices i0, i1, .."""
    return " + ".join(["0", *(f"(int64_t)i{axis} * {stride // view.dtype.itemsize}"
                              for axis, stride in enumerate(strides) if stride)])


def operation_expression(op, input_names, input_dtypes):
    """Return an operation as a C expression of its inputs `input_names`, with casts as in NumPy."""
    loop = op.loop or (op.output.dtype,) * 2
    inputs = [cast_expression(name, dtype, wanted) for name, dtype, wanted
              in zip(input_names, input_dtypes, loop[:-1], strict=True)]
    suffix = {"float32": ("f", "f"), "float64": ("", "d")}.get(loop[0].name, ("", ""))
    kind = "copy" if op.kind in REDUCTIONS else op.kind         # over axes of length 1
    if loop[0].kind == "b" and kind in ("invert", "maximum", "minimum"):
        kind = {"invert": "logical_not", "maximum": "logical_or", "minimum": "logical_and"}[kind]
    text = EXPRESSIONS[kind].format(*inputs, s=suffix[0], t=suffix[1])
    return cast_expression(f"({text})", loop[-1], op.output.dtype)


def cast_expression(expression, dtype, wanted_dtype):
    """Return a C expression converted from `dtype` (None for a literal) to `wanted_dtype`."""
    if dtype == wanted_dtype or dtype is None and wanted_dtype.kind in "iu":
        return expression           # `x < 300` is True for all x of uint8
    if wanted_dtype.kind == "b":
        return f"({expression} != 0)"
    return f"({TYPES[wanted_dtype.name]}){expression}"


def number_literal(value):
    """Return a Python or NumPy number as a C literal: an integer or a double."""
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    if isinstance(value, (int, np.integer)) and -2**63 <= value < 2**63:
        return f"INT64_C({int(value)})"
    if math.isnan(value):
        return "NAN"
    return ("-" if value < 0 else "") + "INFINITY" if math.isinf(value) else f"({float(value)!r})"

