"""A whole GPT on one page: every forward, every backward and the training, with NumPy alone.

`python experiments/tiny_gpt.py` learns "a + b = c" modulo 11 from 97 of the 121 sums, and then
answers ten of the others. This takes about half a minute on one core.

B sequences of S tokens; width D; H heads of width d. dx is the gradient of the loss with respect to
x; w holds weights, dw their gradients; x.mT (NumPy 2) is x transposed. A forward returns its output
and a cache. In a backward, a comment repeats the line of forward that is differentiated.
"""

import numpy as np

P, V, S, D, H, d, BLOCKS = 11, 13, 4, 64, 4, 16, 1          # V words: 0 .. P - 1, "+" and "="
ENDS = {"tokens": (V, D), "positions": (S, D), "gain": (D,), "bias": (D,), "classifier": (D, V)}
BLOCK = {"gain1": (D,), "bias1": (D,), "W_q": (H, D, d), "W_k": (H, D, d), "W_v": (H, D, d),
         "W_o": (H, d, D), "gain2": (D,), "bias2": (D,), "W_1": (D, 4 * D), "W_2": (4 * D, D)}


def layer_norm(x, gain, bias):
    """LayerNorm: x_hat = (x - mean) / std over the last axis, y = gain * x_hat + bias."""
    std = np.sqrt(x.var(-1, keepdims=True) + 1e-5)              # std   (B, S, 1)
    x_hat = (x - x.mean(-1, keepdims=True)) / std               # x_hat (B, S, D)
    return gain * x_hat + bias, (x_hat, std, gain)


def layer_norm_backward(dy, cache):
    x_hat, std, gain = cache
    dgain, dbias = (dy * x_hat).sum((0, 1)), dy.sum((0, 1))     # y = gain * x_hat + bias
    dx_hat = dy * gain
    mean, along = dx_hat.mean(-1, keepdims=True), (dx_hat * x_hat).mean(-1, keepdims=True)
    return (dx_hat - mean - along * x_hat) / std, dgain, dbias  # x_hat = (x - mean) / std


def attention(x, w):
    """y = sum over heads of A v W_o,   A = softmax(q k^T / sqrt(d)) with the causal mask."""
    x = x[:, None]                                              # x      (B, 1, S, D)
    q, k, v = x @ w["W_q"], x @ w["W_k"], x @ w["W_v"]          # q,k,v  (B, H, S, d)
    scores = q @ k.mT / np.sqrt(d)                              # scores (B, H, S, S)
    A = softmax(np.where(np.tri(S) == 1, scores, -np.inf))      # no token attends to later ones
    h = A @ v                                                   # h      (B, H, S, d)
    return (h @ w["W_o"]).sum(1), (x, q, k, v, A, h)            # y      (B, S, D)


def attention_backward(dy, w, cache):
    x, q, k, v, A, h = cache
    dh = dy[:, None] @ w["W_o"].mT                              # y = sum over heads of h W_o
    dA, dv = dh @ v.mT, A.mT @ dh                               # h = A v
    dscores = A * (dA - (dA * A).sum(-1, keepdims=True))        # A = softmax(scores)
    dq, dk = dscores @ k / np.sqrt(d), dscores.mT @ q / np.sqrt(d)      # scores = q k^T / sqrt(d)
    dx = dq @ w["W_q"].mT + dk @ w["W_k"].mT + dv @ w["W_v"].mT     # q = x W_q, k = x W_k, ...
    dw = {"W_q": x.mT @ dq, "W_k": x.mT @ dk, "W_v": x.mT @ dv, "W_o": h.mT @ dy[:, None]}
    return dx.sum(1), {name: dW.sum(0) for name, dW in dw.items()}  # over heads; over the batch


def feed_forward(x, w):
    """y = relu(x W_1) W_2, for each token by itself."""
    a = np.maximum(x @ w["W_1"], 0)                             # a (B, S, 4 D)
    return a @ w["W_2"], (x, a)


def feed_forward_backward(dy, w, cache):
    x, a = cache
    du = dy @ w["W_2"].mT * (a > 0)                             # y = a W_2, a = relu(u), u = x W_1
    return du @ w["W_1"].mT, {"W_1": (x.mT @ du).sum(0), "W_2": (a.mT @ dy).sum(0)}


def block(x, w):
    """u = x + attention(norm(x)), y = u + feed_forward(norm(u)):  (B, S, D) -> (B, S, D)."""
    n, c_norm1 = layer_norm(x, w["gain1"], w["bias1"])
    a, c_attention = attention(n, w)
    m, c_norm2 = layer_norm(x + a, w["gain2"], w["bias2"])
    f, c_feed = feed_forward(m, w)
    return x + a + f, (c_norm1, c_attention, c_norm2, c_feed)


def block_backward(dy, w, cache):
    c_norm1, c_attention, c_norm2, c_feed = cache
    dm, dw = feed_forward_backward(dy, w, c_feed)
    du, dw["gain2"], dw["bias2"] = layer_norm_backward(dm, c_norm2)
    du = du + dy                                                # u is used twice: gradients add
    dn, dw_attention = attention_backward(du, w, c_attention)
    dx, dw["gain1"], dw["bias1"] = layer_norm_backward(dn, c_norm1)
    return dx + du, dw | dw_attention


def gpt(ids, weights):
    """Return the logits (B, S, V) of the token that follows each of ids (B, S), and a cache."""
    ends, *blocks = weights                                     # dictionaries {name: array}
    x, caches = ends["tokens"][ids] + ends["positions"], []     # x (B, S, D)
    for w in blocks:
        x, cache = block(x, w)
        caches.append(cache)
    n, c_norm = layer_norm(x, ends["gain"], ends["bias"])
    return n @ ends["classifier"], (ids, caches, n, c_norm)


def gpt_backward(dlogits, weights, cache):
    (ends, *blocks), (ids, caches, n, c_norm) = weights, cache  # as in gpt
    dends, dblocks = {"classifier": (n.mT @ dlogits).sum(0)}, []    # logits = n W
    dx, dends["gain"], dends["bias"] = layer_norm_backward(dlogits @ ends["classifier"].mT, c_norm)
    for w, cache in zip(reversed(blocks), reversed(caches), strict=True):
        dx, dw = block_backward(dx, w, cache)
        dblocks.insert(0, dw)
    dends["positions"], dends["tokens"] = dx.sum(0), np.zeros((V, D))   # x = tokens + positions
    np.add.at(dends["tokens"], ids, dx)                         # a token that occurs twice: add
    return [dends, *dblocks]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))                    # the shift avoids overflow
    return e / e.sum(-1, keepdims=True)


def loss_and_gradient(logits, answers):
    """Return the mean of -log p(answer) at the last position, and its gradient (B, S, V)."""
    p, B = softmax(logits[:, -1]), len(answers)                 # p (B, V)
    dlogits = np.zeros_like(logits)
    dlogits[:, -1] = (p - np.eye(V)[answers]) / B
    return -np.log(p[np.arange(B), answers]).mean(), dlogits


def train(steps, lr=1e-3, decay=3.0, num_examples=97, seed=0):
    """Train on the first `num_examples` sums by AdamW. Return weights, and all ids and answers."""
    rng = np.random.default_rng(seed)
    a, b = np.divmod(rng.permutation(P * P), P)         # every sum, in random order: "a + b ="
    ids, answers = np.stack([a, np.full_like(a, P), b, np.full_like(a, P + 1)], 1), (a + b) % P
    weights = [{name: rng.normal(0, shape[-2] ** -0.5, shape) if len(shape) > 1 else
                np.full(shape, 1.0 if "gain" in name else 0.0) for name, shape in shapes.items()}
               for shapes in [ENDS, *[BLOCK] * BLOCKS]]     # matrices: normal(0, 1 / sqrt(rows))
    M, R = ([{name: np.zeros_like(w[name]) for name in w} for w in weights] for _ in range(2))
    for t in range(1, steps + 1):
        logits, cache = gpt(ids[:num_examples], weights)
        loss, dlogits = loss_and_gradient(logits, answers[:num_examples])
        for w, dw, m, r in zip(weights, gpt_backward(dlogits, weights, cache), M, R, strict=True):
            for name in w:
                m[name] += 0.1 * (dw[name] - m[name])           # mean of the gradients, from 0
                r[name] += 0.02 * (dw[name]**2 - r[name])       # mean of their squares, from 0
                step = m[name] / (1 - 0.9**t) / (np.sqrt(r[name] / (1 - 0.98**t)) + 1e-8)
                w[name] -= lr * (step + decay * w[name])
        if t % 300 == 0 or t == steps:
            right = gpt(ids, weights)[0][:, -1].argmax(-1) == answers
            print(f"step {t}  loss {loss:.4f}  right: {right[:num_examples].mean():.0%} of the "
                  f"training sums, {right[num_examples:].mean():.0%} of the others")
    return weights, ids, answers


if __name__ == "__main__":
    weights, ids, _ = train(steps=3000)
    for (a, _, b, _), logits in zip(ids[-10:], gpt(ids[-10:], weights)[0], strict=True):
        print(f"{a} + {b} = {logits[-1].argmax()}")
