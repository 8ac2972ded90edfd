"""Initialisations other than the layers' own."""

import math

from npdl.backend import to_device
from npdl.core import Param, embedding_names
from npdl.layers.embedding import Embedding

INITS = ("torch", "gpt2", "lecun", "xavier")
ONLY = {"gpt2": "gpt", "lecun": "gpt", "xavier": "lstm"}       # the model that an init is for
STD = 0.02


def initialise(model, init, rng):
    """Initialise a new model by one of INITS; "torch" keeps the layers' own values."""
    if init in ("gpt2", "lecun"):
        initialise_gpt(model, init, rng)
    elif init == "xavier":
        initialise_gates(model, rng)


def initialise_gpt(model, init, rng):
    """Initialise a GPT like GPT-2 (Radford et al. 2019, section 2.3): biases 0, gains 1.

    "gpt2": every matrix is normal(0, 0.02). "lecun": embeddings are normal(0, 0.02), but a linear
    layer with D inputs is normal(0, 1/sqrt(D)), which keeps the variance of its input (LeCun et al.
    1998, Efficient BackProp, section 4.6). In each of the L blocks, the two matrices whose outputs
    are added to the residual stream are divided by sqrt(2L), so that its variance does not grow
    with L.
    """
    residual, embeddings = 1 / math.sqrt(2 * len(model.decoder.blocks)), embedding_names(model)
    for name, param in model.params():
        if param.data.ndim >= 2:
            fixed = init == "gpt2" or name in embeddings
            std = STD if fixed else 1 / math.sqrt(param.shape[0])
            std *= residual if name.endswith(("W_O.W", "down.W")) else 1
            _set_data(param, rng.normal(0.0, std, param.shape))
        elif name.endswith(".b"):
            param.data[...] = 0
    embedding = model.embedding
    if isinstance(embedding, Embedding) and embedding.padding_id is not None:
        embedding.W.data[embedding.padding_id] = 0


def initialise_gates(model, rng):
    """Initialise an LSTM's gates as Glorot & Bengio 2010 propose (eq. 16), and their biases at 0.

    The matrix [W U] of one gate has D + H inputs and H outputs, so its entries are uniform in
    +-sqrt(6 / (D + 2H)). The embedding and the classifier keep their values.
    """
    for layer in model.lstm.layers:
        cell = layer.cell
        (D, _), H = cell.W_x.shape, cell.d_hidden
        bound = math.sqrt(6 / (D + 2 * H))
        for weight in (cell.W_x, cell.W_h):
            _set_data(weight, rng.uniform(-bound, bound, weight.shape))
        if isinstance(cell.b, Param):
            cell.b.data[...] = 0


def _set_data(param, values):
    param.data[...] = to_device(values.astype(param.data.dtype))
