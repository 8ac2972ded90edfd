"""Fine-tune a run of npdl, or a real model, with LoRA or (with --bits) QLoRA.

Only the adapters are trained. These are small matrices whose product is added to the matrices of
the model, which don't change. With --bits, the weights of the linear layers are stored with that
number of bits. With --full, every parameter of a real model is trained, without adapters. The
result is the folder of a run, for ask, generate and plot.

A run is fine-tuned on another operator, modulus or text. The new operator replaces the old one, and
the new modulus can't be larger. A real model is fine-tuned on a text. It is a folder with
config.json and model.safetensors of a GPT-2, Llama, Mistral, Qwen2 or Qwen3, or a .gguf file of a
Llama or Qwen2; its files don't change. --merge adds the adapters to a real model, and writes it as
a folder that the library transformers loads.

  python -m npdl finetune runs/gpt-p31-plus-seed0 --operator - --out runs/minus
  python -m npdl finetune runs/gpt-p31-plus-seed0 --p 29 --bits 4 --block 64 --out runs/q
  python -m npdl finetune --resume --out runs/minus
  python -m npdl finetune SmolLM2-135M --text plays.txt --rank 8 --bits 4 --out runs/plays
  python -m npdl finetune runs/plays --merge --out SmolLM2-135M-plays
"""

import textwrap

from npdl.cli.console import checked_path_text, parse_positive, print_note, set_description
from npdl.cli.options import add_setting_options, option_name
from npdl.errors import InputError
from npdl.train import folder as folders
from npdl.train import run as runs
from npdl.train.commands.train import THREADS, add_process_options, split_options
from npdl.train.config import ARITHMETIC, TEXT, Adapters, Config, PretrainedConfig, TextConfig
from npdl.train.pretrained import is_real_model, to_huggingface

# Defaults of a fine-tuning. Adapters have few parameters, so they take a larger learning rate than
# the whole model. Weight decay keeps them small, and so the result near the base model.
DEFAULTS = {"steps": 2000, "batch": 512, "lr": 3e-3, "weight_decay": 0.1, "clip": None,
            "eval_first": 0}
MODEL_ADAPTERS = {"rank": 8}                                # of a real model
MODEL_QUANTIZED = {"block": 64, "rounding": "nearest"}      # smaller errors than the defaults
# Settings that a fine-tuning takes from its run.
INHERITED = ("model", "layers", "width", "heads", "multiplier", "bias", "norm", "norm_bias",
             "activation", "positions", "tied", "dropout", "dtype", "r_train", "p", "operator",
             "orders", "stratified", "characters", "block", "eval_batches")


def add_arguments(p):
    """Add the options of `finetune` to an argparse parser."""
    set_description(p, __doc__, omit_defaults=True)
    p.add_argument("run", nargs="?", default=None, type=checked_path_text,
                   help="the run or the real model to fine-tune: a folder, or a .gguf file")
    p.add_argument("--merge", action="store_true", default=False, help="do not train: write the "
                   "fine-tuned real model to --out, with its adapters merged into its matrices")
    defaults = Config(**DEFAULTS, threads=THREADS)
    for group, table, default_text in (
            (ARITHMETIC, defaults, "the run's"),
            (TEXT, TextConfig(), "none; needed for texts and real models")):
        add_setting_options(p, "finetune", (group,), table, default_text=default_text,
                            left_out=("orders", "stratified", "block", "eval_batches"))
    real = p.add_argument_group("a real model")
    real.add_argument("--window", type=parse_positive, metavar="S", help="tokens in a window of "
                      f"the text (default: {PretrainedConfig.block})")
    real.add_argument("--eval-batches", type=parse_positive, metavar="N", help="batches of "
                      "training and of validation text to evaluate on (default: "
                      f"{PretrainedConfig.eval_batches})")
    real.add_argument("--full", action="store_true", help="train every parameter, without adapters")
    real.add_argument("--pretrained", metavar="FOLDER", help="with --resume: the path of the "
                      "model, if it was moved")
    shown = ", ".join(f"{option_name(name)} {getattr(PretrainedConfig, name)}" for name in
                      ("steps", "batch", "lr", "weight_decay", "clip", "r_train", "eval_first",
                       "eval_every", "save_every", "engine", "threads"))
    real.description = textwrap.fill(f"its defaults are --rank 8, {shown}; with --bits, "
                                     "also --block 64 --rounding nearest", 78)
    add_setting_options(p, "finetune", ("adapters",), Adapters())
    add_setting_options(p, "finetune", ("training", "records", "machine"), defaults)
    add_process_options(p, "<run>-lora, <run>-qlora or <run>-merged")


def run(options):
    """Fine-tune, resume or merge according to the options, and return the exit status."""
    overrides, out, train_options = split_options(options)
    resume = train_options.pop("resume")
    source, merging = overrides.pop("run"), overrides.pop("merge")
    adapters = {name: overrides.pop(name) for name in vars(Adapters()) if name in overrides}
    if merging and resume:
        raise InputError("--resume has no effect with --merge; leave it out, and name the "
                         "fine-tuned run")
    if (source is None) != resume:
        raise InputError("give the folder of the run to fine-tune, or --resume with --out, "
                         "but not both")
    if merging:
        return write_merged_model(source, out, overrides | adapters, **train_options)
    base = None
    if resume:
        config = read_finetune_config(out, overrides, adapters)
    elif is_real_model(source):
        config = make_pretrained_config(source, adapters, overrides)
    else:
        config, base = make_config_and_base(source, overrides, Adapters(**adapters),
                                            train_options["quiet"])
    if out is None:
        kind = "full" if config.adapters is None else "qlora" if config.adapters.bits else "lora"
        out = (f"{source.rstrip('/')}-{kind}" if config.pretrained is None
               else f"runs/{folders.get_file_stem(source)}-{kind}")
    return runs.train(config, out, resume, base=base, **train_options)


def make_finetune_config(run, adapters, overrides, run_name="the run"):
    """Return the Config of a fine-tuning of `run` (load_run) with `adapters`.

    Settings that are not in `overrides` come from the run (INHERITED) or from DEFAULTS. `run_name`
    is used in messages. Raises InputError if the run has adapters already, if its vocabulary
    lacks numbers that the task needs, and for settings that the run's kind of task doesn't have.
    """
    base = run.config
    if base.translates:
        raise InputError(f"{run_name} is a run of an encoder-decoder, which can't be fine-tuned; "
                         "give a run of a GPT or an LSTM")
    if base.pretrained is not None:
        raise InputError(f"{run_name} is a run of a real model; write the model into a folder "
                         "(--merge) and fine-tune that folder")
    if base.adapters is not None:
        raise InputError(f"{run_name} has adapters already; fine-tune the original run, which has "
                         "none")
    settings = {name: getattr(base, name) for name in INHERITED if hasattr(base, name)}
    if base.text is None:
        if "text" in overrides:
            raise InputError(f"--text: {run_name} learned arithmetic, so it can't be fine-tuned on "
                             "a text; give a run of a text, or a real model")
        settings |= {"numbers": run.task.vocabulary.size - 5}
        settings |= {} if "p" in overrides else {"q": base.q}
    elif "text" not in overrides:
        raise InputError("--text is missing; name the text to fine-tune on")
    else:
        settings["batch"] = base.batch
    config = type(base)(**{**DEFAULTS, **settings, **overrides, "adapters": adapters})
    for name in ("p", "q") if base.text is None else ():
        value = getattr(config, name)
        if value is not None and value > config.numbers:
            raise InputError(f"--{name} {value}: the run's vocabulary has the {config.numbers} "
                             f"numbers 0 to {config.numbers - 1}; choose at most {config.numbers}")
    return config


def make_pretrained_config(path, adapters, overrides):
    """Return the Config of a fine-tuning of the real model in `path`.

    `adapters` and `overrides` are the options, {name: value}. Raises InputError for options that a
    real model doesn't have.
    """
    overrides = dict(overrides)
    full, window = overrides.pop("full", False), overrides.pop("window", PretrainedConfig.block)
    PretrainedConfig.check_setting_names(overrides)
    if "pretrained" in overrides:
        raise InputError("--pretrained is only for --resume; leave it out, because the model is "
                         "named already")
    if full and adapters:
        raise InputError(f"--{next(iter(adapters))} is an option of adapters, and --full trains "
                         "without adapters; leave one of them out")
    quantized = MODEL_QUANTIZED if adapters.get("bits") is not None else {}
    chosen = None if full else Adapters(**{**MODEL_ADAPTERS, **quantized, **adapters})
    return PretrainedConfig(**{**overrides, "block": window, "pretrained": str(path),
                               "adapters": chosen})


def make_config_and_base(source, overrides, adapters, quiet):
    """Return the Config of a fine-tuning of the run in `source`, and the run's parameters."""
    for name in ("full", "window", "pretrained"):
        if name in overrides:
            raise InputError(f"{option_name(name)} is for a real model, but {source} is a run; "
                             "leave it out")
    base = runs.load_run(source)
    config = make_finetune_config(base, adapters, {"threads": THREADS, **overrides}, source)
    if not quiet and base.config.text is None and not overrides.keys() & {"p", "q", "operator"}:
        print_note("--operator and --p are not given, so the adapters learn the same equations as "
                   f"{source}")
    return config, base.model.state_dict()


def read_finetune_config(out, overrides, adapters):
    """Return the Config of the fine-tuning in `out`, changed by the settings `overrides`."""
    if out is None:
        raise InputError("--resume needs the folder of the fine-tuned run; give it with --out")
    if adapters:
        raise InputError(f"--{next(iter(adapters))} can't change the adapters of {out}; resume "
                         "without it")
    config = runs.read_resumed_config(out, overrides)
    if not config.is_finetuned:
        raise InputError(f"--out {out} was not fine-tuned; resume it with {config.command}")
    return config


def write_merged_model(source, out, overrides, quiet, **training):
    """Write the fine-tuned real model of a run into a folder that other tools can load."""
    for name, value in {**overrides, **training}.items():
        if value is not None:
            raise InputError(f"{option_name(name)} has no effect with --merge; leave it out")
    tuned = runs.load_run(source)
    out = out or f"{source.rstrip('/')}-merged"
    if tuned.config.pretrained is None:
        raise InputError(f"{source} is not a run of a real model; npdl.adapt.merge_lora merges "
                         "the adapters of npdl's own models")
    tuned.task.pretrained.model = tuned.model
    to_huggingface(tuned.task.pretrained, out)
    if not quiet:
        print(f"the model is in {out}: transformers and `python -m npdl generate` load it")
    return 0
