"""What a model is trained on, and the model that fits it."""

import numpy as np

from npdl.adapt import add_lora, quantize_linears
from npdl.backend import stream
from npdl.data import ModularArithmetic, batch_indices
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.training.initial import initialise
from npdl.training.pieces import counted_positions, learn_piece, make_piece, measure_piece
from npdl.training.text_task import TextTask, with_facts

__all__ = ["ArithmeticTask", "TextTask", "counted_positions", "learn_piece", "make_model",
           "make_piece", "make_task", "measure_piece", "settled"]

CHUNK = 2048  # sequences evaluated at a time


class ArithmeticTask:
    """Modular arithmetic (npdl.data): the loss counts the right-hand sides.

    batch(step, parts)   the pieces of update number `step` (from 0)
    measure(workers)     losses and accuracies on both sets, as a record for the metrics
    prepare()            read what training needs; InputError if it is not there (nothing, here)
    """

    def __init__(self, config):
        self.config = config
        self.data = ModularArithmetic(
            config.p, config.operator, config.q, config.orders, config.r_train, config.seed,
            config.symmetric, config.stratified, config.numbers,
        )
        self.vocabulary = self.data.vocabulary
        self.vocab_size = self.vocabulary.size
        self.max_len = self.data.sequence_length
        self.padding_id = self.vocabulary.pad
        self._sets = {name: examples.take(np.lexsort(examples.inputs.T[::-1])) for name, examples
                      in (("train", self.data.train), ("validation", self.data.validation))}
        self._evaluation = {}
        self._last = (None, None)

    def prepare(self):
        pass

    def batch(self, step, parts):
        """The batch as at most `parts` pieces. The order inside does not matter to a gradient: a
        batch is sorted, which keeps sequences that begin alike in one piece, and a batch that
        holds the whole set is prepared only once."""
        train = self._sets["train"]
        indices = np.sort(batch_indices(len(train), self.config.batch, step, self.config.seed))
        known, pieces = self._last
        if known is None or not np.array_equal(indices, known):
            pieces = self._pieces(train.take(indices), parts)
            self._last = (indices, pieces)
        return pieces

    def _pieces(self, examples, parts):
        cuts = np.array_split(np.arange(len(examples)), min(parts, len(examples)))
        chosen = [examples.take(cut) for cut in cuts]
        return [make_piece(e.inputs, e.targets, e.answer_mask, self.config.compute)
                for e in chosen]

    def measure(self, workers):
        """{train_loss, train_accuracy, validation_loss, ...}; with both orders, each apart too."""
        record = {}
        for name, examples in self._sets.items():
            if not len(examples):
                continue
            if name not in self._evaluation:
                parts = max(len(workers.models), -(-len(examples) // CHUNK))
                self._evaluation[name] = self._pieces(examples, parts)
            results = workers.map(measure_piece, self._evaluation[name])
            loss, right = (np.concatenate(parts) for parts in zip(*results, strict=True))
            record[f"{name}_loss"] = float(loss.mean(dtype=np.float64))
            record[f"{name}_accuracy"] = float(right.mean(dtype=np.float64))
            for order in self.config.orders if len(self.config.orders) > 1 else ():
                these = examples.orders == order
                if these.any():
                    record[f"{name}_loss_order{order}"] = float(loss[these].mean(dtype=np.float64))
                    record[f"{name}_accuracy_order{order}"] = float(right[these].mean())
        return record


def settled(config):
    """The settings with what they leave to the data: a text's characters and its digest."""
    return config if config.text is None else with_facts(config)


def make_task(config):
    """The task that the settings (from `settled`) describe."""
    return ArithmeticTask(config) if config.text is None else TextTask(config)


def make_model(config, task, base=None):
    """A fresh model with the settings' seed.

    base  {name: array} to start from instead of random values, before adapters go in
    """
    rng = stream(config.seed, 0)
    if config.model == "lstm":
        model = LSTMLM(task.vocab_size, config.width, config.layers, bias=config.bias,
                       dropout=config.dropout, padding_id=task.padding_id, rng=rng,
                       dtype=config.dtype)
    else:
        model = GPT(task.vocab_size, config.width, config.layers, config.heads, config.multiplier,
                    task.max_len, config.bias, config.norm, config.activation, config.dropout,
                    config.positions, config.tied, task.padding_id, rng, config.dtype,
                    config.norm_bias)
    initialise(model, config.init, rng)
    if base is not None:
        model.load_state_dict(base)
    if config.adapters is not None:
        put_adapters(model, config.adapters, rng)
    return model


def put_adapters(model, adapters, rng):
    """Quantize every linear map, if `adapters` (Adapters) say so, and put LoRA where they say."""
    if adapters.bits is not None:
        quantize_linears(model, adapters.bits, adapters.rounding, adapters.block)
    add_lora(model, adapters.rank, adapters.alpha, adapters.where, rng)
