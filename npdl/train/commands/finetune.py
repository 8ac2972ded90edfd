"""Fine-tune a run of npdl's, or a real model, with LoRA; with --bits with QLoRA.

Only the adapters are trained: small matrices that are added to the model's own, which stay as they
are. With --bits, each weight of the linear layers is stored in so many bits. The result is the
folder of a run, for ask, generate, plot and finetune --merge. --full trains every parameter of a
real model instead.

A run learns another operator, modulus or text. The new operator takes the old one's place, and the
new modulus may not be larger. A real model (GPT-2, Llama, Mistral, Qwen2: a folder with config.json
and model.safetensors, or a .gguf file) learns a text; its own files stay untouched. --merge adds
the adapters to the model: of a run it writes a run, of a real model a folder that transformers
loads.

  python -m npdl finetune runs/gpt-p31-plus-seed0 --operator - --out runs/minus
  python -m npdl finetune runs/gpt-p31-plus-seed0 --p 29 --bits 4 --block 64 --out runs/q
  python -m npdl finetune --resume --out runs/minus
  python -m npdl finetune runs/minus --merge --out runs/minus-merged
  python -m npdl finetune SmolLM2-135M --text plays.txt --rank 8 --bits 4 --out runs/plays
  python -m npdl finetune runs/plays --merge --out SmolLM2-135M-plays
"""

import dataclasses
import textwrap
from pathlib import Path

from npdl import backend
from npdl.cli.console import file_or_folder, set_description
from npdl.cli.options import add_settings, option_of
from npdl.cli.process import peak_memory
from npdl.errors import InputError
from npdl.train import folder as folders
from npdl.train import run as runs
from npdl.train.commands.train import parsed, run_options
from npdl.train.config import (
    ADAPTERS,
    ARITHMETIC,
    MACHINE,
    RECORDS,
    TEXT,
    TRAINING,
    Adapters,
    Config,
    PretrainedConfig,
    TextConfig,
    usable_cores,
)
from npdl.train.finetune import DEFAULTS, finetune_config, merge, model_config
from npdl.train.loop import Trainer
from npdl.train.metrics import read_records
from npdl.train.pretrained import Pretrained, is_model, to_huggingface


def add_arguments(p):
    """Add the options of `finetune` to an argparse parser."""
    set_description(p, __doc__, given_only=True)
    p.add_argument("run", nargs="?", default=None, type=file_or_folder,
                   help="the run or the real model to fine-tune: a folder, or a .gguf file")
    p.add_argument("--merge", action="store_true", default=False, help="do not train: write the "
                   "fine-tuned run to --out, with its adapters merged into plain matrices")
    defaults = Config(**DEFAULTS, threads=min(2, usable_cores()))
    for group, table, shown in ((ARITHMETIC, defaults, "the run's"),
                                (TEXT, TextConfig(), "none; a text or a real model needs one")):
        add_settings(p, "finetune", (group,), table, shown=shown,
                     left_out=("orders", "stratified", "block", "eval_batches"))
    real = p.add_argument_group("a real model")
    real.add_argument("--window", type=int, metavar="S", help="tokens in a window of the text "
                      f"(default: {PretrainedConfig.block})")
    real.add_argument("--eval-batches", type=int, metavar="N", help="batches of each part to "
                      f"evaluate on (default: {PretrainedConfig.eval_batches})")
    real.add_argument("--full", action="store_true", help="train every parameter, without adapters")
    real.add_argument("--pretrained", metavar="FOLDER", help="with --resume, if it has moved: "
                      "where the model is now")
    shown = ", ".join(f"{option_of(name)} {getattr(PretrainedConfig, name)}" for name in
                      ("steps", "batch", "lr", "weight_decay", "clip", "r_train", "eval_first",
                       "eval_every", "save_every", "engine", "threads"))
    real.description = textwrap.fill("its defaults are --rank 8, with --bits --block 64 --rounding "
                                     f"nearest, {shown}", 78)
    add_settings(p, "finetune", (ADAPTERS,), Adapters())
    add_settings(p, "finetune", (TRAINING, RECORDS, MACHINE), defaults)
    run_options(p, "<run>-lora, <run>-qlora or <run>-merged")


def run(options):
    """Fine-tune, resume or merge as the options say; the exit status."""
    given, out, how = parsed(options)
    resume = how.pop("resume")
    source, merging = given.pop("run"), given.pop("merge")
    names = [field.name for field in dataclasses.fields(Adapters)]
    adapters = {name: given.pop(name) for name in names if name in given}
    if (source is None) != resume:
        raise InputError("give the folder of the run to fine-tune, or --resume and --out")
    if merging:
        return merged(source, out, given | adapters, **how)
    if resume:
        return resumed(out, given, adapters, how)
    if is_model(source):
        return fresh_model(source, out, given, adapters, how)
    return fresh(source, out, given, Adapters(**adapters), how)


def fresh(source, out, given, adapters, how):
    """Fine-tune the run in `source`; `how` holds the rest that run.train takes."""
    odd = next((name for name in ("window", "eval_batches", "full", "pretrained")
                if name in given), None)
    if odd is not None:
        raise InputError(f"{option_of(odd)}: goes with a real model; {source} is a run")
    base = runs.load_run(source)
    given = {"threads": min(2, usable_cores()), **given}
    config = finetune_config(base, adapters, given, source)
    backend.use(config.backend)
    parameters = base.model.state_dict()
    if not how["quiet"]:
        print(counts(base.model, Trainer(config, parameters).model))
    suffix = "lora" if adapters.bits is None else "qlora"
    out = out or f"{source.rstrip('/')}-{suffix}"
    return runs.train(config, out, False, base=parameters, **how)


def fresh_model(source, out, given, adapters, how):
    """Fine-tune the real model in `source`."""
    config = model_config(source, adapters, given)
    kind = "full" if config.adapters is None else "lora" if config.adapters.bits is None else (
        "qlora")
    out = out or str(Path("runs") / f"{folders.stem(source)}-{kind}")
    backend.use(config.backend)
    status = runs.train(config, out, False, **how)
    return show_result(out, status, how["quiet"])


def show_result(out, status, quiet):
    """Show what a real model's run has come to, as far as it was looked at; its status."""
    if not quiet:
        records = [record for record in read_records(Path(out) / "metrics.jsonl")
                   if "validation_loss" in record]
        if records:
            print("held-out loss " + ", ".join(
                f"{record['validation_loss']:.4f} at step {record['step']}"
                for record in (records if len(records) == 1 else (records[0], records[-1]))))
        peak = peak_memory()
        if peak is not None:
            print(f"peak memory {peak / 2**20:,.0f} MiB")
    return status


def resumed(out, given, adapters, how):
    """Go on with a fine-tuning."""
    if out is None:
        raise InputError("--resume: name the fine-tuned run by --out")
    odd = next(iter(adapters), None)
    if odd is not None:
        raise InputError(f"--{odd}: the adapters of {out} are what they are; resume without it")
    config = runs.resumed_config(out, given)
    if config.adapters is None and config.pretrained is None:
        raise InputError(f"--out {out}: was not fine-tuned; resume it with {config.command}")
    backend.use(config.backend)
    status = runs.train(config, out, True, **how)
    return status if config.pretrained is None else show_result(out, status, how["quiet"])


def merged(source, out, given, quiet, **training):
    """Write a fine-tuned run without its adapters."""
    odd = next((name for name, value in {**given, **training}.items() if value is not None), None)
    if odd is not None:
        raise InputError(f"{option_of(odd)}: has no effect with --merge; leave it out")
    out = out or f"{source.rstrip('/')}-merged"
    tuned = runs.load_run(source)
    if tuned.config.pretrained is not None:
        written(tuned, out)
        if not quiet:
            print(f"the model is in {out}: transformers and `python -m npdl generate` load it")
        return 0
    adapted = tuned.model
    model = merge(source, out)
    if not quiet:
        print(counts(adapted, model, ("adapted", "merged")))
        print(f"the merged run is in {out}")
    return 0


def written(tuned, out):
    """Write the model of a run of a real one as a folder that other tools load."""
    path, task = tuned.config.pretrained, tuned.task
    to_huggingface(Pretrained(Path(path), tuned.model, task.architecture, task.weights), out)


def counts(before, after, names=("the run", "adapted")):
    """Return a table of two models' parameters, bytes, and multiplications for one token."""
    lines = [f"{'':<10}{'trainable':>12}{'frozen':>12}{'stored bytes':>14}{'multiplies':>12}"]
    for name, model in zip(names, (before, after), strict=True):
        c = folders.count(model)
        lines.append(f"{name:<10}{c['trainable']:>12,}{c['frozen']:>12,}{c['stored_bytes']:>14,}"
                     f"{c['multiplies']:>12,}")
    return "\n".join(lines)
