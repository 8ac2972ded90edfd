"""An autoencoder that combines two word vectors into one (Socher et al. 2011)."""

from typing import NamedTuple

from npdl.backend import xp
from npdl.core import Cache, Layer, checked_gradients, require_layers
from npdl.errors import check_shapes
from npdl.init import generator
from npdl.layers.activation import ReLU
from npdl.layers.linear import Linear
from npdl.losses import CrossEntropy, SquaredError
from npdl.options import require_positive


class AutoencoderOutput(NamedTuple):
    """The outputs parent (..., D_p), reconstruction (..., 2 D_x) and logits (..., C)."""

    parent: object
    reconstruction: object
    logits: object


class Autoencoder(Layer):
    """p = ReLU(x W_1 + b_1),  x' = p W_2 + b_2,  logits = p W_3 + b_3,  with x = [x_1, x_2].

    forward(x1, x2) takes two arrays (..., D_x) and returns an AutoencoderOutput (p, x', logits).
    The first D_x rows of encoder.W multiply x_1, and the last D_x rows x_2. Raises InputError if
    the shapes of the inputs differ, or if their width is not D_x.
    """

    def __init__(self, d_x, d_parent, num_classes, *, bias=True, rng=0, dtype="float32"):
        rng = generator(rng)
        require_positive(d_x=d_x)
        self.encoder = Linear(2 * d_x, d_parent, bias=bias, rng=rng, dtype=dtype)
        self.activation = ReLU()
        self.decoder = Linear(d_parent, 2 * d_x, bias=bias, rng=rng, dtype=dtype)
        self.classifier = Linear(d_parent, num_classes, bias=bias, rng=rng, dtype=dtype)

    def forward(self, x1, x2):
        check_shapes("Autoencoder", x1=(x1, "(..., D_x)"), x2=(x2, "(..., D_x)"))
        x = xp.concatenate([x1, x2], axis=-1)
        h, c_encoder = self.encoder.forward(x)
        p, c_activation = self.activation.forward(h)
        x_new, c_decoder = self.decoder.forward(p)
        logits, c_classifier = self.classifier.forward(p)
        out = AutoencoderOutput(p, x_new, logits)
        return out, Cache(encoder=c_encoder, activation=c_activation, decoder=c_decoder,
                          classifier=c_classifier, out=out)

    def backward(self, dout, cache):
        dp, dx_new, dlogits = checked_gradients(dout, cache.out, "Autoencoder")
        dp = dp + self.classifier.backward(dlogits, cache.classifier)
        dp = dp + self.decoder.backward(dx_new, cache.decoder)      # both layers read p
        dh = self.activation.backward(dp, cache.activation)
        dx = self.encoder.backward(dh, cache.encoder)
        dx1, dx2 = xp.split(dx, 2, -1)                              # x = [x1, x2]
        return dx1, dx2


class AutoencoderLoss(Layer):
    """J = J_1 + J_2,   J_1 = |x' - x|^2 / 2,   J_2 = CE(labels, logits),   averaged over the batch.

    forward(x1, x2, labels) maps vectors (B, D_x) and labels (B,) to (J_1, J_2).
    backward((1.0, 1.0), cache) computes the gradients of J, and backward((1.0, None), cache) the
    gradients of J_1 alone. x = [x1, x2] is the input of the encoder and the target of the
    reconstruction x', so its gradient is a sum of two terms.
    """

    def __init__(self, model):
        require_layers(type(self).__name__, [model])
        self.model = model
        self.squared_error = SquaredError(factor=0.5)
        self.cross_entropy = CrossEntropy()

    def forward(self, x1, x2, labels):
        out, c_model = self.model.forward(x1, x2)
        x = xp.concatenate([x1, x2], axis=-1)
        J1, c_J1 = self.squared_error.forward(out.reconstruction, x)
        J2, c_J2 = self.cross_entropy.forward(out.logits, labels)
        out = (J1, J2)
        return out, Cache(model=c_model, J1=c_J1, J2=c_J2, out=out)

    def backward(self, dout, cache):
        dJ1, dJ2 = checked_gradients(dout, cache.out, "AutoencoderLoss")
        dx_new, dx = self.squared_error.backward(dJ1, cache.J1)
        dlogits = self.cross_entropy.backward(dJ2, cache.J2)
        dx1_in, dx2_in = self.model.backward((None, dx_new, dlogits), cache.model)
        dx1_out, dx2_out = xp.split(dx, 2, -1)              # as an input, and as a target
        dx1 = dx1_in + dx1_out
        dx2 = dx2_in + dx2_out
        return dx1, dx2, None                               # labels have no gradient
