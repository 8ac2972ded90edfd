"""Many runs: each a folder named by its settings, each done once, by as many workers as there are.

A worker locks a folder (npdl_train.runs.lock) before it trains there, so that several launchers,
on one machine or many that share the folder, divide the runs among them. Finished runs are passed
over, unfinished ones resumed: to run the same command again is the recovery.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import joblib
from tqdm import tqdm

from npdl.backend import using
from npdl.errors import InputError
from npdl.files import is_file, parse_json, reason
from npdl_train.console import guarded, note
from npdl_train.process import import_paths
from npdl_train.runs.config import Config
from npdl_train.runs.folder import is_bare
from npdl_train.runs.lock import lock
from npdl_train.runs.metrics import read_records
from npdl_train.runs.run import read_config, train
from npdl_train.runs.summary import read_summary

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def folder_of(root, config):
    """The folder of a run: `root`/<hash of everything that says what it computes, not where>."""
    settings = {**config.to_json(), "backend": None, "compute": "shared"}   # once a setting
    text = json.dumps(settings, sort_keys=True)
    return Path(root) / hashlib.sha256(text.encode()).hexdigest()[:16]


def steps_done(folder, config):
    """How many steps a run has recorded; config.steps once it is finished."""
    path, most = Path(folder) / "metrics.jsonl", config.steps - (not is_finished(folder, config))
    try:
        if not is_file(path):
            return 0
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
            lines = file.read().split(b"\n")[:-1]
        return min(int(parse_json(lines[-1])["step"]), most)
    except (OSError, ValueError, LookupError, TypeError):
        return 0


def is_finished(folder, config):
    """True when the run has made all its steps and written its summary."""
    try:
        return read_summary(Path(folder) / "summary.json")["steps"] >= config.steps
    except (InputError, TypeError):
        return False


def work(config, folder):
    """Train one run in `folder`, from where it stands; return "finished", "taken" (another process
    works there) or "stopped".

    A run may go on with another backend than it began with: config.json then names the last one.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made ({error.strerror}); choose a folder that you "
                         "may write to") from error
    if is_finished(folder, config):
        return "finished"
    with lock(folder) as is_mine:
        if is_finished(folder, config):         # by another process just now
            return "finished"
        if not is_mine:
            return "taken"
        begun = (folder / "config.json").exists()
        with using(config.backend):
            if begun:
                _check_alike(config, folder)
            status = train(config, folder, begun and not is_bare(folder), quiet=True,
                           is_locked=True)
    return "finished" if status == 0 else "stopped"


def _check_alike(config, folder):
    """Make sure that the run in `folder` is that of `config`, perhaps begun elsewhere."""
    if dataclasses.replace(read_config(folder), backend=config.backend) != config:
        raise InputError(f"{folder}: holds a run with other settings; move it away")


class Processes:
    """The processes that this one has started for runs, so that Ctrl-C can stop them."""

    def __init__(self):
        self.lock, self.running, self.stopping = threading.Lock(), set(), False

    def run(self, command, environment):
        """The ended process of a command and what it wrote, (process, output, errors).

        None when the sweep is being stopped. A session of its own keeps a terminal's Ctrl-C from
        it: `stop` tells it, once.
        """
        with self.lock:
            if self.stopping:
                return None
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, start_new_session=True,
                                       encoding="utf-8", errors="replace")
            self.running.add(process)
        try:
            return process, *process.communicate()
        except KeyboardInterrupt:               # one job at a time runs in the main thread
            process.terminate()
            process.communicate()
            raise
        finally:
            with self.lock:
                self.running.discard(process)

    def stop(self):
        """Let every process save and end, start no other, and wait for them."""
        with self.lock:
            self.stopping, asked = True, list(self.running)
        for process in asked:
            process.send_signal(signal.SIGTERM)
        for process in asked:
            process.wait()


PROCESSES = Processes()


def _work_in_a_process(settings, folder):
    """`work` in a process of its own, with one BLAS thread; returns (outcome, message).

    A run that crashes takes no other run with it, and every backend of joblib computes alike.
    """
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), "PYTHONPATH": import_paths()}
    command = [sys.executable, "-m", "npdl_train.runs.sweep", json.dumps(settings), str(folder)]
    done = PROCESSES.run(command, environment)
    if done is None:
        return "stopped", ""
    process, output, errors = done
    if process.returncode == 0:
        return (output.strip().splitlines() or ["failed"])[-1], ""
    if process.returncode < 0:
        return "failed", f"ended by signal {-process.returncode}; run the sweep again to resume it"
    return "failed", (errors.strip().splitlines() or [f"exit status {process.returncode}"])[-1]


def sweep(configs, root, jobs=2, backend="threading", address=None, quiet=False):
    """Make every run of `configs`; return {outcome: [folder, ...]}.

    configs  their `backend` says where each is computed: "cupy" for this machine's GPU
    jobs     runs at a time, each a process with one BLAS thread
    backend  "threading" on this machine, or "dask" with the scheduler's `address`; the workers
             of a cluster must see `root` under the same path
    Raises InputError when dask is missing or the number of jobs is not positive. On Ctrl-C,
    SIGTERM or SIGHUP the runs on this machine save and end, then KeyboardInterrupt goes on.
    """
    if jobs < 1:
        raise InputError(f"--jobs {jobs}: must be 1 or more")
    folders = [folder_of(root, config) for config in configs]
    with (_joblib_backend(backend, address, jobs), _progress(configs, folders, quiet),
          _interrupted_by_all()):
        PROCESSES.stopping = False
        try:
            results = joblib.Parallel(batch_size=1)(
                joblib.delayed(_work_in_a_process)(config.to_json(), str(folder.resolve()))
                for config, folder in zip(configs, folders, strict=True)
            )
        except KeyboardInterrupt:
            PROCESSES.stop()
            raise
    outcomes = {}
    for folder, (outcome, message) in zip(folders, results, strict=True):
        outcomes.setdefault(outcome, []).append(folder)
        if message:
            note(f"{folder}: {message}")
    return outcomes


@contextlib.contextmanager
def _interrupted_by_all():
    """The first SIGTERM or SIGHUP (unless it is ignored) is as Ctrl-C: KeyboardInterrupt."""
    before, told = {}, []

    def tell(number, frame):
        told.append(number)
        if len(told) == 1:                      # a closing terminal may send both, or one twice
            raise KeyboardInterrupt

    with contextlib.suppress(ValueError):       # not the main thread: another one handles signals
        for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, tell)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _joblib_backend(backend, address, jobs):
    if backend != "dask":
        with joblib.parallel_config(backend="threading", n_jobs=jobs):
            yield
        return
    if address is None:
        raise InputError("--backend dask: name the scheduler by --address tcp://host:port")
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("--backend dask: dask is missing; pip install distributed") from error
    try:
        client = Client(address)
    except (ValueError, TypeError, OSError) as error:       # OSError: nobody answers in time
        raise InputError(f"--address {address}: cannot be reached ({reason(error)}); give a "
                         "scheduler's, such as tcp://host:8786") from error
    with client, joblib.parallel_config(backend="dask"):
        yield


@contextlib.contextmanager
def _progress(configs, folders, quiet):
    """A bar over the steps of all runs, with the time left."""
    def count():
        return sum(map(steps_done, folders, configs))

    with tqdm(total=sum(config.steps for config in configs), initial=count(), unit="step",
              disable=True if quiet else None, smoothing=0.02, dynamic_ncols=True,
              mininterval=2) as bar:
        def advance():
            bar.update(count() - bar.n)
            finished = sum(map(is_finished, folders, configs))
            bar.set_postfix_str(f"{finished}/{len(configs)} runs finished")

        with meanwhile(advance, 2.0):
            yield


@contextlib.contextmanager
def meanwhile(action, seconds):
    """Call `action()` every `seconds`, in a thread, until the block ends."""
    stop = threading.Event()

    def repeat():
        while not stop.wait(seconds):
            action()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def load_records(root, config):
    """The records of a finished run, or None while it is not."""
    folder = folder_of(root, config)
    return read_records(folder / "metrics.jsonl") if is_finished(folder, config) else None


def main(arguments=None):
    """The process of one run: settings as JSON, and its folder."""
    parser = argparse.ArgumentParser(prog="npdl_train.runs.sweep")
    parser.add_argument("settings")
    parser.add_argument("folder")
    options = parser.parse_args(arguments)

    def train_one():
        print(work(Config.from_json(json.loads(options.settings)), options.folder))
        return 0

    signal.signal(signal.SIGTERM, signal.default_int_handler)      # so that a lock is given back
    return guarded(parser.prog, train_one)


if __name__ == "__main__":
    sys.exit(main())
