"""Next-character training on random windows of a text."""

import dataclasses
from functools import cached_property

import numpy as np

from npdl.backend import to_host
from npdl.data.text import Characters, read_text, split_text, windows
from npdl.errors import InputError
from npdl.losses import SequenceLoss
from npdl.training.pieces import make_piece

CHUNK_TOKENS = 4096     # tokens evaluated at a time
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
    known = Characters.of(text) if config.characters is None else Characters(config.characters)
    split_text(known.encode(text), config.r_train, config.block)
    return dataclasses.replace(config, sha256=sha256, characters=known.characters)


class TextTask:
    """Characters of a text (npdl.data.text): the loss counts every position.

    What ArithmeticTask has, and the same rules. The text is read when it is first needed, so a
    model can be made without it. `measure` looks at config.eval_batches batches of each part,
    always the same; its accuracy is the share of characters that are the most probable one.
    """

    padding_id = None

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
        return split_text(self.vocabulary.encode(text), config.r_train, config.block)

    def prepare(self):
        self.parts  # noqa: B018  (reads the text, or says why it cannot)

    def batch(self, step, parts):
        """The windows of update number `step`, as at most `parts` pieces."""
        config = self.config
        inputs, targets = windows(self.parts["train"], config.block, config.batch,
                                  config.seed, step, BATCHES)
        return self._pieces(inputs, targets, min(parts, config.batch))

    def _pieces(self, inputs, targets, count):
        cuts = np.array_split(np.arange(len(inputs)), count)
        return [self.piece(inputs[cut], targets[cut]) for cut in cuts]

    def piece(self, inputs, targets):
        """Some windows as a model reads them."""
        counted = np.ones(inputs.shape, bool)
        return make_piece(inputs, targets, counted, self.config.compute)

    @cached_property
    def _evaluation(self):
        """{part: pieces}, made once."""
        config, chunk = self.config, max(1, CHUNK_TOKENS // self.config.block)
        pieces = {}
        for place, (name, ids) in enumerate(self.parts.items()):
            count = config.eval_batches * config.batch
            taken = windows(ids, config.block, count, config.seed, place, EVALUATION)
            pieces[name] = self._pieces(*taken, -(-count // chunk))
        return pieces

    def measure(self, workers):
        """{train_loss, train_accuracy, validation_loss, validation_accuracy}."""
        record = {}
        for name, pieces in self._evaluation.items():
            results = workers.map(measure_text, pieces)
            loss, right = (np.concatenate(parts) for parts in zip(*results, strict=True))
            record[f"{name}_loss"] = float(loss.mean(dtype=np.float64))
            record[f"{name}_accuracy"] = float(right.mean(dtype=np.float64))
        return record


def measure_text(model, piece):
    """Loss and share of right characters of each window, on the host: two arrays (B,)."""
    logits, _ = model.logits(piece.ids, piece.at)
    loss, _ = SequenceLoss("none").forward(logits, piece.targets, piece.counted)
    right = (logits.argmax(-1) == piece.targets).mean(1)
    return to_host(loss), to_host(right)
