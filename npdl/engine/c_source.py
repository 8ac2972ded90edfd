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
    pointers  the Views whose addresses are P[1], P[2], .. of the function's argument P; P[0] is the
              address of the scratch memory
    scratch   bytes of scratch memory
    """

    def __init__(self, name, group):
        self.rows, self.local = self._flatten(group.rows), group.local
        self.pointers, self.scratch, self._names = [], 0, 0
        self._pointer_names, self._scratch_rows, self._used = {}, {}, set()
        self._lines, self._before, self._moving, self._after = [], [], [], []
        self._loop = None                   # the open loop along the row
        self._scalars = {}                  # {Operand: C variable}, if a row shares one entry
        self._join_axes()
        for k, rows in enumerate(self.rows):
            getattr(self, f"_write_{rows.form}")(k, rows)
        self._close_loop()
        lines = [line for line, tag in self._lines if tag is None or tag in self._used]
        scratch = [row for key, row in self._scratch_rows.items() if key in self._used]
        self.text = self._write_function(name, lines, scratch)

    def _flatten(self, rows):
        return flatten_rows(rows)

    def _join_axes(self):
        """Merge nested loops over rows into one, if each array then has a constant stride."""
        operands = [x for rows in self.rows for x in rows.operands if not self._is_local(x)]
        self.sizes, leads = merge_axes(self.rows[0].sizes, [x.lead for x in operands])
        self._leads = dict(zip(operands, leads, strict=True))

    def _is_local(self, x):
        return x.view.buffer in self.local

    # Forms of operations

    def _write_map(self, k, rows):
        """Write the code of an elementwise operation."""
        names = self._read_inputs(rows)
        value = operation_expression(rows.op, names, [_dtype_of(x) for x in rows.inputs])
        kind = TYPES[rows.output.view.dtype.name]
        self._open_loop(rows.width)
        self._lines.append((f"{kind} v{k} = {value};", None))
        self._write_output(rows.output, f"v{k}", rows.width)

    def _write_row(self, k, rows):
        """Write the code of a sum, maximum or minimum along each row."""
        (x,) = self._read_inputs(rows)
        kind = TYPES[rows.output.view.dtype.name]
        if rows.op.kind == "add.reduce":
            wide = "double" if rows.width > WIDE or rows.op.options.get("dtype") == np.float64 \
                else kind
            self._reduce_into(rows.width, f"{wide} s{k} = 0;", f"+:s{k}")
            self._lines.append((f"s{k} += {x};", None))
            self._close_loop()
        else:
            sign, order = ("-", ">") if rows.op.kind.startswith("max") else ("", "<")
            self._reduce_into(rows.width, f"{kind} s{k} = {sign}({kind})INFINITY; {kind} n{k} = 0;",
                              f"{'max' if order == '>' else 'min'}:s{k}", f"+:n{k}")
            self._lines.append((f"{kind} v{k} = {x}; s{k} = v{k} {order} s{k} ? v{k} : s{k}; "
                                f"n{k} += v{k} != v{k} ? v{k} : 0;", None))
            self._close_loop()
            self._lines.append((f"s{k} += n{k};", None))        # NaN if an entry is NaN
        self._lines.append((f"{kind} r{k} = ({kind})s{k};", None))
        self._write_output(rows.output, f"r{k}", 1)

    def _write_column(self, k, rows):
        """Write the code of a sum over the rows.

        All rows are added to a row of scratch memory, which is copied to the result at the end.
        """
        (x,) = self._read_inputs(rows)
        width, total = rows.width, self._add_scratch_row(("column", k), "double", rows.width)
        self._used.add(("column", k))
        self._before.append(f"for (size_t j = 0; j < {width}; j++) {total}[j] = 0;")
        self._open_loop(width)
        self._lines.append((f"{total}[{0 if width == 1 else 'j'}] += {x};", None))
        out, kind = self._add_pointer(rows.output, moving=False), TYPES[rows.output.view.dtype.name]
        step = rows.output.inner // rows.output.view.dtype.itemsize
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

    def _reduce_into(self, width, declaration, *reductions):
        """Open a loop for a reduction. The C line `declaration` declares the result's variables."""
        if width == 1:
            self._close_loop()
            self._lines.append((declaration, None))
            return
        self._open_loop(width)
        self._loop.before.append(declaration)
        self._loop.reductions += reductions

    def _close_loop(self):
        if self._loop is not None:
            loop, self._loop = self._loop, None
            head = [*loop.before, *self._loop_head(loop)]
            self._lines[loop.start:loop.start] = [(line, None) for line in head]
            self._lines += [(line, None) for line in self._loop_tail(loop)]

    def _loop_head(self, loop):
        clause = "".join(f" reduction({each})" for each in loop.reductions)
        return [f"#pragma omp simd{clause}", f"for (size_t j = 0; j < {loop.width}; j++) {{"]

    def _loop_tail(self, loop):
        return ["}"]

    # Values

    def _read_inputs(self, rows):
        """Return a C expression for the current entry of each of an operation's inputs.

        Begin a new loop if the operation can't be added to the open loop.
        """
        loop, inputs = self._loop, [x for x in rows.inputs if isinstance(x, Operand)]
        if loop is not None and (loop.width != rows.width or any(
                x not in loop.values and any(may_overlap(x.view, v) for v in loop.written)
                for x in inputs) or any(x != rows.output and may_overlap(x.view, rows.output.view)
                                        for x in loop.read)):
            self._close_loop()
        self._open_loop(rows.width)
        return [self._read_operand(x, rows.width) if isinstance(x, Operand) else number_literal(x)
                for x in rows.inputs]

    def _read_operand(self, x, width):
        """Return the C variable that holds an operand's current entry."""
        if self._loop is not None and x in self._loop.values:
            return self._loop.values[x]
        if x.inner == 0 or width == 1:
            return self._read_scalar(x)
        name = self._new_variable("x")
        self._lines.append((f"{TYPES[x.view.dtype.name]} {name} = {self._entry(x, width)};", None))
        self._loop.values[x] = name
        self._loop.read.append(x)
        return name

    def _read_scalar(self, x):
        """Return the C variable of an operand that has only one entry for each row."""
        if x not in self._scalars:
            name = self._new_variable("y")
            line = f"{TYPES[x.view.dtype.name]} {name} = {self._entry(x, 1)};"
            if self._loop is None:
                self._lines.append((line, None))
            else:
                self._loop.before.append(line)
            self._scalars[x] = name
        return self._scalars[x]

    def _write_output(self, x, value, width):
        """Add a C line that stores `value` in `x`. The line is dropped if nothing reads `x`."""
        for known in (self._scalars, self._loop.values if self._loop else {}):
            for old in [old for old in known if may_overlap(old.view, x.view)]:
                del known[old]
        if self._loop is not None:
            self._loop.values[x] = value
            self._loop.written.append(x.view)
        else:
            self._scalars[x] = value
        tag = x.view.buffer if self._is_local(x) else None      # a line that `_used` may drop
        self._lines.append((f"{self._entry(x, width, write=True)} = {value};", tag))

    def _new_variable(self, letter):
        self._names += 1
        return f"{letter}{self._names}"

    def _entry(self, x, width, write=False):
        """Return the C expression (such as `p1[j]`) of an operand's entry j in memory."""
        step, size = x.inner // x.view.dtype.itemsize, x.view.dtype.itemsize
        j = "" if width == 1 or step == 0 else "j" if step == 1 else f"j * {step}"
        if not self._is_local(x):
            return f"{self._add_pointer(x)}[{j or 0}]"
        buffer, pitch = x.view.buffer, row_pitch(x, self.rows[0].sizes)
        if not write:
            self._used.add(buffer)
        row = self._add_scratch_row(buffer, TYPES[x.view.dtype.name], pitch // size)
        start = x.view.offset % pitch // size
        return f"{row}[{' + '.join(filter(None, [str(start) if start or not j else '', j]))}]"

    def _add_scratch_row(self, key, kind, width):
        name = f"b{len(self._scratch_rows)}"
        return self._scratch_rows.setdefault(key, (name, kind, width))[0]

    def _add_pointer(self, x, moving=True):
        key = (*x, moving)
        if key not in self._pointer_names:
            self.pointers.append(x.view)
            k, kind = len(self.pointers), TYPES[x.view.dtype.name]
            lead = self._leads[x] if moving else ()
            line = f"{kind} *p{k} = ({kind} *)P[{k}] + {offset_expression(lead, x.view)};"
            (self._moving if moving else self._before).append(line)
            self._pointer_names[key] = f"p{k}"
        return self._pointer_names[key]

    def _write_function(self, name, lines, scratch):
        """Return the source; `scratch` has (name, C type, width) of each row of scratch memory."""
        for row, kind, width in scratch:
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


def flatten_rows(rows):
    """Return RowOperations as operations on one long row, or unchanged if this is impossible."""
    if any(member.form != "map" for member in rows) or len({member.width for member in rows}) > 1:
        return rows
    flat = [make_row_operation(member.op, count=1) for member in rows]
    return rows if None in flat else flat


def is_supported(op):
    """Return True if C has all dtypes of an operation, and all its arrays are aligned."""
    return all(x.dtype.name in TYPES and not any(s % x.dtype.itemsize for s in (
        x.offset, *x.strides)) for x in (*op.reads, op.output))


def loop_heads(sizes):
    """Return the heads of C loops with the indices i0, i1, .."""
    return [f"for (size_t i{axis} = 0; i{axis} < {n}; i{axis}++) {{"
            for axis, n in enumerate(sizes)]


def offset_expression(strides, view, letter="i"):
    """Return a C expression for the offset (in entries) of the entry with indices i0, i1, .."""
    return " + ".join(["0", *(f"(int64_t){letter}{axis} * {stride // view.dtype.itemsize}"
                              for axis, stride in enumerate(strides) if stride)])


def operation_expression(op, names, dtypes):
    """Return an operation as a C expression of its inputs `names`, with casts as in NumPy."""
    loop = op.loop or (op.output.dtype,) * 2
    inputs = [cast_expression(name, dtype, wanted) for name, dtype, wanted
              in zip(names, dtypes, loop[:-1], strict=True)]
    suffix = {"float32": ("f", "f"), "float64": ("", "d")}.get(loop[0].name, ("", ""))
    kind = "copy" if op.kind in REDUCTIONS else op.kind         # over axes of length 1
    if loop[0].kind == "b" and kind in ("invert", "maximum", "minimum"):
        kind = {"invert": "logical_not", "maximum": "logical_or", "minimum": "logical_and"}[kind]
    text = EXPRESSIONS[kind].format(*inputs, s=suffix[0], t=suffix[1])
    return cast_expression(f"({text})", loop[-1], op.output.dtype)


def cast_expression(name, dtype, wanted):
    """Return the C expression `name` converted from `dtype` (None for a literal) to `wanted`."""
    if dtype == wanted:
        return name
    if wanted.kind == "b":
        return f"({name} != 0)"
    return f"({TYPES[wanted.name]}){name}"


def number_literal(x):
    """Return a Python or NumPy number as a C literal: an integer or a double."""
    if isinstance(x, (bool, np.bool_)):
        return str(int(x))
    if isinstance(x, (int, np.integer)):
        return f"INT64_C({int(x)})"
    if math.isnan(x):
        return "NAN"
    return ("-" if x < 0 else "") + "INFINITY" if math.isinf(x) else f"({float(x)!r})"


def _dtype_of(x):
    return x.view.dtype if isinstance(x, Operand) else None

