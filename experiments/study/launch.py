"""The study's runs: `python -m experiments.study`.

A run is a folder under --out; what a report needs of it, its evaluation records, is kept in
experiments/results/study/ as soon as it is finished. To run the same command again is the
recovery after any interruption; several launchers may share one --out.
"""

import argparse
import contextlib
import dataclasses

from experiments.study.questions import RUNS
from experiments.study.records import SEEDS, is_done, keep, with_recipe
from npdl.backend import using
from npdl.errors import NpdlError
from npdl_train.console import OneLineParser, file_or_folder, guarded
from npdl_train.runs.recipes import RECIPES
from npdl_train.runs.sweep import folder_of, is_finished, meanwhile, steps_done, sweep
from npdl_train.runs.versions import engine_digest

LOOK = 5.0          # seconds between two looks for runs that have finished

DESCRIPTION = """\
The experimental study of document 004, Problem 4: all its runs, for both models and two seeds.

  python -m experiments.study                 every run; finished ones are passed over
  python -m experiments.study sanity data     the runs of some questions
  python -m experiments.study --seeds 1 2     the same runs with other seeds
  python -m experiments.study --recipe stated the same runs by another reading of the recipe
  python -m experiments.study --anew          what other code of the engine made, made again
  python -m experiments.study --backend cupy  on this machine's GPU (dask: on a cluster)
  python -m experiments.study --list          what there is to run, and how much of it is done
  python experiments/report.py                the report, from what is kept

  sanity   question 1     the default recipe
  mixed    question 4     p = 11, orders 2 and 3, half of each
  data     question 3     r_train 0.1 to 0.9
  model    question 5     layers 1, 2, 3 x width 64, 128, 256
  decay    question 7     LSTM, weight decay 1/4 to 1, 40001 steps
  compute  question 6     batch 32 to 512, 20001 steps
  further  beyond the document: three more seeds of the default recipe

The runs are kept in experiments/results/study/; the same command again goes on where it was."""

def runs_of(questions, seeds=None):
    """The runs of some questions, of all their seeds or of some, each once, the most decisive
    first.

    The sanity check with SEEDS, or those asked for; the first seed of the other questions, in the
    order of RUNS; then the other seeds, the longest run last. A seed asked for that is not
    of SEEDS repeats the runs of the first one.
    """
    listed = [c for name in RUNS if name in questions for c in RUNS[name]]
    configs = [c for c in listed if seeds is None or c.seed in seeds]
    configs += [dataclasses.replace(c, seed=seed) for seed in seeds or () if seed not in SEEDS
                for c in listed if c.seed == SEEDS[0]]
    checked = {dataclasses.replace(c, seed=0) for c in RUNS["sanity"]}
    foremost = list(seeds or SEEDS)

    def rank(config):
        if dataclasses.replace(config, seed=0) in checked and config.seed in foremost:
            return 0, foremost.index(config.seed)
        return (1, 0) if config.seed == SEEDS[0] else (2, cost(config))

    return sorted(dict.fromkeys(configs), key=rank)


def read_by(recipe, questions, seeds=None):
    """runs_of by one of the RECIPES, each once."""
    configs = runs_of(questions, seeds)
    if recipe == "default":
        return configs
    return list(dict.fromkeys(with_recipe(c, recipe) for c in configs))


def cost(config):
    """About how long a run takes, in no particular unit."""
    equations = config.r_train * sum(config.p**order for order in config.orders)
    return config.steps * min(config.batch, equations) * config.layers * config.width**2


@contextlib.contextmanager
def keeping(root, configs):
    """Meanwhile keep each run within seconds of its end, whichever launcher has made it."""
    left = list(configs)

    def keep_finished():
        for config in list(left):
            if is_finished(folder_of(root, config), config):
                keep(root, config)
                left.remove(config)

    def keep_what_is_readable():
        with contextlib.suppress(OSError, ValueError, KeyError, NpdlError):
            keep_finished()                 # what is wrong is said by the last call, below

    keep_finished()
    try:
        with meanwhile(keep_what_is_readable, LOOK):
            yield
    finally:
        keep_finished()


def show(root, anew=False, recipe="default"):
    """One line for each question: runs kept, finished, and steps still to make."""
    for name in RUNS:
        configs = read_by(recipe, [name])
        gone = [c for c in configs if not is_done(c, anew)]
        have = len(configs) - len(gone)
        left = sum(c.steps - steps_done(folder_of(root, c), c) for c in gone)
        print(f"{name:<8} {have:>3} of {len(configs):>3} runs kept, {left:>9,} steps left")


def parser():
    p = OneLineParser(description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("questions", nargs="*", metavar="QUESTION",
                   help=f"of {', '.join(RUNS)} (default: all)")
    p.add_argument("--seeds", type=int, nargs="+", metavar="SEED",
                   help="seeds of the runs (default: 0 42, in further 1 2 3)")
    p.add_argument("--models", nargs="+", choices=("lstm", "gpt"), default=("lstm", "gpt"),
                   help="the runs of these alone (default: both)")
    p.add_argument("--recipe", choices=list(RECIPES), default="default",
                   help="what document 004 leaves open: default (clip 1.0, PyTorch's start), "
                   "release (an LSTM's gates as Glorot's, too) or stated (no clip)")
    p.add_argument("--anew", action="store_true", help="make again what other code of the engine "
                   "has made; the new records stand beside the old")
    p.add_argument("--out", type=file_or_folder,
                   help="folder of the runs (default: runs/study; with --anew runs/study-ENGINE)")
    p.add_argument("--jobs", type=int, default=2, help="runs at a time (default: 2)")
    p.add_argument("--backend", choices=("numpy", "cupy", "dask"), default="numpy",
                   help="this machine's cores (default), its GPU, or a cluster")
    p.add_argument("--address", help="of the dask scheduler, tcp://host:port")
    p.add_argument("--list", action="store_true", help="show what there is and stop")
    return p


def main(arguments=None):
    p = parser()
    options = p.parse_args(arguments)
    unknown = [name for name in options.questions if name not in RUNS]
    if unknown:
        p.error(f"question {unknown[0]!r} is unknown; choose from {', '.join(RUNS)}")

    out = options.out or ("runs/study" + f"-{engine_digest()}" * options.anew)

    def work():
        if options.list:
            show(out, options.anew, options.recipe)
            return 0
        chosen = [c for c in read_by(options.recipe, options.questions or RUNS, options.seeds)
                  if c.model in options.models]
        with keeping(out, dict.fromkeys([*runs_of(RUNS), *chosen])):
            configs = [c for c in chosen if not is_done(c, options.anew)]
            if options.backend == "cupy":
                with using("cupy"):             # say in one line, and once, what is missing
                    configs = [dataclasses.replace(c, backend="cupy") for c in configs]
            joblib_backend = "dask" if options.backend == "dask" else "threading"
            outcomes = sweep(configs, out, options.jobs, joblib_backend, options.address)
        print(", ".join(f"{len(found)} {what}" for what, found in outcomes.items()) or "all kept")
        return 0 if set(outcomes) <= {"finished", "taken"} else 1

    return guarded(p.prog, work)
