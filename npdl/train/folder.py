"""The folder of a run, and its files:

config.json       the settings, and the versions that computed them
metrics.jsonl     one record for each evaluation
checkpoint.npz    parameters, moments, step (npdl.train.checkpoint)
curves.png        loss and accuracy over steps, once there are two records
summary.json      best values, the steps that reached them, wall time
"""

import contextlib
import dataclasses
import os
from pathlib import Path

from npdl import adapt
from npdl.cli.console import print_note
from npdl.cli.folders import create_folder_atomically
from npdl.errors import InputError
from npdl.files import read_json, reason, write_json
from npdl.train import checkpoint
from npdl.train.config import Config
from npdl.train.curves import plot_curves
from npdl.train.summary import summarise
from npdl.train.versions import collect_versions

try:
    import fcntl
except ImportError:             # on Windows, folders are not locked
    fcntl = None

MODELS = {"gpt": "GPT", "lstm": "LSTM", "seq2seq": "Seq2Seq", "lstm-seq2seq": "LSTM Seq2Seq"}


class FolderInUse(InputError):
    """A run's folder is locked by another process."""


@contextlib.contextmanager
def lock_folder(folder):
    """Lock a run's folder against other processes until the block ends.

    The system releases the lock if the process is killed. Raises FolderInUse if another process has
    locked the folder.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(f"{folder}: another process works here; wait until it has finished, "
                              "or choose another folder") from None
        yield
    finally:
        os.close(handle)


def make_run_folder(folder, config, state):
    """Create the folder of a run with its first files, atomically.

    `state` is the (arrays, meta) of the first checkpoint. Raises InputError if the folder is not
    empty, or can't be created.
    """
    if holds_run(folder):
        raise InputError(f"--out {folder} holds a run already; continue it by --resume, or choose "
                         "another folder")
    with create_folder_atomically(folder) as temporary:
        write_config(temporary, config)
        (temporary / "metrics.jsonl").touch()
        checkpoint.save(temporary / "checkpoint.npz", *state)


def holds_run(folder):
    """Return True if a folder holds a run."""
    return os.path.lexists(Path(folder) / "config.json")


def is_finished(folder, config):
    """Return True if the run has made all its steps and written its summary."""
    try:
        return read_json(Path(folder) / "summary.json")["steps"] >= config.steps
    except (OSError, ValueError, KeyError, TypeError):
        return False


def write_results(folder, config, model, step, records, seconds):
    """Write curves.png (if it can be drawn) and then summary.json; return the summary."""
    summary = {**summarise(records), "seconds": seconds, "steps": step}
    if config.is_finetuned:
        summary["adapted"] = dataclasses.asdict(adapt.make_report(model))
    try:
        if len(records) > 1:
            plot_curves({make_run_title(config): [records]}, folder / "curves.png")
    except Exception as error:                  # matplotlib documents no list of its errors
        print_note(f"{folder / 'curves.png'} cannot be drawn ({reason(error)}); everything else "
                   "is saved")
    write_json(folder / "summary.json", summary)
    return summary


def make_run_title(config):
    """Return a title for the run's figures."""
    return f"{describe_model_and_data(config)}, seed {config.seed}"


def describe_model_and_data(config):
    """Return the model and the data of a run, in words."""
    model = (MODELS.get(config.model, str(config.model)) if config.pretrained is None
             else get_file_stem(config.pretrained))
    if config.translates or config.task is not None:
        return f"{model}, {config.task or 'dates'}"
    if config.adapters is not None:
        model += ", LoRA" if config.adapters.bits is None else ", QLoRA"
    if config.pretrained is not None:
        return f"{model}, {os.path.basename(config.text)}"
    if config.text is not None:
        data = f"{os.path.basename(config.text)}, block {config.block}"
    else:
        q = "" if config.q in (None, config.p) else f", q={config.q}"
        data = f"{config.operator} mod {config.p}{q}"
    return f"{model}, {data}, r_train={config.r_train:g}"


def get_file_stem(path):
    """Return the name of a file or folder without its suffix."""
    return os.path.splitext(os.path.basename(os.path.abspath(path)))[0]


def read_config(folder):
    """Return the Config saved in a run folder."""
    path = Path(folder) / "config.json"
    try:
        config = Config.from_json(read_json(path)["config"])
        for name in ("sha256", "characters", "pretrained_sha256"):
            if getattr(config, name, "") is None:
                raise ValueError(f"{name} is missing")
        return config
    except (FileNotFoundError, NotADirectoryError, KeyError):
        raise InputError(f"{folder} holds no run (its config.json is missing, or not that of a "
                         "run); check the path") from None
    except (OSError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(f"{path} cannot be used ({reason(error)}); restore it from a copy "
                         "or start a new run") from error


def read_versions(folder):
    """Return the versions in config.json (npdl.train.versions), or {} if there are none."""
    saved = read_json(Path(folder) / "config.json").get("versions")
    return saved if isinstance(saved, dict) else {}


def write_config(folder, config):
    """Write config.json: the settings, and the versions that compute the run."""
    write_json(folder / "config.json", {"config": config.to_json(), "versions": collect_versions()})


def choose_default_folder(config):
    """Return the default folder of a run: runs/<model>-<data>-seed<seed>."""
    names = {"+": "plus", "-": "minus", "*": "times", "/": "over"}
    if config.translates:
        data = "dates"
    elif config.text is not None:
        data = f"text-{get_file_stem(config.text)}"
    else:
        data = f"p{config.p}-{names.get(config.operator, 'op')}"
    return os.path.join("runs", f"{config.model}-{data}-seed{config.seed}")
