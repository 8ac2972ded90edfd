"""Ten thousand malformed checkpoints: each refused in one line, none loaded wrong.

A run folder's checkpoint is replaced by a damaged or hostile one and the folder is opened as a
user opens it, by load_run. Files whose structure is hostile get a right digest, as a hostile
hand would see to.
"""

import random
import resource
import shutil
import tracemalloc

from npdl.errors import NpdlError
from npdl.training.config import Config
from npdl.training.run import load_run, train
from tests.training.trust import Figure
from tests.training.trust.forger import KINDS, Forger, Trap
from tests.training.trust.strangers import BOMBS, Settings, ask

LIMIT = 64 << 20                                # bytes: what a refusal may take at most


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
        Trap.path = str(folder / "trapped")

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
    peak = _peak(lab)
    assert not (folder / "trapped").exists(), "a pickle was run"
    lab.path.write_bytes(lab.good)
    assert load_run(folder / "run").step == 3
    strangers, most = _strangers(lab, 2_000 if full else 200)
    shutil.rmtree(folder / "run")
    return [Figure(
        "A malformed checkpoint is refused in one line; nothing of it is run",
        f"load_run on {len(KINDS)} kinds: flips, cuts, tails, resealed headers, shapes, dtypes, "
        "names, other models, NaN, pickles, 10 GB claims, metadata, garbage",
        f"{counts['refused']:,} refused, 0 loaded wrong ({counts['harmless']} with an edit of a "
        f"field that nobody reads loaded unchanged), no code run, memory + {grown:.0f} MiB "
        f"in all, {peak / 2**20:.1f} MiB for a claim of 10 GB",
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


def _peak(lab):
    """Bytes that Python and NumPy take at most while refusing claims of 10 GB."""
    tracemalloc.start()
    for _ in range(10):
        assert lab.ask("claims_of_ten_gigabytes") == "refused"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < LIMIT, f"refusing took {peak / 2**20:.0f} MiB"
    return peak
