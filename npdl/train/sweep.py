"""Train many runs, several at a time, each in a folder whose name depends on the settings.

Finished runs are skipped and unfinished ones are resumed. So after an interruption, repeat the same
sweep to complete it. Several sweeps on one machine may share a folder.
"""

import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
from pathlib import Path

import joblib
from tqdm import tqdm

from npdl.cli.console import print_note
from npdl.errors import InputError
from npdl.files import reason
from npdl.train.folder import FolderInUse, is_finished
from npdl.train.metrics import read_records
from npdl.train.run import StopSignals, train


def sweep(configs, root, jobs=2, quiet=False):
    """Train every run of `configs`, `jobs` at a time; return {outcome: [folder, ...]}.

    The outcomes are "finished", "failed", "stopped" (by a signal) and "in use" (another process
    trains in the folder). Each run is computed in its own process, by joblib, and on the backend of
    its Config ("cupy" for the GPU of this machine). For a cluster, call this inside
    `joblib.parallel_config(backend="dask")`, with a `root` that has the same path on all machines.
    After Ctrl-C or SIGTERM, the runs on this machine are saved and end. Then the function raises
    KeyboardInterrupt.
    """
    if jobs < 1:
        raise InputError(f"jobs = {jobs}; it must be 1 or more")
    folders = [get_run_folder(root, config).resolve() for config in configs]
    outcomes = {}
    with _StopWorkers() as stop:
        tasks = (joblib.delayed(_train_run)(config, folder, os.getpid())
                 for config, folder in zip(configs, folders, strict=True) if not stop.received)
        # A signal would end a worker without a run, and joblib would then kill the other workers.
        jobs = max(1, min(jobs, len(configs)))
        parallel = joblib.Parallel(n_jobs=jobs, batch_size=1, pre_dispatch=jobs,
                                   return_as="generator_unordered")
        try:
            for folder, outcome, message in tqdm(parallel(tasks), total=len(configs), unit="run",
                                                 disable=True if quiet else None):
                outcomes.setdefault(outcome, []).append(folder)
                if message:
                    print_note(f"{folder}: {message}")
        except Exception:               # joblib raises it if a signal has ended a worker
            if not stop.received:
                raise
    if stop.received:
        raise KeyboardInterrupt
    return {outcome: sorted(group, key=folders.index) for outcome, group in outcomes.items()}


class _StopWorkers(StopSignals):
    """StopSignals (npdl.train.run) that pass a signal on to the worker processes as SIGTERM."""

    def _receive_signal(self, number, frame):
        if not self.received:
            for process in multiprocessing.active_children():
                process.terminate()
        super()._receive_signal(number, frame)


def _train_run(config, folder, parent_pid):
    """Train or resume one run; return (folder, outcome, message).

    In a worker process SIGINT is ignored, because the parent process passes every signal on as
    SIGTERM. Between two runs, SIGTERM has no effect.
    """
    if os.getpid() != parent_pid:
        with contextlib.suppress(ValueError):           # a thread of a dask worker
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        if is_finished(folder, config):
            return folder, "finished", ""
        status = train(config, folder, quiet=True)
        return folder, "finished" if status == 0 else "stopped", ""
    except FolderInUse:
        return folder, "in use", ""
    except Exception as error:          # a run that fails doesn't stop the others
        return folder, "failed", reason(error)


def get_run_folder(root, config):
    """Return the folder of a run: `root`/<hash of all settings except the backend>."""
    text = json.dumps({**config.to_json(), "backend": None}, sort_keys=True)
    return Path(root) / hashlib.sha256(text.encode()).hexdigest()[:16]


def load_sweep_metrics(root, config):
    """Return the records of the run of `config` in a sweep, or None if the run isn't finished."""
    folder = get_run_folder(root, config)
    return read_records(folder / "metrics.jsonl") if is_finished(folder, config) else None
