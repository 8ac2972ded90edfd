"""The same bits: for any number of BLAS threads, and whichever checkpoint a run resumes from."""

import contextlib
import hashlib
import io
import itertools
import shutil

import numpy as np

from npdl.backend import stream
from npdl.fast.threads import unwarned
from npdl.optim import AdamW, clip_by_global_norm
from npdl.training import checkpoint
from npdl.training.config import Config
from npdl.training.loop import Trainer
from npdl.training.run import load_run, train
from tests.trust import Figure
from tests.trust.runs import ROOT, fingerprint, finish, start

RECORDS = {"eval_first": 0, "eval_every": 2, "save_every": 2}


def blas_threads(folder, steps, models):
    """Trainings in processes with 1 and 2 BLAS threads: width 128, so that BLAS would share out.

    The dropout, the clipping by the global norm and the evaluation are part of it.
    """
    options = ("--p", 11, "--steps", steps, "--eval-every", 2, "--save-every", steps,
               "--clip", 1, "--threads", 1, "--quiet")
    for model in models:
        prints = set()
        for threads in (1, 2):
            out = folder / f"blas-{model}-{threads}"
            finish(start(f"train_{model}", *options, "--out", out, threads=threads))
            prints.add(fingerprint(out))
        assert len(prints) == 1, f"{model}: other bits with 2 BLAS threads"
    return len(models)


def shards(folder, times=3):
    """Two threads of npdl's own, again and again: the same bits, however they take turns."""
    config = Config(p=7, width=32, heads=2, threads=2, steps=8, dropout=0.1, compute="needed",
                    **RECORDS)
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
        for resumed_from in range(2, steps, 2):
            cut = folder / "cut"
            shutil.copytree(saved, cut)
            trainer = Trainer(config)
            with trainer.workers, unwarned():
                for _ in range(resumed_from):
                    trainer.update()
            arrays, meta = trainer.state()
            checkpoint.save(cut / "checkpoint.npz", arrays, {**meta, "seconds": 0.0})
            with contextlib.redirect_stderr(io.StringIO()):     # it says what it drops
                train(config, cut, resume=True, quiet=True)
            assert fingerprint(cut) == fingerprint(saved), f"{config}: from {resumed_from}"
            shutil.rmtree(cut)
            count += 1
    return count


def operations():
    """The sums that would depend on BLAS's threads are not BLAS's.

    Global norm, clipping and AdamW are elementwise operations and NumPy's own pairwise sums. So
    they have the same bits inside and outside of a limit on threads; all matrix products of a
    training happen inside one (npdl.fast.threads).
    """
    from threadpoolctl import threadpool_limits

    from npdl.layers.linear import Linear

    digests, products = {}, {}
    for threads in (1, 2):
        with threadpool_limits(limits=threads, user_api="blas"):
            for seed, dtype in itertools.product(range(5), ("float32", "float64")):
                optimizer = AdamW(Linear(700, 800, rng=1, dtype=dtype), lr=1e-3, weight_decay=0.1)
                flat = optimizer.flat
                flat.grad[...] = stream(seed).standard_normal(flat.grad.size)
                products.setdefault((seed, dtype), set()).add(np.dot(flat.grad, flat.grad))
                norm = clip_by_global_norm(flat, 1.0)
                optimizer.step()
                digests.setdefault((seed, dtype), set()).add(hashlib.sha256(
                    norm.tobytes() + flat.data.tobytes() + flat.norm().tobytes()).hexdigest())
    assert all(len(found) == 1 for found in digests.values()), \
        "norm, clipping or AdamW depend on the number of threads"
    return sum(len(found) > 1 for found in products.values()), len(products)


def measure(full, folder):
    other, sums = operations()
    kinds = [{}, {"model": "lstm"}] if not full else [
        {}, {"model": "lstm"}, {"dropout": 0.2, "compute": "needed"}, {"batch": 5, "clip": 0.5},
        {"model": "lstm", "optimizer": "sgd", "momentum": 0.9}, {"threads": 2},
        {"text": str(ROOT / "README.md"), "block": 16, "batch": 4, "compute": "full",
         "eval_batches": 1},
    ]
    models = ("gpt", "lstm") if full else ("gpt",)
    blas = blas_threads(folder, 40 if full else 6, models)
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
