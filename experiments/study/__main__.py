"""Train the runs of the study that are missing, and add them to the tables of stored runs.

  python -m experiments.study                    all missing runs
  python -m experiments.study data decay         those of some questions
  python -m experiments.study --seeds 5 6        the same runs with other seeds
  python -m experiments.study --recipe release   with the LSTM's gates initialised by Glorot's rule
  python -m experiments.study --backend cupy     on this machine's GPU
  python -m experiments.study --list             how many runs are stored
  python -m experiments.study --attention RUN    store the attention weights of a trained GPT
  python -m experiments.study.report             write the report

Questions: sanity (1, 2), data (3), mixed (4), model (5), compute (6), decay (7). The same command
again resumes after an interruption.
"""

if __name__ == "__main__":
    from npdl.cli.console import prepare_script

    prepare_script("python -m experiments.study")         # Ctrl-C exits without a traceback

import argparse
import csv
import itertools
import json
import sys

import numpy as np

from experiments.study import q8_attention, runs
from experiments.study.report import QUESTIONS
from experiments.study.runs import NAMES, RESULTS, SEEDS, Study
from npdl.backend import to_host
from npdl.cli.console import OneLineParser, checked_path_text, run_guarded
from npdl.errors import InputError
from npdl.files import read_json, write_atomically
from npdl.models.gpt import attentions
from npdl.train.recipes import RECIPES, make_recipe_config
from npdl.train.run import load_run
from npdl.train.sweep import get_run_folder, load_sweep_metrics, sweep


def list_settings(question):
    """Return [(model, settings)] for the runs of a question."""
    module = QUESTIONS[question]
    axes = {name: values if isinstance(values, tuple) else (values,)
            for name, values in module.RUNS.items()}
    points = [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]
    return [(model, settings) for settings in points for model in getattr(module, "MODELS", NAMES)]


def find_missing_runs(study, questions, recipe="default", seeds=None):
    """Return {(key, seed): (question, model, settings)} of the runs that are not stored.

    A run that several questions use belongs to the first of them.
    """
    missing = {}
    for question in QUESTIONS:
        for model, settings in list_settings(question):
            if recipe != "default" and RECIPES[recipe][model] == RECIPES["default"][model]:
                continue                # the same run by another name
            key = runs.make_run_key(model, recipe, settings)
            for seed in seeds or getattr(QUESTIONS[question], "SEEDS", SEEDS):
                if seed not in study.evaluations.get(key, {}):
                    missing.setdefault((key, seed), (question, model, settings))
    return {identity: run for identity, run in missing.items() if run[0] in questions}


def make_config(model, recipe, settings, seed, backend="numpy"):
    given = {**settings, "recipe": recipe, "seed": seed, "threads": 1, "save_every": 2000,
             "backend": backend}
    if "orders" in given:
        given |= {"orders": tuple(map(int, given["orders"].split())), "stratified": True}
    return make_recipe_config(model, given)


def add_runs(question, rows, folder=RESULTS):
    """Add runs to a question's table and curves; `rows` is [(first cells of a row, records)]."""
    path = folder / f"{question}.csv"
    table, curves = [], {}
    if path.exists():
        with open(path, encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        with np.load(path.with_suffix(".npz")) as arrays:
            curves = dict(arrays)
    for cells, records in rows:
        step = np.array([record["step"] for record in records], "int32")
        if not np.array_equal(curves.setdefault("step", step), step):
            raise InputError(f"{question}: a new run was evaluated at other steps than the stored "
                             "runs; use the same eval_first and eval_every")
        new = {metric: np.array([[f"{record[metric]:.5g}" for record in records]]).astype("float32")
               for metric in records[0] if metric not in ("step", "lr")}
        for metric, values in new.items():
            curves[metric] = np.concatenate([curves[metric], values]) if table else values
        run = runs.Curves(step, [0], new)
        best = {runs.LABELS[m]: f"{run.best(m)[0]:.5g}" for m in runs.METRICS}
        first = {f"t_f({runs.LABELS[m]})": int(run.best_step(m)[0]) for m in runs.METRICS}
        table.append(cells | best | first)
    lines = [list(table[0]), *(list(row.values()) for row in table)]
    write_atomically(path.with_suffix(".npz"), lambda file: np.savez_compressed(file, **curves))
    write_atomically(path, lambda file: file.write("".join(
        ",".join(map(str, line)) + "\n" for line in lines).encode()))


def make_row_cells(model, recipe, settings, seed, folder):
    """Return the first cells of a run's row: its settings, engine, device and seconds."""
    versions = read_json(folder / "config.json").get("versions", {})
    return {"model": model, "recipe": recipe, **{**runs.DEFAULTS, **settings}, "seed": seed,
            "engine": versions.get("engine", ""),
            "device": versions.get("card", versions.get("processor", "")).replace(",", " "),
            "seconds": round(read_json(folder / "summary.json")["seconds"])}


def store_attention(run_folder, path=q8_attention.FILE):
    """Add the attention weights of the GPT in a run's folder to attention.json."""
    run = load_run(run_folder)
    config = run.config
    recipe = next((name for name, given in RECIPES.items()
                   if given[config.model]["clip"] == config.clip), None)
    if config.model != "gpt" or config.text is not None or config.orders != (2,):
        raise InputError(f"{run_folder} is not a run of a GPT on sums of two numbers; name one")
    if run.records[-1]["validation_accuracy"] < runs.GENERAL:
        raise InputError(f"the GPT in {run_folder} does not generalise; train it for more steps")
    ids = run.task.data.train.inputs                                # (N, S)
    A = to_host(attentions(run.model.forward(ids)[1])).astype(float)    # (N, L, H, S, S)
    entropy = -(A * np.log(np.maximum(A, 1e-30))).sum(-1).mean(0)   # (L, H, S)
    entropy[..., 1:] /= np.log(np.arange(2, A.shape[-1] + 1))       # 1: uniform
    entropy[..., 0] = 1
    pairs = [tuple(pair) for pair in ids[:, [1, 3]].tolist()]
    rows = [pairs.index(pair) for pair in q8_attention.SAMPLES if pair in pairs]
    rows = (rows + [i for i in range(len(pairs)) if i not in rows])[:2]
    entry = {"recipe": recipe, "seed": config.seed,
             "tokens": [[run.task.vocabulary.tokens[i] for i in ids[row]] for row in rows],
             **{name: np.round(values, 4).tolist() for name, values in (
                 ("maps", A[rows]), ("mean", A.mean(0)), ("spread", entropy))}}
    with open(path, encoding="utf-8") as file:
        kept = [e for e in json.load(file) if (e["recipe"], e["seed"]) != (recipe, config.seed)]
    lines = ",\n".join(json.dumps(e, separators=(",", ":")) for e in [*kept, entry])
    write_atomically(path, lambda file: file.write(f"[\n{lines}\n]\n".encode()))


def make_parser():
    p = OneLineParser(prog="python -m experiments.study", description=__doc__,
                      formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("questions", nargs="*", metavar="QUESTION", help="default: all")
    p.add_argument("--seeds", type=int, nargs="+", metavar="SEED",
                   help="default: 0 42 1 2 3, for mixed also 4 to 8")
    p.add_argument("--recipe", choices=tuple(RECIPES), default="default",
                   help="clipping, and the LSTM's initialisation (default: default)")
    p.add_argument("--backend", choices=("numpy", "cupy"), default="numpy", help="default: numpy")
    p.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    p.add_argument("--out", type=checked_path_text, default="runs/study",
                   help="folder of the runs (default: runs/study)")
    p.add_argument("--list", action="store_true", help="show how many runs are stored, and stop")
    p.add_argument("--attention", metavar="RUN", nargs="+", type=checked_path_text,
                   help="store the attention weights of these trained GPTs, and stop")
    return p


def train_missing_runs(study, options):
    """Train the missing runs and store those that finish; return the exit status."""
    missing = find_missing_runs(study, options.questions or QUESTIONS, options.recipe,
                                options.seeds)
    configs = {place: make_config(model, options.recipe, settings, place[1], options.backend)
               for place, (_, model, settings) in missing.items()}
    sweep(list(configs.values()), options.out, options.jobs)
    finished = {}
    for place, (question, model, settings) in missing.items():
        records = load_sweep_metrics(options.out, configs[place])
        if records is not None:
            folder = get_run_folder(options.out, configs[place])
            finished.setdefault(question, []).append(
                (make_row_cells(model, options.recipe, settings, place[1], folder), records))
    for question, rows in finished.items():
        add_runs(question, rows)
    count = sum(map(len, finished.values()))
    print(f"{count} of {len(missing)} missing runs are now stored")
    return int(count < len(missing))


def main(arguments=None):
    p = make_parser()
    options = p.parse_args(arguments)
    for name in options.questions:
        if name not in QUESTIONS:
            p.error(f"question {name!r} is unknown; choose from {', '.join(QUESTIONS)}")

    def run_command():
        study = Study()
        if options.attention:
            for folder in options.attention:
                store_attention(folder)
        elif options.list:
            for question in options.questions or QUESTIONS:
                left = find_missing_runs(study, [question], options.recipe, options.seeds)
                count = sum(row["question"] == question for row in study.rows)
                print(f"{question:<8} {count:>4} runs stored, {len(left):>4} missing")
        else:
            return train_missing_runs(study, options)
        return 0

    return run_guarded(p.prog, run_command)


if __name__ == "__main__":
    sys.exit(main())
