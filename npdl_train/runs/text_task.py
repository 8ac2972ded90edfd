"""Next-character training on random windows of a text."""

import dataclasses
from functools import cached_property

import numpy as np

from npdl.data.text import Characters, read_text, split_text, windows
from npdl.errors import InputError
from npdl_train.pretrained import digest, read, read_tokenizer
from npdl_train.runs.engine import Batch

CHUNK_TOKENS = 2048     # tokens evaluated at a time,
CHUNK_SCORES = 1 << 22  # and scores of words
BATCHES, EVALUATION = 3, 4      # places in the streams of a seed


def with_facts(config):
    """The settings with the text's SHA-256 and its characters, unless they have them already.

    They are saved with a run: a resumed run sees that the text is the same, and a finished one
    generates without it. Raises InputError when the text cannot be read, or has a character that
    is not among `config.characters` (a text to fine-tune on must be written in the run's).
    """
    if config.sha256 is not None:
        return config
    text, sha256 = read_text(config.text)
    if config.pretrained is not None:
        return dataclasses.replace(config, sha256=sha256,
                                   pretrained_sha256=digest(config.pretrained))
    given = config.characters
    known = Characters.from_text(text) if given is None else Characters(given)
    split_text(known.encode(text), config.r_train, config.block)
    return dataclasses.replace(config, sha256=sha256, characters=known.characters)


class TextTask:
    """Characters of a text (npdl.data.text): the loss counts every position.

    What ArithmeticTask has, and the same rules. The text is read when it is first needed, so a
    model can be made without it. `measure` looks at config.eval_batches batches of each part,
    always the same; its accuracy is the share of characters that are the most probable one.
    """

    padding_id = None
    units = "--block", "characters"

    def __init__(self, config):
        self.config = config
        self.vocabulary = Characters(config.characters)
        self.vocab_size = self.vocabulary.size
        self.max_len = config.block

    @cached_property
    def parts(self):
        """{"train": ids, "validation": ids}. Raises InputError for a text that has changed."""
        config = self.config
        try:
            text, sha256 = read_text(config.text)
        except InputError as error:
            raise InputError(f"{error}; if it has moved, say where to by --text") from None
        if sha256 != config.sha256:
            raise InputError(f"--text {config.text}: has changed since the run began (another "
                             "SHA-256); restore it, or start a new run with another --out")
        return split_text(self.vocabulary.encode(text), config.r_train, config.block, self.units)

    def prepare(self):
        self.parts  # noqa: B018  (reads the text, or says why it cannot)

    def batch(self, step):
        """The windows of update number `step`."""
        config = self.config
        return self._batch(*windows(self.parts["train"], config.block, config.batch, config.seed,
                                    step, BATCHES))

    def _batch(self, inputs, targets):
        tokens = min(CHUNK_TOKENS, CHUNK_SCORES // self.vocab_size)
        chunk = max(1, tokens // self.config.block)
        return Batch(inputs, targets, np.ones(inputs.shape, bool), chunk)

    @cached_property
    def _evaluation(self):
        """{part: Batch}, made once."""
        config = self.config
        count = config.eval_batches * config.batch
        return {name: self._batch(*windows(ids, config.block, count, config.seed, place,
                                           EVALUATION))
                for place, (name, ids) in enumerate(self.parts.items())}

    def measure(self, engine):
        """{train_loss, train_accuracy, validation_loss, validation_accuracy}."""
        record = {}
        for name, batch in self._evaluation.items():
            loss, right = engine.measure(batch)
            record[f"{name}_loss"] = float(loss.mean(dtype=np.float64))
            record[f"{name}_accuracy"] = float(right.sum() / batch.counted.sum())
        return record


class PretrainedTask(TextTask):
    """A text in the tokens of a real model, whose folder has its vocabulary.

    Raises InputError for windows longer than the model's context, and for a folder whose files
    are not those that the run began with.
    """

    units = "--window", "tokens"

    def __init__(self, config):
        self.config = config
        try:
            self.architecture, self.weights = read(config.pretrained)
        except InputError as error:
            raise InputError(f"{error}; if it has moved, say where to by --pretrained") from None
        self.vocab_size, self.max_len = self.architecture.vocab_size, config.block
        longest = self.architecture.options["max_len"]
        if config.block > longest:
            raise InputError(f"--window {config.block}: the model sees {longest} tokens; choose "
                             "fewer")
        if digest(config.pretrained) != config.pretrained_sha256:
            raise InputError(f"--pretrained {config.pretrained}: is not the model that the run "
                             "began with (another SHA-256); say where that is by --pretrained")

    @cached_property
    def vocabulary(self):
        return read_tokenizer(self.config.pretrained, self.architecture, self.weights)
