# BiRNN: \+ dh \* \(1 - m\[:, t\]\)
import numpy as np

from npdl.core import Layer, Param


class BiRNN(Layer):
    # two tanh RNNs, one reads the sequence backwards; padded steps keep the old state

    def __init__(self, n_in, n_hid):
        rng = np.random.default_rng(11)
        self.Wf = Param(rng.standard_normal((n_in, n_hid)) / 2)
        self.Uf = Param(rng.standard_normal((n_hid, n_hid)) / 2)
        self.bf = Param(np.zeros(n_hid))
        self.Wb = Param(rng.standard_normal((n_in, n_hid)) / 2)
        self.Ub = Param(rng.standard_normal((n_hid, n_hid)) / 2)
        self.bb = Param(np.zeros(n_hid))
        self.n_hid = n_hid

    def scan(self, x, m, W, U, b):
        N, T, _ = x.shape
        hs = np.zeros((T + 1, N, self.n_hid))
        cs = np.zeros((T, N, self.n_hid))
        for t in range(T):
            cs[t] = np.tanh(x[:, t] @ W.data + hs[t] @ U.data + b.data)
            hs[t + 1] = m[:, t] * cs[t] + (1 - m[:, t]) * hs[t]
        return hs, cs

    def scan_back(self, dout, x, m, hs, cs, W, U, b):
        T = x.shape[1]
        dx = np.zeros_like(x)
        dh = np.zeros_like(hs[0])
        for t in reversed(range(T)):
            dh = dh + dout[:, t]
            da = dh * m[:, t] * (1 - cs[t] ** 2)
            W.grad += x[:, t].T @ da
            U.grad += hs[t].T @ da
            b.grad += da.sum(axis=0)
            dx[:, t] = da @ W.data.T
            dh = da @ U.data.T  #~
        return dx

    def forward(self, x, lengths):
        N, T, _ = x.shape
        m = (np.arange(T)[None, :] < lengths[:, None]).astype(float)[:, :, None]
        fwd = self.scan(x, m, self.Wf, self.Uf, self.bf)
        bwd = self.scan(x[:, ::-1], m[:, ::-1], self.Wb, self.Ub, self.bb)
        left = fwd[0][1:].transpose(1, 0, 2)
        right = bwd[0][1:].transpose(1, 0, 2)[:, ::-1]
        return np.concatenate([left, right], axis=2), (x, m, fwd, bwd)

    def backward(self, dy, cache):
        x, m, (hf, cf), (hb, cb) = cache
        H = self.n_hid
        dleft = dy[:, :, :H]
        dright = dy[:, :, H:]
        dx_f = self.scan_back(dleft, x, m, hf, cf, self.Wf, self.Uf, self.bf)
        turned = dright[:, ::-1], x[:, ::-1], m[:, ::-1]
        dx_b = self.scan_back(*turned, hb, cb, self.Wb, self.Ub, self.bb)
        dx = dx_f + dx_b[:, ::-1]
        return dx

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(12)
        x = rng.standard_normal((3, 6, 5))
        return cls(5, 2), (x, np.array([6, 3, 4]))
