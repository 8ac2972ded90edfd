"""What RNN, GRU and LSTM share: a cell, a layer that applies it through time, a stack of layers.

A cell is `step` and `step_backward`, gates without products; the rest is written once, here. The
input's product with W_x is one product for all steps before the loop, and the gradients of the
weights are one product each after it; only the product with W_h, which truly depends on the step
before, stays in the loop. Where nothing came before, h = 0 and h W_h = 0: nothing is multiplied.

A state is an array h, or for the LSTM a pair (h, c). Inside, it is always a tuple of its parts.
"""

from npdl.backend import one_hot, xp
from npdl.core import Cache, Layer, Param, gradients_of
from npdl.errors import InputError
from npdl.init import generator, require_positive, uniform_fan_in
from npdl.layers.doors import check_floats
from npdl.layers.dropout import Dropout
from npdl.layers.lengths import Lookup, way_through
from npdl.layers.linear import check_width


class Cell(Layer):
    """The base of the cells: z = x W_x + b, u = h W_h, and one step taken alone.

    forward(x, state): x (B, D); each part of the state (B, H), zeros if None -> the new state.
    W_x (D, G), W_h (H, G) and b (G,), where G = num_gates H, start uniform in +-1/sqrt(D + H).

    A cell writes
        step(z, u, state) -> new state, cache   z (B, G) may be overwritten
        step_backward(dstate, cache, dz, du) -> gradient of the state; writes into dz and du
    where dz and du are the gradients of x W_x + b and of h W_h, and that of the state lacks what
    reaches h through u (None where nothing else does). When z and u are simply added (`one_sum`),
    du is dz, the same array. Raises InputError for sizes below 1 and inputs or states of another
    shape.
    """

    num_gates = 1
    num_parts = 1                                       # arrays in the state
    one_sum = True

    def __init__(self, d_in, d_hidden, bias=True, rng=0, dtype="float32"):
        require_positive(d_in=d_in, d_hidden=d_hidden)
        rng = generator(rng)
        fan_in, G = d_in + d_hidden, self.num_gates * d_hidden
        self.W_x = Param(uniform_fan_in(rng, fan_in, (d_in, G), dtype))
        self.W_h = Param(uniform_fan_in(rng, fan_in, (d_hidden, G), dtype))
        self.b = Param(uniform_fan_in(rng, fan_in, (G,), dtype)) if bias else None
        self.d_hidden = d_hidden

    def forward(self, x, state=None):
        check_width(x, self.W_x.shape[0], type(self).__name__)
        if x.ndim != 2:
            raise InputError(f"{type(self).__name__}: the input has shape {x.shape}; one step "
                             "takes (B, D)")
        z = self.inputs(x)                              # z (B, G)
        parts = self.parts_of(state, (len(x), self.d_hidden), z.dtype)
        new, step = self.step(z, self.recurrence(parts), parts)
        return self.state_of(new), Cache(x=x, h=parts[0], step=step)

    def backward(self, dout, cache):
        dparts = self.gradient_parts(dout, cache.h)
        dz, du = self.empty_gradients(len(cache.x), cache.h.dtype)
        dparts = self.step_backward(dparts, cache.step, dz, du)
        dparts = self.recurrence_backward(du, dparts)
        dx = self.inputs_backward(dz, cache.x)
        self.W_h.grad += cache.h.T @ du                 # u = h W_h
        return dx, self.state_of(dparts)

    def inputs(self, x):
        """What the input adds to z: x W_x + b, for any number of rows."""
        z = x @ self.W_x.data
        if self.b is not None:
            z = xp.add(z, self.b.data, out=z)
        return z

    def inputs_backward(self, dz, x):
        """Add to the gradients of W_x and b, for any number of rows; return dx."""
        self.W_x.grad += x.T @ dz                       # z = x W_x + b
        if self.b is not None:
            self.b.grad += dz.sum(0)
        dx = dz @ self.W_x.data.T
        return dx

    def recurrence(self, parts):
        """What the state before adds: u = h W_h."""
        return parts[0] @ self.W_h.data

    def recurrence_backward(self, du, dparts):
        """The gradient of the state, complete: step_backward's, and what reaches h through u."""
        dh = du @ self.W_h.data.T                       # u = h W_h
        dh = dh if dparts[0] is None else dparts[0] + dh
        return dh, *dparts[1:]

    def empty_gradients(self, rows, dtype):
        """Room for dz and du, (N, G) each; one and the same when z and u are simply added."""
        dz = xp.empty((rows, self.W_x.shape[1]), dtype)
        return dz, dz if self.one_sum else xp.empty_like(dz)

    def parts_of(self, state, shape, dtype):
        """The parts of a state, each of `shape`; zeros if there is none."""
        if state is None:
            return (xp.zeros(shape, dtype),) * self.num_parts
        parts = state if isinstance(state, (tuple, list)) else (state,)
        for part in parts:
            check_floats(type(self).__name__, the_state=part)
        if len(parts) != self.num_parts or any(part.shape != shape for part in parts):
            raise InputError(
                f"{type(self).__name__}: the state has shapes {[part.shape for part in parts]}; "
                f"it must have {self.num_parts} of shape {shape}"
            )
        return tuple(parts)

    def state_of(self, parts):
        """The state as the caller sees it: h, or (h, c)."""
        return parts[0] if self.num_parts == 1 else tuple(parts)

    def gradient_parts(self, dstate, like):
        """The parts of a state's gradient, zeros for those that are absent."""
        dparts = gradients_of(dstate, self.num_parts)
        return tuple(xp.zeros_like(like) if d is None else d for d in dparts)


class RecurrentLayer(Layer):
    """A cell at t = 0..S-1:  state_t = step(z_t, u_t, state_{t-1}),  z = x W_x + b,
                              u_t = h_{t-1} W_h

    (B, S, D) -> (B, S, H), all h_t, and the final state, each part (B, H).

    forward(x, state, tree, lengths): `state` is zeros if None, and then has no gradient. With
    `lengths` (B,), sequence b ends after lengths[b] steps: from there on its outputs are zero and
    its state stays, so the final state is that of its last real step. With a tree (npdl.prefix),
    x is (N, D) and the output (N, H); the start is zeros and there is no final state.
    x may be a Lookup: then the product with W_x is made for the rows of its table only, and
    backward returns a Lookup with the table's gradient.
    """

    def __init__(self, cell):
        self.cell = cell

    def forward(self, x, state=None, tree=None, lengths=None):
        cell, H = self.cell, self.cell.d_hidden
        check_width(x, cell.W_x.shape[0], type(self).__name__)
        way = way_through(x, state, tree, lengths, type(self).__name__)
        rows, index = (way.rows(x), None) if not isinstance(x, Lookup) else x.rows(way)
        z = cell.inputs(rows)                           # z    (N, G), all steps at once
        z = z if index is None else z[index]
        hs, h_prevs = xp.empty((2, len(z), H), z.dtype)
        parts = way.arrange(cell.parts_of(state, (way.start_size, H), z.dtype))
        blank, steps = state is None, []
        for t, level in enumerate(way.levels):
            read = way.enter(t, parts)
            h_prevs[level] = read[0]
            u = xp.zeros_like(z[level]) if blank and t == 0 else cell.recurrence(read)
            new, step = cell.step(z[level], u, read)
            hs[level] = new[0]
            parts = way.leave(t, new, parts)
            steps.append(step)
        final = None if way.is_tree else cell.state_of(way.restore(parts))
        cache = Cache(rows=rows, index=index, way=way, h_prevs=h_prevs, steps=steps, blank=blank)
        return (way.batch(hs), final), cache

    def backward(self, dout, cache):
        dy, dfinal = gradients_of(dout, 2)
        cell, way, blank = self.cell, cache.way, cache.blank
        end = xp.empty((way.end_size, cell.d_hidden), cache.h_prevs.dtype)
        dparts = way.arrange(cell.gradient_parts(dfinal, end))
        dhs = None if dy is None else way.rows(dy)
        dz, du = cell.empty_gradients(len(cache.h_prevs), end.dtype)
        for t, level in reversed(list(enumerate(way.levels))):
            dnew = way.leave_backward(t, dparts)
            if dhs is not None:                         # h_t is read above and by step t+1
                dnew = (dnew[0] + dhs[level], *dnew[1:])
            dread = cell.step_backward(dnew, cache.steps[t], dz[level], du[level])
            if t > 0 or not blank:
                dread = cell.recurrence_backward(du[level], dread)
                dparts = way.enter_backward(t, dread, dparts)
        fed = slice(way.first if blank else 0, None)    # the rows that read a state
        cell.W_h.grad += cache.h_prevs[fed].T @ du[fed]     # u = h W_h: one product, all steps
        dstate = None if blank else cell.state_of(way.restore(dparts))
        if cache.index is None:
            return way.batch(cell.inputs_backward(dz, cache.rows)), dstate
        readers = one_hot(cache.index, len(cache.rows), dz.dtype)   # z = readers (table W_x + b)
        return Lookup(cell.inputs_backward(readers.T @ dz, cache.rows)), dstate


class Recurrent(Layer):
    """Recurrent layers, each reading the one below:  x_{l+1} = dropout(layer_l(x_l)), the last
    without dropout.

    forward(x, state, rng, tree, lengths): x (B, S, D), each part of the state (L, B, H) or None
    -> y (B, S, H) and the final state, each part (L, B, H). `state`, `tree` and `lengths` as in
    RecurrentLayer; dropout is active when `rng` is a generator. Raises InputError unless the
    layers have one width H and as many parts in their states.
    """

    def __init__(self, layers, dropout=0.0):
        self.layers = list(layers)
        kinds = {(layer.cell.d_hidden, layer.cell.num_parts) for layer in self.layers}
        if len(kinds) != 1:
            raise InputError(f"Recurrent: the layers have (width, parts of state) {sorted(kinds)}; "
                             "one or more layers must have the same")
        self.dropout = Dropout(dropout)

    def forward(self, x, state=None, rng=None, tree=None, lengths=None):
        way = way_through(x, state, tree, lengths, type(self).__name__)
        caches, finals = [], []
        for layer, start in zip(self.layers, self._unstacked(state, x.shape[0]), strict=True):
            (x, final), c_layer = layer.forward(x, start, tree, way)
            c_drop = None
            if layer is not self.layers[-1]:
                x, c_drop = self.dropout.forward(x, rng)
            caches.append((c_layer, c_drop))
            finals.append(final)
        final = None if way.is_tree else self._stacked(finals)
        return (x, final), Cache(layers=caches)

    def backward(self, dout, cache):
        dx, dfinal = gradients_of(dout, 2)
        cell = self.layers[0].cell
        dparts = gradients_of(dfinal, cell.num_parts)
        dstarts = []
        for i in reversed(range(len(self.layers))):
            c_layer, c_drop = cache.layers[i]
            if c_drop is not None:
                dx = self.dropout.backward(dx, c_drop)
            dfinal = cell.state_of([None if d is None else d[i] for d in dparts])
            dx, dstart = self.layers[i].backward((dx, dfinal), c_layer)
            dstarts.insert(0, dstart)
        return dx, None if dstarts[0] is None else self._stacked(dstarts)

    def _unstacked(self, state, B):
        """Parts (L, B, H) -> the state of each layer."""
        L, cell = len(self.layers), self.layers[0].cell
        if state is None:
            return [None] * L
        parts = cell.parts_of(state, (L, B, cell.d_hidden), None)
        return [cell.state_of([part[i] for part in parts]) for i in range(L)]

    def _stacked(self, states):
        """The inverse of _unstacked."""
        cell = self.layers[0].cell
        parts = zip(*(gradients_of(state, cell.num_parts) for state in states), strict=True)
        return cell.state_of([xp.stack(part) for part in parts])


def stack(layer_class, d_in, d_hidden, num_layers, bias, rng, dtype):
    """`num_layers` layers, the first from d_in to d_hidden, the others from d_hidden to itself."""
    require_positive(num_layers=num_layers)
    rng = generator(rng)
    widths = [d_in] + [d_hidden] * (num_layers - 1)
    return [layer_class(width, d_hidden, bias, rng, dtype) for width in widths]
