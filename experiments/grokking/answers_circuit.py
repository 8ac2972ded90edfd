"""The answers of phases.py: what the GPT computes while it groks, and where jumps come from."""

import math

from paired import COLOURS, NOTHING, of_arm, plot_seeds
from phases import EPS, LONG, SEEDS, STRONGEST, moments
from reporting.jumps import jump_places
from reporting.measures import span
from reporting.parts import Figure, Section, Table

from npdl.study import plots_style as style
from npdl.training.config import Config

BETA2 = Config().betas[1]
LINES = ("train_loss", "validation_loss", "restricted", "fresh", "excluded")


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


def value_at(columns, name, step):
    return columns[name][columns["step"].index(step)]


def change(columns, name, start, end):
    """log10 of a column at `end` over that at `start`, phases of `moments` or "last"."""
    at = {**moments(columns), "last": columns["step"][-1]}
    if not (math.isfinite(at[start]) and math.isfinite(at[end])):
        return math.nan
    before, after = value_at(columns, name, at[start]), value_at(columns, name, at[end])
    return math.log10(after / before) if before and after else math.nan


def known(values):
    return [value for value in values if math.isfinite(value)]


def answer(found):
    each = list(found.values())
    return " ".join(filter(None, ["**Are there three phases?**", order(each), reliance(each),
                                  cleanup(each), plateau(each), frequencies(each)]))


def order(each):
    """Phases 1 and 2: memorising, and a circuit before it shows."""
    many, of = sum(map(ordered, each)), len(each)
    ends = sum(math.isfinite(moments(c)["generalised"]) for c in each)
    words = (f"In {many} of {of} seeds the circuit forms (the restricted loss of fresh equations "
             "halves) after the training set is known and before A_val is 0.9")
    if ends < of:
        words += f" ({of - ends} never get there)"
    return words + (": the general solution is there before it shows." if many == of else
                    ": not in every seed is it there before it shows." if many else
                    ": it is not seen before it shows.")


def reliance(each):
    rises = known(change(c, "excluded", "memorised", "generalised") for c in each)
    if not rises:
        return "No seed memorises and then generalises: nothing can be said of the excluded loss."
    return ("From memorised to generalised the loss without the key frequencies (excluded) changes "
            f"by {span(rises, '{:+.2f}')} decades: "
            + ("the model comes to rely on them." if min(rises) > 0 else
               "not in every seed does the model come to rely on them."))


def cleanup(each):
    """Phase 3: the norm falls, and what is left needs the key frequencies no less."""
    pairs = [(change(c, "l2_norm", "generalised", "last"),
              change(c, "excluded", "generalised", "last")) for c in each]
    pairs = [(norm, excluded) for norm, excluded in pairs if math.isfinite(norm + excluded)]
    if not pairs:
        return "Of a cleanup afterwards nothing can be said: no seed generalises."
    seen = sum(norm < 0 <= excluded for norm, excluded in pairs)
    return (f"After that the norm changes by {span((10**n - 1 for n, _ in pairs), '{:+.0%}')} and "
            f"the excluded loss by {span((e for _, e in pairs), '{:+.2f}')} decades: a cleanup "
            f"(the norm falls, the excluded loss does not) is seen in {seen} of {len(pairs)} "
            "seeds.")


def plateau(each):
    """What is right on the plateau: where the circuit is not yet formed."""
    both = [[value_at(c, name, moments(c)["circuit"]) for name in
             ("mirror_accuracy", "fresh_accuracy")] for c in each
            if math.isfinite(moments(c)["circuit"])]
    if not both:
        return ""
    mirror, fresh = zip(*both, strict=True)
    return ("When the circuit forms, the accuracy on unseen equations whose mirror b + a is "
            f"trained is {span(mirror)}, on fresh ones {span(fresh)}.")


def frequencies(each):
    keys = [c["keys"][-1] for c in each]
    shared = [len(set(c["keys"][-1]) & set(c["embedded"][-1])) for c in each]
    return (f"The key frequencies are {span(map(len, keys), '{:g}')} of 15; of the embedding's "
            f"{STRONGEST} strongest {span(shared, '{:g}')} are among them. The paper finds five on "
            "addition modulo 113 with one layer; here there are two layers, 31 residues and "
            "LayerNorm.")


def table(found):
    rows = []
    for seed, columns in found.items():
        at, end = moments(columns), {name: values[-1] for name, values in columns.items()}
        rows.append((str(seed), *(f"{at[name]:g}" if math.isfinite(at[name]) else "never"
                                  for name in at),
                     " ".join(map(str, sorted(end["keys"]))),
                     " ".join(map(str, sorted(end["embedded"]))),
                     *(along(columns, name, "{:.2g}") for name in
                       ("restricted", "fresh", "excluded")),
                     along(columns, "l2_norm", "{:.0f}"), along(columns, "top", "{:.2f}")))
    return Table(f"The steps that end a phase, of {len(found)} of {len(SEEDS)} seeds; the key "
                 f"frequencies, and the {STRONGEST} strongest of the embedding, at the end; the "
                 "losses, the norm of the parameters and the share of those five, at step 1, when "
                 "memorised, when generalised, and at the end. Restricted and excluded are the "
                 "paper's; fresh is restricted to equations of which neither order is trained.",
                 ("seed", "memorised", "circuit formed", "generalised", "key frequencies",
                  "embedding", "restricted", "fresh", "excluded", "norm", "top 5"), rows)


def along(columns, name, form):
    """A column at the start, at two moments and at the end."""
    at = moments(columns)
    steps = [columns["step"][0], at["memorised"], at["generalised"], columns["step"][-1]]
    return " → ".join(form.format(value_at(columns, name, step)) if math.isfinite(step) else "-"
                      for step in steps)


def figure(found):
    data = [{"seed": seed, "step": c["step"], **{name: c[name] for name in LINES}}
            for seed, c in found.items()]
    return Figure("circuit", "L3", "Losses of the default GPT, of each seed: training, validation, "
                  "restricted to the key frequencies (of all and of fresh equations), and without "
                  "them.", data, draw,
                  (13, 3.2 * max(1, -(-len(found) // 3))))


def draw(figure, data):
    rows = max(1, -(-len(data) // 3))
    panels = figure.subplots(rows, 3, squeeze=False, sharey=True)
    for axes, one in zip(panels.flat, data, strict=False):
        for colour, name in zip(COLOURS, LINES, strict=True):
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
FOLD = 2 / (1 - BETA2)      # steps in which the rule lets the loss fall by a factor e
CLOSE = 1.5                 # a factor within which a number is as expected
RULE = (
    "Expected: of a memorised set the gradient has only to make good what the decay takes, "
    "m / (sqrt(v) + eps) = decay times weight. So m stays far below sqrt(v), which does nothing "
    f"but forget: by a factor e in 2 / (1 - beta2) = {FOLD:.0f} steps, and gradient and loss "
    "follow it down, until sqrt(v) is eps. ")


def jumped(columns):
    """The step before the first hundredfold rise of a memorised training loss, or infinity."""
    return next((columns["step"][i] for i in jump_places(columns)), math.inf)


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
    both = [seed for seed in a if seed in b]
    first = sum(a[seed] < b[seed] for seed in both)
    verdict = ("So eps decides whether they come, up to that step." if many == [len(a), 0] else
               "So eps decides when they come." if both and first == len(both) else
               "So eps does not decide it." if many == [len(a), len(b)] else
               "So these seeds leave it open.")
    expected = FOLD * math.log(usual / small)
    return (f"**Do the jumps come from AdamW's eps?** {RULE}An eps of {small:g} is reached "
            f"{expected:,.0f} steps later than {usual:g}.\n\n"
            f"Found: with eps {usual:g} {many[0]} of {len(a)} "
            f"seeds jump (after step {span(a.values(), '{:g}')}); with {small:g} {many[1]} of "
            f"{len(b)} up to step {LONG} (after {span(b.values(), '{:g}')}); the larger eps jumps "
            f"first in {first} of {len(both)} pairs"
            f"{delay(expected, [(a[s], b[s]) for s in both])}. {verdict} {fall(found[small])}")


def delay(expected, steps):
    """The steps between both jumps, expected and found, for [(step, step)] of the seeds."""
    late = [b - a for a, b in steps if math.isfinite(a + b)]
    if not late:
        least = [LONG - a for a, b in steps if math.isfinite(a)]
        return f", and for {span(least, '{:g}')} steps no other follows" if least else ""
    near = sum(expected / CLOSE <= one <= expected * CLOSE for one in late)
    return (f", by {span(late, '{:g}')} steps: in {near} of {len(late)} pairs within a factor "
            f"{CLOSE:g} of what is expected")


def fall(seeds):
    """How fast the loss falls where eps is small, against the rule."""
    folds = [folding(c) for c in seeds.values()]
    near = sum(FOLD / CLOSE <= fold <= FOLD * CLOSE for fold in folds)
    return (f"With the smaller eps the loss falls by a factor e in {span(folds, '{:.0f}')} steps, "
            + ("as expected." if near == len(folds) else
               f"as expected in {near} of {len(folds)} seeds." if near else
               "which is not what is expected: the explanation fails."))


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
