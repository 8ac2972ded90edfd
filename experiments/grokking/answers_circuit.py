"""The answers of phases.py: what the GPT computes while it groks, and where jumps come from."""

import math

from paired import COLOURS, NOTHING, of_arm, plot_seeds
from phases import EPS, FACTOR, LONG, SEEDS, moments
from reporting.measures import MEMORISED, span
from reporting.parts import Figure, Section, Table

from npdl.study import plots_style as style
from npdl.training.config import Config

BETA2 = Config().betas[1]


def circuit_section(records):
    """The Section of question 3."""
    made = Section("3. What the GPT computes (arXiv:2301.05217)")
    found = of_arm(records, kind="circuit")
    made.parts += [answer(found), table(found), figure(found)] if found else [NOTHING]
    return made


def ordered(columns):
    """Whether the circuit is there after memorising and before generalising."""
    at = moments(columns)
    return at["memorised"] < at["circuit"] < at["generalised"] < math.inf


def rise(columns):
    """log10 of the excluded loss when the model generalises over that when it has memorised."""
    at, excluded = moments(columns), dict(zip(columns["step"], columns["excluded"], strict=True))
    if not all(map(math.isfinite, (at["memorised"], at["generalised"]))):
        return math.nan
    return math.log10(excluded[at["generalised"]] / excluded[at["memorised"]])


def answer(found):
    in_order = sum(map(ordered, found.values()))
    rises = [value for c in found.values() if math.isfinite(value := rise(c))]
    keys = [c["keys"][-1] for c in found.values()]
    words = ("In every seed" if in_order == len(found) else f"In {in_order} of {len(found)} seeds")
    return (
        f"**Are there three phases?** {words} the circuit forms (the restricted loss halves) after "
        "the training set is known and before the validation set is: the general solution is "
        "there before it shows. Between the two the loss without the key frequencies (excluded) "
        f"changes by {span(rises, '{:+.2f}')} decades: "
        + ("the model comes to rely on them. " if rises and min(rises) > 0 else
           "not in every seed does the model come to rely on them. ")
        + f"The key frequencies are {span(keys, '{:g}')} of 15. The paper finds the same order on "
        "addition modulo 113 with one layer and five key frequencies; here there are two layers, "
        "31 residues and LayerNorm.")


def table(found):
    rows = []
    for seed, columns in found.items():
        at, end = moments(columns), {name: values[-1] for name, values in columns.items()}
        rows.append((str(seed), *(f"{at[name]:g}" if math.isfinite(at[name]) else "never"
                                  for name in at), str(end["keys"]),
                     *(f"{end[name]:.2g}" for name in ("restricted", "excluded")),
                     f"{columns['l2_norm'][0]:.0f} → {end['l2_norm']:.0f}",
                     f"{columns['top'][0]:.2f} → {end['top']:.2f}"))
    return Table(f"The steps that end a phase, of {len(found)} of {len(SEEDS)} seeds; the key "
                 "frequencies of 15; both losses at the end; the norm of the parameters and the "
                 "share of the five strongest frequencies of the embedding, at step 1 and the end.",
                 ("seed", "memorised", "circuit formed", "generalised", "key frequencies",
                  "restricted", "excluded", "norm", "top 5"), rows)


def figure(found):
    names = ("train_loss", "validation_loss", "restricted", "excluded")
    data = [{"seed": seed, "step": c["step"], **{name: c[name] for name in names}}
            for seed, c in found.items()]
    return Figure("circuit", "L3", "Losses of the default GPT, of each seed: training, validation, "
                  "restricted to the key frequencies, and without them.", data, draw,
                  (13, 3.2 * max(1, -(-len(found) // 3))))


def draw(figure, data):
    rows = max(1, -(-len(data) // 3))
    panels = figure.subplots(rows, 3, squeeze=False, sharey=True)
    names = ("train_loss", "validation_loss", "restricted", "excluded")
    for axes, one in zip(panels.flat, data, strict=False):
        for colour, name in zip(COLOURS, names, strict=False):
            axes.plot(one["step"], one[name], color=colour, linewidth=1.0,
                      label=name.replace("_", " "))
        axes.set_yscale("log")
        style.dress(axes, "training step", "", f"seed {one['seed']}")
    for axes in panels.flat[len(data):]:
        axes.set_axis_off()
    if data:
        panels.flat[0].legend(frameon=False, fontsize=8)


# --- late jumps -----------------------------------------------------------------------------------
LAST = 4000                 # steps before the lowest loss in which its fall is measured
FALL = (
    " Why the loss falls so low: of a memorised set the gradient has only to make good what the "
    "decay takes, m / (sqrt(v) + eps) = decay times weight. So m stays far below sqrt(v), which "
    f"does nothing but forget: by a factor e in 2 / (1 - beta2) = {2 / (1 - BETA2):.0f} steps, and "
    "gradient and loss follow it down. Below eps, sqrt(v) no longer counts: the same gradient is "
    "needed at every step, and the fall slows.")


def jumped(columns):
    """The step before the first hundredfold rise of a memorised training loss, or infinity."""
    known = next((i for i, a in enumerate(columns["train_accuracy"]) if a >= MEMORISED), math.inf)
    pairs = zip(columns["train_loss"], columns["train_loss"][1:], strict=False)
    return next((columns["step"][i] for i, (a, b) in enumerate(pairs)
                 if i >= known and b > FACTOR * a), math.inf)


def folding(columns):
    """In how many steps the training loss fell by a factor e, over LAST steps to its lowest."""
    steps, losses = columns["step"], columns["train_loss"]
    low = min(range(len(steps)), key=losses.__getitem__)
    early = next(i for i, step in enumerate(steps) if step >= steps[low] - LAST)
    fall = math.log(losses[early] / losses[low])
    return (steps[low] - steps[early]) / fall if fall > 0 else math.inf


def jumps_section(records):
    """The Section on AdamW's eps and the jumps."""
    made = Section("4. Late jumps and AdamW's eps")
    found = {eps: of_arm(records, kind="jumps", eps=eps) for eps in EPS}
    if not all(found.values()):
        made.parts.append(NOTHING)
        return made
    rows = [(f"{eps:g}", str(seed), f"{jumped(c):g}" if math.isfinite(jumped(c)) else "none",
             str(c["step"][-1]), f"{min(c['train_loss']):.2g}", f"{folding(c):.0f}")
            for eps, seeds in found.items() for seed, c in seeds.items()]
    made.parts += [jumps_answer(found), Table(
        "The LSTM with decay 1/4 in float64: the last evaluation before its training loss rises "
        "more than a hundredfold, the last step watched, the lowest training loss, and the "
        f"steps in which it fell by a factor e, in the {LAST} before that.",
        ("eps", "seed", "jump after", "watched to", "lowest L_train", "factor e in"), rows),
        jumps_figure(found)]
    return made


def jumps_answer(found):
    (usual, a), (small, b) = ((eps, {s: jumped(c) for s, c in seeds.items()})
                              for eps, seeds in found.items())
    many = [sum(map(math.isfinite, steps.values())) for steps in (a, b)]
    sooner = sum(a[seed] < b[seed] for seed in a if seed in b)
    none = many[1] == 0 and many[0] == len(a)
    return (f"**Do the jumps come from AdamW's eps?** With eps {usual:g} {many[0]} of {len(a)} "
            f"seeds jump (after step {span(a.values(), '{:g}')}); with {small:g} {many[1]} of "
            f"{len(b)} up to step {LONG} (after {span(b.values(), '{:g}')}); the larger eps jumps "
            f"first in {sooner} of {len(set(a) & set(b))} pairs. "
            + ("So eps decides whether they come, up to that step." if none else
               "So eps does not decide whether they come, at most when." if many[1] else
               "So with these seeds it stays open.") + FALL)


def jumps_figure(found):
    data = {f"eps {eps:g}": [{"step": c["step"], "loss": c["train_loss"]} for c in seeds.values()]
            for eps, seeds in found.items()}
    return Figure("jumps", "L4", "Training loss of the LSTM with decay 1/4 in float64, to some "
                  "evaluations after its first jump.", data, draw_jumps, (10, 3.8))


def draw_jumps(figure, data):
    axes = figure.subplots()
    for colour, (name, curves) in zip(COLOURS, data.items(), strict=False):
        plot_seeds(axes, [(c["step"], c["loss"]) for c in curves], colour, name)
    axes.set_yscale("log")
    style.dress(axes, "training step", "training loss", "")
    if any(data.values()):
        axes.legend(frameon=False, fontsize=8.5)
