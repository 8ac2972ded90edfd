"""Tasks (the data that a model is trained on), and the model and optimizer of a Config."""

import dataclasses
from functools import cached_property

import numpy as np

from npdl import optim
from npdl.adapt import add_lora, quantize_linears
from npdl.backend import make_rng
from npdl.data import ModularArithmetic, batch_indices
from npdl.data.dates import LONGEST, Dates
from npdl.data.text import Characters, draw_windows, read_text_and_hash, split_text
from npdl.errors import InputError
from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.models.lstm_seq2seq import LSTMSeq2Seq
from npdl.models.seq2seq import Seq2Seq
from npdl.train.config import UserFunction
from npdl.train.engine import Batch
from npdl.train.initialise import initialise
from npdl.train.pretrained import hash_model, load
from npdl.train.pretrained.folder import open_model

DATA = ("p", "operator", "q", "orders", "r_train", "seed", "stratified", "numbers")
MOVED = "if you moved the model, run: python -m npdl finetune --resume --out RUN --pretrained PATH"
CHUNK_TOKENS = 2048     # tokens that are evaluated at a time; larger values need more memory
CHUNK_SCORES = 1 << 22  # logits that are evaluated at a time; larger values need more memory
BATCHES, EVALUATION = 3, 4      # keys of the random generators for batches and evaluations


class Task:
    """Base class of tasks: the data to train on, with vocab_size and max_len for the model.

    batch(step)         returns the Batch of update `step` (from 0), which depends only on `step`
    evaluation_batches  {"train": Batch, "validation": Batch}, the same at every evaluation
    padding_id          the id of the padding token, or None
    """

    padding_id = None

    def load_data(self):
        """Read the data that training needs. Raise InputError if it can't be read."""

    def measure(self, engine):
        """Return {"train_loss": number, "train_accuracy": number, ..}, measured by an engine."""
        record = {}
        for name, batch in self.evaluation_batches.items():
            losses, correct_counts = engine.measure_sequences(batch)
            record[f"{name}_loss"] = float(losses.mean(dtype=np.float64))
            record[f"{name}_accuracy"] = self.accuracy(correct_counts, batch.loss_mask)
            record |= self.measure_details(name, losses, correct_counts)
        return record

    def measure_details(self, split, losses, correct_counts):
        """Return more measures of a `split` ("train" or "validation"), as {name: number}.

        `losses` (B,) and `correct_counts` (B,) come from engine.measure_sequences for this set.
        """
        return {}

    def accuracy(self, correct_counts, loss_mask):
        """Return the fraction of sequences in which every unmasked token is correct.

        `correct_counts` (B,) counts the correct unmasked tokens. `loss_mask` has the shape (B, S).
        """
        return float((correct_counts == loss_mask.sum(1)).mean(dtype=np.float64))


class ArithmeticTask(Task):
    """Modular arithmetic (npdl.data.arithmetic). The loss covers the right-hand sides."""

    def __init__(self, config):
        self.config = config
        self.data = ModularArithmetic(**{name: getattr(config, name) for name in DATA})
        self.vocabulary = self.data.vocabulary
        self.vocab_size = self.vocabulary.size
        self.max_len = self.data.sequence_length
        self.padding_id = self.vocabulary.pad
        sets = {"train": self.data.train, "validation": self.data.validation}
        # Sorted, so that sequences with equal prefixes are neighbours: an engine computes an equal
        # prefix once for each of its threads.
        self._sets = {name: examples.take(np.lexsort(examples.inputs.T[::-1]))
                      for name, examples in sets.items() if len(examples)}
        self.evaluation_batches = {name: _make_batch(x) for name, x in self._sets.items()}

    def batch(self, step):
        """Return the Batch of update `step`. A batch of the whole set is always the same."""
        train, size = self._sets["train"], self.config.batch
        if size >= len(train):
            return self.evaluation_batches["train"]
        indices = np.sort(batch_indices(len(train), size, step, self.config.seed))
        return _make_batch(train.take(indices))

    def measure_details(self, split, losses, correct_counts):
        """Return loss and accuracy for each number of operands, if config.orders has several."""
        orders, record = self.config.orders, {}
        right = correct_counts == self.evaluation_batches[split].loss_mask.sum(1)
        for order in orders if len(orders) > 1 else ():
            chosen = self._sets[split].orders == order
            if chosen.any():
                record[f"{split}_loss_order{order}"] = float(losses[chosen].mean(dtype=np.float64))
                record[f"{split}_accuracy_order{order}"] = float(right[chosen].mean())
        return record


def _make_batch(examples):
    return Batch(examples.inputs, examples.targets, examples.answer_mask)


class DatesTask(Task):
    """Dates to translate (npdl.data.dates). The loss covers every token of the ISO date.

    The decoder reads the correct previous tokens (teacher forcing). An evaluation uses MEASURED
    dates of each set. A date counts as correct if the most probable token at each position is
    correct. So greedy decoding translates exactly these dates correctly.
    """

    MEASURED = 2000

    def __init__(self, config):
        self.config = config
        self.data = Dates(config.r_train, config.seed)
        self.vocabulary = self.data.words
        self.vocab_size = len(self.vocabulary.target)
        self.max_len = LONGEST

    def batch(self, step):
        return self._draw_batch("train", self.config.batch, self.config.seed, step, BATCHES)

    def _draw_batch(self, split, count, *key):
        source, real, target = self.data.encode_pairs(*self.data.draw_pairs(split, count, *key))
        # All batches have one shape, so that one recording serves them.
        source = np.pad(source, ((0, 0), (0, LONGEST - source.shape[1])))
        if self.config.model == "seq2seq":
            real = np.arange(source.shape[1]) < real[:, None]       # lengths -> a mask
        inputs, targets = target[:, :-1], target[:, 1:]
        return Batch(inputs, targets, np.ones(targets.shape, bool), source, real, chunk=256)

    @cached_property
    def evaluation_batches(self):
        return {name: self._draw_batch(name, self.MEASURED, self.config.seed, place, EVALUATION)
                for place, name in enumerate(self.data.parts)}


class TextTask(Task):
    """Random windows of a text (npdl.data.text). The loss covers every position.

    The text is read when it is first needed, so a model can be built without the file. An
    evaluation uses config.eval_batches batches of the training text and of the validation text.
    """

    units = "--block", "characters"

    def __init__(self, config):
        self.config = config
        self.vocabulary = Characters(config.characters)
        self.vocab_size = self.vocabulary.size
        self.max_len = config.block

    @cached_property
    def split_ids(self):
        """Return {"train": ids, "validation": ids}. Raise InputError if the text has changed."""
        config = self.config
        try:
            text, sha256 = read_text_and_hash(config.text)
        except InputError as error:
            raise InputError(f"{error}; if you moved it, give its new path with --text") from None
        if sha256 != config.sha256:
            raise InputError(f"--text {config.text} has changed since the run began (another "
                             "SHA-256); restore it, or start a new run with another --out")
        return split_text(self.vocabulary.encode(text), config.r_train, config.block, self.units)

    def load_data(self):
        self.split_ids  # noqa: B018  (reads the text, or raises)

    def batch(self, step):
        config = self.config
        return self._make_batch(*draw_windows(self.split_ids["train"], config.block, config.batch,
                                              config.seed, step, BATCHES))

    def _make_batch(self, inputs, targets):
        tokens = min(CHUNK_TOKENS, CHUNK_SCORES // self.vocab_size)
        chunk = max(1, tokens // self.config.block)
        return Batch(inputs, targets, np.ones(inputs.shape, bool), chunk=chunk)

    @cached_property
    def evaluation_batches(self):
        config = self.config
        count = config.eval_batches * config.batch
        return {name: self._make_batch(*draw_windows(ids, config.block, count, config.seed, place,
                                                       EVALUATION))
                for place, (name, ids) in enumerate(self.split_ids.items())}

    def accuracy(self, correct_counts, loss_mask):
        """Return the fraction of positions at which the correct token is the most probable one."""
        return float(correct_counts.sum() / loss_mask.sum())


class PretrainedTask(TextTask):
    """A text on which a real model is fine-tuned, in the tokens of that model's tokenizer.

    Raises InputError for windows longer than the model's context, and if the model's files have
    changed since the run began.
    """

    units = "--window", "tokens"

    def __init__(self, config):
        self.config = config
        try:
            self.pretrained = open_model(config.pretrained)
        except InputError as error:
            raise InputError(f"{error}; {MOVED}") from None
        architecture = self.pretrained.architecture
        self.vocab_size, self.max_len = architecture.vocab_size, config.block
        longest = architecture.options["max_len"]
        if config.block > longest:
            raise InputError(f"--window {config.block} is longer than the model's context of "
                             f"{longest} tokens; choose at most {longest}")
        if hash_model(config.pretrained) != config.pretrained_sha256:
            raise InputError(f"--pretrained {config.pretrained} is not the model that the run "
                             f"began with (another SHA-256); {MOVED}")

    @property
    def vocabulary(self):
        return self.pretrained.tokenizer


def complete_config(config):
    """Return the Config, completed by the SHA-256 and the characters of its text.

    For a real model, it gets the SHA-256 of the model instead of the characters. A run saves these
    values. So a resumed run can check that its text has not changed, and a finished run can
    generate without its text. A Config without a text is returned as it is. Raises InputError if
    the text can't be read, or has a character that is not among `config.characters`.
    """
    if config.text is None or config.sha256 is not None:
        return config
    text, sha256 = read_text_and_hash(config.text)
    if config.pretrained is not None:
        return dataclasses.replace(config, sha256=sha256,
                                   pretrained_sha256=hash_model(config.pretrained))
    characters = config.characters
    vocabulary = Characters.from_text(text) if characters is None else Characters(characters)
    split_text(vocabulary.encode(text), config.r_train, config.block)
    return dataclasses.replace(config, sha256=sha256, characters=vocabulary.characters)


def make_task(config):
    """Return the Task of a Config, which `complete_config` has completed."""
    if config.task is not None:
        return config.task(config)
    if config.translates:
        return DatesTask(config)
    if config.pretrained is not None:
        return PretrainedTask(config)
    return ArithmeticTask(config) if config.text is None else TextTask(config)


def make_model(config, task, base=None):
    """Return the model that the settings describe, with its adapters.

    base  {name: array}: parameters that replace the random ones, before adapters are added
    """
    rng, adapters = make_rng(config.seed, 0), config.adapters
    quantized = {}
    if adapters is not None and adapters.bits is not None:
        quantized = {name: getattr(adapters, name)
                     for name in ("bits", "block", "rounding", "double")}
    if config.pretrained is not None:
        model = load(config.pretrained, config.dtype, **quantized).model
        model.set_trainable(adapters is None)
    else:
        model = draw_new_model(config, task, rng)
        if base is not None:
            model.load_state_dict(base)
        if quantized:
            quantize_linears(model, **quantized)
    if adapters is not None:
        add_lora(model, adapters.rank, alpha=adapters.alpha, where=adapters.where, rng=rng)
    return model


def draw_new_model(config, task, rng):
    """Return a new model, whose parameters are drawn from the generator `rng`."""
    if isinstance(config.model, UserFunction):
        return config.model(config, task)
    common = {"bias": config.bias, "dropout": config.dropout, "rng": rng, "dtype": config.dtype}
    transformer = {"norm": config.norm, "positions": config.positions,
                   "activation": config.activation, **common}
    if config.model == "lstm":
        model = LSTMLM(task.vocab_size, config.width, config.layers, padding_id=task.padding_id,
                       **common)
    elif config.model == "lstm-seq2seq":
        model = LSTMSeq2Seq(task.vocabulary.source.size, task.vocab_size, config.width,
                            config.layers, **common)
    elif config.model == "seq2seq":
        model = Seq2Seq(task.vocabulary.source.size, task.vocab_size, config.width, config.layers,
                        config.heads, config.multiplier, task.max_len, **transformer)
    else:
        model = GPT(task.vocab_size, config.width, config.layers, config.heads, config.multiplier,
                    task.max_len, norm_bias=config.norm_bias, tied=config.tied,
                    padding_id=task.padding_id, **transformer)
    initialise(model, config.init, rng)
    return model


def make_optimizer(config, model):
    """Return the optimizer that the settings describe."""
    if config.decay == "matrices":
        optim.decay_only_matrices(model)
    if isinstance(config.optimizer, UserFunction):
        return config.optimizer(config, model)
    if config.optimizer == "sgd":
        return optim.SGD(model, config.lr, momentum=config.momentum,
                         weight_decay=config.weight_decay)
    kind = optim.AdamW if config.optimizer == "adamw" else optim.Adam
    return kind(model, config.lr, betas=config.betas, eps=config.eps,
                weight_decay=config.weight_decay)
