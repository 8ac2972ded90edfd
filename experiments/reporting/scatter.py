"""What rounding alone does to a training, beside what another seed does."""

import math

import rounding
import study
from trials import records

from reporting import sanity
from reporting.measures import GENERAL, deviation
from reporting.parts import Section, Table
from reporting.records import NAMES, label_of, setting

FEW = 3                 # values from which a scatter is given


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
    made.parts.append(answer(store, by_rounding, by_seeds))
    if rows:
        made.parts.append(Table(
            f"The default recipe: with seed {rounding.SEED} and its rounding changed, then by its "
            "seeds.", ("model", "changed", "L_val", "A_val", "A_val ≥ 0.9 at"), rows, left=2))
    return made


def points_of(columns):
    return {name: list(zip(columns["step"], columns[name], strict=True))
            for name in ("validation_loss", "validation_accuracy")}


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


def spread(found, place):
    """Deviation in decades of the values at a place of the facts, or None for too few."""
    values = [facts[place] for facts in found.values() if math.isfinite(facts[place])]
    if len(values) < FEW:
        return None
    return deviation(math.log10(value) for value in values) * math.sqrt(
        len(values) / (len(values) - 1))


def answer(store, by_rounding, by_seeds):
    said = []
    for model in NAMES:
        pairs = [(name, spread(by_rounding[model], place), spread(by_seeds[model], place))
                 for name, place in (("L_val", 0), ("the step of A_val ≥ 0.9", 2))]
        for name, rounded, seeded in pairs:
            if rounded is None or seeded is None:
                continue
            said.append(f"{NAMES[model]}, {name}: {rounded:.2f} decades by rounding, "
                        f"{seeded:.2f} by the seed")
    words = ("; ".join(said) + "." if said else
             "Not measured yet for both (`python experiments/rounding.py`, and the further seeds: "
             "`python experiments/study.py further`).")
    config = study.with_recipe(sanity.CONFIGS["lstm"], "release")
    old = [run for runs in store.settings.get(setting(config), {}).values() for run in runs
           if run.config.seed == rounding.SEED and label_of(run)]
    known = (" One such case was met: a change of the code that altered nothing but the order of "
             "two additions moved the lowest L_val of the LSTM's release recipe with seed "
             f"{rounding.SEED} from {old[0].best('validation_loss'):.2g} to 0.0060, more than "
             "five-fold, as far as seeds do." if old else "")
    return (f"How far apart are trainings that should be the same? {words} Where the two are of "
            "one size, a seed is one draw among many that its own number does not fix: a "
            f"difference between two settings counts only over several seeds.{known}")
