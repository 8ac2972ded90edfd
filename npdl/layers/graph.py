"""Message passing on a graph, and attention as a special case of it (Gilmer et al. 2017).

Every node j sends a message f(h_j), and every node i updates its state with the messages that it
receives:  h_i' = q(h_i, sum_j e_ij f(h_j)).  The entry e_ij of the matrix of edges (N, N) is the
weight of the message from j to i. It is 0 if there is no edge from j to i. If all weights are 1,
node i receives the sum of its neighbours' messages; if they are 1/degree, it receives the mean. In
attention, the weights are computed from the states of the nodes.
"""

import math

from npdl.backend import xp
from npdl.core import Cache, Layer, require_layers
from npdl.errors import check_floats, check_gradient, check_mask, check_shape, check_shapes
from npdl.functions import softmax, softmax_backward, sum_rows
from npdl.init import generator
from npdl.layers.activation import ReLU
from npdl.layers.linear import Linear
from npdl.options import require_number


class ReLUUpdate(Layer):
    """q(h, m) = h W + b + max(m, 0), the new states of nodes with states h and messages m.

    Shapes: h (..., D) and m (..., E) -> (..., E).
    """

    def __init__(self, d_in, d_out, *, bias=True, rng=0, dtype="float32"):
        self.own = Linear(d_in, d_out, bias=bias, rng=rng, dtype=dtype)
        self.relu = ReLU()

    def forward(self, h, m):
        check_shapes("ReLUUpdate", "f", h=(h, "(..., D)"), m=(m, f"(..., {self.own.sizes[1]})"))
        a, c_own = self.own.forward(h)
        r, c_relu = self.relu.forward(m)
        y = a + r
        return y, Cache(own=c_own, relu=c_relu)

    def backward(self, dy, cache):
        dh = self.own.backward(dy, cache.own)
        dm = self.relu.backward(dy, cache.relu)
        return dh, dm


class ReplaceUpdate(Layer):
    """q(h, m) = m, the update that replaces a node's state h by the sum m of its messages."""

    def forward(self, h, m):
        check_floats("ReplaceUpdate", h=h, m=m)
        return m, Cache(h=h, shape=m.shape)

    def backward(self, dy, cache):
        check_gradient(dy, cache.shape, "ReplaceUpdate")
        dh = xp.zeros_like(cache.h)
        dm = dy
        return dh, dm


class MessagePassing(Layer):
    """h_i' = q(h_i, sum_j e_ij f(h_j)), for all nodes i at once.

    `message` is the layer f (..., D) -> (..., E), and `update` is the layer q, whose forward takes
    h and the sum of messages. forward(h, edges): h is (..., N, D). `edges` is (..., N, N), or
    (N, N) if the whole batch has the same edges; edges[i, j] is the weight of the edge from j to i,
    a number or a bool. backward returns (dh, dedges); dedges is None unless edges are floats.
    """

    def __init__(self, message, update):
        require_layers("MessagePassing", [message, update])
        self.message = message
        self.update = update

    def forward(self, h, edges):
        check_floats("graph", h=h)
        shape = "(N, N)" if getattr(edges, "ndim", 2) == 2 else "(..., N, N)"
        check_shapes("graph", h=(h, "(..., N, D)"), edges=(edges, shape))
        f, c_message = self.message.forward(h)              # f (..., N, E)
        e = edges if edges.dtype.kind == "f" else edges.astype(f.dtype)
        m = e @ f                                           # m (..., N, E)
        y, c_update = self.update.forward(h, m)
        return y, Cache(message=c_message, update=c_update, e=e, f=f, edges=edges, y=y)

    def backward(self, dy, cache):
        e, f = cache.e, cache.f
        check_gradient(dy, cache.y.shape, "MessagePassing")
        dh, dm = self.update.backward(dy, cache.update)
        df = e.swapaxes(-1, -2) @ dm                        # m = e f
        dh = dh + self.message.backward(df, cache.message)
        if cache.edges.dtype.kind != "f":
            return dh, None
        de = dm @ f.swapaxes(-1, -2)
        if e.ndim == 2:                                     # one graph for the whole batch
            de = sum_rows(de.reshape(-1, e.size)).reshape(e.shape)
        return dh, de


class GraphAttention(Layer):
    """Attention with one head as message passing: e_ij = softmax_j(scale q_i . k_j).

    The message of node j is f(h_j) = h_j W_V. Queries are q = h W_Q, and keys k = h W_K.
    forward(h, neighbours) maps h (..., N, D) to (..., N, E). `neighbours` (..., N, N) is True at
    [i, j] if node i attends to node j. If `neighbours` is None, all nodes attend to all nodes, as
    in an encoder. If it is True for j <= i, the attention is causal, as in a GPT. Transformers use
    scale = 1/sqrt(E). A node without neighbours gets zeros.
    """

    def __init__(self, d_in, d_out, *, scale=1.0, bias=False, rng=0, dtype="float32"):
        require_number("scale", scale, math.isfinite, "a finite number")
        rng = generator(rng)
        self.W_Q = Linear(d_in, d_out, bias=bias, rng=rng, dtype=dtype)
        self.W_K = Linear(d_in, d_out, bias=bias, rng=rng, dtype=dtype)
        message = Linear(d_in, d_out, bias=bias, rng=rng, dtype=dtype)
        self.passing = MessagePassing(message, ReplaceUpdate())
        self.scale = scale

    def forward(self, h, neighbours=None):
        check_shape("GraphAttention", h, f"(..., N, {self.W_Q.sizes[0]})", kinds="f")
        check_mask("GraphAttention", neighbours, (*h.shape[:-1], h.shape[-2]))
        q, c_Q = self.W_Q.forward(h)
        k, c_K = self.W_K.forward(h)
        scores = self.scale * (q @ k.swapaxes(-1, -2))      # scores (..., N, N)
        e = softmax(scores, neighbours)                     # e      (..., N, N)
        y, c_passing = self.passing.forward(h, e)
        return y, Cache(Q=c_Q, K=c_K, passing=c_passing, q=q, k=k, e=e)

    def backward(self, dy, cache):
        dh, de = self.passing.backward(dy, cache.passing)
        dscores = softmax_backward(de, cache.e)             # e = softmax(scores)
        dq = self.scale * (dscores @ cache.k)               # scores = scale q k^T
        dk = self.scale * (dscores.swapaxes(-1, -2) @ cache.q)
        dh = dh + self.W_Q.backward(dq, cache.Q)            # q = h W_Q, k = h W_K
        dh = dh + self.W_K.backward(dk, cache.K)
        return dh
