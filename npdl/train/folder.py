"""The folder of a run, as files: its settings, its summary, its curves.

config.json       the settings, and the versions that computed them
metrics.jsonl     one record for each evaluation
checkpoint.npz    parameters, moments, step (npdl.train.checkpoint)
curves.png        loss and accuracy over steps, once there are two records
summary.json      best values, the steps that reached them, wall time
"""

import contextlib
import os
from pathlib import Path

from npdl import adapt
from npdl.cli.console import note
from npdl.cli.folders import clean_stale
from npdl.errors import InputError, NpdlError
from npdl.files import read_json, reason, write_json
from npdl.train.config import Config
from npdl.train.curves import plot_curves
from npdl.train.summary import summarise
from npdl.train.versions import versions

try:
    import fcntl
except ImportError:             # Windows: there, nothing keeps two processes out of one folder
    fcntl = None

READ_FROM_DATA = "sha256", "characters", "pretrained_sha256"
MADE = ("checkpoint.npz", "metrics.jsonl", "summary.json")      # by a run, after config.json


class FolderInUse(InputError):
    """Another process works in a run's folder."""


@contextlib.contextmanager
def locked(folder):
    """Keep every other process out of a run's folder until the block ends.

    The system releases the lock when this process ends, in whatever way. Raises FolderInUse if
    another process works in the folder.
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
        except OSError as error:
            raise InputError(f"{folder}: cannot be locked ({reason(error)}); choose a folder on "
                             "another disk") from error
        yield
    finally:
        os.close(handle)


def make_folder(folder):
    """Create the folder of a new run; InputError if it holds one or can't be created."""
    with _usable(folder):
        _refuse_another(folder)
        folder.mkdir(parents=True, exist_ok=True)


def begin(config, folder):
    """Write the settings of a new run into its folder, which this process has locked."""
    with _usable(folder):
        _refuse_another(folder)                 # another process may have been quicker
        clean_stale(folder)
        (folder / "metrics.jsonl").unlink(missing_ok=True)
    write_config(folder, config)


def _refuse_another(folder):
    """Raise InputError if a folder holds a run, or files of one."""
    files = [name for name in MADE if os.path.lexists(folder / name)]
    if not (folder / "config.json").exists():
        if files:
            raise InputError(f"--out {folder}: holds the {files[0]} of a run without its "
                             "config.json; put that back and --resume, or choose another folder")
    elif not is_bare(folder):
        raise InputError(f"--out {folder}: holds a run already; continue it by --resume, or choose "
                         "another folder")


@contextlib.contextmanager
def _usable(folder):
    try:
        yield
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be created ({reason(error)}); choose a folder "
                         "that you may write to") from error


def is_bare(folder):
    """Return True if the run was killed before its first checkpoint, so that it has to restart.

    A run with a summary has been saved, and a merged run began with a checkpoint; if these have no
    checkpoint, somebody has removed it.
    """
    return (not (folder / "checkpoint.npz").exists() and not (folder / "summary.json").exists()
            and not read_config(folder).merged)


def conclude(folder, config, model, step, records, seconds):
    """Write curves.png and then summary.json; return the summary.

    If the curves can't be drawn, a line on standard error says so.
    """
    summary = {**summarise(records), "seconds": seconds, "steps": step}
    if config.is_based:
        summary["adapted"] = count(model)
    try:
        if len(records) > 1:
            plot_curves(records, folder / "curves.png", describe(config))
    except NpdlError:
        raise
    except Exception as error:                  # matplotlib documents no list of its errors
        note(f"{folder / 'curves.png'}: cannot be drawn ({reason(error)}); all else is saved")
    write_json(folder / "summary.json", summary)
    return summary


def count(model):
    """Return {trainable, frozen: parameters; stored_bytes; multiplies: of one token's forward}."""
    counted = adapt.report(model)
    return {name: getattr(counted, name)
            for name in ("trainable", "frozen", "stored_bytes", "multiplies")}


def describe(config):
    """Return a title for the run's figures."""
    model = model_name(config)
    if config.translates:
        return f"{model}, dates, seed {config.seed}"
    if config.adapters is not None:
        model += ", LoRA" if config.adapters.bits is None else ", QLoRA"
    if config.pretrained is not None:
        return f"{model}, {os.path.basename(config.text)}, seed {config.seed}"
    if config.text is not None:
        task = f"{os.path.basename(config.text)}, block {config.block}"
    else:
        q = "" if config.q in (None, config.p) else f", q={config.q}"
        task = f"{config.operator} mod {config.p}{q}"
    return f"{model}, {task}, r_train={config.r_train:g}, seed {config.seed}"


def model_name(config):
    """Return GPT, LSTM, an encoder-decoder's name, or a real model's own name."""
    if config.translates:
        return config.model.replace("seq2seq", "Seq2Seq").replace("lstm-", "LSTM ")
    return config.model.upper() if config.pretrained is None else stem(config.pretrained)


def stem(path):
    """Return the name of a file or folder without its suffix."""
    return os.path.splitext(os.path.basename(os.path.abspath(path)))[0]


def read_config(folder):
    """Return the Config saved in a run folder."""
    path = Path(folder) / "config.json"
    try:
        config = Config.from_json(read_json(path)["config"])
        if None in [getattr(config, name) for name in READ_FROM_DATA if hasattr(config, name)]:
            raise ValueError("the digest or the characters of its text are missing")
        return config
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{folder}: holds no run (config.json is missing); check the path"
                         ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError,
            OverflowError) as error:
        raise InputError(f"{path}: cannot be used ({reason(error)}); restore it from a copy "
                         "or start a new run") from error


def made_by(folder):
    """Return the versions that a run's settings were written with, or {}."""
    found = read_json(Path(folder) / "config.json").get("versions")
    return found if isinstance(found, dict) else {}


def write_config(folder, config):
    """Write config.json: the settings, and the versions that compute the run."""
    write_json(folder / "config.json", {"config": config.to_json(), "versions": versions()})


def default_folder(config):
    """Return the folder of a run for which none was named: runs/<model>-<data>-seed<seed>."""
    names = {"+": "plus", "-": "minus", "*": "times", "/": "over"}
    if config.translates:
        data = "dates"
    elif config.text is not None:
        data = f"text-{stem(config.text)}"
    else:
        data = f"p{config.p}-{names.get(config.operator, 'op')}"
    return os.path.join("runs", f"{config.model}-{data}-seed{config.seed}")
