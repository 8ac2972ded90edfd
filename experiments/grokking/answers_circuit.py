"""The answer of phases.py on the circuit: what the GPT computes while it groks."""

import math

from experiments import study
from experiments.grokking.paired import COLOURS, NOTHING, of_arm
from experiments.grokking.phases import POWER, SEEDS, STRONGEST, moments
from experiments.reporting.draw import WINDOW, running_median
from experiments.reporting.measures import span
from experiments.reporting.parts import Figure, Section, Table
from experiments.reporting.rules import TIMES
from npdl_study.plots import style

WORDS = ("*Fresh* are equations of which neither order is trained; the *circuit alone* is their "
         "logits averaged over equal sums and cut down to the key frequencies; half a guess's loss "
         "is ln p / 2.")
LINES = ("validation_loss", "fresh_loss", "fresh_circuit", "restricted", "excluded")
RELIES = 2.0                # the factor by which the loss without the strongest has to rise
CLEANED = 0.5               # the share of the norm's fall that a cleanup has to have
NEARLY_ALL = 10             # key frequencies from which the loss without these all says little


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
            if start <= step <= end and value is not None]


# --- three phases, each seed by seed --------------------------------------------------------------
def is_hidden(columns):
    """Whether the circuit is formed after memorising, and before it shows."""
    at = moments(columns)
    return at["memorised"] < at["circuit"] < at["shown"] < math.inf


def turning(columns):
    """(least, last) of the loss without the strongest frequencies, once memorised, and the
    training loss at the same two places, as medians; None where nothing is memorised."""
    known = moments(columns)["memorised"]
    rows = [row for step, *row in zip(*(columns[name] for name in (
        "step", "excluded", "train_loss")), strict=True) if step >= known and None not in row]
    if not rows:
        return None
    without, whole = (running_median(values) for values in zip(*rows, strict=True))
    least = min(range(len(without)), key=without.__getitem__)
    return without[least], without[-1], whole[least], whole[-1]


def relies(columns, factor=RELIES):
    """Whether the loss without the strongest frequencies rises by a factor after its least, while
    the loss with them does not."""
    found = turning(columns)
    return found is not None and found[1] >= factor * found[0] and found[3] <= found[2]


def cleanup(columns):
    """The share of the norm's fall, in its logarithm, that comes after the circuit is formed: its
    fall from there to its least over that and the fall from memorising to there; NaN for none."""
    at = moments(columns)
    if not math.isfinite(at["memorised"] + at["circuit"]):
        return math.nan
    start, middle = at["memorised"], max(at["memorised"], at["circuit"])
    first, then = (math.log(value_at(columns, "l2_norm", a)
                            / min(between(columns, "l2_norm", a, b)))
                   for a, b in ((start, middle), (middle, math.inf)))
    return then / (first + then) if first + then else math.nan


def answer(found):
    each = list(found.values())
    tests = (("the model comes to rely on the strongest frequencies", list(map(relies, each))),
             ("its norm falls mostly after the circuit is formed",
              [cleanup(c) >= CLEANED for c in each]))
    each_seed = [sum(seen) for _, seen in tests]
    verdict = ("Yes" if min(each_seed) == len(each) else "No" if not any(each_seed) else
               "In part")
    counts = "; ".join(f"{words} in {sum(seen)} of {len(seen)} seeds" for words, seen in tests)
    return " ".join(filter(None, [
        f"**Are there three phases (memorising, forming a circuit, cleaning up)?** {verdict}: "
        f"{counts}. {WORDS}", numbers(each), lead(each),
        plateau(each), frequencies(each)]))


def lead(each):
    """By how many steps the circuit is ahead of what shows, and how little that proves."""
    ahead = [at["shown"] - at["circuit"] for at in map(moments, each)
             if math.isfinite(at["shown"] + at["circuit"])]
    if not ahead:
        return "No seed comes to half a guess's loss on fresh equations in both ways."
    of = f" (in {len(ahead)} of {len(each)} seeds)" * (len(ahead) < len(each))
    return (f"On fresh equations the circuit alone comes to half a guess's loss {words_of(ahead)} "
            f"the model as it is{of}, between memorising and that in {sum(map(is_hidden, each))} "
            f"of {len(each)} seeds. That alone proves no circuit: "
            "its logits are means over some eight equations, and the loss of a mean is never above "
            "the mean of the losses, so that equations learned one by one would lead, too.")


def words_of(ahead):
    """How steps ahead of something are said."""
    low, high = min(ahead), max(ahead)
    if low == high == 0:
        return "together with"
    if low >= 0:
        return f"{span(ahead, '{:g}')} steps before"
    if high <= 0:
        return f"{span([-n for n in ahead], '{:g}')} steps after"
    return f"from {high:g} steps before to {-low:g} after"


def numbers(each):
    ends = [found for found in map(turning, each) if found]
    shares = [share for share in map(cleanup, each) if math.isfinite(share)]
    said = []
    if ends:
        least, last, before, after = (span(values, "{:.2g}") for values in zip(*ends, strict=True))
        factors = [1 + (RELIES - 1) * times for times in TIMES]
        half, twice = (sum(relies(columns, factor) for columns in each) for factor in factors)
        said.append(f"With the {STRONGEST} strongest key frequencies taken out of the logits the "
                    f"training loss is {least} where it is lowest after memorising and {last} at "
                    f"the end; that of the whole model is {before} and {after} at the same places "
                    f"(medians of {WINDOW} evaluations; the table's moments miss the "
                    f"lowest). A model relies on them where the first rises {RELIES:g}-fold and "
                    f"the second does not rise ({factors[0]:g}-fold: {half} of {len(each)}; "
                    f"{factors[1]:g}-fold: {twice}).")
    if shares:
        said.append(f"Of the norm's fall {span(shares, '{:.0%}')} comes after the circuit.")
    return " ".join(said)


def plateau(each):
    """What is right on the plateau: where the circuit is not yet formed."""
    both = [[value_at(c, name, moments(c)["circuit"]) for name in
             ("mirror_accuracy", "fresh_accuracy")] for c in each
            if math.isfinite(moments(c)["circuit"])]
    both = [pair for pair in both if None not in pair]
    if not both:
        return ""
    mirror, fresh = zip(*both, strict=True)
    return ("When the circuit is formed, the accuracy on unseen equations whose mirror b + a is "
            f"trained is {span(mirror)}, on fresh ones {span(fresh)}.")


def frequencies(each):
    keys = [c["keys"][-1] for c in each]
    most = study.BASE.p // 2
    said = (f"Of the {most} frequencies {span(map(len, keys), '{:g}')} are needed for {POWER:.0%} "
            "of the power")
    if min(map(len, keys)) >= NEARLY_ALL:
        said += (", nearly all: so only the strongest are taken out above, and to cut down to the "
                 "key frequencies leaves out little.")
    else:
        shared = [len(set(c["keys"][-1]) & set(c["embedded"][-1])) for c in each]
        said += (f"; of the embedding's {STRONGEST} strongest {span(shared, '{:g}')} are among "
                 "them.")
    return said + (" The paper finds five on addition modulo 113 with one layer; here there are "
                   f"two layers, {study.BASE.p} residues and LayerNorm.")


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
