"""Question 7 of Problem 4: weight decay of the LSTM, and the norm of its parameters."""

import math

from experiments.reporting import jumps
from experiments.reporting.decay_claims import CONFIGS, T, statements
from experiments.reporting.measures import GENERAL, MEMORISED
from experiments.reporting.parts import CONTRADICTED, NO_CLAIM, Section, Table, Verdict
from experiments.reporting.records import Spread
from experiments.reporting.rules import judge
from experiments.reporting.shapes import EMPTY, best_table, eight, family, figure, plus_minus
from npdl.training.metrics import METRICS

BAR = "weight decay"


def called(config):
    return f"decay {config.weight_decay:g}"


def section(store):
    """The Section on weight decay."""
    everything = list(CONFIGS.values())
    store = store.chosen(everything)
    made = Section("Regularisation (question 7)", [store.words(everything)])
    made.parts.append(f"The LSTM of the default recipe, T = {T}, weight decay 1/4 to 1; the norm "
                      "is that of all its parameters, embeddings included.")
    data = family(store, CONFIGS, BAR, (*METRICS, "l2_norm"), (2, 3))
    data["panels"].append(EMPTY)
    made.parts.append(figure(
        store, "33", "fig33-decay-curves", "Loss, accuracy and the l2 norm of the parameters over "
        "the training steps, the weight decay by colour.", data, everything, called, (13, 6.2)))
    made.parts.append(figure(
        store, "34", "fig34-decay-compared", "Best losses (log scale) and accuracies, and the "
        "first steps t_f that reached them, against the weight decay.",
        eight(store, [("LSTM", CONFIGS)], {"label": BAR, "scale": "linear"}), everything, called,
        (14, 6)))
    made.parts.append(best_table(
        store, "Best values over all steps and the first steps that reached them: mean ± "
        "deviation over the seeds; the best of a column is bold.", (BAR,),
        [(f"{decay:g}", config) for decay, config in CONFIGS.items()]))
    made.parts.append(norm_table(store))
    made.parts += jumps.parts([(f"{decay:g}", seed, run) for decay, config in CONFIGS.items()
                               for seed, run in store.runs(config).items()])
    made.verdicts = [*(judge(store, statement) for statement in statements()), seven_tenths()]
    return made


def seven_tenths(told=0.7):
    """The Verdict on a decay that the answer speaks of, and the question does not have."""
    run = ", ".join(f"{decay:g}" for decay in CONFIGS)
    return Verdict("7 (c)", f"a decay of {told:g} was run",
                   f"L_val turns, and t_f(L_val) peaks, at {told:g}", f"the question has {run}",
                   NO_CLAIM if told in CONFIGS else CONTRADICTED)


# --- the norm -----------------------------------------------------------------------------------
def norm_at(run, step):
    """The norm at the first evaluation from a step on, or None if that step never comes."""
    if math.isinf(step):
        return None
    return next(value for t, value in run.points("l2_norm") if t >= step)


def norm_table(store):
    moments = {
        "at step 1": lambda run: 1,
        f"memorised (A_train ≥ {MEMORISED:g})": lambda run: run.reach("train_accuracy", MEMORISED),
        f"generalised (A_val ≥ {GENERAL:g})": lambda run: run.reach("validation_accuracy",
                                                                    GENERAL),
        "at the end": lambda run: run.config.steps,
    }
    rows = []
    for decay, config in CONFIGS.items():
        runs = store.runs(config).values()
        cells = [f"{decay:g}"]
        for moment in moments.values():
            values = [norm_at(run, moment(run)) for run in runs]
            known = Spread.of(value for value in values if value is not None)
            cells.append("never" if values and not known.values else norm_text(known))
        cells.append(plus_minus("t_f", Spread.of(
            t for run in runs if math.isfinite(t := run.reach("validation_accuracy", GENERAL)))))
        rows.append(cells)
    return Table("The l2 norm of the parameters: mean ± deviation over the seeds; last, the step "
                 "that generalised.", (BAR, *moments, "step"), rows)


def norm_text(spread):
    if not spread.values:
        return "not run"
    one = f" ± {spread.std:.1f}" if len(spread.values) > 1 else " (1 run)"
    return f"{spread.mean:.1f}{one}"
