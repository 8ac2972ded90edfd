"""An RNN that attends to its own past states."""

from npdl.backend import xp
from npdl.core import Cache, Layer, checked_gradients
from npdl.errors import InputError, check_floats, check_shape
from npdl.init import generator
from npdl.layers.attention import AdditiveAttention, DotAttention, ScaledDotAttention
from npdl.layers.recurrent import RNNCell
from npdl.options import require_choice


class AttentiveRNN(Layer):
    """s_t = tanh(x_t W_x + h_{t-1} W_h + b)
    alpha_t = softmax over l < t of score(q_t, h_l),   a_t = sum_{l<t} alpha_{t,l} h_l
    h_t = s_t + a_t

    The query q_t can't be h_t, because h_t depends on the scores. `query` chooses one of
        "preliminary"   q_t = s_t, the output of the RNN cell at step t
        "previous"      q_t = h_{t-1}, the state before step t, which is also one of the keys
    `score` is "dot", "scaled-dot" or "additive". If there are no past states, a_t is zero. An entry
    of h_t can be larger than 1, because a mean of past states is added to s_t.

    forward(x, state) maps x (B, S, D) to (y, final state), with y (B, S, H). `state` is the pair
    (h, past). past (B, P, H) holds all states so far, and h (B, H) is the last of them. If `state`
    is None, h is zero and P is 0. The final state has past (B, P + S, H). The function
    `attentions(cache)` of this module returns the weights alpha_t. A step never attends to later
    steps, so padding at the end of a sequence has no effect on the steps before it. Raises
    InputError for another score or query, and for shapes that do not fit.
    """

    def __init__(self, d_in, d_hidden, *, score="scaled-dot", query="preliminary", bias=True, rng=0,
                 dtype="float32"):
        require_choice("score", score, ("dot", "scaled-dot", "additive"))
        require_choice("query", query, ("preliminary", "previous"))
        rng = generator(rng)
        self.cell = RNNCell(d_in, d_hidden, bias=bias, rng=rng, dtype=dtype)
        self.query = query
        if score == "additive":
            self.attention = AdditiveAttention(d_hidden, d_hidden, d_hidden, rng=rng, dtype=dtype)
        else:
            self.attention = DotAttention() if score == "dot" else ScaledDotAttention()

    def forward(self, x, state=None):
        check_shape("AttentiveRNN", x, f"(B, S, {self.cell.W_x.shape[0]})")
        h, past = self.initial_state(x, state)
        P, states, steps = past.shape[1], [past[:, j] for j in range(past.shape[1])], []
        for t in range(x.shape[1]):
            h_prev, c_attend = h, None
            s, c_cell = self.cell.forward(x[:, t], h_prev)
            h = s
            if states:
                q = s if self.query == "preliminary" else h_prev
                seen = xp.stack(states, 1)                  # seen (B, P + t, H)
                a, c_attend = self.attention.forward(q[:, None], seen, seen)
                h = s + a[:, 0]
            states.append(h)
            steps.append(Cache(cell=c_cell, attend=c_attend))
        past = xp.stack(states, 1)                          # past (B, P + S, H)
        y = past[:, P:]
        out = (y, (h, past))
        return out, Cache(steps=steps, P=P, out=out)

    def backward(self, dout, cache):
        dy, (dh, dpast) = checked_gradients(dout, cache.out, "AttentiveRNN")
        P, steps, dxs = cache.P, cache.steps, []
        dstates = [dpast[:, j] for j in range(dpast.shape[1])]
        for t in reversed(range(len(steps))):
            dh = dh + dy[:, t] + dstates[P + t]             # step t + 1, y, attention use h_t
            ds, dh_prev = dh, 0                             # h = s + a
            if steps[t].attend is not None:
                dq, dk, dv = self.attention.backward(dh[:, None], steps[t].attend)
                for j in range(P + t):                      # the states are keys and values
                    dstates[j] = dstates[j] + dk[:, j] + dv[:, j]
                if self.query == "preliminary":
                    ds = ds + dq[:, 0]                      # q = s
                else:
                    dh_prev = dq[:, 0]                      # q = h_prev
            dx, dh = self.cell.backward(ds, steps[t].cell)
            dh = dh + dh_prev
            dxs.append(dx)
        dx = xp.stack(dxs[::-1], 1)                         # dx (B, S, D)
        dpast = xp.stack(dstates[:P], 1) if P else dpast[:, :0]
        return dx, (dh, dpast)

    def initial_state(self, x, state=None):
        """Return h (B, H) and past (B, P, H) of a state, or zeros and an empty past for None."""
        B, H, dtype = len(x), self.cell.d_hidden, self.cell.W_h.data.dtype
        if state is None:
            return xp.zeros((B, H), dtype), xp.zeros((B, 0, H), dtype)
        h, past = state
        check_floats("AttentiveRNN", h=h, past=past)
        if h.shape != (B, H) or past.ndim != 3 or past.shape[::2] != (B, H):
            raise InputError(f"AttentiveRNN: the state has shapes {h.shape} and {past.shape}; they "
                             f"must be ({B}, {H}) and ({B}, P, {H})")
        return h, past


def attentions(cache):
    """Return the weights alpha (B, S, P + S) from the cache of AttentiveRNN.forward.

    P is the number of states before the first step. Row t is zero from column P + t on, because
    step t attends only to earlier states.
    """
    y, (_, past) = cache.out
    B, K = past.shape[:2]
    rows = []
    for step in cache.steps:
        seen = xp.zeros((B, 0), y.dtype) if step.attend is None else step.attend.A[:, 0]
        rows.append(xp.concatenate([seen, xp.zeros((B, K - seen.shape[1]), y.dtype)], -1))
    return xp.stack(rows, 1)
