"""SIGKILL at random moments of real trainings: nothing is lost beyond the last interval."""

import random
import signal
from collections import Counter

from tests.runs.trust import Figure
from tests.runs.trust.child import Scripts, Server
from tests.runs.trust.runs import (
    KINDS,
    fingerprint,
    options_of,
    recorded_step,
    saved_step,
    temporaries,
)

STEPS, SAVE_EVERY = 150, 3


SCRIPTS = Scripts()


class Kind:
    """One kind of training: its unbroken run, and what killing others of it has shown.

    runner   Server, or Scripts for processes that are also killed while they import
    """

    def __init__(self, kind, runner, folder):
        self.runner = runner
        self.folder = folder / f"{kind.replace(' ', '-')}-{type(runner).__name__}"
        self.folder.mkdir()
        self.script, self.options = options_of(kind, self.folder, STEPS)
        self.whole = self.folder / "whole"
        ended = runner.run(self.script, (*self.options, "--out", self.whole))
        assert ended.status == 0, ended.errors
        self.seconds = ended.seconds
        self.runs = self.kills = self.stale = self.most_lost = 0

    def kill(self, times, rng):
        """Start runs, kill them at random moments and resume them, until `times` were killed."""
        while self.kills < times:
            self.runs += 1
            run = self.folder / f"killed-{self.runs}"
            while not self._attempt(run, rng, self.kills < times):
                pass
            assert fingerprint(run) == fingerprint(self.whole), f"{run}: other final bytes"

    def _attempt(self, run, rng, kill):
        """One process on the run folder; True when it came to the end of the training."""
        begun = (run / "checkpoint.npz").exists()
        before = saved_step(run)
        arguments = ("--resume",) if begun else self.options
        kill_after = rng.uniform(0, self.seconds) if kill else None
        ended = self.runner.run(self.script, (*arguments, "--out", run), kill_after)
        if ended.status == -signal.SIGKILL:
            self.kills += 1
            self._look_at(run, before)
            return False
        assert ended.status == 0, ended.errors
        if kill:
            self.seconds *= 0.9                 # the machine is quicker now: kill earlier
        assert not temporaries(run), "a resumed run left temporary files of the killed one"
        return True

    def _look_at(self, run, before):
        """What a killed process left: a whole checkpoint, hardly older than the last record."""
        if not run.exists():
            return
        saved, recorded = saved_step(run), recorded_step(run)
        assert saved >= before, f"{run}: the checkpoint went back from {before} to {saved}"
        assert recorded - saved <= SAVE_EVERY, f"{run}: step {recorded} done, {saved} saved"
        self.most_lost = max(self.most_lost, recorded - saved)
        self.stale += bool(temporaries(run))


def measure(full, folder, kills=None, seed=0):
    """`kills` in all, shared out among the kinds of training."""
    kills = kills or (200 if full else 30)
    rng, done = random.Random(seed), []
    with Server(folder) as server:
        places = [(kind, server) for kind in KINDS] * 4     # a script needs seconds to be there
        places += [(kind, SCRIPTS) for kind in KINDS] if full else []
        shares = Counter(places[number * len(places) // kills] for number in range(kills))
        for (name, runner), share in shares.items():
            done.append(Kind(name, runner, folder))
            done[-1].kill(share, rng)
    total = sum(kind.kills for kind in done)
    assert total >= kills
    return [Figure(
        "A killed run resumes, loses no more than one interval, and ends in the same bytes",
        "SIGKILL at random moments: LSTM and GPT, arithmetic and text, both engines",
        f"{total} kills in {sum(kind.runs for kind in done)} runs: 0 unreadable checkpoints, "
        f"at most {max(kind.most_lost for kind in done)} steps lost (saved every {SAVE_EVERY}), "
        f"{sum(kind.stale for kind in done)} unfinished files cleaned up; "
        "SHA-256 of parameters, moments and metrics equal every time",
    )]
