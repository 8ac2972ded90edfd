"""A run in its folder (npdl_train.runs.folder): train, resume, load."""

import contextlib
import dataclasses
import time
from pathlib import Path

from npdl.backend import plain_errors
from npdl.errors import CheckpointError, InputError
from npdl_train.console import missing_packages, note
from npdl_train.folders import clean_stale
from npdl_train.runs import checkpoint
from npdl_train.runs.config import Config
from npdl_train.runs.folder import (
    begin,
    conclude,
    default_folder,
    is_bare,
    made_by,
    make_folder,
    read_config,
    write_config,
)
from npdl_train.runs.lock import locked
from npdl_train.runs.loop import Trainer
from npdl_train.runs.metrics import MetricsWriter, read_records, truncate_after
from npdl_train.runs.progress import Progress
from npdl_train.runs.summary import table
from npdl_train.runs.versions import versions

__all__ = ["Run", "default_folder", "load_run", "read_config", "resumed_config", "train"]

LONGEST = 1e10                  # seconds that a run may have taken: three centuries
EXTENDABLE = ("constant",)      # schedules that do not depend on the number of steps
MAY_DIFFER = ("backend",)       # where a run is computed, not what
MAY_MOVE = ("text", "pretrained")       # their SHA-256 say whether they are still the same


@plain_errors()
def train(config, folder, resume=False, quiet=False, base=None, check=False, for_steps=None,
          is_locked=False, metrics=None):
    """Train in `folder` and return the process's exit status: 0, or 130 when stopped.

    config     a Config; with `resume`, what `resumed_config` returned
    base       parameters to start from (Trainer); they are then evaluated and saved at step 0
    check      look at every layer's numbers at every step: slower, the same results
    for_steps  updates to make now, if the run is to be left before its end
    is_locked  whether this process has the folder locked already; otherwise it is locked here
    metrics    {name: function(trainer) -> a number}: numbers of one's own, recorded beside the
               others at each evaluation; trainer.model, .task and .step are what they look at
    Raises InputError when a package of the extra `train` is missing, the folder cannot take a new
    run, another process works in it, or a text cannot be read, CheckpointError when its files
    cannot be written or read, BackendError when a GPU fails.
    """
    if line := missing_packages():
        raise InputError(line)
    folder = Path(folder)
    trainer = Trainer(config, base, folder / "checkpoint.npz" if resume else None, metrics)
    trainer.check = check
    trainer.task.prepare()
    if not resume:
        make_folder(folder)
    with contextlib.nullcontext() if is_locked else locked(folder):
        first = not resume and (base is not None or config.is_based)
        return _train(trainer, folder, resume, quiet, first, for_steps)


def _train(trainer, folder, resume, quiet, first, for_steps):
    """`train` in a folder that is this process's.

    first  evaluate and save before the first step
    """
    config = trainer.config
    if not resume:
        begin(config, folder)
    started = time.monotonic() - (_continue(trainer, folder) if resume else 0.0)
    made = {**versions(), "engine": engines(folder)}
    if read_config(folder) != config or made_by(folder).get("engine") != made["engine"]:
        write_config(folder, config, made)      # more steps, another backend, a text that moved
    with MetricsWriter(folder / "metrics.jsonl") as metrics:
        progress = Progress(config.steps, trainer.step, quiet)

        def on_record(record):
            metrics.write(record)
            progress.record(record)

        def on_save():
            arrays, meta = trainer.state()
            meta["seconds"] = time.monotonic() - started
            checkpoint.save(folder / "checkpoint.npz", arrays, meta)

        with progress:
            undisturbed = trainer.run(on_record, on_save, progress.step, for_steps, first)
    finished = trainer.step == config.steps
    if not finished:
        note(f"stopped at step {trainer.step} of {config.steps}, saved; "
             f"go on with: --resume --out {folder}")
    records = read_records(folder / "metrics.jsonl")
    if records:
        summary = conclude(folder, trainer, records, time.monotonic() - started)
        if finished and not quiet:
            print(table(summary))
            print("L: lowest loss, A: best accuracy, t_f: the step that first reached it, "
                  "Δt: from training's to validation's")
            print(f"{trainer.step} steps in {summary['seconds']:.0f} s; "
                  f"checkpoint, metrics and their curves are in {folder}")
    return 0 if undisturbed else 130


def resumed_config(folder, given):
    """The Config of the run in `folder`, after a look at `given`, the options named anew.

    Raises InputError when a given option differs from the run's, except --backend, --text where
    it only says where the run's text is now, and --steps where more steps change nothing about
    those already made.
    """
    config = read_config(folder)
    config.refuse(given)
    changes = {name: value for name, value in given.items() if value != getattr(config, name)}
    moves = tuple(name for name in MAY_MOVE if getattr(config, name) is not None)
    for name in MAY_DIFFER + moves:
        if name in changes:
            config = dataclasses.replace(config, **{name: changes.pop(name)})
    longer = changes.pop("steps", None)
    if longer is not None:
        if longer < config.steps or config.schedule not in EXTENDABLE:
            raise InputError(f"--steps {longer}: the run in {folder} has --steps {config.steps} "
                             "and can only be made longer, with a constant schedule")
        config = dataclasses.replace(config, steps=longer)
    if changes:
        name, value = next(iter(changes.items()))
        raise InputError(f"--{name.replace('_', '-')} {value}: the run in {folder} has "
                         f"{getattr(config, name)}; resume it without this option, or start "
                         "another run with another --out")
    return config


@dataclasses.dataclass
class Run:
    """A run that was loaded: its settings, its model, its task, its records."""

    config: Config
    model: object
    task: object
    step: int
    records: list


def load_run(folder):
    """The model and everything around it from a run folder, in one call.

    The folder may be a stranger's: nothing of it is run, and what it says of its size is not
    believed. Raises InputError or CheckpointError for one that is not as `train` writes it.
    """
    config = dataclasses.replace(read_config(folder), backend="numpy", engine="plain")
    path = Path(folder) / "checkpoint.npz"
    trainer = Trainer(config, path=path)
    _load_checkpoint(trainer, path)
    records = read_records(Path(folder) / "metrics.jsonl")
    return Run(config, trainer.model, trainer.task, trainer.step, records)


def _continue(trainer, folder):
    """Bring the trainer to the folder's last checkpoint; return the seconds spent so far."""
    removed = clean_stale(folder)
    if removed:
        note(f"removed {len(removed)} unfinished file(s) of a killed run")
    path = folder / "checkpoint.npz"
    if is_bare(folder):
        raise InputError(f"{folder}: was killed before its first checkpoint, and nothing was "
                         "learned; give the same command again without --resume")
    if not path.exists():
        raise InputError(f"{path}: is missing, and what the run has learned was in it; put it "
                         "back, or start a new run with another --out")
    seconds = _load_checkpoint(trainer, path)["seconds"]
    _say_if_other_code(folder)
    if (folder / "metrics.jsonl").exists():
        dropped = truncate_after(folder / "metrics.jsonl", trainer.step)
        if dropped:
            note(f"dropped {dropped} record(s) made after the checkpoint at step "
                 f"{trainer.step}; they will be made again")
    return seconds


def engines(folder):
    """The engine's digests, joined by +, that have computed a run, this process's the last."""
    now = versions()["engine"]
    begun = str(made_by(folder).get("engine", "unknown"))[:80].split("+")
    return "+".join(begun if now in begun else [*begun, now])


def _say_if_other_code(folder):
    """A line where other code than this began the run that goes on."""
    begun, now = made_by(folder), versions()
    for name in ("npdl", "engine"):
        if begun.get(name) != now[name]:
            was = str(begun.get(name, "unknown"))[:40]
            note(f"{folder}: was begun by {name} {was}, this is {now[name]}: it goes on, but "
                 "may round otherwise, so the rest is not to the last bit what it would have been")
            return


def _load_checkpoint(trainer, path):
    arrays, meta = checkpoint.load(path)
    checkpoint.check_fits(path, arrays, trainer.state()[0])
    counts = [meta.get(key) for key in ("step", "updates")]
    seconds = meta.get("seconds")
    if not (all(type(count) is int and 0 <= count <= trainer.config.steps for count in counts)
            and type(seconds) in (int, float) and 0 <= seconds < LONGEST):
        raise CheckpointError(f"{path}: its step, {counts[0]!r}, or its time is missing or cannot "
                              f"be of a run of {trainer.config.steps} steps; go back to a copy")
    trainer.load_state(arrays, meta)
    return meta
