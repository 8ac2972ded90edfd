"""How much a run needs at least, from its settings alone: asked before anything of it is made."""

import os

from npdl.errors import CheckpointError, InputError
from npdl_train.process import memory

SPARE = 64 << 20            # bytes that a table of positions may take in any case
ENTRY = 250                 # bytes of a checkpoint for each array, at least: its headers and names
ITEM = {"float32": 4, "float64": 8}


def least_numbers(config, task):
    """Numbers in the matrices of the model of `config`: no more than it has."""
    if config.pretrained is not None:
        return task.architecture.size
    square = config.width * config.width
    recurrent = config.model in ("lstm", "lstm-seq2seq")
    layer = 8 * square if recurrent else (4 + 2 * config.multiplier) * square
    return config.layers * layer + task.vocab_size * config.width


def check_memory(config, task):
    """Raise InputError when the machine's memory cannot hold what the settings ask for.

    Without it the system would first be driven out of memory. What passes may still be too much.
    """
    have = memory()
    if config.backend != "numpy" or have is None:
        return
    arrays = 1 if config.adapters else 3 if config.optimizer == "sgd" else 4
    if config.pretrained is not None and config.adapters:
        arrays = 0                          # whoever reads its files looks at their size
    model = least_numbers(config, task) * ITEM[config.dtype] * arrays
    if config.pretrained is not None:
        what, smaller = "--full", "model, or train adapters"
        width, layers = task.architecture.options["d_model"], task.architecture.num_layers
    else:
        width, layers = config.width, config.layers
        what, smaller = f"--width {width} with --layers {layers}", "--width"
    _refuse(model, have, what, "the model and its optimizer", smaller)
    if config.text is not None:
        tokens = config.batch * config.block
        kept = 4 * width * layers + task.vocab_size             # numbers for each token
        _refuse(tokens * kept * ITEM[config.dtype], have,
                f"--batch {config.batch} with --block {config.block}", "a step", "--batch")
        _refuse(16 * tokens * config.eval_batches, have,
                f"--eval-batches {config.eval_batches}", "the evaluation", "--eval-batches")


def _refuse(need, have, what, whose, option):
    if need > have:
        raise InputError(f"{what}: {whose} would take {need / 2**30:,.0f} GiB of memory or more, "
                         f"this machine has {have / 2**30:,.0f}; choose a smaller {option}")


def check_file(config, task, path):
    """Raise CheckpointError when the file `path` is too small to hold the model of `config`.

    Somebody else's settings are not to be believed before their parameters are seen: the model
    is made first and takes as much memory as they say.
    """
    if not os.path.isfile(path) or config.pretrained is not None:   # its own files are looked at
        return                              # whoever reads it will say what is wrong
    size = os.path.getsize(path)
    bits = getattr(config.adapters, "bits", None)
    bits = bits if type(bits) is int and 0 < bits < 32 else 8 * ITEM[config.dtype]
    need = max(least_numbers(config, task) * bits // 8, config.layers * ENTRY)
    table = 32 * task.max_len * config.width    # positions that are computed, while they are
    if need > size or (config.model == "gpt" and table > SPARE + 40 * size):
        raise CheckpointError(f"{path}: has {size:,} bytes, too few for the model that config.json "
                              "describes: truncated, or another run's; restore it from a copy")
