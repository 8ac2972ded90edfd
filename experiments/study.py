"""The experimental study of document 004, Problem 4: all its runs, for both models and two seeds.

  python experiments/study.py                 every run; finished ones are passed over
  python experiments/study.py sanity data     the runs of some questions
  python experiments/study.py --seeds 1 2     the same runs with other seeds
  python experiments/study.py --recipe stated the same runs by another reading of the recipe
  python experiments/study.py --anew          what other code of the engine made, made again
  python experiments/study.py --backend cupy  on this machine's GPU (dask: on a cluster)
  python experiments/study.py --list          what there is to run, and how much of it is done
  python experiments/report.py                the report, from what is kept

  sanity   question 1     the default recipe
  mixed    question 4     p = 11, orders 2 and 3, half of each
  data     question 3     r_train 0.1 to 0.9
  model    question 5     layers 1, 2, 3 x width 64, 128, 256
  decay    question 7     LSTM, weight decay 1/4 to 1, 40001 steps
  compute  question 6     batch 32 to 512, 20001 steps
  further  beyond the document: three more seeds of the default recipe
  puzzle   other readings of the default recipe, for the losses that it reaches

Each run is a folder under --out; what a report needs of it, its evaluation records, is kept in
experiments/results/study/ as soon as it is finished. To run the same command again is the
recovery after any interruption; several launchers may share one --out.
"""

if __name__ == "__main__":
    from npdl.console import begin

    begin()         # Ctrl-C is quiet from here on

import argparse
import contextlib
import dataclasses
import itertools
import os
import sys
from pathlib import Path

from experiments.keeping import UNREADABLE, read_record, short, write_record
from experiments.reporting.readings import FURTHER, SEEDS, puzzle_runs
from npdl.backend import using
from npdl.console import place
from npdl.errors import InputError, NpdlError
from npdl.files import read_json, reason
from npdl.console import OneLineParser, guarded
from npdl.training.recipes import RECIPES
from npdl.training.config import Config
from npdl.training.folder import checked_config
from npdl.training.meanwhile import meanwhile
from npdl.training.metrics import METRICS
from npdl.training.origin import engine_digest
from npdl.training.summary import read_summary
from npdl.training.sweep import folder_of, is_finished, load_records, steps_done, sweep

RESULTS = Path(__file__).parent / "results" / "study"
READ = RECIPES["default"]
BASE = Config(threads=1, save_every=2000)
LOOK = 5.0          # seconds between two looks for runs that have finished


def variants(models=("lstm", "gpt"), seeds=SEEDS, **settings):
    """BASE with the scripts' defaults and `settings`, for each model, first seeds first."""
    return [dataclasses.replace(BASE, model=model, seed=seed, **READ[model], **settings)
            for seed in seeds for model in models]


def with_recipe(config, recipe):
    """The same run by another of the RECIPES."""
    return dataclasses.replace(config, **{"init": "torch", **RECIPES[recipe][config.model]})


def grid(**choices):
    """All combinations of settings, each a dict."""
    return [dict(zip(choices, values, strict=True))
            for values in itertools.product(*choices.values())]


# In the order in which the first seeds are run: what decides most, for its cost, comes first.
QUESTIONS = {
    "sanity": variants(),
    "mixed": variants(p=11, orders=(2, 3), stratified=True),
    "data": [c for g in grid(r_train=[round(0.1 * i, 1) for i in range(1, 10)])
             for c in variants(**g)],
    "model": [c for g in grid(layers=[1, 2, 3], width=[64, 128, 256]) for c in variants(**g)],
    "decay": [c for g in grid(weight_decay=[0.25, 0.5, 0.75, 1.0])
              for c in variants(("lstm",), steps=40001, **g)],
    "compute": [c for g in grid(batch=[32, 64, 128, 256, 512])
                for c in variants(steps=20001, **g)],
    "further": variants(seeds=FURTHER),
    "puzzle": puzzle_runs(),
}


def runs_of(questions, seeds=None):
    """The runs of some questions, of all their seeds or of some, each once, the most decisive
    first.

    The sanity check with SEEDS, or those asked for; the first seed of the other questions, in the
    order of QUESTIONS; then the other seeds, the longest run last. A seed asked for that is not
    of SEEDS repeats the runs of the first one.
    """
    listed = [c for name in QUESTIONS if name in questions for c in QUESTIONS[name]]
    configs = [c for c in listed if seeds is None or c.seed in seeds]
    configs += [dataclasses.replace(c, seed=seed) for seed in seeds or () if seed not in SEEDS
                for c in listed if c.seed == SEEDS[0]]
    checked = {dataclasses.replace(c, seed=0) for c in QUESTIONS["sanity"]}
    foremost = list(seeds or SEEDS)

    def rank(config):
        if dataclasses.replace(config, seed=0) in checked and config.seed in foremost:
            return 0, foremost.index(config.seed)
        return (1, 0) if config.seed == SEEDS[0] else (2, cost(config))

    return sorted(dict.fromkeys(configs), key=rank)


def read_by(recipe, questions, seeds=None):
    """runs_of by one of the RECIPES, each once; the readings of "puzzle" stay what they are."""
    configs = runs_of(questions, seeds)
    if recipe == "default":
        return configs
    own = set(QUESTIONS["puzzle"] if "puzzle" in questions else ())
    return list(dict.fromkeys(c if c in own else with_recipe(c, recipe) for c in configs))


def cost(config):
    """About how long a run takes, in no particular unit."""
    equations = config.r_train * sum(config.p**order for order in config.orders)
    return config.steps * min(config.batch, equations) * config.layers * config.width**2


def path_of(config, engine=None):
    """The file that a run's records are kept in: the first ones, or those by another engine."""
    name = folder_of("", config).name
    return RESULTS / (f"{name}-{engine}.json.gz" if engine else f"{name}.json.gz")


def keep(root, config):
    """Store a finished run's records, compactly; the same run folder gives the same bytes.

    The file is JSON, compressed: `config`, the settings; `made`, steps, seconds and the versions
    that computed it; `records`, a column for each number of an evaluation, to five digits. What
    another engine made of the same settings stays, in a file of its own.
    """
    records = load_records(root, config)
    if records is None:
        return
    how = made(folder_of(root, config))
    known = {path: stored.get("made", {}) for path, stored in kept_by(config).items()}
    if any(by and by.get("engine") == how.get("engine") for by in known.values()):
        return
    columns = {key: [short(record.get(key)) for record in records] for key in records[0]}
    value = {"config": config.to_json(), "made": how, "records": columns}
    other = how.get("engine") if known.get(path_of(config)) else None   # the oldest have no `made`
    write_record(path_of(config, other), value)


def is_done(config, anew=False):
    """Whether a run is kept; with `anew`, by the engine of today."""
    known = kept(config)
    return known is not None and (
        not anew or known.get("made", {}).get("engine") == engine_digest())


def made(folder):
    """What a finished run took, and what computed it."""
    summary = read_summary(folder / "summary.json")
    try:
        versions = dict(read_json(folder / "config.json")["versions"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InputError(f"{folder / 'config.json'}: does not say what computed the run "
                         f"({reason(error)}); restore it from a copy") from error
    return {"steps": summary["steps"], "seconds": round(summary["seconds"]), **versions}


def kept_by(config):
    """{path: what `keep` stored} of a run, by each engine that has made it."""
    first = path_of(config)
    stem = first.name.removesuffix(".json.gz")
    paths = [first] * os.path.lexists(first) + sorted(RESULTS.glob(f"{stem}-*.json.gz"))
    return {path: read_kept(path) for path in paths}


def kept(config):
    """What `keep` stored of a run, by the engine of today if it has made it, or None. The oldest
    files have no `made`."""
    return max(kept_by(config).values(), key=lambda stored: recent(stored.get("made", {})),
               default=None)


def recent(made):
    """How much a record is to be preferred to another of the same run."""
    return made.get("engine") == engine_digest(), "engine" in made


def read_kept(path):
    """What `keep` wrote into a file; InputError for anything else."""
    try:
        stored = read_record(path)
        checked_config(stored["config"])
        columns = stored["records"]
        steps = columns["step"]
        for name in (*METRICS, *columns):
            kinds = {int} if name == "step" else {int, float, type(None)}
            if len(columns[name]) != len(steps) or not set(map(type, columns[name])) <= kinds:
                raise ValueError(f"its {name} is not a number for each step")
        if type(stored.get("made", {}).get("seconds", 0)) is not int:
            raise ValueError("its seconds are not a number")
        return stored
    except UNREADABLE as error:
        raise InputError(f"{path.name}: is not a kept run ({reason(error)}); remove it and run "
                         "experiments/study.py") from error


@contextlib.contextmanager
def keeping(root, configs):
    """Meanwhile keep each run within seconds of its end, whichever launcher has made it."""
    left = list(configs)

    def keep_finished():
        for config in list(left):
            if is_finished(folder_of(root, config), config):
                keep(root, config)
                left.remove(config)

    def look():
        with contextlib.suppress(OSError, ValueError, KeyError, NpdlError):
            keep_finished()                 # what is wrong is said by the last call, below

    keep_finished()
    try:
        with meanwhile(look, LOOK):
            yield
    finally:
        keep_finished()


def show(root, anew=False, recipe="default"):
    """One line for each question: runs kept, finished, and steps still to make."""
    for name in QUESTIONS:
        configs = read_by(recipe, [name])
        gone = [c for c in configs if not is_done(c, anew)]
        have = len(configs) - len(gone)
        left = sum(c.steps - steps_done(folder_of(root, c), c) for c in gone)
        print(f"{name:<8} {have:>3} of {len(configs):>3} runs kept, {left:>9,} steps left")


def parser():
    p = OneLineParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("questions", nargs="*", metavar="QUESTION",
                   help=f"of {', '.join(QUESTIONS)} (default: all)")
    p.add_argument("--seeds", type=int, nargs="+", metavar="SEED",
                   help="seeds of the runs (default: 0 42, in further and puzzle 1 2 3)")
    p.add_argument("--models", nargs="+", choices=("lstm", "gpt"), default=("lstm", "gpt"),
                   help="the runs of these alone (default: both)")
    p.add_argument("--recipe", choices=list(RECIPES), default="default",
                   help="what document 004 leaves open: default (clip 1.0, PyTorch's start), "
                   "release (an LSTM's gates as Glorot's, too) or stated (no clip); puzzle has "
                   "its own")
    p.add_argument("--anew", action="store_true", help="make again what other code of the engine "
                   "has made; the new records stand beside the old")
    p.add_argument("--out", type=place, help="folder of the runs (default: runs/study; with "
                   "--anew runs/study-ENGINE)")
    p.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    p.add_argument("--backend", choices=("numpy", "cupy", "dask"), default="numpy",
                   help="this machine's cores (default), its GPU, or a cluster")
    p.add_argument("--address", help="of the dask scheduler, tcp://host:port")
    p.add_argument("--list", action="store_true", help="show what there is and stop")
    return p


def main(arguments=None):
    p = parser()
    options = p.parse_args(arguments)
    unknown = [name for name in options.questions if name not in QUESTIONS]
    if unknown:
        p.error(f"question {unknown[0]!r} is unknown; choose from {', '.join(QUESTIONS)}")

    out = options.out or ("runs/study" + f"-{engine_digest()}" * options.anew)

    def work():
        if options.list:
            show(out, options.anew, options.recipe)
            return 0
        chosen = [c for c in read_by(options.recipe, options.questions or QUESTIONS, options.seeds)
                  if c.model in options.models]
        with keeping(out, dict.fromkeys([*runs_of(QUESTIONS), *chosen])):
            configs = [c for c in chosen if not is_done(c, options.anew)]
            if options.backend == "cupy":
                with using("cupy"):             # say in one line, and once, what is missing
                    configs = [dataclasses.replace(c, backend="cupy") for c in configs]
            joblib_backend = "dask" if options.backend == "dask" else "threading"
            outcomes = sweep(configs, out, options.jobs, joblib_backend, options.address)
        print(", ".join(f"{len(found)} {what}" for what, found in outcomes.items()) or "all kept")
        return 0 if set(outcomes) <= {"finished", "taken"} else 1

    return guarded(p.prog, work)


if __name__ == "__main__":
    sys.exit(main())
