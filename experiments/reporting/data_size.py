"""Question 3 of Problem 4: the share of the equations that is trained on."""

import math

from experiments.reporting.measures import (
    GENERAL,
    MEMORISED,
    ONLY,
    accuracies,
    falls,
    losses,
    mean,
    relaxed,
    slope,
)
from experiments.reporting.parts import Section, Table
from experiments.reporting.records import NAMES, variant
from experiments.reporting.rules import Statement, judge, silent
from experiments.reporting.shapes import best_table, eight, family, figure

SHARES = [round(0.1 * i, 1) for i in range(1, 10)]
CONFIGS = {model: {r: variant(model, r_train=r) for r in SHARES} for model in NAMES}


def called(config):
    return f"{NAMES[config.model]} {config.r_train:g}"


def section(store):
    """The Section on the size of the training set."""
    both = [config for configs in CONFIGS.values() for config in configs.values()]
    store = store.chosen(both)
    made = Section("Scaling data size (question 3)", [store.words(both)])
    for label, model in (("3", "lstm"), ("4", "gpt")):
        made.parts.append(figure(
            store, label, f"fig0{label}-data-{model}",
            f"{NAMES[model]}: loss and accuracy over the training steps for r_train from 0.1 to "
            "0.9, by colour.", family(store, CONFIGS[model], "r_train"),
            list(CONFIGS[model].values()), called, (10, 6.2)))
    made.parts.append(figure(
        store, "5", "fig05-data-compared",
        "Best losses (log scale) and accuracies, and the first steps t_f that reached them, "
        "against r_train, for both models.",
        eight(store, [(NAMES[m], CONFIGS[m]) for m in CONFIGS],
              {"label": "r_train", "scale": "linear"}), both, called, (14, 6)))
    made.parts.append(best_table(
        store, "Best values over all steps and the first steps that reached them: mean ± "
        "deviation over the seeds; the best of a column is bold.", ("model", "r_train"),
        [(NAMES[m], f"{r:g}", CONFIGS[m][r]) for m in CONFIGS for r in SHARES]))
    made.parts.append(thresholds(store))
    made.verdicts = [silent("Figure 3", "the LSTM's curves by r_train"),
                     silent("Figure 4", "the GPT's curves by r_train"),
                     silent("Figure 5", "both models' best values against r_train")]
    made.verdicts += [judge(store, statement) for statement in statements()]
    return made


# --- 3 (d) --------------------------------------------------------------------------------------
def generalises(run, times=1):
    return run.best("validation_accuracy") >= relaxed(GENERAL, times)


def only_overfits(run, times=1, memorised=1):
    return (run.best("train_accuracy") >= relaxed(MEMORISED, memorised)
            and run.best("validation_accuracy") <= ONLY * times)


def smallest_general(runs, times=1):
    """The smallest r_train of {r_train: Run} that generalises, or infinity."""
    return min((r for r, run in runs.items() if generalises(run, times)), default=math.inf)


def largest_overfit(runs):
    """The largest r_train that only overfits, or minus infinity."""
    return max((r for r, run in runs.items() if only_overfits(run)), default=-math.inf)


def thresholds(store):
    rows = []
    for model, configs in CONFIGS.items():
        for seed in sorted({s for config in configs.values() for s in store.runs(config)}):
            runs = {r: store.runs(c)[seed] for r, c in configs.items() if seed in store.runs(c)}
            gone = [f"{r:g}" for r in SHARES if r not in runs]
            small, large = smallest_general(runs), largest_overfit(runs)
            known = math.isfinite(small) and math.isfinite(large)
            rows.append((NAMES[model], str(seed), share(small), share(large),
                         f"{small - large:.1f}" if known else "-", ", ".join(gone) or "none"))
    return Table(
        f"The smallest r_train that generalises (A_val ≥ {GENERAL:g}), the largest that only "
        f"overfits (A_train ≥ {MEMORISED:g}, A_val ≤ {ONLY:g}), of those that were run.",
        ("model", "seed", "smallest that generalises", "largest that only overfits", "difference",
         "missing"), rows, left=1)


def share(value):
    return f"{value:g}" if math.isfinite(value) else "none"


# --- statements ---------------------------------------------------------------------------------
def statements():
    lstm = {("lstm", r): config for r, config in CONFIGS["lstm"].items()}
    both = {(m, r): config for m in CONFIGS for r, config in CONFIGS[m].items()}
    own_table = ("its own table of question 2 has A_val = 1.0000 ± 0.0000 for the LSTM at "
                 "r_train = 0.5")
    return [
        Statement("3 (c)", "the LSTM's L_val falls with every step of r_train",
                  "decreases monotonically", lstm, monotone),
        Statement("3 (c)", "in L_val the LSTM scales better than the GPT",
                  "superior scaling, particularly in L_val", both, scales_better),
        Statement("3 (c)", "A_val improves with r_train for both models", "both models improve",
                  both, both_improve),
        Statement("3 (c)", "the LSTM's A_val is the steadier one over all r_train",
                  "more stable performance across all r_train", both, steadier),
        Statement("3 (d)", "the LSTM first generalises at r_train = 0.6", "0.6", lstm,
                  first_general, own_table, threshold=True),
        Statement("3 (d)", "below r_train = 0.3 the LSTM only overfits", "below 0.3", lstm,
                  overfits_below, threshold=("A_val", "A_train")),
        Statement("3 (d)", "a gap of 0.3 lies between the two", "0.3 = 0.6 - 0.3", lstm,
                  first_general, again="3 (d), 0.6: the gap is that number less 0.3"),
    ]


def of(runs, model):
    return {r: runs[model, r] for r in SHARES if (model, r) in runs}


def best(runs, metric):
    return [run.best(metric) for run in runs.values()]


def monotone(runs):
    found = best(of(runs, "lstm"), "validation_loss")
    return falls(found), f"L_val {losses(found)}"


def scales_better(runs):
    """A steeper fall of log L_val over r_train."""
    fall = {m: slope(SHARES, [math.log10(v) for v in best(of(runs, m), "validation_loss")])
            for m in NAMES}
    return fall["lstm"] < fall["gpt"], (
        f"decades of L_val per unit of r_train {fall['lstm']:.1f} (LSTM), {fall['gpt']:.1f} (GPT)")


def lower_at(runs):
    """At how many r_train the LSTM has the lower L_val."""
    return sum(runs["lstm", r].best("validation_loss") < runs["gpt", r].best("validation_loss")
               for r in SHARES)


def both_improve(runs):
    ends = {m: [runs[m, r].best("validation_accuracy") for r in (0.1, 0.9)] for m in NAMES}
    return all(b > a for a, b in ends.values()), "A_val at 0.1 and 0.9: " + "; ".join(
        f"{NAMES[m]} {accuracies(values)}" for m, values in ends.items())


def steadier(runs):
    lost = {m: mean(run.shortfall() for run in of(runs, m).values()) for m in NAMES}
    return lost["lstm"] < lost["gpt"], (
        f"mean shortfall of A_val {lost['lstm']:.4f} (LSTM), {lost['gpt']:.4f} (GPT)")


def first_general(runs, times=1):
    small = smallest_general(of(runs, "lstm"), times)
    below = [f"{r:g}: {runs['lstm', r].best('validation_accuracy'):.3f}" for r in SHARES[2:7]]
    return small == 0.6, f"at {share(small)}; A_val at {', '.join(below)}"


def overfits_below(runs, *times):
    found = of(runs, "lstm")
    small = {r: run for r, run in found.items() if r < 0.3}
    return all(only_overfits(run, *times) for run in small.values()), (
        f"A_val {accuracies(best(small, 'validation_accuracy'))} at {', '.join(map(str, small))}; "
        f"the largest that only overfits is {share(largest_overfit(found))}")
