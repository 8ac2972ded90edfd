"""An RNN that attends over its own past states (document 002, Problem 5)."""

from npdl.backend import xp
from npdl.core import Cache, Layer, gradients_of
from npdl.errors import InputError
from npdl.init import generator
from npdl.layers.doors import check_floats
from npdl.layers.lengths import way_through
from npdl.layers.linear import check_width
from npdl.layers.rnn import RNNCell
from npdl.layers.scores import AdditiveAttention, DotAttention, ScaledDotAttention

SCORES = ("dot", "scaled-dot", "additive")
QUERIES = ("preliminary", "previous")


class AttentiveRNN(Layer):
    """s_t = tanh(x_t W_x + h_{t-1} W_h + b)
    alpha_t = softmax over l < t of score(q_t, h_l),   a_t = sum_{l<t} alpha_{t,l} h_l
    h_t = s_t + a_t

    The document scores h_t against the past states, and makes h_t out of the result: h_t is
    defined by itself. Here the query q_t is known before h_t is, by `query`:
        "preliminary"   q_t = s_t, what the RNN alone makes of step t
        "previous"      q_t = h_{t-1}, the state before step t (itself one of those scored)
    score "dot", "scaled-dot" or "additive", as the document lists them. With nothing in the past
    a_t is zero. A state is no longer bounded by 1: h_t adds a mean of past states to s_t.

    forward(x, state): x (B, S, D); `state` is (h (B, H), past (B, P, H)), the last state and
    the states that may be attended to; zeros and none if None
    -> y (B, S, H), the final state (h, past (B, P + S, H)), and the weights A (B, S, P + S), whose
    row t is zero from column P + t on. Steps never look ahead, so padding at the end of a
    sequence changes nothing before it.
    Raises InputError for another score or query and for shapes that do not fit.
    """

    def __init__(self, d_in, d_hidden, score="scaled-dot", query="preliminary", bias=True, rng=0,
                 dtype="float32"):
        if score not in SCORES:
            raise InputError(f"score = {score!r}; choose one of: {', '.join(SCORES)}")
        if query not in QUERIES:
            raise InputError(f"query = {query!r}; choose one of: {', '.join(QUERIES)}")
        rng = generator(rng)
        self.cell = RNNCell(d_in, d_hidden, bias, rng, dtype)
        self.query = query
        if score == "additive":
            self.attention = AdditiveAttention(d_hidden, d_hidden, d_hidden, rng, dtype)
        else:
            self.attention = DotAttention() if score == "dot" else ScaledDotAttention()

    def forward(self, x, state=None):
        cell = self.cell
        check_width(x, cell.W_x.shape[0], "AttentiveRNN")
        way = way_through(x, owner="AttentiveRNN")
        rows = way.rows(x)                              # rows (N, D)
        z = cell.inputs(rows)                           # z    (N, H), all steps at once
        h, past = self._start(state, x.shape[0], z.dtype)
        B, P, H = past.shape
        S = len(way.levels)
        states = xp.empty((B, P + S, H), z.dtype)
        states[:, :P] = past
        A = xp.zeros((B, S, P + S), z.dtype)
        h_prevs = xp.empty_like(z)
        steps = []
        for t, level in enumerate(way.levels):
            h_prevs[level] = h
            (s,), c_step = cell.step(z[level], cell.recurrence((h,)), (h,))
            q = s if self.query == "preliminary" else h
            h, c_attend = s, None
            if P + t > 0:
                seen = states[:, : P + t]
                (a, alpha), c_attend = self.attention.forward(q[:, None], seen, seen)
                h = s + a[:, 0]
                A[:, t, : P + t] = alpha[:, 0]
            states[:, P + t] = h
            steps.append((c_step, c_attend))
        cache = Cache(rows=rows, way=way, h_prevs=h_prevs, steps=steps, P=P)
        return (states[:, P:], (h, states), A), cache

    def backward(self, dout, cache):
        dy, dfinal, dA = gradients_of(dout, 3)
        dh, dpast = gradients_of(dfinal, 2)
        cell, way, P = self.cell, cache.way, cache.P
        (N, H), (B, S) = cache.h_prevs.shape, way.shape
        dtype = cache.h_prevs.dtype
        dstates = xp.zeros((B, P + S, H), dtype) if dpast is None else dpast.copy()
        if dy is not None:
            dstates[:, P:] += dy                        # y = states from P on
        dh = xp.zeros((B, H), dtype) if dh is None else dh
        dz, du = cell.empty_gradients(N, dtype)
        for t, level in reversed(list(enumerate(way.levels))):
            c_step, c_attend = cache.steps[t]
            dh = dh + dstates[:, P + t]                 # h_t is read by step t+1 and by attention
            ds, dq = dh, None                           # h = s + a
            if c_attend is not None:
                dalpha = None if dA is None else dA[:, t : t + 1, : P + t]
                dq, dk, dv = self.attention.backward((dh[:, None], dalpha), c_attend)
                dstates[:, : P + t] += dk + dv          # the states are keys and values
            if dq is not None and self.query == "preliminary":
                ds = ds + dq[:, 0]                      # q = s
            dparts = cell.step_backward((ds,), c_step, dz[level], du[level])
            (dh,) = cell.recurrence_backward(du[level], dparts)
            if dq is not None and self.query == "previous":
                dh = dh + dq[:, 0]                      # q = h_prev
        dx = cell.inputs_backward(dz, cache.rows)
        cell.W_h.grad += cache.h_prevs.T @ du           # u = h W_h
        return way.batch(dx), (dh, dstates[:, :P])

    def _start(self, state, B, dtype):
        H = self.cell.d_hidden
        if state is None:
            return xp.zeros((B, H), dtype), xp.zeros((B, 0, H), dtype)
        h, past = state
        check_floats("AttentiveRNN", h=h, past=past)
        if h.shape != (B, H) or past.ndim != 3 or past.shape[::2] != (B, H):
            raise InputError(f"AttentiveRNN: the state has shapes {h.shape} and {past.shape}; they "
                             f"must be ({B}, {H}) and ({B}, P, {H})")
        return h, past
