"""A run in its folder: training that saves, resumes and stops on Ctrl-C.

    with Run(config, model, optimizer, folder) as run:
        for step in run.steps():
            ...                                         # one update of the model
            if run.evaluation_due():
                run.record(task.measure(engine), lr)
        status = run.finish(task)
"""

import contextlib
import dataclasses
import linecache
import math
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import npdl
from npdl.backend import plain_errors
from npdl.cli.console import missing_packages, note
from npdl.cli.folders import clean_stale
from npdl.errors import CheckpointError, InputError
from npdl.train import checkpoint
from npdl.train.config import Config
from npdl.train.folder import (
    begin,
    conclude,
    is_bare,
    locked,
    made_by,
    make_folder,
    read_config,
    write_config,
)
from npdl.train.loop import (
    Diverged,
    Trainer,
    get_state,
    l2_norm,
    nonfinite_parameters,
    set_state,
)
from npdl.train.metrics import MetricsWriter, read_records, truncate_after
from npdl.train.result import print_result
from npdl.train.versions import versions

EXTENDABLE = ("constant",)      # schedules that do not depend on the number of steps
MAY_DIFFER = ("backend",)       # it changes results by rounding only
MAY_MOVE = ("text", "pretrained")       # their SHA-256 tell whether they are still the same


class Run:
    """A training run in its folder, a context manager.

    resume     continue the run in the folder, from its last checkpoint
    quiet      print no progress and no result; notes still go to standard error
    for_steps  the number of updates to make now; the run is then saved and can be resumed
    check      raise Diverged at the first operation that overflows or is undefined (NumPy only)
    status     the exit status of a script: 0, or 130 if a signal stopped the run

    Raises InputError if the folder can't take the run or another process works in it, and
    CheckpointError if its files can't be read or written.
    """

    def __init__(self, config, model, optimizer, folder, resume=False, quiet=False, for_steps=None,
                 check=False):
        if line := missing_packages():
            raise InputError(line)
        self.config, self.model, self.optimizer = config, model, optimizer
        self.folder, self.resume, self.quiet, self.check = Path(folder), resume, quiet, check
        self.step, self.last, self.status = 0, config.steps, 0
        self.for_steps = for_steps

    def __enter__(self):
        if not self.resume:
            make_folder(self.folder)
        with contextlib.ExitStack() as stack:
            stack.enter_context(locked(self.folder))
            if self.resume:
                self.started = time.monotonic() - self._load()
            else:
                begin(self.config, self.folder)
                self.started = time.monotonic()
            if read_config(self.folder) != self.config or made_by(self.folder) != versions():
                write_config(self.folder, self.config)
            if self.for_steps is not None:
                self.last = min(self.config.steps, self.step + self.for_steps)
            self.metrics = stack.enter_context(MetricsWriter(self.folder / "metrics.jsonl"))
            self.bar = stack.enter_context(_progress(self.config.steps, self.step, self.quiet))
            self.stop = stack.enter_context(StopSignals())
            # Without `check`, the run looks for infinite and NaN values itself, when it evaluates
            # and saves, and NumPy's warnings say nothing more.
            how = "raise" if self.check else "ignore"
            stack.enter_context(np.errstate(over=how, invalid=how, divide=how))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        self._stack.__exit__(*error)
        if isinstance(error[1], FloatingPointError):
            raise Diverged(f"step {self.step}: {_operation_of(error[1])}; {self._kept()}; try a "
                           "lower --lr or --clip 1.0") from error[1]

    def steps(self):
        """Yield the number of each update that is left, from 0 in a new run.

        After the update, save if a checkpoint is due, at the end, and if a signal asked to stop.
        """
        while self.step < self.last:
            self.step += 1
            yield self.step - 1
            self.bar.update()
            stopped = self.stop.asked           # read once: a later signal waits for the next step
            if stopped or self.step % self.config.save_every == 0 or self.step == self.last:
                self.save()
            if stopped and self.step < self.last:
                self.status = 130
                return

    def evaluation_due(self):
        """Return True at steps 1 .. eval_first, at multiples of eval_every, at the last step."""
        config, step = self.config, self.step
        return step <= config.eval_first or step % config.eval_every == 0 or step == config.steps

    def record(self, values, lr, own=None):
        """Append {name: number} to the metrics, with the step, the parameters' norm and `lr`.

        own  {name: number}: metrics of one's own
        Raises Diverged if a number is not finite, InputError if one of `own` is not.
        """
        record = {"step": self.step, **values, "l2_norm": l2_norm(self.optimizer), "lr": lr}
        for name, value in (own or {}).items():
            if name in record or not math.isfinite(value):
                raise InputError(f"metric {name!r}: " + (
                    "every record has npdl's own; choose another name" if name in record else
                    f"is {value} at step {self.step}; return a finite number"))
        odd = next((name for name, value in record.items() if not math.isfinite(value)), None)
        if odd is not None:
            self._check_finite(f", {odd} is {record[odd]}")
        self.metrics.write({**record, **(own or {})})
        text = "  ".join(
            f"{short} {record[f'{name}_loss']:.2e} {record[f'{name}_accuracy']:7.2%}"
            for name, short in (("train", "train"), ("validation", "val"))
            if f"{name}_loss" in record)
        if not self.bar.disable:
            self.bar.set_postfix_str(text)
        elif not self.quiet:
            note(f"step {self.step:>6}/{self.config.steps}  {text}")

    def save(self):
        """Write the checkpoint. Raises Diverged if a parameter is not finite."""
        self._check_finite()
        arrays, meta = get_state(self.config, self.model, self.optimizer, self.step)
        checkpoint.save(self.folder / "checkpoint.npz", arrays,
                        {**meta, "seconds": time.monotonic() - self.started})

    def _check_finite(self, more=""):
        """Raise Diverged unless all parameters are finite; `more` is another reason to raise."""
        bad = nonfinite_parameters(self.model)
        if bad or more:
            what = f"{bad[0]} (and {len(bad) - 1} more) not finite" if bad else "parameters finite"
            again = "--resume" if self._has_checkpoint() else "the same command with"
            raise Diverged(f"step {self.step}: {what}{more}; {self._kept()}; try a lower --lr or "
                           f"--clip 1.0, or {again} --check to see which operation did it")

    def _has_checkpoint(self):
        return (self.folder / "checkpoint.npz").exists()

    def _kept(self):
        return "the last checkpoint is kept" if self._has_checkpoint() else "nothing was saved yet"

    def finish(self, task):
        """Write curves.png and summary.json and print the result; return the exit status."""
        self.bar.close()
        finished = self.step == self.config.steps
        if not finished:
            note(f"stopped at step {self.step} of {self.config.steps}, saved; "
                 f"go on with: --resume --out {self.folder}")
        records = read_records(self.folder / "metrics.jsonl")
        if records:
            summary = conclude(self.folder, self.config, self.model, self.step, records,
                               time.monotonic() - self.started)
            if finished and not self.quiet:
                print_result(self, task, summary)
        return self.status

    def _load(self):
        """Continue from the folder's checkpoint; return the seconds that the run has taken."""
        removed = clean_stale(self.folder)
        if removed:
            note(f"removed {len(removed)} unfinished file(s) of a killed run")
        if is_bare(self.folder):
            raise InputError(f"{self.folder}: was killed before its first checkpoint, and nothing "
                             "was learned; give the same command again without --resume")
        meta = load_checkpoint(self.folder, self.config, self.model, self.optimizer)
        self.step = meta["step"]
        _note_other_code(self.folder)
        if (self.folder / "metrics.jsonl").exists():
            dropped = truncate_after(self.folder / "metrics.jsonl", self.step)
            if dropped:
                note(f"dropped {dropped} record(s) made after the checkpoint at step "
                     f"{self.step}; they will be made again")
        return meta["seconds"]


@plain_errors()
def train(config, folder, resume=False, quiet=False, base=None, check=False, for_steps=None,
          metrics=None):
    """Train any task in `folder`, as experiments/train_gpt.py does; return the exit status.

    config   a Config; with `resume`, one from `resumed_config`
    base     parameters to start from (Trainer); they are then evaluated and saved at step 0
    metrics  {name: function(trainer) -> a number}: metrics of one's own, recorded at each
             evaluation; trainer.model, .task and .step are what they may look at

    The other arguments are Run's.
    """
    trainer = Trainer(config, base, metrics, engine="plain" if check else config.engine)
    trainer.task.prepare()
    run = Run(trainer.config, trainer.model, trainer.optimizer, folder, resume, quiet, for_steps,
              check)
    with run, trainer.engine:
        trainer.step = run.step
        if not resume and (base is not None or config.is_based):
            run.record(trainer.task.measure(trainer.engine), trainer.learning_rate(0),
                       trainer.own_metrics())
            run.save()
        for step in run.steps():
            trainer.update()
            if run.evaluation_due():
                run.record(trainer.task.measure(trainer.engine), trainer.learning_rate(step),
                           trainer.own_metrics())
        return run.finish(trainer.task)


def resumed_config(folder, given):
    """Return the Config of the run in `folder`, with the `given` options that may change.

    --backend may change, --text and --pretrained may name the new place of the same file, and a run
    with a constant schedule may get more --steps. Raises InputError for another option that differs
    from the run's.
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
class LoadedRun:
    """A run that was loaded: its settings, its model, its task, its records."""

    config: Config
    model: object
    task: object
    step: int
    records: list


def load_run(folder):
    """Load the model of a run folder, with its settings, task and records.

    Nothing in the folder is executed. Raises InputError or CheckpointError for a folder that
    `train` did not write.
    """
    config = dataclasses.replace(read_config(folder), backend="numpy", engine="plain")
    trainer = Trainer(config)
    meta = load_checkpoint(Path(folder), config, trainer.model, trainer.optimizer)
    records = read_records(Path(folder) / "metrics.jsonl")
    return LoadedRun(config, trainer.model, trainer.task, meta["step"], records)


def load_checkpoint(folder, config, model, optimizer):
    """Restore model and optimizer from a run's checkpoint; return its meta."""
    path = folder / "checkpoint.npz"
    if not path.exists():
        raise InputError(f"{path}: is missing, and the run's parameters were in it; put it back, "
                         "or start a new run with another --out")
    arrays, meta = checkpoint.load(path)
    checkpoint.check_fits(path, arrays, get_state(config, model, optimizer, 0)[0])
    counts = [meta.get(name) for name in ("step", "updates")]
    seconds = meta.get("seconds")
    if not (all(type(count) is int and 0 <= count <= config.steps for count in counts)
            and type(seconds) in (int, float) and seconds >= 0):
        raise CheckpointError(f"{path}: its step, {counts[0]!r}, or its time is missing or not of "
                              f"a run of {config.steps} steps; go back to a copy")
    set_state(config, model, optimizer, arrays, meta)
    return meta


def _note_other_code(folder):
    """Print a line if other versions than these computed the run that is resumed."""
    begun = made_by(folder)
    for name, now in versions().items():
        was = str(begun.get(name, "unknown"))[:40]
        if was != now:
            note(f"{folder}: was computed with {name} {was}, this is {now}: it continues, but "
                 "results may differ by rounding from an uninterrupted run")
            return


def _operation_of(error):
    """Return what a FloatingPointError was and where: the last line that isn't NumPy's."""
    trace, numpy = error.__traceback__, os.path.dirname(np.__file__)
    frames = []
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno,
                       trace.tb_frame.f_locals.get("self")))
        trace = trace.tb_next
    path, number, layer = next(f for f in reversed(frames) if not f[0].startswith(numpy))
    source = " ".join(linecache.getline(path, number).partition("#")[0].split())
    root = os.path.dirname(os.path.dirname(npdl.__file__)) + os.sep
    inside = "" if layer is None else f" in {type(layer).__name__}"
    return f"{error}{inside} at {path.removeprefix(root)}:{number}: {source}"


def _progress(steps, done, quiet):
    """Return a bar on a terminal; elsewhere it is disabled and records are printed as lines."""
    from tqdm import tqdm  # of the extra `train`; loading a run does without it

    return tqdm(total=steps, initial=done, unit="step", dynamic_ncols=True, smoothing=0.05,
                disable=quiet or not sys.stderr.isatty())


class StopSignals:
    """While active, Ctrl-C, SIGTERM and SIGHUP (a closing terminal) only set `asked`.

    A second Ctrl-C interrupts. A signal that is ignored, as SIGHUP by nohup, stays ignored.
    """

    def __init__(self):
        self.asked = False
        self._before = {}

    def __enter__(self):
        for number in {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
            try:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._stop)
            except ValueError:      # only the main thread may handle signals
                break
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number, frame):
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        outer = getattr(self._before[number], "__self__", None)
        if isinstance(outer, StopSignals):      # a sweep that trains in this process stops too
            outer._stop(number, frame)
