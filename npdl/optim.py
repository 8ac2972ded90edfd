"""Optimizers over one flat memory: SGD (with momentum), Adam, AdamW; clipping by global norm."""

import math

from npdl.backend import is_host, to_device, to_host, xp
from npdl.errors import InputError
from npdl.init import require_number

BLOCK = 65536  # numbers updated at a time on NumPy: all five arrays of a block stay in cache


class Flat:
    """All parameters of a model in one array, and all gradients in another.

    Every Param keeps its own shape as a view. Parameters with `decay` come first, so that an
    optimizer treats at most two stretches. Make it before any shadow.
    """

    def __init__(self, model):
        self.params = sorted(model.params(), key=lambda item: not item[1].decay)
        dtypes = {param.data.dtype for _, param in self.params}
        if len(dtypes) != 1:
            raise InputError(f"parameters have dtypes {sorted(map(str, dtypes))}; one is needed")
        self.data = xp.concatenate([param.data.ravel() for _, param in self.params])
        self.grad = xp.zeros_like(self.data)
        self.decayed = sum(param.data.size for _, param in self.params if param.decay)
        for (_, param), data, grad in zip(
            self.params, self.views(self.data), self.views(self.grad), strict=True
        ):
            param.data, param.grad = data, grad

    def views(self, flat):
        """Cut a flat array into one view for each parameter, in the parameters' order."""
        start = 0
        for _, param in self.params:
            yield flat[start : start + param.data.size].reshape(param.data.shape)
            start += param.data.size

    def gradients_of(self, shadow):
        """Give a shadow of the model one flat gradient, and return it."""
        grad = xp.zeros_like(self.data)
        by_name = dict(shadow.params())
        for (name, _), view in zip(self.params, self.views(grad), strict=True):
            by_name[name].grad = view
        return grad

    def norm(self, flat=None):
        """l2 norm, by plain sums: a BLAS norm changes its last bits with its thread count."""
        flat = self.data if flat is None else flat
        return xp.sqrt((flat * flat).sum())


class Optimizer:
    """What all share: flat memory, its moments by name, and the walk over its blocks."""

    moments = ()

    def __init__(self, model, lr, weight_decay=0.0):
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            require_number(name, value, lambda value: 0 <= value < math.inf,
                           "a finite number, 0 or more")
        self.flat = Flat(model)
        self.lr = lr
        self.weight_decay = weight_decay
        self.steps = 0
        for name in self.moments:
            setattr(self, name, xp.zeros_like(self.flat.data))

    def zero_grad(self):
        self.flat.grad[...] = 0

    def step(self, lr=None, each=map):
        """One update from the gradients; `lr` overrides the constructor's for this step.

        Every block is updated by itself, so `each`, which stands for `map`, may use threads.
        """
        self.steps += 1
        lr = float(self.lr if lr is None else lr)
        size, decayed = self.flat.data.size, self.flat.decayed
        block = BLOCK if is_host() else max(size, 1)
        parts = [
            (slice(start, min(start + block, end)), decay)
            for begin, end, decay in ((0, decayed, self.weight_decay), (decayed, size, 0.0))
            for start in range(begin, end, block)
        ]
        list(each(lambda part: self.update(part[0], lr, part[1]), parts))

    def update(self, part, lr, decay):
        """Update one stretch of the flat memory."""
        raise NotImplementedError

    def state_dict(self):
        """{"steps": int, moment: {parameter name: NumPy array}}."""
        names = [name for name, _ in self.flat.params]
        state = {"steps": self.steps}
        for moment in self.moments:
            views = self.flat.views(getattr(self, moment))
            state[moment] = {n: to_host(v).copy() for n, v in zip(names, views, strict=True)}
        return state

    def load_state_dict(self, state):
        """Take back what `state_dict` returned."""
        self.steps = int(state["steps"])
        for moment in self.moments:
            views = self.flat.views(getattr(self, moment))
            for (name, _), view in zip(self.flat.params, views, strict=True):
                view[...] = to_device(state[moment][name])


class SGD(Optimizer):
    """v = momentum * v + g + decay * theta;  theta = theta - lr * v."""

    moments = ("velocity",)

    def __init__(self, model, lr=1e-2, momentum=0.0, weight_decay=0.0):
        super().__init__(model, lr, weight_decay)
        require_number("momentum", momentum, lambda value: 0 <= value < 1,
                       "at least 0 and below 1")
        self.momentum = momentum

    def update(self, part, lr, decay):
        theta, v = self.flat.data[part], self.velocity[part]
        v *= self.momentum
        v += self.flat.grad[part]
        if decay:
            v += decay * theta
        theta -= lr * v


class AdamW(Optimizer):
    """Adam with decoupled decay (Loshchilov & Hutter 2019, arXiv:1711.05101).

    m = b1 m + (1 - b1) g                    theta = theta - lr * decay * theta
    v = b2 v + (1 - b2) g^2                  theta = theta - lr * m_hat / (sqrt(v_hat) + eps)
    with m_hat = m / (1 - b1^t), v_hat = v / (1 - b2^t).

    Decay acts on the parameters whose `decay` is True: all of them, unless changed.
    """

    moments = ("m", "v")
    decoupled = True

    def __init__(self, model, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(model, lr, weight_decay)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise InputError(f"betas = {betas!r}; they must be two numbers")
        for beta in betas:
            require_number("betas", beta, lambda value: 0 <= value < 1,
                           f"at least 0 and below 1, both of {betas!r}")
        require_number("eps", eps, lambda value: 0 <= value < math.inf,
                       "a finite number, 0 or more")
        self.betas = betas
        self.eps = eps

    def update(self, part, lr, decay):
        b1, b2 = self.betas
        theta, g = self.flat.data[part], self.flat.grad[part]
        m, v = self.m[part], self.v[part]
        if decay and self.decoupled:
            theta *= 1 - lr * decay
        elif decay:
            g = g + decay * theta
        m *= b1
        m += (1 - b1) * g
        v *= b2
        v += (1 - b2) * (g * g)
        root = xp.sqrt(v)                               # theta -= lr m_hat / (sqrt(v_hat) + eps)
        root *= 1 / math.sqrt(1 - b2**self.steps)
        root += self.eps
        step = xp.divide(m, root, out=root)
        step *= lr / (1 - b1**self.steps)
        theta -= step


class Adam(AdamW):
    """Adam (Kingma & Ba 2015, arXiv:1412.6980); its weight decay is added to the gradient."""

    decoupled = False

    def __init__(self, model, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(model, lr, betas, eps, weight_decay)


def clip_by_global_norm(flat, max_norm):
    """Scale the flat gradient so that its l2 norm is at most `max_norm`; return the norm before.

    The norm stays on the device: nothing waits for it.
    """
    require_number("max_norm", max_norm, lambda value: 0 < value < math.inf,
                   "a finite number above 0")
    norm = flat.norm(flat.grad)
    flat.grad *= xp.minimum(max_norm / (norm + 1e-6), 1.0).astype(flat.grad.dtype)
    return norm


def matrices_only(model):
    """Let weight decay act on the matrices alone: not on biases, gains or other vectors."""
    for _, param in model.params():
        param.decay = param.data.ndim >= 2
