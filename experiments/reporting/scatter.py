"""What rounding alone does to a training, beside what another seed does."""

import math

from experiments import rounding, study
from experiments.reporting import sanity
from experiments.reporting.measures import GENERAL, deviation
from experiments.reporting.parts import Section, Table
from experiments.reporting.records import NAMES, label_of, setting
from experiments.trials import records

FEW = 3                 # values from which a scatter is given
PLACES = {"L_val": 0, "the step of A_val ≥ 0.9": 2}     # of the facts of a run
# 97.5 % points of Fisher's distribution, for 2, 3, 4 degrees of freedom above (rows) and below.
FISHER = ((39.00, 16.04, 10.65), (39.17, 15.44, 9.98), (39.25, 15.10, 9.60))


def section(store):
    """The Section on rounding and seeds."""
    made = Section("Rounding and seeds (beyond the document)")
    found = records(rounding.FOLDER, rounding.TRIALS)
    by_rounding = {model: {r["trial"]["variant"]: facts(points_of(r["columns"]))
                           for r in found.values() if r["trial"]["model"] == model}
                   for model in NAMES}
    by_seeds = {model: {f"seed {seed}": facts(of_run(run)) for seed, run in
                        store.chosen([config], ("default",)).all_runs(config).items()}
                for model, config in sanity.CONFIGS.items()}
    rows = [(NAMES[model], name, *shown(values)) for group in (by_rounding, by_seeds)
            for model in NAMES for name, values in group[model].items()]
    made.parts.append(f"How far apart are trainings that should be the same? "
                      f"{answer(by_rounding, by_seeds)} {other_code(store)}".strip())
    changed = (f": with seed {rounding.SEED} and its rounding changed, then"
               if any(by_rounding.values()) else "")
    if rows:
        made.parts.append(Table(
            f"The default recipe{changed} by its seeds.",
            ("model", "changed", "L_val", "A_val", "A_val ≥ 0.9 at"), rows, left=2))
    return made


def points_of(columns):
    return {name: [(step, value) for step, value in zip(columns["step"], columns[name], strict=True)
                   if value is not None] for name in ("validation_loss", "validation_accuracy")}


def of_run(run):
    return {name: run.points(name) for name in ("validation_loss", "validation_accuracy")}


def facts(points):
    """(lowest L_val, highest A_val, first step with A_val of GENERAL) of {metric: points}."""
    loss, accuracy = points["validation_loss"], points["validation_accuracy"]
    return (min(v for _, v in loss), max(v for _, v in accuracy),
            next((t for t, v in accuracy if v >= GENERAL), math.inf))


def shown(values):
    loss, accuracy, step = values
    return f"{loss:.2g}", f"{accuracy:.4f}", "never" if math.isinf(step) else f"{step:g}"


# --- what the two scatters say ------------------------------------------------------------------
def decades(found, place):
    """log10 of the values at a place of the facts, of the runs that have one."""
    return [math.log10(facts[place]) for facts in found.values()
            if 0 < facts[place] < math.inf]


def spread(found, place):
    """Deviation of a sample in decades, or None for too few values."""
    values = decades(found, place)
    if len(values) < FEW:
        return None
    return deviation(values) * math.sqrt(len(values) / (len(values) - 1))


def limit(above, below):
    """The factor that chance alone gives the ratio of two equally wide samples' deviations, in
    one of 40 cases, for the sizes of the samples; of more than five values as of five."""
    row, column = (min(count, 5) - FEW for count in (above, below))
    return math.sqrt(FISHER[row][column])


def compared(rounded, seeded, place):
    """The two scatters of a number, their ratio with its interval, and what follows."""
    one, other = spread(rounded, place), spread(seeded, place)
    counts = [len(decades(found, place)) for found in (rounded, seeded)]
    never = [len(found) - count for found, count in zip((rounded, seeded), counts, strict=True)]
    left = f" (left out, as they never reach it: {never[0]} and {never[1]})" if any(never) else ""
    if one == 0 and other:
        return (f"rounding changes nothing in {counts[0]} runs, the seed {other:.2f} "
                f"decades{left}: rounding is less")
    if not one or not other:
        least = " and ".join(f"{count} by {what}" for count, what, width in zip(
            counts, ("rounding", "the seed"), (one, other), strict=True) if not width)
        return f"open: too few runs, or all alike ({least}){left}"
    ratio = one / other
    low, high = ratio / limit(*counts), ratio * limit(*counts[::-1])
    said = ("rounding is less" if high < 1 else "rounding is more" if low > 1 else
            "that both are of one size cannot be excluded")
    return (f"{one:.2f} decades by rounding, {other:.2f} by the seed{left}, a ratio of {ratio:.2g} "
            f"({low:.2g} to {high:.2g}): {said}")


def answer(by_rounding, by_seeds):
    said = [f"{NAMES[model]}, {name}: {compared(by_rounding[model], by_seeds[model], place)}"
            for model in NAMES if by_rounding[model] and by_seeds[model]
            for name, place in PLACES.items()]
    if not said:
        return ("Not measured yet: no model has runs both of another rounding and of other seeds "
                "(`python experiments/rounding.py`, and the further seeds: `python "
                "experiments/study.py further`).")
    return (f"{'; '.join(said)}. Decades are deviations of log10. Behind a ratio stands its "
            "interval of 95 % by Fisher's test, which takes the logarithms for normal: with five "
            f"runs and five, deviations less than {limit(5, 5):.1f}-fold apart cannot be told "
            f"apart. (Seed {rounding.SEED} with its usual rounding is in both groups.) If "
            "rounding moves a run as far as another seed does, a single run says little of its "
            "setting: settings are to be compared over several seeds.")


def other_code(store):
    """What older code made of the same seeds: more than its rounding may differ."""
    config = study.with_recipe(sanity.CONFIGS["lstm"], "release")
    said = []
    for seed, runs in sorted(store.settings.get(setting(config), {}).items()):
        losses = {bool(label_of(run)): run.best("validation_loss") for run in reversed(runs)}
        if len(losses) == 2:
            said.append(f"{losses[True]:.2g} and {losses[False]:.2g} (seed {seed})")
    return "" if not said else (
        "A hint from kept runs: the lowest L_val of the LSTM's release recipe by older code and by "
        f"newer is {', '.join(said)}. More than one change of the code lies between the two, so "
        "that this does not measure rounding alone.")
