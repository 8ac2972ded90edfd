"""What is the clock of grokking: decay x time, the norm of the weights, or the scale of the logits?

  python experiments/grokking/clock.py --list      the trials and their minutes
  python experiments/grokking/clock.py             make what is not made yet
  python experiments/report.py                     the answer, from what there is

An LSTM (one layer, d = 64, the release recipe, float32) learns sums modulo 31. The delay is the
number of steps from A_train >= 0.99 to A_val >= 0.9.

grid      decay 1/4, 1/2, 1, 2, 4 times learning rate 0.001, 0.002, 0.004, seeds 0, 1, 2: 45 runs,
          each until the decay alone would have shrunk the weights by a factor e^PATIENCE
held      no decay; after every update all parameters are multiplied by one number, so that their
          norm stays what it says. A temperature divides the logits before the loss and is no part
          of the norm (arXiv:2606.18465). It is a power of two: the classifier is divided by it
          before the gradients are computed, and multiplied again, without rounding

The logit scale is the standard deviation of the 31 numbers' logits where the answer is read, over
the training set, divided by the temperature. A run waits at its geometric mean over the evaluations
of the delay, and likewise of the norm.

Predicted on 26 November 2026, 18:27 UTC, before any of these runs:
  (1) delay x lr x decay is the same in the grid within a factor 2: its logarithm falls with slope
      -1 (within 0.15) over that of lr x decay, which explains 90 % of its variance or more;
  (2) the norm at which a run waits explains less than half, the logit scale more than the norm and
      less than lr x decay;
  (3) held, a hotter output is sooner: at either norm temperature 2 generalises in at most two
      thirds of the steps that 1/2 takes, as arXiv:2606.18465 has it; over the held runs the logit
      scale explains more of the delay than the norm does.
"""

if __name__ == "__main__":
    from npdl_train.console import start_script

    start_script()         # Ctrl-C is quiet from here on

import dataclasses
import math
import sys
from statistics import median

import numpy as np
from matplotlib.ticker import NullFormatter

from experiments.study.figures import Figure
from experiments.study.measures import (
    A_TRAIN,
    A_VAL,
    GENERAL,
    MEMORISED,
    brief,
    mean,
    middle,
    span,
)
from experiments.study.pages import Table
from experiments.study.records import variant, with_recipe
from experiments.trials import (
    Trial,
    columns_of,
    evaluations,
    first_step,
    main,
    records,
    settings,
)
from npdl.backend import to_host
from npdl_study.plots import style
from npdl_train.runs.loop import Trainer

FOLDER = "grokking/clock"
DECAYS, RATES, SEEDS = (4.0, 2.0, 1.0, 0.5, 0.25), (4e-3, 2e-3, 1e-3), (0, 1, 2)
NORMS, TEMPERATURES, HELD = (30.0, 45.0), (2.0, 1.0, 0.5), 2e-3
PATIENCE = 16.0             # lr x decay x steps, at most; of the held as if their decay were 1
ENOUGH = 0.95               # A_val that ends a trial
CONFIG = with_recipe(variant("lstm", layers=1, width=64), "release")
SECONDS = 0.006             # a step on one core, expected


class Clocked(Trainer):
    """A Trainer whose logits are divided by a temperature, and whose norm may be held."""

    def __init__(self, config, norm=None, temperature=1.0):
        super().__init__(config, metrics={"logit_scale": logit_scale})
        self.norm, self.temperature = norm, temperature
        self.last = [p for name, p in self.model.params() if name.startswith("classifier")]
        self.hold()

    def cool(self, factor):
        for p in self.last:
            p.data *= p.data.dtype.type(factor)

    def hold(self):
        """Multiply all parameters by one number, so that their norm is what it shall be."""
        if self.norm is not None:
            arrays = self.learned()
            is_now = math.sqrt(sum(float((a.astype(np.float64) ** 2).sum()) for a in arrays))
            for array in arrays:
                array *= array.dtype.type(self.norm / is_now)

    def update(self):
        """The recipe's update, of the loss of the divided logits."""
        self.cool(1 / self.temperature)
        self.engine.step(self.task.batch(self.step))
        self.cool(self.temperature)
        for p in self.last:                     # d/dW of the loss at W / temperature
            p.grad *= p.grad.dtype.type(1 / self.temperature)
        self.engine.clip(self.config.clip)
        self.engine.update(self.learning_rate(self.step))
        self.hold()
        self.step += 1

    def evaluate(self):
        """As the loss sees the model."""
        self.cool(1 / self.temperature)
        try:
            return super().evaluate()
        finally:
            self.cool(self.temperature)


def logit_scale(trainer):
    """The standard deviation of an answer's logits over the training set."""
    (logits, _), _ = trainer.model.forward(trainer.task.data.train.inputs[:, :5])   # BOS a + b =
    return float(np.sqrt(to_host(logits)[:, -1, :trainer.config.p].var(-1).mean()))


def train(config, **arm):
    """The columns of a training: step, losses, accuracies, norm, logit scale."""
    rows = []
    for row in evaluations(Clocked(config, **arm)):
        rows.append({**row, "l2_norm": arm.get("norm") or row["l2_norm"]})
        if row[A_VAL] >= ENOUGH:
            break
    return columns_of(rows)


def trial(name, kind, seed, rate, decay, **arm):
    steps = round(PATIENCE / (rate * (decay or 1)))
    config = dataclasses.replace(CONFIG, seed=seed, lr=rate, weight_decay=decay, steps=steps)
    return Trial(f"{name}-seed{seed}", {**settings(config), "kind": kind, "seed": seed, **arm},
                 steps * SECONDS / 60, lambda: train(config, **arm))


def grid(seed):
    return [trial(f"decay{decay:g}-lr{rate:g}", "grid", seed, rate, decay)
            for decay in DECAYS for rate in RATES]


TRIALS = [*grid(0),
          *(trial(f"norm{norm:g}-temperature{temperature:g}", "held", 0, HELD, 0.0, norm=norm,
                  temperature=temperature) for norm in NORMS for temperature in TEMPERATURES),
          *grid(1), *grid(2)]


# --- what the page has ----------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Wait:
    """What a kept run of these facts waited: from step `known` to `general`, infinity for never, at
    these geometric means of the norm and of the logit scale."""

    facts: dict
    known: float
    general: float
    norm: float
    scale: float

    @property
    def delay(self):
        return self.general - self.known

    @property
    def rate(self):
        """lr x decay; of a held norm, that of the decay 1 that its patience is counted by."""
        return self.facts["lr"] * (self.facts["weight_decay"] or 1)


def waited(record):
    c = record["columns"]
    known = first_step(c, A_TRAIN, lambda a: a >= MEMORISED)
    general = first_step(c, A_VAL, lambda a: a >= GENERAL)
    there = [i for i, step in enumerate(c["step"]) if known <= step <= general]
    return Wait(record["trial"], known, general, *(
        math.exp(mean(math.log(c[name][i]) for i in there)) if there else math.nan
        for name in ("l2_norm", "logit_scale")))


def kept(kind):
    """{name: Wait} of the trials of a kind that are kept."""
    return {name: waited(record) for name, record in records(FOLDER, TRIALS).items()
            if record["trial"]["kind"] == kind}


def line(waits, of):
    """(slope of log delay over the log of a number, the share of its variance it explains)."""
    xs, ys = ([math.log(f(w)) for w in waits] for f in (of, lambda w: w.delay))
    a, b = ([v - mean(vs) for v in vs] for vs in (xs, ys))
    both, size = sum(p * q for p, q in zip(a, b, strict=True)), sum(p * p for p in a)
    return both / size, both**2 / (size * sum(q * q for q in b))


CLOCKS = {"lr x decay": lambda w: w.rate, "the norm": lambda w: w.norm,
          "the logit scale": lambda w: w.scale}


def over(waits):
    """Those that have waited to the end."""
    return [w for w in waits.values() if 0 < w.delay < math.inf]


def clocks_table():
    def share(found, of):
        if len(found) < 3:
            return "too few runs"
        return f"{line(found, of)[1]:.0%}" if len(set(map(of, found))) > 1 else "held alike"

    rows = [(name, *(share(over(kept(kind)), of) for kind in ("grid", "held")))
            for name, of in CLOCKS.items()]
    return Table(("of the delay's variance explains", f"grid, {len(over(kept('grid')))} runs",
                  f"held, {len(over(kept('held')))} runs"), rows)


def grid_table():
    """A row for each lr x decay: what its runs waited, and the medians of norm and logit scale."""
    rows = []
    for rate in sorted({w.rate for w in kept("grid").values()}, reverse=True):
        these = {name: w for name, w in kept("grid").items() if w.rate == rate}
        found = over(these)
        rows.append((f"{rate:g}", f"{len(found)} of {len(these)}", *(
            (middle((w.delay for w in found), "{:.0f}"),
             *(f"{median(map(of, found)):.3g}" for of in list(CLOCKS.values())[1:]))
            if found else ("", "", ""))))
    return Table(("lr x decay", "generalise", "delay", "norm", "logit scale"), rows)


def held_table():
    rows = [(f"{w.facts['norm']:g}", f"{w.facts['temperature']:g}", brief(w.known),
             brief(w.general), "" if math.isnan(w.scale) else f"{w.scale:.3g}")
            for w in kept("held").values()]
    return Table(("norm", "temperature", "known at", "generalises at", "logit scale"), rows)


def values():
    grid_, products = kept("grid"), [w.delay * w.rate for w in over(kept("grid"))]
    return {"clock grid": f"{len(grid_)} of {sum(t.facts['kind'] == 'grid' for t in TRIALS)}",
            "clock patience": f"{PATIENCE:g}", "clock general": str(len(products)),
            "clock products": span(products, "{:.2g}"),
            "clock slope": f"{line(over(grid_), CLOCKS['lr x decay'])[0]:.2f}",
            "clock held": f"{len(kept('held'))} of {len(NORMS) * len(TEMPERATURES)}",
            "clock table": grid_table(), "held table": held_table(), "clocks": clocks_table()}


def facts():
    found = over(kept("grid"))
    shares = {name: line(found, of)[1] for name, of in CLOCKS.items()}
    held = sorted((w for w in kept("held").values() if w.known < math.inf), key=lambda w: w.scale)
    steps = [w.general for w in held]
    return {"lr x decay explains nine tenths of the grid's delays": shares["lr x decay"] >= 0.9,
            "with a slope steeper than predicted": line(found, CLOCKS["lr x decay"])[0] < -1.15,
            "the norm explains more than half, the logit scale less than the norm":
                0.5 < shares["the norm"] > shares["the logit scale"],
            "with the norm held they generalise in the order of the logit scale":
                steps == sorted(steps),
            "and not in that of the norm": [w.facts["norm"] for w in held] != sorted(
                w.facts["norm"] for w in held),
            "their delay alone is not in that order": (delays := [w.delay for w in held]) != sorted(
                delays),
            "at norm 30 and temperature 2 the set is never known": len(held) == 5}


def figures():
    return [Figure("clock", "L8", "", {kind: [
        {"lr": w.facts["lr"], "temperature": w.facts.get("temperature"), "rate": w.rate,
         "steps": w.delay if kind == "grid" else w.general, "scale": w.scale,
         "norm": w.facts.get("norm")} for w in over(kept(kind))]
        for kind in ("grid", "held")}, draw, (10, 3.8))]


def draw(figure, data):
    """Delays over lr x decay, with the line of their mean product; steps of generalising over the
    logit scale."""
    kinds = [kind for kind in data if data[kind]]
    panels = dict(zip(kinds, figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0],
                      strict=True))
    for kind, panel in panels.items():
        x, by = ("rate", "lr") if kind == "grid" else ("scale", "norm")
        for colour, mark, value in zip(style.LINES, style.MARKERS,
                                       sorted({w[by] for w in data[kind]}), strict=False):
            panel.plot(*zip(*[(w[x], w["steps"]) for w in data[kind] if w[by] == value],
                            strict=True), color=colour, marker=mark, linestyle="",
                       label=f"{by} {value:g}")
        panel.set_xscale("log" if kind == "grid" else "linear")
        panel.set_yscale("log")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.legend(frameon=False, fontsize=8.5)
        style.dress(panel, "lr x decay" if kind == "grid" else "logit scale",
                    "steps from known to general" if kind == "grid" else "step of generalising",
                    kind if kind == "grid" else "norm held")
    rates = sorted(w["rate"] for w in data["grid"])
    product = math.exp(mean(math.log(w["steps"] * w["rate"]) for w in data["grid"]))
    panels["grid"].plot(rates, [product / rate for rate in rates], color=style.INK, linewidth=1,
                        linestyle=":")


if __name__ == "__main__":
    sys.exit(main(FOLDER, TRIALS, __doc__))
