"""What a model is trained on, and the model that fits it."""

from functools import cached_property

import numpy as np

from npdl.adapt import add_lora, quantize_linears
from npdl.backend import stream
from npdl.data import ModularArithmetic, batch_indices
from npdl.data.dates import LONGEST, Dates
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.models.lstm_seq2seq import LSTMSeq2Seq
from npdl.models.seq2seq import Seq2Seq
from npdl_train.pretrained import load
from npdl_train.runs.engine import Batch
from npdl_train.runs.initialise import initialise
from npdl_train.runs.text_task import BATCHES, EVALUATION, PretrainedTask, TextTask, with_facts

__all__ = ["ArithmeticTask", "DatesTask", "PretrainedTask", "TextTask", "make_model",
           "make_task", "resolved"]


DATA = ("p", "operator", "q", "orders", "r_train", "seed", "symmetric", "stratified", "numbers")


class ArithmeticTask:
    """Modular arithmetic (npdl.data): the loss counts the right-hand sides.

    batch(step)          the Batch of update number `step` (from 0)
    measure(engine)      losses and accuracies on both sets, as a record for the metrics
    prepare()            read what training needs; InputError if it is not there (nothing, here)
    """

    def __init__(self, config):
        self.config = config
        self.data = ModularArithmetic(**{name: getattr(config, name) for name in DATA})
        self.vocabulary = self.data.vocabulary
        self.vocab_size = self.vocabulary.size
        self.max_len = self.data.sequence_length
        self.padding_id = self.vocabulary.pad
        sets = {"train": self.data.train, "validation": self.data.validation}
        self._sets = {name: examples.take(np.lexsort(examples.inputs.T[::-1]))
                      for name, examples in sets.items() if len(examples)}
        self._batches = {name: _batch(examples) for name, examples in self._sets.items()}
        self._last = (None, None)

    def prepare(self):
        pass

    def batch(self, step):
        """The batch of update number `step`. The order inside does not matter to a gradient: a
        batch is sorted, so that sequences that begin alike are neighbours, and the same object
        as the one before where it holds the same sequences."""
        train, size = self._sets["train"], self.config.batch
        if size < len(train):
            indices = np.sort(batch_indices(len(train), size, step, self.config.seed))
        else:
            indices = np.arange(len(train))
        known, batch = self._last
        if known is None or not np.array_equal(indices, known):
            batch = _batch(train.take(indices))
            self._last = (indices, batch)
        return batch

    def measure(self, engine):
        """{train_loss, train_accuracy, validation_loss, ...}; with both orders, each apart too."""
        record = {}
        for name, batch in self._batches.items():
            loss, count = engine.measure(batch)
            right = count == batch.counted.sum(1)           # the whole answer
            record[f"{name}_loss"] = float(loss.mean(dtype=np.float64))
            record[f"{name}_accuracy"] = float(right.mean(dtype=np.float64))
            for order in self.config.orders if len(self.config.orders) > 1 else ():
                these = self._sets[name].orders == order
                if these.any():
                    record[f"{name}_loss_order{order}"] = float(loss[these].mean(dtype=np.float64))
                    record[f"{name}_accuracy_order{order}"] = float(right[these].mean())
        return record


def _batch(examples):
    return Batch(examples.inputs, examples.targets, examples.answer_mask)


class DatesTask:
    """Dates to translate (npdl.data.dates): the loss counts every token of the ISO date.

    What ArithmeticTask has, and the same rules. Teacher forcing: at every step the decoder is fed
    the right tokens before it, not its own. `measure` looks at MEASURED pairs of each part, always
    the same; its accuracy is the share of dates whose every token is the most probable one, which
    are just those that greedy decoding gets right: it feeds back what was right so far.
    """

    MEASURED = 2000

    def __init__(self, config):
        self.config = config
        self.data = Dates(config.r_train, config.seed)
        self.vocabulary = self.data.words
        self.vocab_size = len(self.vocabulary.target)
        self.max_len = LONGEST

    def prepare(self):
        pass

    def batch(self, step):
        """The pairs of update number `step`."""
        return self._batch("train", self.config.batch, self.config.seed, step, BATCHES)

    def _batch(self, part, count, *key):
        source, real, target = self.data.encoded(*self.data.draw(part, count, *key))
        if self.config.model == "seq2seq":
            real = np.arange(source.shape[1]) < real[:, None]       # a mask, of the lengths
        inputs, targets = target[:, :-1], target[:, 1:]
        return Batch(inputs, targets, np.ones(targets.shape, bool), 256, source, real)

    @cached_property
    def _evaluation(self):
        """{part: Batch}, made once."""
        return {name: self._batch(name, self.MEASURED, self.config.seed, place, EVALUATION)
                for place, name in enumerate(self.data.parts)}

    def measure(self, engine):
        """{train_loss, train_accuracy, validation_loss, validation_accuracy}."""
        record = {}
        for name, batch in self._evaluation.items():
            loss, count = engine.measure(batch)
            record[f"{name}_loss"] = float(loss.mean(dtype=np.float64))
            record[f"{name}_accuracy"] = float((count == batch.counted.sum(1)).mean())
        return record


def resolved(config):
    """The settings with what they leave to the data: a text's characters and its digest."""
    return config if config.text is None else with_facts(config)


def make_task(config):
    """The task that the settings (from `resolved`) describe."""
    if config.translates:
        return DatesTask(config)
    if config.pretrained is not None:
        return PretrainedTask(config)
    return ArithmeticTask(config) if config.text is None else TextTask(config)


def make_model(config, task, base=None):
    """A fresh model with the settings' seed.

    base  {name: array} to start from instead of random values, before adapters go in
    """
    rng = stream(config.seed, 0)
    if config.model == "pretrained":
        return pretrained_model(config, task, rng)
    if config.model == "lstm":
        model = LSTMLM(task.vocab_size, config.width, config.layers, bias=config.bias,
                       dropout=config.dropout, padding_id=task.padding_id, rng=rng,
                       dtype=config.dtype)
    elif config.model == "lstm-seq2seq":
        model = LSTMSeq2Seq(task.vocabulary.source.size, task.vocab_size, config.width,
                            config.layers, bias=config.bias, dropout=config.dropout, rng=rng,
                            dtype=config.dtype)
    elif config.model == "seq2seq":
        model = Seq2Seq(task.vocabulary.source.size, task.vocab_size, config.width, config.layers,
                        config.heads, config.multiplier, task.max_len, bias=config.bias,
                        norm=config.norm, activation=config.activation, dropout=config.dropout,
                        positions=config.positions, rng=rng, dtype=config.dtype)
    else:
        model = GPT(task.vocab_size, config.width, config.layers, config.heads, config.multiplier,
                    task.max_len, bias=config.bias, norm=config.norm, norm_bias=config.norm_bias,
                    activation=config.activation, dropout=config.dropout,
                    positions=config.positions, tied=config.tied, padding_id=task.padding_id,
                    rng=rng, dtype=config.dtype)
    initialise(model, config.init, rng)
    if base is not None:
        model.load_state_dict(base)
    if config.adapters is not None:
        put_adapters(model, config.adapters, rng)
    return model


def pretrained_model(config, task, rng):
    """The real model that the settings name, with adapters, or free as a whole without."""
    adapters, quantized = config.adapters, {}
    if adapters is not None and adapters.bits is not None:
        quantized = {"bits": adapters.bits, **how_quantized(adapters)}
    model = load(config.pretrained, config.dtype, **quantized).model
    if adapters is None:
        model.set_trainable(True)
    else:
        add_lora(model, adapters.rank, alpha=adapters.alpha, where=adapters.where, rng=rng)
    return model


def put_adapters(model, adapters, rng):
    """Quantize every linear map, if `adapters` (Adapters) say so, and put LoRA where they say."""
    if adapters.bits is not None:
        quantize_linears(model, adapters.bits, **how_quantized(adapters))
    add_lora(model, adapters.rank, alpha=adapters.alpha, where=adapters.where, rng=rng)


def how_quantized(adapters):
    """What Adapters say of the quantized maps beside their bits."""
    return {"block": adapters.block, "rounding": adapters.rounding, "double": adapters.double}
