"""What the laboratory's kept trials give its page: tables, numbers, and whether its claims hold."""

import math

from experiments.grokking import collapse, curvature, faster, phases
from experiments.grokking.paired import of_arm, paired
from experiments.grokking.pictures import (
    COLLAPSED,
    COLUMNS,
    LINES,
    SAME,
    draw_circuit,
    draw_collapse,
    draw_curvature,
    draw_faster,
    draw_jumps,
)
from experiments.keeping import read_record
from experiments.study.figures import WINDOW, Figure, running_median
from experiments.study.measures import GENERAL, MEMORISED, brief, span
from experiments.study.pages import Table
from experiments.study.q7_decay import jump_places
from experiments.study.records import NAMES
from experiments.trials import RESULTS, first_step, records
from npdl_train.runs.config import Config

FIGURES = RESULTS / "grokking" / "figures"
FOLD = 2 / (1 - Config().betas[1])      # steps in which the rule lets the loss fall by a factor e
LEVELLED = 2.0          # a loss has levelled off within this factor of its lowest
RISE = 2.0              # the factor by which the loss without the strongest frequencies rises
CLOSE = 3000            # steps within which a delay is as predicted: a sixth of the longest
LIKE = 2500             # epochs that every precision was watched for


def trials():
    """{script: {name: record}} of what is kept."""
    return {module: records(module.FOLDER, module.TRIALS) for module in (collapse, faster, phases)}


def values():
    """{name: text or Table} for the page."""
    found = trials()
    return {**collapse_values(arms_of(found[collapse])), **faster_values(found[faster]),
            **circuit_values(of_arm(found[phases], kind="circuit")),
            **control_values(of_arm(found[phases], kind="control")),
            **jumps_values(by_eps(found[phases])), **curvature_values(watched()),
            "lab trials": trials_table(found)}


def facts(_=None):
    """{what the page says beside its numbers: whether it is so}."""
    found = trials()
    return {**collapse_facts(arms_of(found[collapse])), **faster_facts(found[faster]),
            **circuit_facts(of_arm(found[phases], kind="circuit")),
            **control_facts(of_arm(found[phases], kind="control")),
            **jumps_facts(by_eps(found[phases])), **curvature_facts(watched())}


def figures():
    found = trials()
    arms = arms_of(found[collapse])
    return [
        Figure("collapse", "L1", "", {arm: [{name: c[name] for name in (
            "step", "validation_accuracy", "collapsed")} for c in arms[arm].values()]
            for names in COLUMNS.values() for arm in names}, draw_collapse, (10, 6.2)),
        Figure("faster", "L2", "", {NAMES[model]: {arm: [
            {"step": c["step"], "accuracy": c["validation_accuracy"]} for c in of_arm(
                found[faster], model=model, arm=arm).values()] for arm in faster.ARMS}
            for model in NAMES}, draw_faster, (10, 6)),
        Figure("circuit", "L3", "", [{"seed": seed, "step": c["step"],
                                      **{name: c[name] for name in LINES}}
                                     for seed, c in of_arm(found[phases], kind="circuit").items()],
               draw_circuit, (10, 6)),
        Figure("jumps", "L4", "", {f"eps {eps:g}": [
            {"seed": seed, "step": c["step"], "loss": c["train_loss"]} for seed, c in seeds.items()]
            for eps, seeds in by_eps(found[phases]).items()}, draw_jumps, (10, 3.8)),
        Figure("curvature", "L5", "", {"limit": curvature.LIMIT, **watched()}, draw_curvature,
               (10, 3.8)),
    ]


def trials_table(found):
    rows = [(f"`python experiments/grokking/{module.__name__.rpartition('.')[2]}.py`",
             f"{len(kept)} of {len(module.TRIALS)}",
             ", ".join(sorted({record["made"]["engine"] for record in kept.values()})))
            for module, kept in found.items()]
    return Table(("made by", "trials kept", "engine"), rows)


# --- softmax collapse -----------------------------------------------------------------------------
def arms_of(kept):
    return {arm: of_arm(kept, arm=arm) for arm in collapse.ARMS}


def best(found, until=math.inf):
    """The best A_val of each seed up to an epoch."""
    return [max(a for step, a in zip(c["step"], c["validation_accuracy"], strict=True)
                if step <= until) for c in found.values()]


def at(found, name, limit):
    return [first_step(c, name, lambda value: value >= limit) for c in found.values()]


def general(found):
    return {seed: first_step(c, "validation_accuracy", lambda a: a >= GENERAL)
            for seed, c in found.items()}


def collapse_values(arms):
    rows = []
    for name, found in arms.items():
        arm, columns = collapse.ARMS[name], found.values()
        rows.append((name, f"{arm.share:.0%}", str(len(found)),
                     span(at(found, "train_accuracy", MEMORISED), "{:,.0f}"),
                     span(at(found, "collapsed", COLLAPSED), "{:,.0f}"),
                     span((max(c["collapsed"]) for c in columns), "{:.0%}"),
                     span(general(found).values(), "{:,.0f}"), span(best(found), "{:.3g}"),
                     span((c["step"][-1] for c in columns), "{:,.0f}")))
    made = {"collapse table": Table(
        ("arm", "pairs", "seeds", "memorised", "collapsed", "rounded", "generalised", "best A_val",
         "last epoch"), rows)}
    for digits in ("float16", "float32", "float64"):
        made[f"{digits} alike"] = span(best(arms[f"{digits}-70"], LIKE), "{:.3g}")
    for digits in ("float32", "float64"):
        made[f"{digits} best"] = span(best(arms[f"{digits}-70"]), "{:.3g}")
    for arm in ("orthogonal", "decay"):
        made[f"{arm} general"] = span(general(arms[arm]).values(), "{:.0f}")
    until = collapse.ARMS["softmax64"].epochs
    return made | {
        "stablemax best": span(best(arms["stablemax"])), "alike until": f"{until:,}",
        "stablemax alike": span(best(arms["stablemax"], until)),
        "softmax64 best": span(best(arms["softmax64"])),
        "float32 40 collapsed": span((max(c["collapsed"]) for c in arms["float32"].values()),
                                     "{:.0%}")}


def collapse_facts(arms):
    alike = {name: best(arms[f"{name}-70"], LIKE) for name in ("float32", "float64")}
    pairs = paired(general(arms["decay"]), general(arms["orthogonal"]))
    return {
        "float32 and float64 are alike (within 0.02) at the epoch that float16 was watched to": max(
            alike["float32"] + alike["float64"]) - min(alike["float32"] + alike["float64"]) < 0.02,
        "at the end float64 is ahead of float32 with both seeds": min(
            best(arms["float64-70"])) > max(best(arms["float32-70"])),
        "no arm without decay or projection leaves chance on 40 %": max(
            value for name in ("float32", "float64", "plain", "softmax64")
            for value in best(arms[name])) < 0.05,
        "StableMax and float16 are one seed each": len(arms["stablemax"]) == 1
            and len(arms["softmax64"]) == 1 and len(arms["float16-70"]) == 1,
        "three pairs cannot tell the orthogonal gradient from weight decay": len(
            pairs.before) == 3,
    }


# --- Grokfast and Muon ----------------------------------------------------------------------------
def steps_of(kept, model, arm, share=SAME):
    return {seed: first_step(columns, "validation_accuracy", lambda a: a >= share)
            for seed, columns in of_arm(kept, model=model, arm=arm).items()}


def against(kept, model, arm, other="adamw"):
    """The Paired of an arm against another."""
    return paired(steps_of(kept, model, other), steps_of(kept, model, arm))


CONTROL_OF = {"grokfast": "momentum", "muon": "matched"}


def faster_values(kept):
    rows, factors = [], {}
    for model in NAMES:
        for arm in faster.ARMS:
            steps, pairs = steps_of(kept, model, arm), against(kept, model, arm)
            there = sum(map(math.isfinite, steps.values()))
            first = arm == "adamw"
            rows.append((NAMES[model], arm, str(len(steps)), str(there),
                         span(steps.values(), "{:g}"), "" if first else pairs.factor(),
                         "" if first else pairs.word(),
                         "" if arm not in CONTROL_OF else against(
                             kept, model, arm, CONTROL_OF[arm]).word()))
            factors[model, arm] = pairs.factor()
    comparisons = sum(word in ("sooner", "later", "open") for row in rows for word in row[-2:])
    return {"faster table": Table(
        ("model", "arm", "seeds", f"reach {SAME:g}", f"A_val ≥ {SAME:g} at", "factor",
         "against AdamW", "against its control"), rows, left=2),
        "matched gpt": factors["gpt", "matched"], "matched lstm": factors["lstm", "matched"],
        "comparisons": str(comparisons)}


def faster_facts(kept):
    words = {(model, arm): against(kept, model, arm).word() for model in NAMES
             for arm in faster.ARMS[1:]}
    return {"Grokfast and Muon make the LSTM later": {words["lstm", "grokfast"],
                                                     words["lstm", "muon"]} == {"later"},
            "for the GPT neither can be told from AdamW": {words["gpt", "grokfast"],
                                                          words["gpt", "muon"]} == {"open"},
            "matched Muon makes the GPT sooner": words["gpt", "matched"] == "sooner",
            "the LSTM with matched Muon is open": words["lstm", "matched"] == "open"}


# --- the circuit ----------------------------------------------------------------------------------
def turning(columns):
    """(least, last) of the loss without the strongest frequencies, once memorised, and the
    training loss at the same two places, as running medians."""
    known = phases.moments(columns)["memorised"]
    rows = [row for step, *row in zip(*(columns[name] for name in (
        "step", "excluded", "train_loss")), strict=True) if step >= known and None not in row]
    without, whole = (running_median(values) for values in zip(*rows, strict=True))
    least = min(range(len(without)), key=without.__getitem__)
    return without[least], without[-1], whole[least], whole[-1]


def relies(columns):
    """Whether a model comes to rely on its strongest frequencies: without them the loss rises
    RISE-fold while that of the whole model does not, and at the end it lies above the loss without
    as many random ones, of nearly every draw. None where no random ones were drawn."""
    least, last, before, after = turning(columns)
    if "above_random" not in columns:
        return None
    return (last >= RISE * least and after <= before
            and columns["above_random"][-1] >= phases.NEARLY_ALL)


def cleanup(columns):
    """The share of the norm's fall, in its logarithm, that comes after the circuit is formed."""
    steps = phases.moments(columns)

    def fall(a, b):
        norms = [value for step, value in zip(columns["step"], columns["l2_norm"], strict=True)
                 if a <= step <= b]
        return math.log(norms[0] / min(norms))

    first = fall(steps["memorised"], steps["circuit"])
    then = fall(steps["circuit"], math.inf)
    return then / (first + then)


def circuit_values(found):
    rows = []
    for seed, columns in found.items():
        steps = phases.moments(columns)
        least, last, before, after = turning(columns)
        rows.append((str(seed), *(brief(step) for step in steps.values()),
                     f"{least:.2g} → {last:.2g}", f"{before:.2g} → {after:.2g}",
                     f"{cleanup(columns):.0%}", str(len(columns["keys"][-1]))))
    ends = [turning(c) for c in found.values()]
    return {"circuit table": Table(
        ("seed", "memorised", "circuit formed", "shown", "generalised",
         f"L_train without the {phases.STRONGEST} strongest", "L_train", "norm's fall after",
         "key frequencies"), rows),
        "circuit seeds": str(len(found)), "excluded least": span(end[0] for end in ends),
        "excluded last": span(end[1] for end in ends),
        "whole last": span(end[3] for end in ends),
        "cleanup": span(map(cleanup, found.values()), "{:.0%}"),
        "lead": span((phases.moments(c)["shown"] - phases.moments(c)["circuit"]
                      for c in found.values()), "{:g}"),
        "keys": span((len(c["keys"][-1]) for c in found.values()), "{:g}"),
        "window": str(WINDOW)}


def control_values(found):
    """The control of random frequencies, seed by seed."""
    rows = []
    for seed in phases.SEEDS:
        c = found.get(seed)
        rows.append((str(seed), *["not made yet"] * 4) if c is None else (
            str(seed), f"{c['excluded'][-1]:.2g}", f"{c['random'][-1]:.2g}",
            f"{c['above_random'][-1]:.0%}", "yes" if relies(c) else "no"))
    return {"control": Table(("seed", "L_train without the strongest, last evaluation",
                              "without random ones (median)", "draws below", "relies on them"),
                             rows)}


def control_facts(found):
    return {"the GPT relies on its strongest frequencies, with every seed":
            len(found) == len(phases.SEEDS) and all(map(relies, found.values()))}


def circuit_facts(found):
    ends = [turning(c) for c in found.values()]
    return {
        "without the strongest frequencies the training loss rises twofold, with every seed": all(
            last >= RISE * least for least, last, _, _ in ends),
        "while the whole model's does not": all(after <= before for *_, before, after in ends),
        "most of the norm's fall comes before the circuit": all(
            cleanup(c) < 0.5 for c in found.values())}


# --- late jumps -----------------------------------------------------------------------------------
def by_eps(kept):
    """{eps: {seed: columns}} of the values of eps that are kept, the largest first."""
    found = {eps: of_arm(kept, kind="jumps", eps=eps) for eps in phases.EPS}
    return {eps: seeds for eps, seeds in found.items() if seeds}


def levelled(columns):
    """The first step at which the training loss is within LEVELLED times its lowest."""
    most = LEVELLED * min(columns["train_loss"])
    return first_step(columns, "train_loss", lambda loss: loss <= most)


def jumped(columns):
    """The step before the first hundredfold rise of a memorised training loss, or infinity."""
    return next((columns["step"][i] for i in jump_places(columns)), math.inf)


def predicted(eps):
    """How many steps later than with the usual eps the loss levels off: sqrt(v) falls by a factor
    e in FOLD steps until it comes down to eps."""
    return FOLD * math.log(phases.EPS[0] / eps)


def delays(found):
    """{eps: {seed: steps later than with the usual eps}} at which the loss levels off."""
    usual = found.get(phases.EPS[0], {})
    return {eps: {seed: levelled(c) - levelled(usual[seed]) for seed, c in seeds.items()
                  if seed in usual} for eps, seeds in found.items() if eps != phases.EPS[0]}


def jumps_values(found):
    late, rows = delays(found), []
    for eps in phases.EPS:
        for seed in phases.WATCHED:
            c = found.get(eps, {}).get(seed)
            by = late.get(eps, {}).get(seed, "")
            cells = ["not made yet"] * 4 if c is None else [
                brief(levelled(c)), f"{by:,}" if by else "", brief(jumped(c)),
                f"{min(c['train_loss']):.2g}"]
            rows.append((f"{eps:g}", str(seed), *cells,
                         f"{predicted(eps):,.0f}" if predicted(eps) else ""))
    small = phases.EPS[-1]
    return {"jumps table": Table(
        ("eps", "seed", "levels off at", "later by", "last step before a jump", "lowest L_train",
         "later by, predicted"), rows),
        "predicted": f"{predicted(small):,.0f}",
        "later": span(late[small].values(), "{:,}"),
        "eps pairs": str(len(late[small])),
        "wait": span((jumped(c) - levelled(c) for seeds in found.values()
                      for c in seeds.values()), "{:,}")}


def jumps_facts(found):
    late = delays(found)
    return {
        f"each loss levels off within {CLOSE} steps of the prediction": all(
            abs(steps - predicted(eps)) <= CLOSE
            for eps, seeds in late.items() for steps in seeds.values()),
        "seed 1 jumps with the usual eps before its loss is level": min(
            found[phases.EPS[0]][1]["train_loss"]) > 2 * min(
                found[phases.EPS[0]][0]["train_loss"]),
        "every run jumps once its loss has levelled off": all(
            levelled(c) <= jumped(c) < math.inf for seeds in found.values()
            for c in seeds.values())}


# --- the curvature that AdamW sees ----------------------------------------------------------------
def watched():
    """The columns of the run that was looked at."""
    return read_record(curvature.KEPT)["records"]


def falls(columns):
    """[(the place in the columns where lr times the curvature is first above the limit, that where
    the loss is then first tenfold)], in their order."""
    found, at, losses = [], 0, columns["loss"]
    above = [value > curvature.LIMIT for value in columns["lr_curvature"]]
    while True in above[at:]:
        first = above.index(True, at)
        jump = next((i for i in range(first, len(losses)) if losses[i] > 10 * losses[first]), None)
        if jump is None:
            break
        found.append((first, jump))
        at = above.index(False, jump) if False in above[jump:] else len(above)
    return found


def curvature_values(columns):
    steps, losses, seen = columns["step"], columns["loss"], columns["lr_curvature"]
    rows = [(f"{steps[i - 1]:,}", f"{seen[i - 1]:.1f}", f"{steps[i]:,}", f"{seen[i]:.1f}",
             f"{losses[i]:.1e}", f"{steps[jump]:,}", f"{losses[jump]:.1e}")
            for i, jump in falls(columns)]
    return {"falls table": Table(("last below, step", "curvature", "first above, step", "curvature",
                                  "loss", "tenfold at step", "loss there"), rows, left=0),
            "curvature first": f"{steps[0]:,}", "curvature last": f"{steps[-1]:,}",
            "curvature low": f"{seen[0]:.2g}", "curvature limit": f"{curvature.LIMIT:.0f}",
            "falls": {1: "one", 2: "two", 3: "three"}[len(rows)]}


def curvature_facts(columns):
    steps, losses, found = columns["step"], columns["loss"], falls(columns)
    rises = [i for i in range(1, len(losses)) if losses[i] > 4 * losses[i - 1]]
    return {
        "the curvature that AdamW sees climbs to the limit": columns["lr_curvature"][0]
        < curvature.LIMIT / 5 and len(found) > 0,
        "the loss is tenfold within twenty steps of it": all(
            steps[jump] - steps[first] <= 20 for first, jump in found),
        "and rises fourfold within ten steps only where it is above": all(
            columns["lr_curvature"][i - 1] > curvature.LIMIT for i in rises),
    }
