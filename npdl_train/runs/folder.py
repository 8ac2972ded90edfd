"""The folder of a run, as files: its settings, its summary, its curves.

config.json       the settings, and the versions that computed them
metrics.jsonl     one record for each evaluation
checkpoint.npz    parameters, moments, step (npdl_train.runs.checkpoint)
curves.png        loss and accuracy over steps, once there are two records
summary.json      best values, the steps that reached them, wall time
"""

import os
from pathlib import Path

from npdl import adapt
from npdl.errors import InputError, NpdlError
from npdl.files import read_json, reason, write_json
from npdl_train.console import note
from npdl_train.folders import clean_stale
from npdl_train.runs.config import Config
from npdl_train.runs.curves import plot_curves
from npdl_train.runs.summary import summarise
from npdl_train.runs.versions import versions

SPARE = 8 << 20                 # bytes
FACTS = "sha256", "characters", "pretrained_sha256"             # what a text, a real model was
MADE = ("checkpoint.npz", "metrics.jsonl", "summary.json")      # by a run, beside config.json


def make_folder(folder):
    """Make the folder of a new run; InputError if it holds one or cannot be made."""
    _refuse_another(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from error


def begin(config, folder):
    """Write the settings of a new run into its folder, which this process has locked."""
    _refuse_another(folder)                     # another process may have been quicker
    clean_stale(folder)                         # of a run that was killed while it began
    try:
        (folder / "metrics.jsonl").unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from error
    write_config(folder, config)


def _refuse_another(folder):
    """Raise InputError if a folder holds a run, or what is left of one."""
    try:
        left = [name for name in MADE if os.path.lexists(folder / name)]    # config.json is older
        if not (folder / "config.json").exists():
            if left:
                raise InputError(f"--out {folder}: holds the {left[0]} of a run, but its "
                                 "config.json is missing; put that back and --resume, or choose "
                                 "another folder")
        elif not is_bare(folder):
            raise InputError(f"--out {folder}: holds a run already; go on with it by --resume, or "
                             "choose another folder")
    except OSError as error:
        raise _unusable(folder, error) from error


def _unusable(folder, error):
    return InputError(f"--out {folder}: cannot be made ({reason(error)}); choose a folder that you "
                      "may write to")


def is_bare(folder):
    """Whether the run in a folder was killed before its first checkpoint: it can only begin again.

    What has a summary has been saved, and what was merged began so: theirs was taken away.
    """
    return (not (folder / "checkpoint.npz").exists() and not (folder / "summary.json").exists()
            and not read_config(folder).merged)


def conclude(folder, trainer, records, seconds):
    """Write curves.png, then summary.json, which says that the run has all it needs; return that.

    One record is no curve, and drawing takes longer than a start. A picture that cannot be drawn
    costs no more than itself, and a line on standard error.
    """
    spare = bytearray(SPARE)            # for the rest, should the picture take all memory
    summary = {**summarise(records), "seconds": seconds, "steps": trainer.step}
    if trainer.config.is_based:
        summary["adapted"] = count(trainer.model)
    try:
        if len(records) > 1:
            plot_curves(records, folder / "curves.png", describe(trainer.config))
    except NpdlError:
        raise
    except Exception as error:                  # of matplotlib's, which have no list
        del spare
        note(f"{folder / 'curves.png'}: cannot be drawn ({reason(error)}); all else is saved")
    write_json(folder / "summary.json", summary)
    return summary


def count(model):
    """{trainable, frozen: numbers; stored_bytes; multiplies: of a forward of one token}."""
    counted = adapt.report(model)
    return {name: getattr(counted, name)
            for name in ("trainable", "frozen", "stored_bytes", "multiplies")}


def describe(config):
    """A title for the run's figures."""
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
    """GPT, LSTM or an encoder-decoder's name, or a real model's own."""
    if config.translates:
        return config.model.replace("seq2seq", "Seq2Seq").replace("lstm-", "LSTM ")
    return config.model.upper() if config.pretrained is None else stem(config.pretrained)


def stem(path):
    """The name of a model's folder or file, without its end."""
    return os.path.splitext(os.path.basename(os.path.abspath(path)))[0]


def read_config(folder):
    """The Config saved in a run folder."""
    path = Path(folder) / "config.json"
    try:
        config = Config.from_json(read_json(path)["config"])
        if None in [getattr(config, name) for name in FACTS if hasattr(config, name)]:
            raise ValueError("it does not say what its text was")
        return config
    except FileNotFoundError:
        raise InputError(f"{folder}: holds no run (config.json is missing); check the path, or "
                         "start a run there, without --resume") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError,
            OverflowError) as error:
        raise InputError(f"{path}: cannot be used ({reason(error)}); restore it from a copy "
                         "or start a new run") from error


def made_by(folder):
    """The versions (npdl_train.runs.versions) that a run's settings were written with, or {}."""
    found = read_json(Path(folder) / "config.json").get("versions")
    return found if isinstance(found, dict) else {}


def write_config(folder, config, made=None):
    """Write config.json: the settings, and what computes them (`made`, or this process)."""
    write_json(folder / "config.json", {"config": config.to_json(),
                                        "versions": made or versions()})


def default_folder(config):
    """Where a run goes when no folder is named: runs/<model>-p<p>-<operator>-seed<seed>, or
    runs/<model>-text-<file>-seed<seed>, or runs/<model>-dates-seed<seed>."""
    if config.translates:
        return os.path.join("runs", f"{config.model}-dates-seed{config.seed}")
    if config.text is not None:
        stem = os.path.splitext(os.path.basename(config.text))[0]
        return os.path.join("runs", f"{config.model}-text-{stem}-seed{config.seed}")
    names = {"+": "plus", "-": "minus", "*": "times", "/": "over"}
    operator = names.get(config.operator, "op")
    return os.path.join("runs", f"{config.model}-p{config.p}-{operator}-seed{config.seed}")
