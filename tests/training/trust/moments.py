"""Faults at every moment a run folder is written: kills, full disks, vanished folders.

A run's calls to the file system are counted; then the run is made again and again, and each time
another of these calls is where it dies (point by point between write, fsync, rename and the
synchronising of the folder) or where the system refuses.
"""

import json
import random
import shutil
import signal

from tests.training.trust import Figure
from tests.training.trust.child import Server
from tests.training.trust.runs import fingerprint, options_of, saved_step, temporaries

KINDS = ("gpt arithmetic fast", "lstm text plain")     # every call of the first is a moment
STEPS = 7                                       # saved at 3, 6 and 7
REFUSALS = ("ENOSPC", "EIO", "EROFS", "vanish")
WORDS = {"ENOSPC": "No space left", "EIO": "Input/output error", "EROFS": "Read-only file system"}


class Lab:
    """The unbroken run, the calls it makes, and runs that are hit at one of them."""

    def __init__(self, folder, kind):
        self.folder = folder / kind.replace(" ", "-")
        self.folder.mkdir()
        self.script, self.options = options_of(kind, self.folder, STEPS)
        self.run = self.folder / "run"
        self.torn = self.stale = self.harmless = 0

    def prepare(self, server):
        self.server = server
        log = self.folder / "calls.json"
        fault = {"folder": str(self.run), "log": str(log)}
        ended = server.run(self.script, (*self.options, "--out", self.run), fault=fault,
                           curves=True)
        assert ended.status == 0, ended.errors
        self.calls = json.loads(log.read_text())
        self.wanted = fingerprint(self.run)
        for name in ("checkpoint.npz", "config.json", "summary.json", "curves.png"):
            check_order(self.calls, name)

    def hit(self, at, what):
        """A run that is hit at call number `at`, and then goes on to the same end."""
        for path in (self.run, self.moved):
            shutil.rmtree(path, ignore_errors=True)
        fault = {"folder": str(self.run), "at": at, "what": what}
        ended = self.server.run(self.script, (*self.options, "--quiet", "--out", self.run),
                                fault=fault, curves="curves.png" in str(self.calls[:at + 1]))
        self._check(ended, at, what)
        if self.moved.exists():
            shutil.rmtree(self.run, ignore_errors=True)
            self.moved.rename(self.run)
        begun = (self.run / "config.json").exists()
        options = ("--resume",) if begun else self.options
        words = self._to_be_said() if begun else []
        again = self.server.run(self.script, (*options, "--quiet", "--out", self.run))
        where = f"{what} at {self.calls[at]} (call {at})"
        assert again.status == 0, f"{where}: {again.errors}"
        assert fingerprint(self.run) == self.wanted, f"{where}: other bytes after resuming"
        assert not temporaries(self.run), f"{where}: {temporaries(self.run)} left over"
        assert all(word in again.errors for word in words), f"{where}: {again.errors}"

    def _to_be_said(self):
        """Words that a resumed run must say: what it cleans up is no secret."""
        metrics = self.run / "metrics.jsonl"
        torn = metrics.exists() and not (b"\n" + metrics.read_bytes()).endswith(b"\n")
        self.torn += torn
        self.stale += bool(temporaries(self.run))
        return ["dropped"] * torn + ["removed"] * bool(temporaries(self.run))

    @property
    def moved(self):
        return self.folder / "run.moved"

    def _check(self, ended, at, what):
        where = f"{what} at {self.calls[at]} (call {at}): {ended.status}, {ended.errors!r}"
        folder = self.moved if self.moved.exists() else self.run
        if folder.exists():
            saved_step(folder)                  # CheckpointError if it is not whole
        if what == "kill":
            assert ended.status == -signal.SIGKILL, where
        elif ended.status == 0:                 # it did not matter: nothing was left to write
            harmless = self.calls[at].startswith(("unlink", "open claim.lock"))
            assert harmless or what == "vanish", where
            self.harmless += 1
        else:
            assert ended.status == 2 and len(ended.errors.strip().splitlines()) == 1, where
            assert WORDS.get(what, "No such file") in ended.errors or what == "vanish", where
            assert str(self.run) in ended.errors and ";" in ended.errors, where


def check_order(calls, name):
    """Raise unless a file is put in its place only when all of it is on the disk, the folder last.

    A kill leaves what the system has in its memory, so only a lost power would show the others.
    """
    places = [i for i, call in enumerate(calls) if call == f"replace {name}"]
    assert places, f"{name} was never renamed"
    for place in places:
        before, after = calls[place - 2:place], calls[place + 1:place + 3]
        assert before == [f"flush {name}", f"fsync {name}"], f"before the rename: {before}"
        assert after == ["open folder", "fsync run"], f"after the rename: {after}"


def chosen(calls, count, rng):
    """`count` different places among the calls, one of each kind first."""
    kinds = {}
    for place in rng.sample(range(len(calls)), len(calls)):
        kinds.setdefault(calls[place], place)
    first = list(kinds.values())
    rest = [place for place in range(len(calls)) if place not in first]
    return (first + rng.sample(rest, len(rest)))[:count]


def moments(calls):
    """The places to be killed at: every call, but of the long rows of writes that fill the second
    and later checkpoints every tenth only."""
    found, seen, began, again = [], set(), 0, False
    for place, call in enumerate(calls):
        if place == 0 or calls[place - 1] != call:
            began, again = place, call in seen          # a row of equal calls begins
            seen.add(call)
        if not again or (place - began) % 10 == 0:
            found.append(place)
    return found


def measure(full, folder):
    rng = random.Random(1)
    kills = refusals = torn = stale = harmless = 0
    with Server(folder) as server:
        for kind in KINDS if full else KINDS[:1]:
            lab = Lab(folder, kind)
            lab.prepare(server)
            every = moments(lab.calls) if kind == KINDS[0] else chosen(lab.calls, 150, rng)
            for at in every if full else chosen(lab.calls, 25, rng):
                lab.hit(at, "kill")
                kills += 1
            for what in REFUSALS:
                for at in chosen(lab.calls, 40 if full else 5, rng):
                    lab.hit(at, what)
                    refusals += 1
            torn, stale = torn + lab.torn, stale + lab.stale
            harmless += lab.harmless
    return [
        Figure("A kill between any two calls leaves the old checkpoint or the new one",
               "SIGKILL before or within each write, flush, fsync, rename and folder sync",
               f"{kills} moments, each resumed to the same bytes; {stale} unfinished files and "
               f"{torn} torn lines of metrics dropped, and that said"),
        Figure("A full disk, an I/O error, a read-only or vanished folder is one line",
               "ENOSPC, EIO, EROFS, folder moved away, at calls of a run",
               f"{refusals} points: exit status 2, one line with the file and the reason "
               f"({harmless} came when nothing was left to write: status 0), "
               "the old checkpoint loads, the resumed run ends in the same bytes"),
    ]
