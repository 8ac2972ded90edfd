"""A run in its folder: training that saves, resumes and stops on Ctrl-C.

    with Run(config, model, optimizer, folder) as run:
        for step in run.remaining_steps():
            ...                                         # one update of the model
            if run.is_evaluation_due():
                run.write_record(task.measure(engine), lr)
        status = run.finish(task)
"""

import contextlib
import dataclasses
import math
import signal
import sys
import time
from collections import namedtuple
from pathlib import Path

from npdl.backend import convert_cupy_errors, using
from npdl.cli.console import describe_missing_packages, print_note
from npdl.cli.folders import remove_stale_files
from npdl.cli.options import option_name
from npdl.errors import InputError
from npdl.files import sync_to_disk
from npdl.train import checkpoint
from npdl.train import folder as folders
from npdl.train.loop import Diverged, Trainer, find_nonfinite_parameters, parameter_l2_norm
from npdl.train.metrics import append_record, read_records, remove_records_after
from npdl.train.result import print_result
from npdl.train.task import complete_config, make_model, make_task
from npdl.train.versions import collect_versions

EXTENDABLE = ("constant",)      # schedules that do not depend on the number of steps
MAY_DIFFER = ("backend", "engine", "target", "threads")    # they change results by rounding only
MAY_MOVE = ("text", "pretrained")       # files that may move; their SHA-256 is compared
# The numbers of a record that are printed: name, text before it, format.
SHOWN = (("train_loss", "  train ", ".2e"), ("train_accuracy", " ", "7.2%"),
         ("validation_loss", "  val ", ".2e"), ("validation_accuracy", " ", "7.2%"))


class Run:
    """A training run in its folder, a context manager.

    resume     True: continue the folder's run from its last checkpoint; False: begin a new run;
               None: continue if the folder holds a run, otherwise begin
    quiet      print no progress and no result; notes still go to standard error
    for_steps  the number of updates to make now; the run is then saved and can be resumed
    status     the exit status of a script: 0, or 130 if a signal stopped the run

    Raises InputError if a new run's folder is not empty, if a resumed run has other settings, or if
    another process works in the folder. Raises CheckpointError if a file can't be read or written.
    """

    def __init__(self, config, model, optimizer, folder, resume=False, quiet=False, for_steps=None):
        if line := describe_missing_packages():
            raise InputError(line)
        self.config, self.model, self.optimizer = config, model, optimizer
        self.folder, self.quiet, self.for_steps = Path(folder), quiet, for_steps
        self.resume = folders.holds_run(folder) if resume is None else resume
        self.resume_command = ("run the same program to resume it" if resume is None else
                               f"resume it with: --resume --out {folder}")
        self.step, self.last, self.status = 0, config.steps, 0

    def __enter__(self):
        from tqdm import tqdm  # part of the extra `train`; loading a run doesn't need it

        with contextlib.ExitStack() as stack:
            self.stop = stack.enter_context(StopSignals())      # before there is a folder
            if self.resume:
                read_resumed_config(self.folder, vars(self.config))
            else:
                folders.make_run_folder(self.folder, self.config, checkpoint.collect_state(
                    self.config, self.model, self.optimizer, 0))
            stack.enter_context(folders.lock_folder(self.folder))
            self.started = time.monotonic() - (self._load_checkpoint() if self.resume else 0.0)
            folders.write_config(self.folder, self.config)
            if self.for_steps is not None:
                self.last = min(self.config.steps, self.step + self.for_steps)
            # Without a terminal there is no progress bar, and `record` prints lines.
            self.bar = stack.enter_context(tqdm(
                total=self.config.steps, initial=self.step, unit="step", dynamic_ncols=True,
                smoothing=0.05, disable=self.quiet or not sys.stderr.isatty()))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        self._stack.__exit__(*error)

    def remaining_steps(self):
        """Yield the number of each remaining update; a new run begins with 0.

        The run is saved when a checkpoint is due, after the last update, and on a stop signal.
        """
        while self.step < self.last:
            self.step += 1
            yield self.step - 1
            self.bar.update()
            stopped = self.stop.received        # read once: a later signal waits for the next step
            if stopped or self.step % self.config.save_every == 0 or self.step == self.last:
                self.save_checkpoint()
            if stopped and self.step < self.last:
                self.status = 130
                return

    def is_evaluation_due(self):
        """Return True at steps 1 to eval_first, multiples of eval_every, and the last step."""
        config, step = self.config, self.step
        return step <= config.eval_first or step % config.eval_every == 0 or step == config.steps

    def write_record(self, values, lr):
        """Append a record to the metrics: the step, `values`, the parameters' norm and `lr`.

        values is {name: number}. Raises Diverged if a number is not finite.
        """
        norm = parameter_l2_norm(self.optimizer)
        record = {"step": self.step, **values, "l2_norm": norm, "lr": lr}
        diverged = next((name for name, value in record.items() if not math.isfinite(value)), None)
        if diverged is not None:
            self._check_finite(f", {diverged} is {record[diverged]}")
        append_record(self.folder / "metrics.jsonl", record)
        text = "".join(before + format(record[name], form) for name, before, form in SHOWN
                       if name in record).lstrip()
        if not self.bar.disable:
            self.bar.set_postfix_str(text)
        elif not self.quiet:
            print_note(f"step {self.step:>6}/{self.config.steps}  {text}")

    def save_checkpoint(self):
        """Write the checkpoint. Raises Diverged if a parameter is not finite."""
        self._check_finite()
        sync_to_disk(self.folder / "metrics.jsonl")         # a checkpoint needs the records before
        arrays, meta = checkpoint.collect_state(self.config, self.model, self.optimizer, self.step,
                                                time.monotonic() - self.started)
        checkpoint.save(self.folder / "checkpoint.npz", arrays, meta)

    def _check_finite(self, reason=""):
        """Raise Diverged if a parameter is not finite, or if there is another `reason`, a text."""
        bad = find_nonfinite_parameters(self.model)
        if bad or reason:
            finding = (f"{bad[0]} holds NaN or infinity (such parameters: {len(bad)})" if bad
                       else "all parameters are finite")
            raise Diverged(f"step {self.step}: {finding}{reason}; the last checkpoint is kept; try "
                           "a lower --lr or --clip 1.0; to find the operation that overflows, use "
                           "--engine plain and python -W error::RuntimeWarning")

    def finish(self, task):
        """Write curves.png and summary.json, print the result, and return the exit status."""
        self.bar.close()
        finished = self.step == self.config.steps
        if not finished:
            print_note(f"stopped at step {self.step} of {self.config.steps}, saved; "
                       f"{self.resume_command}")
        records = read_records(self.folder / "metrics.jsonl")
        if records:
            summary = folders.write_results(self.folder, self.config, self.model, self.step,
                                            records, time.monotonic() - self.started)
            if finished and not self.quiet:
                print_result(self, task, records, summary)
        return self.status

    def _load_checkpoint(self):
        """Continue from the folder's checkpoint. Return the seconds that the run has taken."""
        if removed := remove_stale_files(self.folder):
            print_note(f"removed {len(removed)} unfinished file(s) of a killed run")
        meta = checkpoint.restore(self.folder / "checkpoint.npz", self.config, self.model,
                                  self.optimizer)
        self.step = meta["step"]
        begun = folders.read_versions(self.folder)
        for name, now in collect_versions().items():
            if (was := str(begun.get(name, "unknown"))[:40]) != now:
                print_note(f"{self.folder} was computed with {name} {was} and continues with {now};"
                           " the results may differ by rounding from those of an uninterrupted run")
                break
        # A run that begins with an evaluation repeats it if it is still at step 0.
        if dropped := remove_records_after(self.folder / "metrics.jsonl", self.step or -1):
            print_note(f"dropped {dropped} record(s) made after the checkpoint at step {self.step};"
                       " they will be computed again")
        return meta["seconds"]


@convert_cupy_errors()
def train(config, folder, resume=None, quiet=False, base=None, for_steps=None, metrics=None):
    """Train a run of any task in `folder`, or resume it, and return the exit status.

    base     {name: array}, parameters to start from; they are evaluated at step 0, too
    metrics  {name: function}; function(trainer) may read trainer.model, trainer.task and
             trainer.step, and returns a number, which is recorded at each evaluation

    The other arguments are those of Run.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(using(config.backend))
        trainer = Trainer(config, base, metrics)
        trainer.task.load_data()
        run = stack.enter_context(Run(trainer.config, trainer.model, trainer.optimizer, folder,
                                      resume, quiet, for_steps))
        stack.enter_context(trainer.engine)
        trainer.step = run.step
        if run.step == 0 and (base is not None or config.is_finetuned):
            run.write_record(trainer.measure(), trainer.learning_rate(0))
        for step in run.remaining_steps():
            trainer.update()
            if run.is_evaluation_due():
                run.write_record(trainer.measure(), trainer.learning_rate(step))
        return run.finish(trainer.task)


def read_resumed_config(folder, changes):
    """Return the Config of the run in `folder`, changed by the settings `changes`.

    The backend, engine, target and threads (MAY_DIFFER) may change. --text and --pretrained may
    name the new path of the same file. A run with a constant schedule may get more --steps. Raises
    InputError if any other setting differs from the run's.
    """
    config = folders.read_config(folder)
    config.check_setting_names(changes)
    differ = [name for name, value in changes.items() if value != getattr(config, name)]
    free = {*MAY_DIFFER, *(name for name in MAY_MOVE if getattr(config, name) is not None)}
    if config.schedule in EXTENDABLE and changes.get("steps", 0) >= config.steps:
        free.add("steps")
    fixed = next((name for name in differ if name not in free), None)
    if fixed is not None:
        advice = (". A run can be made longer only if its schedule is constant, and never shorter; "
                  "resume it without --steps" if fixed == "steps" else
                  "; resume it without this option, or start another run with another --out")
        raise InputError(f"{option_name(fixed)} {changes[fixed]}: the run in {folder} has "
                         f"{getattr(config, fixed)}{advice}")
    return dataclasses.replace(config, **changes)


# The settings, the model and the task of a run, the step of its checkpoint, and its metrics.
LoadedRun = namedtuple("LoadedRun", "config model task step records")


def load_run(folder, config=None):
    """Load the model of a run folder, with its settings, task and records.

    config  the Config of the run; needed if the model or the task is a function of the user,
            because the folder contains only the function's name

    No code of the folder is executed. Raises InputError or CheckpointError for a folder that
    `train` did not write.
    """
    config = folders.read_config(folder) if config is None else read_resumed_config(
        folder, vars(complete_config(config)))
    config = dataclasses.replace(config, backend="numpy", engine="plain")
    task = make_task(config)
    model = make_model(config, task)
    meta = checkpoint.restore(Path(folder) / "checkpoint.npz", config, model)
    return LoadedRun(config, model, task, meta["step"],
                     read_records(Path(folder) / "metrics.jsonl"))


class StopSignals:
    """While active, Ctrl-C, SIGTERM and SIGHUP (a closing terminal) only set `received`.

    A second Ctrl-C raises KeyboardInterrupt. Signals that are already ignored (such as SIGHUP under
    nohup) stay ignored.
    """

    def __init__(self):
        self.received = False
        self._before = {}

    def __enter__(self):
        for number in {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
            try:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._receive_signal)
            except ValueError:      # only the main thread may handle signals
                break
        return self

    def __exit__(self, *error):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive_signal(self, number, frame):
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.received = True
        outer = getattr(self._before[number], "__self__", None)
        if isinstance(outer, StopSignals):      # a sweep that trains in this process stops too
            outer._receive_signal(number, frame)
