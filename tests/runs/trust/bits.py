"""The same bits: for any number of BLAS threads, and whichever checkpoint a run resumes from."""

import contextlib
import hashlib
import io
import itertools
import shutil

import numpy as np

from npdl.backend import stream
from npdl.optim import AdamW, clip_by_global_norm
from npdl_train.fast.flat_parameters import FlatParameters
from npdl_train.runs.config import Config
from npdl_train.runs.engine import ENGINES
from npdl_train.runs.run import load_run, train
from tests.runs.trust import Figure
from tests.runs.trust.runs import ROOT, fingerprint, finish, start
from tests.tools.trained import resumed_from

RECORDS = {"eval_first": 0, "eval_every": 2, "save_every": 2}


def blas_threads(folder, steps, kinds):
    """Trainings in processes with 1 and 2 BLAS threads: width 128, so that BLAS would share out.

    The dropout, the clipping by the global norm and the evaluation are part of it.
    """
    options = ("--p", 11, "--steps", steps, "--eval-every", 2, "--save-every", steps,
               "--clip", 1, "--threads", 1, "--quiet")
    for model, engine in kinds:
        prints = set()
        for threads in (1, 2):
            out = folder / f"blas-{model}-{engine}-{threads}"
            finish(start(f"train_{model}", *options, "--engine", engine, "--out", out,
                         threads=threads))
            prints.add(fingerprint(out))
        assert len(prints) == 1, f"{model}, {engine}: other bits with 2 BLAS threads"
    return len(kinds)


def shards(folder, times=3):
    """Two threads of npdl's own, again and again: the same bits, however they take turns."""
    config = Config(p=7, width=32, heads=2, threads=2, steps=8, dropout=0.1, **RECORDS)
    prints = set()
    for number in range(times):
        train(config, folder / f"shards-{number}", quiet=True)
        prints.add(fingerprint(folder / f"shards-{number}"))
    assert len(prints) == 1, "other bits when the threads took other turns"
    return times


def every_checkpoint(folder, steps, kinds):
    """Keep every checkpoint of a run, resume from each, and compare the ends; how many."""
    count = 0
    for number, settings in enumerate(kinds):
        config = Config(**{"p": 5, "width": 8, "heads": 2, "layers": 1, "steps": steps,
                           **RECORDS, **settings})
        saved = folder / f"saved-{number}"
        train(config, saved, quiet=True)
        for step in range(2, steps, 2):
            cut = folder / "cut"
            shutil.copytree(saved, cut)
            with contextlib.redirect_stderr(io.StringIO()):     # it says what it drops
                resumed_from(cut, config, step)
            assert fingerprint(cut) == fingerprint(saved), f"{config}: from {step}"
            shutil.rmtree(cut)
            count += 1
    return count


def arranged(engine, model):
    """An engine's functions that clip and that update."""
    optimizer = AdamW(model, lr=1e-3, weight_decay=0.1)
    if engine == "fast":
        flat = FlatParameters(optimizer, [model])
        return flat.clip, flat.step
    return lambda norm: clip_by_global_norm(optimizer.params.values(), norm), optimizer.step


def operations():
    """The sums that would depend on BLAS's threads are not BLAS's.

    Global norm, clipping and AdamW are elementwise operations and NumPy's own pairwise sums. So
    they have the same bits inside and outside of a limit on threads; all matrix products of a
    training happen inside one, under either engine.
    """
    from threadpoolctl import threadpool_limits

    from npdl.layers.linear import Linear

    digests, products = {}, {}
    for threads in (1, 2):
        with threadpool_limits(limits=threads, user_api="blas"):
            for kind in itertools.product(range(5), ("float32", "float64"), ENGINES):
                seed, dtype, name = kind
                model = Linear(700, 800, rng=1, dtype=dtype)
                clip, update = arranged(name, model)
                grad = model.W.grad
                grad[...] = stream(seed).standard_normal(grad.shape)
                products.setdefault(kind, set()).add(np.dot(grad.ravel(), grad.ravel()))
                norm = clip(1.0)
                update()
                digests.setdefault(kind, set()).add(hashlib.sha256(
                    norm.tobytes() + grad.tobytes() + model.W.data.tobytes()).hexdigest())
    assert all(len(found) == 1 for found in digests.values()), \
        "norm, clipping or AdamW depend on the number of threads"
    return sum(len(found) > 1 for found in products.values()), len(products)


def measure(full, folder):
    other, sums = operations()
    kinds = [{}, {"model": "lstm", "engine": "plain"}] if not full else [
        {"engine": engine, **settings} for engine in ENGINES for settings in (
            {}, {"model": "lstm"}, {"dropout": 0.2}, {"batch": 5, "clip": 0.5},
            {"model": "lstm", "optimizer": "sgd", "momentum": 0.9}, {"threads": 2},
            {"text": str(ROOT / "README.md"), "block": 16, "batch": 4, "eval_batches": 1})
    ]
    every = list(itertools.product(("gpt", "lstm"), ENGINES))
    blas = blas_threads(folder, 40 if full else 6, every if full else [("gpt", "plain")])
    again = shards(folder, 10 if full else 3)
    resumed = every_checkpoint(folder, 40 if full else 8, kinds)
    assert load_run(folder / "saved-0").step == (40 if full else 8)
    return [Figure(
        "The same bits, whatever the BLAS's threads and wherever a run resumes",
        "1 and 2 BLAS threads; 2 threads of npdl's again; resume at every checkpoint",
        f"{blas} trainings equal for 1 and 2 BLAS threads, {again} equal with 2 threads of "
        f"npdl's, {resumed} resumes equal (parameters, moments, metrics; {len(kinds)} settings); "
        f"clipping and AdamW equal in {sums} of {sums} draws, in {other} of which BLAS's own dot "
        "product is not",
    )]
