"""Jumps without rounding: what AdamW and the softmax do before a memorised loss jumps.

  python experiments/grokking/spikes.py --list     the trials and their minutes
  python experiments/grokking/spikes.py            make what is not made yet
  python experiments/report.py                     the answer, from what there is

gpt    the README's run, the study's default GPT, with several seeds, in float64 and in float32,
       looked at every EVERY of the steps WINDOW, in which its loss and accuracy fall back
lstm   the LSTM of question 7 with decay 1/4, in both, until its training loss has jumped a
       hundredfold. Then it is set back BACK steps, and the same steps are made again, to the last
       digit, and looked at every EVERY of them; before that every SPARSE

lr_curvature   lr times the largest eigenvalue of P^-1/2 H P^-1/2 (see curvature.py)
along_update   lr times that curvature along AdamW's update P^-1 m; along_gradient: along P^-1 g
root_v         root of the mean of v_hat; ratio: the mean of g^2 over that of v_hat
zero_sum       |sum over the words| of the logits' gradient, over the sum of all its absolute
               values: 0 but for rounding, in the run's own digits
absorbed       share of the counted tokens whose right word's gradient is exactly 0
classifier_mean, logit_mean   norm of the mean of the words' weights; mean of all counted logits

Two explanations, and the step at which each says a jump must come:

arXiv:2506.04805   where the curvature that AdamW sees passes the stability limit along the
                   gradient, v being larger than g^2 and falling. For b1 = 0.9 the limit is 38
arXiv:2605.06152   after right words' gradients are rounded to 0: the classifier's mean and the
                   features' grow exponentially. Its setting has no decay. A token is absorbed once
                   its loss is below 6e-8 in float32, and 1e-16 in float64

Predicted on 26 November 2026, 18:57 UTC, before any of these runs (that the GPT's loss jumps in
float64, too, was known from the trials of experiments/rounding.py):
  (1) gpt: in both precisions each tenfold rise of the loss within 30 steps comes at most 30 steps
      after a look with lr_curvature above 38, and along_gradient is above 38 at a look between;
  (2) gpt: at no look is a token absorbed in float64, or more than one in a hundred in float32, and
      zero_sum is below 1e-12 and 1e-3: the second explanation has no step for these jumps;
  (3) gpt: float32 and float64 have equally many jumps, within a factor of two;
  (4) lstm: (1) holds of each first jump, the limit being passed at most 100 steps before. In
      float64 nothing is absorbed. In float32 more than half of the tokens are before the jump, but
      the classifier's mean grows less than twofold over the BACK steps.
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import math
import sys
from collections import deque

import numpy as np

from experiments.grokking import collapse
from experiments.grokking.curvature import LIMIT, Hessian, dot, measured, norm, place
from experiments.study.figures import Figure
from experiments.study.measures import span
from experiments.study.pages import Table
from experiments.study.q7_decay import FACTOR, jump_places
from experiments.study.records import GRID, NAMES, variant
from experiments.trials import Trial, columns_of, evaluations, main, records, settings
from npdl.losses import SequenceLoss
from npdl_study.plots import style
from npdl_train.runs.engine import PlainEngine
from npdl_train.runs.loop import Trainer, unwarned

FOLDER = "grokking/spikes"
DTYPES = ("float64", "float32")
SEEDS = {"gpt": (0, 42, 3), "lstm": (1, 42, 0)}
WINDOW = (200, 700)         # the GPT's
STEPS = 48_001              # the LSTM's, at most
BACK, EVERY, SPARSE = 800, 10, 1000
RISE = 3                    # looks in which a tenfold loss is a jump
TURNS = (25, 8, 2)          # of the power iteration: at first, every SPARSE steps, every EVERY
MINUTES = {("gpt", "float64"): 4, ("gpt", "float32"): 3, ("lstm", "float64"): 25,
           ("lstm", "float32"): 15}                  # on one core, expected


class Probe:
    """Looks at a trainer with the eigenvector that it found the last time."""

    def __init__(self, hessian, params):
        rng = np.random.default_rng(0)
        self.hessian = hessian
        self.u = {name: rng.normal(size=p.data.shape) for name, p in params}
        self.turns = TURNS[0]

    def row(self, trainer, turns):
        """The row of this step."""
        row, self.u = measured(self.hessian, trainer, self.u, max(turns, self.turns))
        self.turns = 0
        return {**row, **directions(self.hessian, trainer), **rounded(trainer)}


def directions(hessian, trainer):
    """The curvature along the update and along the gradient, as AdamW sees it, and v."""
    theta, root = place(trainer)
    gradient = hessian.gradient(theta)[1]
    m = {name: a.astype(np.float64) for name, a in trainer.optimizer.m.items()}
    row = {}
    for name, vector in (("along_update", m), ("along_gradient", gradient)):
        d = {n: vector[n] / root[n] ** 2 for n in vector}
        row[name] = trainer.config.lr * dot(d, hessian.product(theta, d)) / dot(d, vector)
    v = sum(a.sum(dtype=np.float64) for a in trainer.optimizer.v.values())
    v /= 1 - trainer.config.betas[1] ** trainer.optimizer.steps
    size = sum(a.size for a in root.values())
    return {**row, "root_v": float(np.sqrt(v / size)), "ratio": norm(gradient) ** 2 / v}


def rounded(trainer):
    """What rounding does to the logits' gradient, in the run's own digits."""
    plain, loss = PlainEngine(trainer.model, trainer.optimizer), SequenceLoss()
    logits, _, targets, counted = plain.forward(trainer.task.batch(trainer.step), None)
    d = loss.backward(1.0, loss.forward(logits, targets, counted)[1])[counted]
    right = np.take_along_axis(d, targets[counted][:, None], 1)
    wide = d.astype(np.float64)
    return {"zero_sum": float(np.abs(wide.sum(-1)).sum() / np.abs(wide).sum()),
            "absorbed": float((right == 0).mean()),
            "classifier_mean": norm({"": trainer.model.classifier.W.data.mean(1)}),
            "logit_mean": float(logits[counted].mean())}


def looked_at(config):
    """The columns of a training in the WINDOW."""
    trainer, rows = Trainer(config), []
    probe = Probe(Hessian(config), trainer.model.params())
    with trainer.engine, unwarned():
        while trainer.step <= WINDOW[1]:
            if trainer.step >= WINDOW[0] and trainer.step % EVERY == 0:
                rows.append(probe.row(trainer, TURNS[2]))
            trainer.update()
    return columns_of(rows)


def spiking(config):
    """The columns of a training until its first jump."""
    trainer = Trainer(config)
    probe, rows, seen = Probe(Hessian(config), trainer.model.params()), [], []
    states = deque(maxlen=1 + BACK // GRID)
    for row in evaluations(trainer):
        if trainer.step % GRID == 0:
            rows.append(row)
            states.append(trainer.state())
            if jump_places(columns_of(rows)):
                break
            if trainer.step % SPARSE == 0:
                seen.append(probe.row(trainer, TURNS[1]))
    trainer.load_state(*states[0])
    seen = [row for row in seen if row["step"] < trainer.step]
    probe.turns = TURNS[0]
    with trainer.engine:
        while trainer.step < rows[-1]["step"]:
            seen.append(probe.row(trainer, TURNS[2]))
            for _ in range(EVERY):
                trainer.update()
    seen.append(probe.row(trainer, TURNS[2]))
    return columns_of(seen)


def trial(model, seed, dtype):
    if model == "gpt":
        config, make, more = variant("gpt", seed=seed, dtype=dtype), looked_at, list(WINDOW)
    else:
        config = variant("lstm", seed=seed, weight_decay=0.25, dtype=dtype, steps=STEPS)
        make, more = spiking, FACTOR
    return Trial(f"{model}-{dtype}-seed{seed}", {
        **settings(config), "model": model, "seed": seed, "looked": more, "every": EVERY},
        MINUTES[model, dtype], lambda: make(config))


TRIALS = [trial(model, seed, dtype) for model, seeds in SEEDS.items() for seed in seeds
          for dtype in DTYPES]


# --- what the page has ----------------------------------------------------------------------------
def kept(word=""):
    """{name: columns} of the trials that are kept and have a word in their name."""
    return {name: record["columns"] for name, record in records(FOLDER, TRIALS).items()
            if word in name}


def jumps(columns):
    """[(the place of the first look above the limit, that of the tenfold loss)] of each jump: a
    loss ten times the least of the RISE looks before, and none in as many before it. The first
    place is that from which every look was above, or None where the look before was not."""
    loss, above = columns["loss"], [c > LIMIT for c in columns["lr_curvature"]]
    found, last = [], -math.inf
    for i in range(1, len(loss)):
        if loss[i] >= 10 * min(loss[max(0, i - RISE):i]):
            if i - last > RISE:
                near = [j for j in range(max(0, i - RISE), i) if above[j]]
                first = near[0] if near else None
                while first and above[first - 1]:
                    first -= 1
                found.append((first, i))
            last = i
    return found


def stretches(columns):
    """[(first, last)] places of the looks in a row that are above the limit."""
    above = [False, *(c > LIMIT for c in columns["lr_curvature"]), False]
    edges = [i for i in range(1, len(above)) if above[i] != above[i - 1]]
    return [(a - 1, b - 2) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def run_of(name):
    """The name of a trial as the cells of a table: model, digits, seed."""
    model, digits, seed = name.replace("seed", "").split("-")
    return NAMES[model], digits, seed


def rows():
    """A row for each jump."""
    made = []
    for name, c in kept().items():
        for first, i in jumps(c):
            before = "" if first is None else f"{c['step'][first]:,}"
            along = max(c["along_gradient"][first or 0:i + 1])
            made.append((*run_of(name), before, f"{c['step'][i]:,}", f"{c['loss'][first or 0]:.1e}",
                         f"{c['loss'][i]:.2g}", f"{along:.0f}"))
    return made


def grown(columns):
    """How many times the classifier's mean was at the look before the jump what it was BACK steps
    before that."""
    last = columns["step"].index(columns["step"][-1] - EVERY)
    before = columns["step"].index(columns["step"][last] + EVERY - BACK)
    return columns["classifier_mean"][last] / columns["classifier_mean"][before]


def creep(columns):
    """By what share the curvature grows in the hundred steps before it first passes the limit."""
    first, _ = jumps(columns)[0]
    before = columns["step"].index(columns["step"][first] - 100)
    return columns["lr_curvature"][first] / columns["lr_curvature"][before] - 1


def values():
    every = [(c, s) for c in kept("gpt").values() for s in stretches(c)]
    led = sum(any(a <= i <= b + RISE for _, i in jumps(c)) for c, (a, b) in every)
    lstm, float32 = kept("lstm"), kept("lstm-float32").values()
    early = [c["step"][i] - c["step"][first] for c in lstm.values() for first, i in jumps(c)[:1]]
    ratios = [c["ratio"][first] for c in kept("float64").values()
              for first, _ in jumps(c) if first is not None]
    return {"spikes table": Table(("model", "digits", "seed", "above 38 from", "tenfold at",
                                   "loss before", "loss", "along the gradient"), rows()),
            "spikes ratio": span(ratios, "{:.1g}"),
            "spikes runs": str(len(kept("gpt"))),
            "spikes float64": f"{max(max(c['zero_sum']) for c in kept('float64').values()):.0e}",
            "spikes creep": span(map(creep, kept("lstm-float64").values()), "{:.1%}"),
            "spikes all": str(sum(t.facts["model"] == "gpt" for t in TRIALS)),
            "spikes lstm": str(len(lstm)), "spikes lstm all": str(
                sum(t.facts["model"] == "lstm" for t in TRIALS)),
            "spikes lstm early": " and ".join(map(str, early)),
            "spikes absorbed": span((max(c["absorbed"]) for c in float32), "{:.0%}"),
            "spikes missed": span((max(c["zero_sum"]) for c in float32), "{:.0%}"),
            "spikes grown": span((grown(c) - 1 for c in float32), "{:.0%}"),
            "spikes stretches": str(len(every)), "spikes led": str(led),
            "rounding jumps": rounding_table()}


def rounding_table():
    """Jumps of the MLP without decay, from the records of collapse.py: at the limit of the loss's
    own digits."""
    made, found = [], records(collapse.FOLDER, collapse.TRIALS)
    for name in ("float32", "float32-70", "float64", "float64-70"):
        runs = [r["columns"] for r in found.values() if r["trial"]["arm"] == name]
        at = [(c, jump_places(c)) for c in runs]
        first = [(c, places[0]) for c, places in at if places]
        made.append((name, str(len(runs)), str(sum(len(places) for _, places in at)),
                     span((c["step"][i] for c, i in first), "{:,}"),
                     span((c["train_loss"][i] for c, i in first), "{:.1e}"),
                     span((c["collapsed"][i] for c, i in first), "{:.0%}")))
    return Table(("digits of the loss", "seeds", "jumps", "last epoch before the first",
                  "loss there", "pairs absorbed"), made)


def facts():
    found = kept("gpt").values()
    all_jumps = [(c, *jump) for c in found for jump in jumps(c)]
    return {
        "every jump of the GPT is preceded by a curvature above the limit within RISE looks": all(
            first is not None for _, first, _ in all_jumps),
        "along the gradient, too": all(max(c["along_gradient"][first or 0:i + 1]) > LIMIT
                                       for c, first, i in all_jumps),
        "where it passes the limit it is below 1": all(
            c["along_gradient"][first or 0] < 1 for c, first, _ in all_jumps),
        "every run of the GPT has one": all(map(jumps, found)),
        "nothing is absorbed in the GPT": all(max(c["absorbed"]) == 0 for c in found),
        "the LSTM's curvature passes the limit before it jumps, along the gradient, too": all(
            first is not None and max(c["along_gradient"][first:i + 1]) > LIMIT
            for c in kept("lstm").values() for first, i in jumps(c)[:1]),
        "nothing is absorbed in the LSTM in float64": all(
            max(c["absorbed"]) == 0 for c in kept("lstm-float64").values()),
        "in float32 its curvature hovers below the limit from step 8,000 on": all(
            0.7 * LIMIT < v < LIMIT for c in kept("lstm-float32").values() for t, v in zip(
                c["step"][:-2], c["lr_curvature"][:-2], strict=True) if t >= 8000)}


def figures():
    return [Figure("spikes", "L7", "", {"limit": LIMIT, "runs": {
        name: {what: c[what] for what in ("step", "loss", "lr_curvature", "along_gradient")}
        for model in SEEDS for name, c in kept(model).items()
        if name.endswith(f"seed{SEEDS[model][0]}")}}, draw, (10, 5.2))]


def draw(figure, data):
    """A column for each run: the loss, and below it lr times the curvature with its limit."""
    panels = figure.subplots(2, len(data["runs"]), sharex="col", sharey="row", squeeze=False)
    for (above, below), (name, c) in zip(panels.T, data["runs"].items(), strict=True):
        above.plot(c["step"], c["loss"], color=style.LINES[0])
        for colour, dash, what, label in zip(style.LINES, style.DASHES, (
                "lr_curvature", "along_gradient"), ("the largest", "along the gradient"),
                strict=False):
            below.plot(c["step"], c[what], color=colour, linestyle=dash, label=label)
        below.axhline(data["limit"], color=style.INK, linewidth=1, linestyle=":")
        for axes in (above, below):
            axes.set_yscale("log")
        below.set_ylim(bottom=0.1)
        style.dress(above, "", "", ", ".join(run_of(name)[:2]))
        style.dress(below, "training step", "")
    panels[0, 0].set_ylabel("loss")
    panels[1, 0].set_ylabel("lr times curvature")
    panels[1, 0].legend(frameon=False, fontsize=8.5, loc="upper left")


if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))
