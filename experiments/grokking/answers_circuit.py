"""The answers of phases.py: what the GPT computes while it groks, and where jumps come from."""

import math

from paired import COLOURS, NOTHING, of_arm, paired, plot_seeds
from phases import EPS, LONG, POWER, SEEDS, STRONGEST, TRIALS, moments
from reporting.jumps import jump_places
from reporting.measures import span
from reporting.parts import Figure, Section, Table

from npdl.study import plots_style as style
from npdl.training.config import Config

BETA2 = Config().betas[1]
LINES = ("validation_loss", "fresh_loss", "fresh_circuit", "restricted", "excluded_strongest")
RELIES = 2.0                # the factor by which the excluded loss has to rise
CLEANED = 0.5               # the share of the norm's fall that a cleanup has to have


def circuit_section(records):
    """The Section of question 3."""
    made = Section("3. What the GPT computes (arXiv:2301.05217)")
    found = of_arm(records, kind="circuit")
    made.parts += [answer(found), table(found), figure(found)] if found else [NOTHING]
    return made


def value_at(columns, name, step):
    return columns[name][columns["step"].index(step)]


def between(columns, name, start, end=math.inf):
    """The values of a column from one step to another."""
    return [value for step, value in zip(columns["step"], columns[name], strict=True)
            if start <= step <= end]


# --- three phases, each seed by seed --------------------------------------------------------------
def is_hidden(columns):
    """Whether the circuit is formed after memorising, and before it shows."""
    at = moments(columns)
    return at["memorised"] < at["circuit"] < at["shown"]


def reliance(columns):
    """By which factor the loss without the strongest frequencies rises from its least, after
    memorising, to the end; NaN where nothing is memorised."""
    known = moments(columns)["memorised"]
    if math.isinf(known):
        return math.nan
    least = min(between(columns, "excluded_strongest", known))
    return columns["excluded_strongest"][-1] / least if least else math.inf


def cleanup(columns):
    """The share of the norm's fall, in its logarithm from memorising to its least, that comes after
    the circuit is formed; NaN where there is none."""
    at = moments(columns)
    if not math.isfinite(at["memorised"] + at["circuit"]):
        return math.nan
    before, formed = (value_at(columns, "l2_norm", at[name]) for name in ("memorised", "circuit"))
    least = min(between(columns, "l2_norm", at["memorised"]))
    return math.log(formed / least) / math.log(before / least) if least < before else math.nan


def answer(found):
    each = list(found.values())
    tests = (("the circuit is formed before it shows", list(map(is_hidden, each))),
             ("the model comes to rely on it", [reliance(c) >= RELIES for c in each]),
             ("its norm falls mostly afterwards", [cleanup(c) >= CLEANED for c in each]))
    each_seed = [sum(seen) for _, seen in tests]
    verdict = ("Yes" if min(each_seed) == len(each) else "No" if not any(each_seed) else
               "In part")
    counts = "; ".join(f"{words} in {sum(seen)} of {len(seen)} seeds" for words, seen in tests)
    return " ".join(filter(None, [
        f"**Are there three phases?** {verdict}: {counts}.", lead(each), numbers(each),
        plateau(each), frequencies(each)]))


def lead(each):
    """By how many steps the circuit is ahead of what shows."""
    ahead = [at["shown"] - at["circuit"] for at in map(moments, each)
             if math.isfinite(at["shown"] + at["circuit"])]
    if not ahead:
        return "No seed comes as far as a fresh loss of half a guess's."
    return (f"On fresh equations the circuit alone comes to half a guess's loss {words_of(ahead)} "
            "the model as it is.")


def words_of(ahead):
    """How steps ahead of something are said."""
    low, high = min(ahead), max(ahead)
    if low == high == 0:
        return "together with"
    if low > 0:
        return f"{span(ahead, '{:g}')} steps before"
    if high < 0:
        return f"{span([-n for n in ahead], '{:g}')} steps after"
    return f"{high:g} steps before to {-low:g} after"


def numbers(each):
    rises = [rise for rise in map(reliance, each) if math.isfinite(rise)]
    shares = [share for share in map(cleanup, each) if math.isfinite(share)]
    said = []
    if rises:
        said.append(f"Without the {STRONGEST} strongest key frequencies the training loss is at "
                    f"last {span(rises, '{:.2g}')} times what it was at its least.")
    if shares:
        said.append(f"Of the norm's fall {span(shares, '{:.0%}')} comes after the circuit.")
    return " ".join(said)


def plateau(each):
    """What is right on the plateau: where the circuit is not yet formed."""
    both = [[value_at(c, name, moments(c)["circuit"]) for name in
             ("mirror_accuracy", "fresh_accuracy")] for c in each
            if math.isfinite(moments(c)["circuit"])]
    if not both:
        return ""
    mirror, fresh = zip(*both, strict=True)
    return ("When the circuit is formed, the accuracy on unseen equations whose mirror b + a is "
            f"trained is {span(mirror)}, on fresh ones {span(fresh)}.")


def frequencies(each):
    keys = [c["keys"][-1] for c in each]
    shared = [len(set(c["keys"][-1]) & set(c["embedded"][-1])) for c in each]
    return (f"Of the 15 frequencies {span(map(len, keys), '{:g}')} are needed for "
            f"{POWER:.0%} of the power, nearly all, so the loss without these all says little; of "
            f"the embedding's {STRONGEST} strongest {span(shared, '{:g}')} are among them. The "
            "paper finds five on addition modulo 113 with one layer; here there are two layers, 31 "
            "residues and LayerNorm.")


def table(found):
    rows = []
    for seed, columns in found.items():
        at, end = moments(columns), {name: values[-1] for name, values in columns.items()}
        rows.append((str(seed), *(span([step], "{:g}") for step in at.values()),
                     " ".join(map(str, sorted(end["keys"]))),
                     " ".join(map(str, sorted(end["embedded"]))),
                     *(along(columns, name, "{:.2g}") for name in LINES[1:]),
                     along(columns, "l2_norm", "{:.0f}"), along(columns, "top", "{:.2f}")))
    return Table(f"The steps that end a phase, of {len(found)} of {len(SEEDS)} seeds; the key "
                 f"frequencies, and the {STRONGEST} strongest of the embedding, at the end; the "
                 "losses, the norm of the parameters and the share of those five, at step 1, when "
                 "memorised, when generalised, and at the end. Fresh equations are those of which "
                 "neither order is trained; restricted and excluded are the paper's.",
                 ("seed", "memorised", "circuit formed", "shown", "generalised", "key frequencies",
                  "embedding", "fresh", "fresh, circuit alone", "restricted",
                  f"excluded, {STRONGEST} strongest", "norm", "top 5"), rows)


def along(columns, name, form):
    """A column at the start, at two moments and at the end."""
    at = moments(columns)
    steps = [columns["step"][0], at["memorised"], at["generalised"], columns["step"][-1]]
    return " → ".join(form.format(value_at(columns, name, step)) if math.isfinite(step) else "-"
                      for step in steps)


def figure(found):
    data = [{"seed": seed, "step": c["step"], **{name: c[name] for name in LINES}}
            for seed, c in found.items()]
    return Figure("circuit", "L3", "Losses of the default GPT, of each seed: of the validation "
                  "set, of fresh equations as they are and by the circuit alone, restricted to the "
                  "key frequencies, and of the training set without the strongest of these.", data,
                  draw, (13, 3.2 * -(-(len(found) + 1) // 3)))


def draw(figure, data):
    """A panel for each seed, and the legend in a place of its own after the last."""
    panels = figure.subplots(-(-(len(data) + 1) // 3), 3, squeeze=False, sharey=True).ravel()
    for axes, one in zip(panels, data, strict=False):
        for colour, name in zip(COLOURS, LINES, strict=True):
            axes.plot(one["step"], one[name], color=colour, linewidth=1.0,
                      label=name.replace("_", " "))
        axes.set_xscale("log")
        axes.set_yscale("log")
        style.dress(axes, "training step (log scale)", "loss", f"seed {one['seed']}")
    for axes in panels[len(data):]:
        axes.set_axis_off()
    panels[len(data)].legend(*panels[0].get_legend_handles_labels(), frameon=False, fontsize=10,
                             loc="center")


# --- late jumps -----------------------------------------------------------------------------------
LAST = 4000                 # steps before the lowest loss in which its fall is measured
FOLD = 2 / (1 - BETA2)      # steps in which the rule lets the loss fall by a factor e
CLOSE = 1.5                 # a factor within which a number is as expected
RULE = (
    "Expected: once a set is memorised, an update has only to give back what the weight decay "
    "takes, so m / (sqrt(v) + eps) stays at decay times weight, far below 1. Gradients that small "
    "add nothing to v: sqrt(v) only shrinks, by a factor e in 2 / (1 - beta2) = "
    f"{FOLD:.0f} steps, and the gradient and the loss shrink with it. That ends where sqrt(v) "
    "comes down to eps. ")


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
        of = sum(trial.facts["kind"] == "jumps" for trial in TRIALS)
        made.parts.append(f"Tried so far: {sum(map(len, found.values()))} of {of}; without both "
                          "eps nothing follows.")
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
    pairs = paired(a, b)
    _, first, _ = pairs.signs()                         # the smaller eps is later
    many = [sum(map(math.isfinite, steps.values())) for steps in (a, b)]
    expected = FOLD * math.log(usual / small)
    return (f"**Do the jumps come from AdamW's eps?** {RULE}An eps of {small:g} is reached "
            f"{expected:,.0f} steps later than {usual:g}.\n\n"
            f"Found: with eps {usual:g} {many[0]} of {len(a)} "
            f"seeds jump (after step {span(a.values(), '{:g}')}); with {small:g} {many[1]} of "
            f"{len(b)} up to step {LONG} (after {span(b.values(), '{:g}')}); the larger eps jumps "
            f"first in {first} of {len(pairs.before)} pairs{delay(expected, pairs.pairs())}. "
            f"{jumps_verdict(pairs)} {fall(found[small])}")


def jumps_verdict(pairs):
    """What the pairs say of eps, and how sure it is."""
    of = len(pairs.before)
    _, first, p = pairs.signs()
    if first == of > 0:
        what = "when they come" if any(map(math.isfinite, pairs.after)) else (
            "whether they come, up to that step")
        if p <= 0.05:
            return f"So eps decides {what}."
        return (f"It looks as if eps decided {what}; {of} pairs cannot prove it (sign test "
                f"p = {p:.2g}).")
    if all(map(math.isfinite, pairs.before + pairs.after)) and 2 * first <= of:
        return "So eps does not decide it."
    return "So these seeds leave it open."


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
    axes.legend(frameon=False, fontsize=8.5)
