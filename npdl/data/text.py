"""Texts as sequences of characters: the vocabulary, the split, and random windows."""

import hashlib

import numpy as np

from npdl.backend import make_rng
from npdl.errors import InputError, checked_ids, short_repr
from npdl.files import read_bytes, reason
from npdl.options import require_fraction, require_positive

LARGEST = 1 << 30           # bytes of a text, whose ids then take 8 GiB
AT_ONCE = 1 << 20           # characters encoded at a time; each takes 30 bytes of memory


class Characters:
    """A vocabulary of characters. The id of a character is its index in `characters`.

    Raises InputError if `characters` is empty, is not sorted, or has a character twice.
    """

    def __init__(self, characters):
        is_text = isinstance(characters, str) and characters
        if not is_text or list(characters) != sorted(set(characters)):
            raise InputError(f"characters = {short_repr(characters, 100)}; give a text of at least "
                             "one character, sorted and without repetitions")
        self.characters, self.size = characters, len(characters)
        self._codes = _code_points(characters)

    @classmethod
    def from_text(cls, text):
        """Return the vocabulary of all characters in a text."""
        return cls("".join(sorted(set(text))))

    def encode(self, text):
        """Return the ids (int64, 1-D) of a text. Raise InputError for an unknown character."""
        ids = np.empty(len(text), np.int64)
        for start in range(0, len(text), AT_ONCE):          # a text may have a billion characters
            codes = _code_points(text[start : start + AT_ONCE])
            indices = np.searchsorted(self._codes, codes)
            known = self._codes[np.minimum(indices, self.size - 1)] == codes
            if not known.all():
                position = start + int(np.flatnonzero(~known)[0])
                raise InputError(f"character {text[position]!r} is not among the {self.size} "
                                 "characters of the vocabulary; use only these: "
                                 f"{short_repr(self.characters, 100)}")
            ids[start : start + AT_ONCE] = indices
        return ids

    def decode(self, ids):
        """Return the text of a sequence of ids. Raise InputError if one is out of range."""
        return "".join(self.characters[i] for i in checked_ids(ids, self.size, "tokens"))


def read_text_and_hash(path):
    """Return the text of a UTF-8 file, and the SHA-256 of its bytes in hexadecimal.

    Raises InputError if the file can't be read, is not UTF-8, is empty, or has more than LARGEST
    bytes. Devices and pipes are not read. A device may have no end, and a pipe can't be read a
    second time when the run is resumed.
    """
    try:
        content = read_bytes(path, LARGEST)
        text = content.decode()
    except (OSError, ValueError) as error:
        what = "it is not text in UTF-8" if isinstance(error, UnicodeError) else reason(error)
        raise InputError(f"--text {path} cannot be read ({what}); give another file") from None
    if not text:
        raise InputError(f"--text {path} is empty; give another text file")
    return text, hashlib.sha256(content).hexdigest()


def split_text(ids, train_fraction, block, units=("--block", "characters")):
    """Return {"train": the first part of ids, "validation": the rest}.

    `train_fraction` is the fraction of ids in "train". If it is 1, there is no "validation". Raises
    InputError unless 0 < train_fraction <= 1 and each part has more than `block` tokens. In the
    message, units[0] is the name of the option that sets `block`, and units[1] the name of the
    tokens.
    """
    require_fraction(train_fraction=train_fraction)
    cut = round(len(ids) * train_fraction)
    parts = {"train": ids[:cut], "validation": ids[cut:]}
    if cut == len(ids):
        del parts["validation"]
    for name, part in parts.items():
        if len(part) <= block:
            option, tokens = units
            raise InputError(f"{option} {block}: the {name} part of the text has only {len(part)} "
                             f"{tokens}; choose a smaller {option}, a longer text or another "
                             "--r-train")
    return parts


def draw_windows(ids, block, count, *key):
    """Draw `count` random windows of ids. Return inputs and targets (count, block).

    Targets are one token later than inputs. The positions are drawn with make_rng(*key), for
    example with the key (seed, step), so a run can be resumed without a saved state. Raises
    InputError unless `block` and `count` are positive, and `block` is below the number of tokens.
    """
    require_positive(block=block, count=count)
    if len(ids) <= block:
        raise InputError(f"block = {block}: the text has only {len(ids)} tokens; lower `block`")
    starts = make_rng(*key).integers(0, len(ids) - block, count)
    taken = ids[starts[:, None] + np.arange(block + 1)]     # taken (count, block + 1)
    return taken[:, :-1], taken[:, 1:]


def _code_points(text):
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
