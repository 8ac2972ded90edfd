"""What npdl's GPT computes while it groks (Nanda et al. 2023, 2301.05217), and late jumps.

  python experiments/grokking/phases.py --list     the trials and their minutes
  python experiments/grokking/phases.py            make what is not made yet
  python experiments/report.py                     the answers, from what there is

circuit   the study's default GPT, watched by the paper's two progress measures. Its logits,
          averaged over the equations with the same sum s = a + b, are a table of p sums by p
          answers, each answer's column a sum of waves over s. The key frequencies are those that
          hold 95 % of the power when the training ends.
          restricted loss  over all equations, from the mean and the key frequencies alone
          excluded loss    over the training set, the five strongest of these taken out of the
                           logits: here 95 % of the power takes nearly all frequencies
          Half of the equations are memorised, and so is b + a with a + b: their table peaks at
          the answers without any circuit. So both are left out of two further measures, over
          the fresh equations, of which neither a + b nor b + a is trained:
          fresh circuit    restricted loss, from their own table
          fresh loss       of the logits as they are: what shows
control   the same with the excluded loss of five random frequencies, forty times: their median, and
          the share of the draws that lie below the loss without the strongest
jumps     the LSTM of question 7 with decay 1/4 in float64, with AdamW's eps 1e-8, 1e-10 and 1e-12,
          until its training loss has jumped a hundredfold after memorising, or for LONG steps
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import dataclasses
import math
import sys

import numpy as np

from experiments.study.measures import GENERAL, MEMORISED
from experiments.study.q7_decay import FACTOR, jump_places
from experiments.study.records import BASE, variant
from experiments.trials import Trial, columns_of, evaluations, first_step, main, settings
from npdl.backend import stream, to_host
from npdl.functions import log_softmax
from npdl_study.plots.embedding_spectrum import spectrum
from npdl_train.runs.loop import Trainer

FOLDER = "grokking/phases"
SEEDS, WATCHED = (0, 1, 2, 3, 42), (0, 1, 42)       # of the circuit, of the jumps
EPS = (1e-8, 1e-10, 1e-12)          # the usual one first
POWER = 0.95                        # of the logits' waves, that the key frequencies hold
# steps of a jumps trial: each hundredth of eps is expected to bring the jump some 9,200 steps later
LONG = {1e-8: 48_001, 1e-10: 60_001, 1e-12: 72_001}
AFTER = 3                           # evaluations after its jump
STRONGEST = 5                       # frequencies of the logits, and of the embedding, looked at
DRAWS = 40                          # of as many random frequencies: the control's
NEARLY_ALL = 0.95                   # of the draws, below the strongest
MINUTES = {"circuit": 4.3, 1e-8: 10, 1e-10: 17, 1e-12: 25}


# --- progress measures ----------------------------------------------------------------------------
def by_sum(logits, sums, p):
    """The logits (N, p) averaged over the equations with the same sum: (p, p).

    A sum that no equation has gets the mean of the others, which holds no wave of its own.
    """
    counts = np.bincount(sums, minlength=p)
    table = np.zeros((p, logits.shape[1]))
    np.add.at(table, sums, logits)
    table /= np.maximum(counts, 1)[:, None]
    table[counts == 0] = table[counts > 0].mean(0)
    return table


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


def measured(logits, sums, trained, fresh, frequencies, p):
    """{name: loss} of the logits (N, p) of all equations: see the top of this file."""
    return {"restricted": restricted_loss(logits, sums, frequencies, p),
            "excluded": excluded_loss(logits, sums, trained, frequencies[:STRONGEST], p),
            "fresh_circuit": restricted_loss(logits[fresh], sums[fresh], frequencies, p),
            "fresh_loss": loss_of(logits[fresh], sums[fresh])}


def restricted_loss(logits, sums, frequencies, p):
    """The loss of these equations from the mean and these waves of their own table."""
    table = by_sum(logits, sums, p)
    return loss_of((table.mean(0) + waves_of(table, frequencies))[sums], sums)


def excluded_loss(logits, sums, trained, frequencies, p):
    """The loss of the trained equations without these waves of the table of all."""
    waves = waves_of(by_sum(logits, sums, p), frequencies)
    return loss_of((logits - waves[sums])[trained], sums[trained])


def untouched(ids, trained, p):
    """True (N,) where neither a + b nor b + a is trained: inputs (N, S), trained (N,)."""
    known = np.zeros((p, p), bool)
    a, b = ids[:, 1], ids[:, 3]
    known[a[trained], b[trained]] = True
    return ~(known | known.T)[a, b]


# --- trials ---------------------------------------------------------------------------------------
def circuit(seed, draws=0, **changed):
    """The columns of a GPT's training, with the progress measures, the accuracies on equations
    that are not trained (mirror: b + a is; fresh: nor is that), and the frequencies; with `draws`,
    the control of so many draws of random frequencies."""
    config = dataclasses.replace(circuit_config(seed), **changed)
    trainer, rows, seen = Trainer(config), [], []
    ids, sums, trained = equations(trainer)
    fresh = untouched(ids, trained, config.p)
    for row in evaluations(trainer):
        shares = spectrum(to_host(trainer.model.embedding.W.data)[:config.p])
        order = np.argsort(-shares)[:STRONGEST]
        logits = answer_logits(trainer.model, ids, config.p)
        right = logits.argmax(-1) == sums
        rows.append({**row, "top": float(shares[order].sum()), "embedded": (order + 1).tolist(),
                     "mirror_accuracy": mean_of(right[~trained & ~fresh]),
                     "fresh_accuracy": mean_of(right[fresh])})
        seen.append(logits)
    frequencies = key_frequencies(by_sum(seen[-1], sums, config.p))
    for row, logits in zip(rows, seen, strict=True):
        row.update(measured(logits, sums, trained, fresh, frequencies, config.p), keys=frequencies)
        if draws:
            row.update(random_excluded(logits, sums, trained, row["excluded"], config.p, draws))
    return columns_of(rows)


def random_excluded(logits, sums, trained, excluded, p, draws):
    """{random: median training loss without STRONGEST random frequencies, above_random: share of
    the draws that lie below `excluded`, the loss without the strongest}."""
    chosen = stream(draws, 0)           # the same frequencies at every evaluation and seed
    losses = [excluded_loss(logits, sums, trained,
                            1 + chosen.permutation(p // 2)[:STRONGEST], p) for _ in range(draws)]
    return {"random": float(np.median(losses)),
            "above_random": float(np.mean(np.array(losses) < excluded))}


def mean_of(right):
    """The share that is True; NaN of none."""
    return float(right.mean()) if len(right) else math.nan


def circuit_config(seed):
    return variant("gpt", seed=seed)


def jumps_config(eps, seed):
    return variant("lstm", seed=seed, weight_decay=0.25, dtype="float64", eps=eps, steps=LONG[eps])


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


def jumping(eps, seed, **changed):
    """The columns of an LSTM's training until some evaluations after its first jump."""
    config = dataclasses.replace(jumps_config(eps, seed), **changed)
    rows = []
    for row in evaluations(Trainer(config)):
        rows.append(row)
        jumped = jump_places(columns_of(rows))
        if jumped and len(rows) - jumped[0] > 1 + AFTER:
            break
    return columns_of(rows)


def moments(columns, p=BASE.p):
    """{phase: the step that ends it}: memorised, circuit formed, shown, generalised; infinity for
    never.

    The circuit is formed, and it shows, where the fresh circuit's loss, and the fresh loss itself,
    has come down to half of that of a guess, ln p: one threshold for both.
    """
    def halved(loss):
        return loss <= math.log(p) / 2

    return {"memorised": first_step(columns, "train_accuracy", lambda a: a >= MEMORISED),
            "circuit": first_step(columns, "fresh_circuit", halved),
            "shown": first_step(columns, "fresh_loss", halved),
            "generalised": first_step(columns, "validation_accuracy", lambda a: a >= GENERAL)}


def circuit_trial(seed):
    facts = {"kind": "circuit", "seed": seed, **settings(circuit_config(seed)), "power": POWER,
             "strongest": STRONGEST}
    return Trial(f"circuit-seed{seed}", facts, MINUTES["circuit"], lambda: circuit(seed))


def control_trial(seed):
    facts = {**circuit_trial(seed).facts, "kind": "control", "draws": DRAWS}
    return Trial(f"control-seed{seed}", facts, MINUTES["circuit"], lambda: circuit(seed, DRAWS))


def jumps_trial(eps, seed):
    facts = {"kind": "jumps", "seed": seed, **settings(jumps_config(eps, seed)),
             "factor": FACTOR, "after": AFTER}
    return Trial(f"jumps-eps{eps:g}-seed{seed}", facts, MINUTES[eps], lambda: jumping(eps, seed))


TRIALS = [trial for seed in SEEDS for trial in (
    circuit_trial(seed), control_trial(seed),
    *(jumps_trial(eps, seed) for eps in EPS if seed in WATCHED))]

if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))
