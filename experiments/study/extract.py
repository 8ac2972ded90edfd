"""What question 8 needs of trained GPTs, as a small file without weights.

  python experiments/study/extract.py RUN...     writes results/attention.json

RUN is the folder of a GPT of modular addition with two operands, finished or not. Runs that are
already in the file stay, unless the same one (model, seed, settings, step) is given again.
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from npdl.backend import to_host
from npdl.errors import InputError
from npdl.files import write_atomically
from npdl.models.gpt import attentions
from npdl_train.console import OneLineParser, guarded
from npdl_train.runs.config import Config
from npdl_train.runs.engine import Batch, PlainEngine
from npdl_train.runs.folder import made_by
from npdl_train.runs.run import load_run

RESULTS = Path(__file__).parents[1] / "results"
SAMPLES = ((5, 7), (9, 6))          # document 004's; others where they are not in the training set
IDENTITY = ("model", "seed", "settings", "step")


def facts(run):
    """What identifies a run, and how good it is: a dict for JSON."""
    config = run.config
    if config.text is not None or config.operator != "+" or config.orders != (2,):
        raise InputError("this run is not of modular addition with two operands; give one that is")
    ours, usual = config.to_json(), Config(model=config.model).to_json()
    apart = ("seed", "steps", "threads", "save_every", "eval_first", "eval_every", "engine")
    settings = {k: v for k, v in ours.items() if usual.get(k) != v and k not in apart}
    return {"model": config.model, "seed": config.seed, "settings": settings, "step": run.step,
            "accuracy": accuracies(run)}


# --- attention ------------------------------------------------------------------------------------
def attention_of(run):
    """Maps of two training samples, and means over the whole training set.

    maps      (2, L, H, S, S) attention weights, S = 6: BOS a + b = r
    mean      (L, H, S, S) the same, averaged over the training set
    spread    (L, H, S) entropy of each query's weights over that of even ones; 1 for the first
    """
    if run.config.model != "gpt":
        raise InputError("attention: this run is an LSTM; give the folder of a GPT")
    ids = run.task.data.train.inputs                                # ids (N, S)
    _, cache = run.model.forward(ids)
    A = to_host(attentions(cache)).astype(np.float64)               # A (N, L, H, S, S)
    entropy = -(A * np.log(np.maximum(A, 1e-30))).sum(-1).mean(0)   # entropy (L, H, S)
    even = np.log(np.arange(1, A.shape[-1] + 1))
    spread = np.ones_like(entropy)
    spread[..., 1:] = entropy[..., 1:] / even[1:]
    at = samples(ids)
    words = run.task.vocabulary
    return {**facts(run), "equations": len(ids),
            "tokens": [[words.tokens[i] for i in ids[k]] for k in at],
            "maps": short(A[at]), "mean": short(A.mean(0)), "spread": short(spread)}


def samples(ids):
    """Rows of two training samples: those of SAMPLES, or the first ones there are."""
    pairs = [tuple(row) for row in ids[:, [1, 3]].tolist()]
    known = [pairs.index(pair) for pair in SAMPLES if pair in pairs]
    rest = [k for k in range(len(ids)) if k not in known]
    return (known + rest)[:2]


def accuracies(run):
    """Shares of the equations of the training and the validation set that the model gets right."""
    shares = []
    for examples in (run.task.data.train, run.task.data.validation):
        counted = examples.answer_mask
        batch = Batch(examples.inputs, examples.targets, counted)
        _, right = PlainEngine(run.model, None).measure(batch)
        shares.append((right == counted.sum(1)).mean())             # the whole answer
    return short(shares)


# --- the command ----------------------------------------------------------------------------------
def short(value):
    """Numbers to four decimals, as JSON can hold them."""
    return np.round(np.asarray(value, np.float64), 4).tolist()


def merged(old, new):
    """Both lists of entries, each identity once, in a fixed order."""
    def key(entry):
        return json.dumps([entry[name] for name in IDENTITY], sort_keys=True)

    entries = {key(entry): entry for entry in [*old, *new]}
    return sorted(entries.values(), key=lambda e: (e["model"], json.dumps(e["settings"]),
                                                   e["seed"], e["step"]))


def load(what, folder=RESULTS):
    """The entries of results/<what>.json; none where there is no such file."""
    path = Path(folder) / f"{what}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def main(arguments=None):
    p = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run")
    p.add_argument("--results", default=RESULTS, metavar="DIR", help="where the file is written")
    options = p.parse_args(arguments)

    def work():
        new = [{**attention_of(load_run(folder)), "made": made_by(folder)}
               for folder in options.runs]
        entries = merged(load("attention", options.results), new)
        lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
        path = Path(options.results) / "attention.json"
        write_atomically(path, lambda file: file.write(f"[\n{lines}\n]\n".encode()))
        print(f"{path}: {len(entries)} runs, {path.stat().st_size} bytes")
        return 0

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())
