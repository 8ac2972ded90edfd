"""What npdl's GPT computes while it groks (Nanda et al. 2023, 2301.05217), and late jumps.

  python experiments/grokking/phases.py --list     the trials and their minutes
  python experiments/grokking/phases.py            make what is not made yet
  python experiments/grokking/report.py            the answers, from what there is

circuit   the study's default GPT, watched by two progress measures. Its logits, averaged over
          the equations with the same sum s = a + b, are a table of p sums by p answers, each
          answer's column a sum of waves over s. The key frequencies are those that hold 95 % of
          the power when the training ends.
          restricted loss  over all equations, from the mean and the key frequencies alone
          excluded loss    over the training set, the key frequencies taken out of the logits
jumps     the LSTM of question 7 with decay 1/4 in float64, with AdamW's eps 1e-8 and 1e-12, until
          its training loss has jumped a hundredfold after memorising, or to step 48001
"""

if __name__ == "__main__":
    from npdl.script import begin

    begin()         # Ctrl-C is quiet from here on

import dataclasses
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import study
from reporting.jumps import FACTOR
from reporting.measures import GENERAL, MEMORISED
from trials import Trial, main

from npdl.backend import to_host
from npdl.functions import log_softmax
from npdl.study.plots_embeddings import spectrum
from npdl.training.loop import Trainer, unwarned

FOLDER = "grokking/phases"
SEEDS, WATCHED = (0, 1, 2, 3, 42), (0, 1, 42)       # of the circuit, of the jumps
EPS = (1e-8, 1e-12)
POWER = 0.95                        # of the logits' waves, that the key frequencies hold
LONG, AFTER = 48_001, 3             # steps of a jumps trial, and evaluations after its jump
MINUTES = {"circuit": 5, "jumps": 20}


# --- progress measures ----------------------------------------------------------------------------
def by_sum(logits, sums, p):
    """The logits (N, p) averaged over the equations with the same sum: (p, p)."""
    counts = np.bincount(sums, minlength=p)
    table = np.zeros((p, logits.shape[1]))
    np.add.at(table, sums, logits)
    return table / counts[:, None]


def powers(table):
    """The power of the frequencies 1..p//2 over the sums, answers added up, as shares."""
    found = np.abs(np.fft.rfft(table - table.mean(1, keepdims=True), axis=0)) ** 2
    found = found.sum(1)[1:]
    return found / found.sum()


def key_frequencies(table, power=POWER):
    """The fewest frequencies that hold `power` of the waves, the strongest first."""
    shares = powers(table)
    order = np.argsort(-shares)
    return (order[:1 + int(np.searchsorted(np.cumsum(shares[order]), power))] + 1).tolist()


def waves_of(table, frequencies):
    """What those frequencies alone add to a table (p, p), without its mean."""
    p = len(table)
    waves = np.fft.rfft(table, axis=0)
    mask = np.isin(np.arange(p // 2 + 1), frequencies)
    return np.fft.irfft(waves * mask[:, None], p, axis=0)


def loss_of(logits, answers):
    """Mean negative log-likelihood."""
    return float(-log_softmax(logits)[np.arange(len(answers)), answers].mean())


def measured(logits, sums, trained, frequencies, p):
    """(restricted loss, excluded loss) of the logits (N, p) of all equations."""
    table = by_sum(logits, sums, p)
    key = waves_of(table, frequencies)
    restricted = loss_of((table.mean(0) + key)[sums], sums)
    return restricted, loss_of((logits - key[sums])[trained], sums[trained])


# --- trials ---------------------------------------------------------------------------------------
def circuit(seed, **settings):
    """The columns of a GPT's training, with the progress measures and the embedding's spectrum."""
    config = dataclasses.replace(study.variants(("gpt",), (seed,))[0], **settings)
    trainer, rows, seen = Trainer(config), [], []
    ids, sums, trained = equations(trainer)
    with trainer.engine, unwarned():
        while trainer.step < config.steps:
            trainer.update()
            if trainer.evaluation_due():
                shares = spectrum(to_host(trainer.model.embedding.W.data)[:config.p])
                rows.append({**trainer.evaluate(), "top": float(np.sort(shares)[-5:].sum())})
                seen.append(answer_logits(trainer.model, ids, config.p))
    frequencies = key_frequencies(by_sum(seen[-1], sums, config.p))
    for row, logits in zip(rows, seen, strict=True):
        row["restricted"], row["excluded"] = measured(logits, sums, trained, frequencies, config.p)
        row["keys"] = len(frequencies)
    return {name: [row[name] for row in rows] for name in rows[0]}


def equations(trainer):
    """(inputs (N, S), sums (N,), trained (N,) True in the training set) of all equations."""
    data = trainer.task.data
    ids = np.concatenate([data.train.inputs, data.validation.inputs])
    trained = np.arange(len(ids)) < len(data.train.inputs)
    return ids, (ids[:, 1] + ids[:, 3]) % trainer.config.p, trained


def answer_logits(model, ids, p):
    """The logits of the p numbers where the answer is read: (N, p)."""
    logits, _ = model.forward(ids[:, :5])               # BOS a + b =
    return to_host(logits)[:, -1, :p].astype(np.float64)


def jumping(eps, seed, **settings):
    """The columns of an LSTM's training until some evaluations after its first jump."""
    config = dataclasses.replace(study.variants(("lstm",), (seed,))[0], **{
        "weight_decay": 0.25, "dtype": "float64", "eps": eps, "steps": LONG, **settings})
    trainer, rows, left = Trainer(config), [], None
    known = False
    with trainer.engine, unwarned():
        while trainer.step < config.steps and left != 0:
            trainer.update()
            if trainer.evaluation_due():
                rows.append(trainer.evaluate())
                known |= rows[-1]["train_accuracy"] >= MEMORISED
                jumped = known and len(rows) > 1 and (
                    rows[-1]["train_loss"] > FACTOR * rows[-2]["train_loss"])
                left = AFTER if left is None and jumped else left and left - 1
    return {name: [row[name] for row in rows] for name in rows[0]}


def moments(columns):
    """{phase: the step that ends it}: memorised, circuit formed, generalised; infinity for never.

    The circuit is formed where the restricted loss has come down to half of ln p's own.
    """
    def first(name, test):
        return next((step for step, value in zip(columns["step"], columns[name], strict=True)
                     if test(value)), math.inf)

    half = columns["restricted"][0] / 2
    return {"memorised": first("train_accuracy", lambda a: a >= MEMORISED),
            "circuit": first("restricted", lambda loss: loss <= half),
            "generalised": first("validation_accuracy", lambda a: a >= GENERAL)}


TRIALS = [*(Trial(f"circuit-seed{seed}", {"kind": "circuit", "seed": seed}, MINUTES["circuit"],
                  lambda seed=seed: circuit(seed)) for seed in SEEDS),
          *(Trial(f"jumps-eps{eps:g}-seed{seed}", {"kind": "jumps", "eps": eps, "seed": seed},
                  MINUTES["jumps"], lambda eps=eps, seed=seed: jumping(eps, seed))
            for seed in WATCHED for eps in EPS)]

if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))
