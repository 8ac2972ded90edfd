# BiRNN: dy \* cache\['keep'\]
import numpy as np

from npdl.core import Layer, Param


class BiRNN(Layer):
    """Two Elman RNNs, one in each direction; outputs are concatenated, padded steps are zeroed."""

    def __init__(self, D, H, rng):
        self.Wf = Param(rng.standard_normal((D, H)) * 0.5)
        self.Uf = Param(rng.standard_normal((H, H)) * 0.5)
        self.bf = Param(rng.standard_normal(H) * 0.1)
        self.Wb = Param(rng.standard_normal((D, H)) * 0.5)
        self.Ub = Param(rng.standard_normal((H, H)) * 0.5)
        self.bb = Param(rng.standard_normal(H) * 0.1)

    def scan(self, x, W, U, b):
        N, T, _ = x.shape
        hs = np.zeros((N, T + 1, U.data.shape[0]))
        for t in range(T):
            hs[:, t + 1] = np.tanh(x[:, t] @ W.data + hs[:, t] @ U.data + b.data)
        return hs

    def unscan(self, dhs, x, hs, W, U, b):
        dx = np.zeros_like(x)
        carry = 0.0
        for t in range(x.shape[1] - 1, -1, -1):
            dh = dhs[:, t] + carry
            dz = dh * (1 - hs[:, t + 1] ** 2)
            W.grad += x[:, t].T @ dz
            U.grad += hs[:, t].T @ dz
            b.grad += dz.sum(0)
            dx[:, t] = dz @ W.data.T
            carry = dz @ U.data.T
        return dx

    def forward(self, x, keep):
        xr = x[:, ::-1]
        hf = self.scan(x, self.Wf, self.Uf, self.bf)
        hb = self.scan(xr, self.Wb, self.Ub, self.bb)
        y = np.concatenate([hf[:, 1:], hb[:, 1:][:, ::-1]], axis=2)
        y = y * keep[:, :, None]
        return y, {"x": x, "xr": xr, "hf": hf, "hb": hb, "keep": keep}

    def backward(self, dy, cache):
        H = self.Uf.data.shape[0]
        dyf = dy[:, :, :H]  #~
        dyb = dy[:, :, H:][:, ::-1]
        dx_f = self.unscan(dyf, cache["x"], cache["hf"], self.Wf, self.Uf, self.bf)
        dx_b = self.unscan(dyb, cache["xr"], cache["hb"], self.Wb, self.Ub, self.bb)
        return dx_f + dx_b[:, ::-1]

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(8)
        keep = np.array([[True, True, True, True], [True, True, True, False]])
        return cls(5, 3, rng), (rng.standard_normal((2, 4, 5)), keep)
