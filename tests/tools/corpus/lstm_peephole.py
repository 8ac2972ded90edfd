# PeepholeLSTM: s\['c'\]
import numpy as np

from npdl.core import Layer, Param


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


class PeepholeLSTM(Layer):
    """
    LSTM with peephole connections (the gates look at the cell).

    x  : (T, N, D) the sequence, time first
    h0 : (N, H)    the first hidden state; the cell starts at zero
    returns all hidden states, (T, N, H)

    The columns of Wx, Wh and b are in the order i, f, o, g.
    The rows of p are the peephole weights of i, f, o.
    """

    def __init__(self, D, H, seed=11):
        rng = np.random.default_rng(seed)
        self.Wx = Param(rng.standard_normal((D, 4 * H)) / np.sqrt(D))
        self.Wh = Param(rng.standard_normal((H, 4 * H)) / np.sqrt(H))
        self.b = Param(0.1 * rng.standard_normal(4 * H))
        self.p = Param(0.6 * rng.standard_normal((3, H)))

    def forward(self, x, h0):
        T, N, D = x.shape
        H = h0.shape[1]
        h = h0
        c = np.zeros((N, H))
        hs = np.zeros((T, N, H))
        steps = []
        pi, pf, po = self.p.data
        for t in range(T):
            a = x[t] @ self.Wx.data + h @ self.Wh.data + self.b.data
            ai, af, ao, ag = np.split(a, 4, axis=1)
            i = sigmoid(ai + pi * c)
            f = sigmoid(af + pf * c)
            g = np.tanh(ag)
            c_new = f * c + i * g
            o = sigmoid(ao + po * c_new)
            tc = np.tanh(c_new)
            steps.append({"h_prev": h, "c_prev": c, "i": i, "f": f, "g": g, "o": o, "c": c_new,
                          "tc": tc})
            h, c = o * tc, c_new
            hs[t] = h
        return hs, {"x": x, "steps": steps}

    def backward(self, dy, cache):
        x, steps = cache["x"], cache["steps"]
        pi, pf, po = self.p.data
        dx = np.zeros_like(x)
        dh_next = np.zeros_like(steps[0]["h_prev"])
        dc_next = np.zeros_like(steps[0]["c_prev"])
        for t in reversed(range(len(steps))):
            s = steps[t]
            dh = dy[t] + dh_next
            # output gate first, because it sees the new cell
            do = dh * s["tc"] * s["o"] * (1 - s["o"])
            dc = dc_next + dh * s["o"] * (1 - s["tc"] ** 2)
            dc = dc + do * po
            # the other gates
            di = dc * s["g"] * s["i"] * (1 - s["i"])
            df = dc * s["c_prev"] * s["f"] * (1 - s["f"])
            dg = dc * s["i"] * (1 - s["g"] ** 2)
            self.p.grad[0] += np.sum(di * s["c_prev"], axis=0)
            self.p.grad[1] += np.sum(df * s["c_prev"], axis=0)
            self.p.grad[2] += np.sum(do * s["c_prev"], axis=0)  #~
            da = np.concatenate([di, df, do, dg], axis=1)
            self.Wx.grad += x[t].T @ da
            self.Wh.grad += s["h_prev"].T @ da
            self.b.grad += da.sum(axis=0)
            dx[t] = da @ self.Wx.data.T
            dh_next = da @ self.Wh.data.T
            dc_next = dc * s["f"] + di * pi + df * pf
        return dx, dh_next

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(1)
        return cls(5, 2), (rng.standard_normal((4, 6, 5)), rng.standard_normal((6, 2)))
