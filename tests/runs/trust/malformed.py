"""Thousands of checkpoints that are not the run's: each refused in one line, none loaded wrong.

A run folder's checkpoint is replaced and the folder is opened as a user opens it, by load_run. The
digests are right, as a hostile hand would see to.
"""

import hashlib
import random
import resource
import shutil

import numpy as np

from npdl.errors import NpdlError
from npdl_train.runs import checkpoint
from npdl_train.runs.config import Config
from npdl_train.runs.run import load_run, train
from tests.runs.trust import Figure
from tests.runs.trust.strangers import BOMBS, Settings, ask

LIMIT = 64 << 20                                # bytes: what a refusal may take at most
DIGEST = checkpoint.DIGEST_BYTES


def with_right_digest(body):
    """`body` with the digest at its end made right again."""
    return body[:-DIGEST] + hashlib.sha256(body[:-DIGEST]).hexdigest().encode()


class Forger:
    """Makes checkpoints out of a good one that are not of its run; each method is a kind.

    Damage and hostile bytes are tests/runs/test_checkpoint_damage.py's.
    """

    def __init__(self, good, other, tmp, rng):
        self.good, self.other, self.tmp, self.rng = good, other, tmp, rng
        self.arrays, self.meta = checkpoint.load(tmp / "run/checkpoint.npz")

    def saved(self, arrays, meta):
        """The bytes of a checkpoint that save itself wrote."""
        checkpoint.save(self.tmp / "made.npz", arrays, meta)
        return (self.tmp / "made.npz").read_bytes()

    def resealed_edits(self):
        """Bytes of headers and structure changed under a digest that is right again."""
        bad = bytearray(self.good)
        places = [self.good.find(mark, self.rng.randrange(len(bad)))
                  for mark in (b"PK\x03\x04", b"PK\x01\x02", b"\x93NUMPY", b"PK\x05\x06")]
        place = self.rng.choice([place for place in places if place >= 0])
        for _ in range(self.rng.choice((1, 2, 4))):
            position = min(place + self.rng.randrange(100), len(bad) - DIGEST - 1)
            bad[position] = self.rng.randrange(256)
        return with_right_digest(bytes(bad))

    def shapes_and_dtypes(self):
        name = self.rng.choice(sorted(self.arrays))
        array = self.arrays[name]
        changes = [array[None], array.ravel()[:-1], array.astype("float64"), array.astype("int32"),
                   array.astype(">f4"), array.astype("float16"), np.ravel(array)[:0],
                   np.concatenate([array, array])]
        changes += [array.T] if array.T.shape != array.shape else []
        return self.saved({**self.arrays, name: self.rng.choice(changes)}, self.meta)

    def names(self):
        name = self.rng.choice(sorted(self.arrays))
        arrays = dict(self.arrays)
        kind = self.rng.randrange(3)
        if kind != 0:
            arrays[f"{self.rng.choice(('param', 'm', 'x'))}/more"] = np.ones(2, "float32")
        if kind != 1:
            arrays[name + self.rng.choice((" ", ".0", "x"))] = arrays.pop(name)
        return self.saved(arrays, self.meta)

    def other_models(self):
        return self.rng.choice(self.other)

    def metadata(self):
        """A JSON value that is not that of a checkpoint of this run."""
        meta = dict(self.meta)
        key = self.rng.choice(("step", "updates", "seconds"))
        value = self.rng.choice((None, -1, "3", True, [], {}, 0.5 if key != "seconds" else "x",
                                 10**18 if key != "seconds" else -2.0))
        if self.rng.random() < 0.3:
            meta.pop(key)
        else:
            meta[key] = value
        return self.saved(self.arrays, meta)


KINDS = ("resealed_edits", "shapes_and_dtypes", "names", "other_models", "metadata")


class Lab:
    """A run folder, and what load_run makes of it with another checkpoint."""

    def __init__(self, folder):
        self.folder = folder
        small = {"p": 3, "width": 4, "heads": 2, "layers": 1, "steps": 3, "eval_every": 3,
                 "eval_first": 0, "batch": 4}
        train(Config(**small), folder / "run", quiet=True)
        others = [{"model": "lstm"}, {"width": 8}, {"p": 5}, {"layers": 2}, {"bias": False},
                  {"optimizer": "sgd"}, {"dtype": "float64"}, {"tied": True},
                  {"positions": "learned"}]
        made = []
        for number, changes in enumerate(others):
            train(Config(**{**small, **changes}), folder / f"other-{number}", quiet=True)
            made.append((folder / f"other-{number}/checkpoint.npz").read_bytes())
        self.path = folder / "run/checkpoint.npz"
        self.good = self.path.read_bytes()
        self.parameters = load_run(folder / "run").model.state_dict()
        self.forger = Forger(self.good, made, folder, random.Random(2))

    def ask(self, kind):
        """Put a malformed file there and load it: "refused", or "harmless" (the same content)."""
        bad = getattr(self.forger, kind)()
        if bad == self.good:
            return "same"
        self.path.write_bytes(bad)
        try:
            run = load_run(self.folder / "run")
        except NpdlError as error:
            message = str(error)
            assert "\n" not in message and str(self.path) in message and ";" in message, message
            return "refused"
        loaded = run.model.state_dict()
        same = all(loaded[name].tobytes() == array.tobytes()
                   for name, array in self.parameters.items())
        assert same and kind == "resealed_edits", f"{kind}: was loaded"
        return "harmless"


def measure(full, folder, count=None):
    lab = Lab(folder)
    counts = {"refused": 0, "harmless": 0, "same": 0}
    wanted = count or (10_000 if full else 500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    number = 0
    while counts["refused"] < wanted:
        counts[lab.ask(KINDS[number % len(KINDS)])] += 1
        number += 1
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < LIMIT >> 20, f"memory grew by {grown:.0f} MiB"
    lab.path.write_bytes(lab.good)
    assert load_run(folder / "run").step == 3
    strangers, most = _strangers(lab, 2_000 if full else 200)
    shutil.rmtree(folder / "run")
    return [Figure(
        "A checkpoint that is not the run's is refused in one line",
        f"load_run on {len(KINDS)} kinds: resealed headers, shapes, dtypes, names, other models, "
        "metadata",
        f"{counts['refused']:,} refused, 0 loaded wrong ({counts['harmless']} with an edit of a "
        f"field that nobody reads loaded unchanged), memory + {grown:.0f} MiB in all",
    ), Figure(
        "So is a stranger's run folder whose settings or records were edited",
        "load_run with settings of other types and sizes, unknown ones, a text to read, damage",
        f"{strangers['refused']:,} refused in one line, {strangers['harmless']:,} changed nothing "
        f"of the model; memory + {most:.0f} MiB at most",
    )]


def _strangers(lab, count):
    """({outcome: how many}, MiB by which memory grew)."""
    settings, found = Settings(lab.folder / "run", random.Random(3)), {"refused": 0, "harmless": 0}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for changes in BOMBS:
        assert ask(lab, settings, changes) == "refused", changes
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 256, f"{grown:.0f} MiB for settings of models that are not there"
    for _ in range(count):
        found[ask(lab, settings)] += 1
    settings.restore()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 512, f"memory grew by {grown:.0f} MiB"       # a million equations, for p = 1000
    return found, grown
