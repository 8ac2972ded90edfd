"""Optimizers, and functions that change the gradients before the optimizer's step.

The optimizers are SGD, NesterovSGD, RMSprop, Adam, AdamW and Muon. `step()` reads every
`param.grad` and changes `param.data`. Gradients are changed by clip_by_global_norm,
make_gradients_orthogonal and Grokfast. In the equations, theta is a parameter, g its gradient, lr
the learning rate, decay the weight decay, and t the number of the step, from 1.
"""

import math

from npdl.backend import to_device, to_host, xp
from npdl.core import require_layers
from npdl.errors import InputError, check_state_dict, describe
from npdl.functions import infinity_to_nan
from npdl.options import checked_integer, require_above_0, require_below_1, require_not_negative


class Optimizer:
    """Base class of optimizers. It stores the parameters, their moments and the number of steps.

    Moments are running means or sums, such as the m and v of Adam, in the shapes of the parameters.
    Weight decay acts on the parameters whose attribute `decay` is True, which is the default.
    """

    moments = ()

    def __init__(self, model, lr, *, weight_decay=0.0):
        require_layers(type(self).__name__, [model])
        require_not_negative(lr=lr, weight_decay=weight_decay)
        self.params = dict(model.params())
        if not self.params:
            raise InputError(f"{type(model).__name__} has no trainable Param, so there is nothing "
                             "to train")
        self.lr, self.weight_decay, self.steps = lr, weight_decay, 0
        for moment in self.moments:
            zeros = {name: xp.zeros_like(p.data) for name, p in self.params.items()}
            setattr(self, moment, zeros)

    def step(self, lr=None):
        """Update all parameters once. If `lr` is given, use it instead of the optimizer's own `lr`.

        Raises InputError, and changes nothing, if a parameter was frozen after the optimizer was
        made, or if `lr` is not a finite number of at least 0.
        """
        lr = self.lr if lr is None else lr
        require_not_negative(lr=lr)
        for name, p in self.params.items():
            checked_params(f"{type(self).__name__}: {name}", [p])
        self.steps += 1
        for name, p in self.params.items():
            self.update(name, p, lr, self.weight_decay * p.decay)

    def update(self, name, p, lr, decay):
        """Update the Param `p` with this name, and its moments."""
        raise NotImplementedError

    def zero_grad(self):
        for p in self.params.values():
            p.grad[...] = 0

    def state_dict(self):
        """Return the steps and copies of the moments: {"steps": int, "m": {name: array}, ..}."""
        state = {"steps": self.steps}
        for moment in self.moments:
            arrays = getattr(self, moment)
            state[moment] = {name: to_host(array).copy() for name, array in arrays.items()}
        return state

    def load_state_dict(self, state):
        """Restore a state that `state_dict` returned.

        Raises InputError, and changes nothing, if the kind of optimizer or the model differs.
        """
        wanted = ("steps", *self.moments)
        if not isinstance(state, dict) or state.keys() != set(wanted):
            given = f"the keys {list(state)}" if isinstance(state, dict) else describe(state)
            raise InputError(f"optimizer state: got {given}; it must be a dict with the keys "
                             f"{list(wanted)}, from state_dict of the same kind of optimizer")
        for moment in self.moments:
            check_state_dict(getattr(self, moment), state[moment], f"{moment} of")
        self.steps = checked_integer("steps", state["steps"], 0)
        for moment in self.moments:
            for name, array in getattr(self, moment).items():
                array[...] = to_device(state[moment][name])


class SGD(Optimizer):
    """v = momentum v + g + decay theta,   theta = theta - lr v."""

    moments = ("velocity",)

    def __init__(self, model, lr=1e-2, *, momentum=0.0, weight_decay=0.0):
        super().__init__(model, lr, weight_decay=weight_decay)
        require_below_1(momentum=momentum)
        self.momentum = momentum

    def update(self, name, p, lr, decay):
        v = self.velocity[name]
        v[...] = self.momentum * v + p.grad + decay * p.data
        p.data[...] -= lr * v


class NesterovSGD(SGD):
    """v = momentum v + g + decay theta,   theta = theta - lr (g + decay theta + momentum v).

    This is Nesterov's momentum in the form of Sutskever et al. 2013. It is the same as
    torch.optim.SGD(nesterov=True).
    """

    def update(self, name, p, lr, decay):
        v, g = self.velocity[name], p.grad + decay * p.data
        v[...] = self.momentum * v + g
        p.data[...] -= lr * (g + self.momentum * v)


class RMSprop(Optimizer):
    """v = beta v + (1 - beta) g^2,   theta = theta - lr g / (sqrt(v) + eps).

    Tieleman & Hinton 2012, Lecture 6.5. Weight decay is added to the gradient: g + decay theta.
    """

    moments = ("v",)

    def __init__(self, model, lr=1e-2, *, beta=0.99, eps=1e-8, weight_decay=0.0):
        super().__init__(model, lr, weight_decay=weight_decay)
        require_below_1(beta=beta)
        require_not_negative(eps=eps)
        self.beta, self.eps = beta, eps

    def update(self, name, p, lr, decay):
        v, g = self.v[name], p.grad + decay * p.data
        v[...] = self.beta * v + (1 - self.beta) * g**2
        p.data[...] -= lr * g / (xp.sqrt(infinity_to_nan(v)) + self.eps)


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2,   m_hat = m / (1 - b1^t),
    v_hat = v / (1 - b2^t),   theta = theta - lr m_hat / (sqrt(v_hat) + eps).

    Here b1, b2 = `betas`, and t counts the steps from 1. Weight decay is added to the gradient:
    g + decay theta. Kingma & Ba 2015, arXiv:1412.6980.
    """

    moments = ("m", "v")

    def __init__(self, model, lr=1e-3, *, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(model, lr, weight_decay=weight_decay)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise InputError(f"betas = {betas!r}; they must be two numbers")
        require_below_1(**{f"betas[{i}]": beta for i, beta in enumerate(betas)})
        require_not_negative(eps=eps)
        self.betas, self.eps = betas, eps

    def update(self, name, p, lr, decay):
        self.adam_update(name, p, p.grad + decay * p.data, lr)

    def adam_update(self, name, p, g, lr):
        """Make Adam's update with the gradient g."""
        m, v, t, (b1, b2) = self.m[name], self.v[name], self.steps, self.betas
        m[...] = b1 * m + (1 - b1) * g
        v[...] = b2 * v + (1 - b2) * g**2
        m_hat = m / (1 - b1**t)
        v_hat = infinity_to_nan(v / (1 - b2**t))
        p.data[...] -= lr * m_hat / (xp.sqrt(v_hat) + self.eps)


class AdamW(Adam):
    """Adam with decoupled weight decay: first  theta = theta - lr decay theta,  then Adam's step.

    Loshchilov & Hutter 2019, arXiv:1711.05101.
    """

    def __init__(self, model, lr=1e-3, *, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(model, lr, betas=betas, eps=eps, weight_decay=weight_decay)

    def update(self, name, p, lr, decay):
        p.data[...] -= lr * decay * p.data
        self.adam_update(name, p, p.grad, lr)


def checked_params(owner, params):
    """Return `params` as a list. Raise InputError unless they are Params that are not frozen."""
    params = list(params) if hasattr(params, "__iter__") else [params]
    for param in params:
        if not hasattr(param, "grad") or not hasattr(param, "trainable"):
            raise InputError(f"{owner}: got {describe(param)}; give Params, such as "
                             "optimizer.params.values()")
        if not param.trainable:
            raise InputError(f"{owner}: {param} is frozen and has no gradient; make the optimizer "
                             "after you have frozen parameters")
    return params


def clip_by_global_norm(params, max_norm):
    """Scale all gradients so that their joint l2 norm is at most `max_norm`.

    Returns the norm before the scaling. `params` are Params, such as `optimizer.params.values()`.
    On a GPU, the norm is returned as a GPU array, so the program does not wait for the GPU.
    """
    require_above_0(max_norm=max_norm)
    params = checked_params("clip_by_global_norm", params)
    norm = xp.sqrt(sum((p.grad**2).sum() for p in params))
    for p in params:
        p.grad *= xp.minimum(1.0, max_norm / (infinity_to_nan(norm) + 1e-6)).astype(p.grad.dtype)
    return norm


def decay_only_matrices(model):
    """Let weight decay act only on matrices, and not on biases, gains and other vectors."""
    require_layers("decay_only_matrices", [model])
    for _, param in model.params():
        param.decay = param.data.ndim >= 2


def make_gradients_orthogonal(params):
    """g = g - (theta . g) / (theta . theta) theta, for each Param separately, in place.

    This removes the part of the gradient that only scales the weights, and so the logits. Call it
    between backward and the optimizer's step. If all weights are 0, g does not change. Unlike the
    authors' code, this function does not scale the new g to the norm of the old one. Prieto et al.
    2025, arXiv:2501.04697.
    """
    for p in checked_params("make_gradients_orthogonal", params):
        square = infinity_to_nan((p.data * p.data).sum())
        along = (p.data * p.grad).sum() / xp.where(square == 0, 1, square)
        p.grad[...] = p.grad - along * p.data


class Grokfast:
    """mu = beta mu + (1 - beta) g,   g = g + amplify mu.

    This amplifies the part of the gradient that changes slowly. Call `filter_gradients` between
    backward and the optimizer's step. mu is initialised with the first gradient. This is the
    variant of Lee et al. 2024, arXiv:2405.20233, that uses an exponential mean.
    """

    def __init__(self, params, *, beta=0.98, amplify=2.0):
        require_below_1(beta=beta)
        require_not_negative(amplify=amplify)
        self.params, self.beta, self.amplify = checked_params("Grokfast", params), beta, amplify
        self.mu = None

    def filter_gradients(self):
        checked_params("Grokfast", self.params)
        if self.mu is None:
            self.mu = [p.grad.copy() for p in self.params]
        for p, mu in zip(self.params, self.mu, strict=True):
            mu[...] = self.beta * mu + (1 - self.beta) * p.grad
            p.grad[...] = p.grad + self.amplify * mu


NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)       # a, b, c of `orthogonalise`


def orthogonalise(G, iterations=5):
    """Return an approximation of U V^T, where G = U S V^T is the singular value decomposition.

    All singular values of U V^T are 1, and most of those of the result are about 1. X begins with
    G / ||G||. Each iteration, X = a X + b (X X^T) X + c (X X^T)^2 X, applies a polynomial to the
    singular values of X. After five iterations, values that were above 1/660 are between 0.68 and
    1.21. Smaller values have grown by a factor of at most 485.
    """
    a, b, c = NEWTON_SCHULZ
    tall = G.shape[0] > G.shape[1]
    X = G.T if tall else G
    X = X / (xp.sqrt(infinity_to_nan((X * X).sum())) + 1e-7)
    for _ in range(iterations):
        A = X @ X.T
        X = a * X + (b * A + c * (A @ A)) @ X
    return X.T if tall else X


class Muon(AdamW):
    """v = momentum v + g,
    theta = theta - lr_ratio lr max(1, E / D)^(1/2) orthogonalise(g + momentum v).

    This rule is for the matrices theta (D, E) whose names are in `names`, usually those between the
    embedding and the classifier. AdamW updates the other parameters. Weight decay comes first, as
    in AdamW: theta = theta - lr decay theta. `lr_ratio` is the ratio of the learning rates of this
    rule and of AdamW. Jordan et al. 2024, kellerjordan.github.io/posts/muon.
    """

    moments = ("m", "v", "velocity")

    def __init__(self, model, names, lr=1e-3, *, lr_ratio=20.0, momentum=0.95, betas=(0.9, 0.999),
                 eps=1e-8, weight_decay=1e-2):
        super().__init__(model, lr, betas=betas, eps=eps, weight_decay=weight_decay)
        require_not_negative(lr_ratio=lr_ratio)
        require_below_1(momentum=momentum)
        if isinstance(names, str) or not hasattr(names, "__iter__"):
            raise InputError(f"muon: names = {names!r}; give a list of names of matrices")
        self.names, self.lr_ratio, self.momentum = frozenset(names), lr_ratio, momentum
        invalid = sorted(name for name in self.names if name not in self.params
                         or self.params[name].data.ndim != 2)
        if invalid:
            raise InputError(f"muon: {invalid[0]!r} is not the name of a matrix of this model; "
                             "give names from model.params() whose arrays have two axes")

    def update(self, name, p, lr, decay):
        if name not in self.names:
            super().update(name, p, lr, decay)
            return
        v, (D, E) = self.velocity[name], p.data.shape
        v[...] = self.momentum * v + p.grad
        direction = math.sqrt(max(1, E / D)) * orthogonalise(p.grad + self.momentum * v)
        p.data[...] -= lr * decay * p.data
        p.data[...] -= self.lr_ratio * lr * direction
