"""Made-up records of runs, for the tests of the report: curves of a given shape, no training."""

import dataclasses
import gzip
import json
import math

import numpy as np

from experiments.study import records as study


def records(config, memorise=300.0, generalise=4000.0, floor=1e-3, noise=0.0):
    """Columns like those of a run that memorises and generalises at given steps.

    Accuracies rise around these steps; losses fall to `floor` (validation: ten times that).
    """
    steps = [*range(1, 101), *range(200, config.steps + 1, 100)]
    if steps[-1] != config.steps:
        steps.append(config.steps)
    rng = np.random.default_rng(config.seed)
    columns = {"step": steps}
    for part, middle, low in (("train", memorise, floor), ("validation", generalise, 10 * floor)):
        share = [1 / (1 + (middle / t) ** 6) for t in steps]
        wobble = 1 - noise * rng.random(len(steps))
        accuracy = [round(min(1.0, 1.02 * s) * w, 4) for s, w in zip(share, wobble, strict=True)]
        loss = [round(low + 3.5 * math.exp(-t / middle) / w, 7)
                for t, w in zip(steps, wobble, strict=True)]
        for suffix in ("", *(f"_order{k}" for k in config.orders if len(config.orders) > 1)):
            columns[f"{part}_loss{suffix}"] = loss
            columns[f"{part}_accuracy{suffix}"] = accuracy
    columns["l2_norm"] = [70 / (1 + config.weight_decay * min(1.0, t / 2000)) for t in steps]
    return columns


def store_run(config, made=True, **shape):
    """Keep a made-up run where study.RESULTS says."""
    value = {"config": config.to_json(), "records": records(config, **shape)}
    if made:
        value["made"] = {"steps": config.steps, "seconds": 600, "npdl": "0.1.0", "numpy": "2.0",
                         "blas": "some 1.0", "machine": "x86_64",
                         **(made if isinstance(made, dict) else {})}
    study.RESULTS.mkdir(parents=True, exist_ok=True)
    engine = value.get("made", {}).get("engine")
    study.path_of(config, engine).write_bytes(gzip.compress(json.dumps(value).encode(), 1))


def put_runs(config, seeds=(0, 42), **shape):
    """Keep made-up runs of a setting; a shape may be a list, one value for each seed."""
    for i, seed in enumerate(seeds):
        chosen = {name: value[i] if isinstance(value, list) else value
                  for name, value in shape.items()}
        store_run(dataclasses.replace(config, seed=seed), **chosen)
