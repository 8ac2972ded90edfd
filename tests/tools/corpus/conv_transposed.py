# Deconv: another part of the array
import numpy as np


class Deconv:
    """Transposed convolution (up-sampling): every pixel stamps a kernel on the output."""

    def __init__(self, W, b, stride=2, pad=1):
        self.params = [W, b]
        self.grads = [np.zeros_like(W), np.zeros_like(b)]
        self.stride = stride
        self.pad = pad

    def forward(self, x):
        W, b = self.params
        N, C, H, Wd = x.shape
        _, F, KH, KW = W.shape
        s, p = self.stride, self.pad
        full = np.zeros((N, F, (H - 1) * s + KH, (Wd - 1) * s + KW))
        for i in range(KH):
            for j in range(KW):
                stamp = np.einsum('nchw,cf->nfhw', x, W[:, :, i, j])
                full[:, :, i:i + s * H:s, j:j + s * Wd:s] += stamp
        self.x = x
        self.full_shape = full.shape
        OH, OW = full.shape[2:]
        return full[:, :, p:OH - p, p:OW - p] + b[None, :, None, None]

    def backward(self, dout):
        W, b = self.params
        x = self.x
        N, C, H, Wd = x.shape
        _, F, KH, KW = W.shape
        p = self.pad
        OH, OW = self.full_shape[2:]
        dfull = np.zeros(self.full_shape)
        dfull[:, :, p:OH - p, p:OW - p] = dout
        dx = np.zeros_like(x)
        dW = np.zeros_like(W)
        for i in range(KH):
            for j in range(KW):
                dstamp = dfull[:, :, i:i + H, j:j + Wd]  #~
                dW[:, :, i, j] = np.einsum('nchw,nfhw->cf', x, dstamp)
                dx += np.einsum('nfhw,cf->nchw', dstamp, W[:, :, i, j])
        db = dout.sum(axis=(0, 2, 3))
        self.grads[0][...] = dW
        self.grads[1][...] = db
        return dx

    @classmethod
    def sample(cls):
        rng = np.random.default_rng(13)
        W = 0.5 * rng.standard_normal((3, 2, 4, 3))
        b = rng.standard_normal(2)
        return cls(W, b), rng.standard_normal((2, 3, 4, 5))
