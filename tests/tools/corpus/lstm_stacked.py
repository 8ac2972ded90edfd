# StackedLSTM: 1 - |slope|factor|\*\*|square
import numpy as np

from npdl.core import Layer, Param


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


class StackedLSTM(Layer):
    def __init__(self, d, h, rng):
        self.h = h
        self.W = Param(rng.normal(size=(d + h, 4 * h)) * 0.5)
        self.b = Param(rng.normal(size=4 * h))

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(0)
        return cls(2, 3, rng), (rng.normal(size=(2, 3, 2)),)

    def forward(self, x):
        n, steps, _ = x.shape
        h, c = np.zeros((n, self.h)), np.zeros((n, self.h))
        history, outputs = [], []
        for t in range(steps):
            joined = np.concatenate([x[:, t], h], axis=1)
            z = joined @ self.W.data + self.b.data
            i, f, o, g = np.split(z, 4, axis=1)
            i, f, o, g = sigmoid(i), sigmoid(f), sigmoid(o), np.tanh(g)
            c_new = f * c + i * g
            h = o * np.tanh(c_new)
            history.append((joined, i, f, o, g, c, c_new))
            c = c_new
            outputs.append(h)
        return np.stack(outputs, axis=1), (history, x.shape)

    def backward(self, dout, cache):
        history, shape = cache
        dx = np.zeros(shape)
        dh_next = np.zeros((shape[0], self.h))
        dc_next = np.zeros((shape[0], self.h))
        for t in range(shape[1])[::-1]:
            joined, i, f, o, g, c_prev, c = history[t]
            dh = dout[:, t] + dh_next
            tc = np.tanh(c)
            do = dh * tc
            dc = dh * o * (1 - tc ** 2) + dc_next
            di, df, dg = dc * g, dc * c_prev, dc * i
            dz = np.concatenate([di * i * (1 - i), df * f * (1 - f),  #~
                                 do * o * (1 - o), dg], axis=1)
            self.W.grad += joined.T @ dz
            self.b.grad += dz.sum(axis=0)
            dj = dz @ self.W.data.T
            dx[:, t] = dj[:, :shape[2]]
            dh_next = dj[:, shape[2]:]
            dc_next = dc * f
        return dx
