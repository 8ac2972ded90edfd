"""The document's eight questions, each answered in a paragraph whose numbers the records give."""

import math

from experiments import study
from experiments.reporting import attention, data_size, extract, mixed, sanity
from experiments.reporting.answers_batch import compute_answer
from experiments.reporting.answers_decay import decay_answer
from experiments.reporting.answers_size import size_answer
from experiments.reporting.judgement import judgement
from experiments.reporting.measures import GENERAL, MEMORISED, listed, mean, span, steps
from experiments.reporting.records import GRID, NAMES
from experiments.reporting.wording import Missing, both, factor, gainer, of_both, per_seed, seeds_of

L_VAL, A_VAL, A_TRAIN = "validation_loss", "validation_accuracy", "train_accuracy"
NOTHING = "Not answered: the runs are missing."
EQUATIONS = study.BASE.p**2
WORDS = """\
(a) to (d) are the document's sub-questions. L is the loss, A the accuracy; L_val and A_val \
without a step are the best over all steps of a run, and t_f(·) is the first step that reached it; \
there is a value for each seed, or the range of several. A decade is a factor of ten."""


def answers(store, sections):
    """[(question, paragraph, label of its figure)]."""
    made = {"1 and 2": (sanity_answer, "1"), "3": (data_answer, "5"), "4": (mixed_answer, "Q4"),
            "5": (size_answer, "20"), "6": (compute_answer, "24 to 31"),
            "7": (decay_answer, "33"), "8": (attention_answer, "36")}
    found = []
    for number, (answer, figure) in made.items():
        section = next((s for s in sections if f"question {number}" in s.title
                        or f"questions {number}" in s.title), None)
        if section is None:
            continue
        try:
            words = f"{answer(store)}\n\n{judgement(section.verdicts)}"
        except Missing:
            words = NOTHING
        found.append((section.title, words, figure))
    return found


# --- the questions --------------------------------------------------------------------------------
def sanity_answer(store):
    said, general = [], []
    for model, config in sanity.CONFIGS.items():
        runs = store.chosen([config], ("default",)).all_runs(config)
        if not runs:
            raise Missing
        late = [run.reach(A_VAL, GENERAL) for run in runs.values()]
        general += late
        early = [run.reach(A_TRAIN, MEMORISED) for run in runs.values()]
        least = [run.best(L_VAL) for run in runs.values()]
        said.append(
            f"the {NAMES[model]} ({len(runs)} seeds) knows its training set at step "
            f"{span(early, '{:.0f}')}, but generalises (A_val ≥ {GENERAL:g}) at step "
            f"{span(late, '{:.0f}')} only; its lowest L_val is {span(least, '{:.2g}')}, the "
            f"document's {sanity.DOCUMENT[model][L_VAL][0]:g} ± "
            f"{sanity.DOCUMENT[model][L_VAL][1]:g}")
    reached = sum(map(math.isfinite, general))
    head = ("Yes: both models grok, with every seed" if reached == len(general) else
            f"Not always: {reached} of {len(general)} runs generalise")
    return f"**{head}.** By the default recipe {'; '.join(said)}. {without_clipping(store)}"


def without_clipping(store):
    """What the recipe as stated gives the GPT, as a sentence."""
    config, printed = sanity.CONFIGS["gpt"], sanity.DOCUMENT["gpt"]["train_loss"][0]
    stated, default = ([run.best("train_loss") for run in view.all_runs(config).values()]
                       for view in (store.by([config], recipe) for recipe in ("stated", "default")))
    if not stated:
        return "The recipe with nothing added to the text, so without clipping, was not run."
    times = min(stated) / printed
    words = ("Without clipping, of which the text says nothing, the GPT's lowest L_train is "
             f"{min(stated):.2g}, some {float(f'{times:.0e}'):g} times the document's "
             f"{printed:g} (the loss puzzle, below)")
    if times > 3 and default and min(default) <= 3 * printed:
        words += (f"; with clipping, {min(default):.2g}: the document's GPT was probably clipped, "
                  "as by its course's starter code")
    return words + "."


def data_answer(store):
    every = [c for found in data_size.CONFIGS.values() for c in found.values()]
    view = store.chosen(every)
    runs_of = of_both(view, data_size.CONFIGS)
    ends = {model: {seed: (data_size.largest_overfit(runs), data_size.smallest_general(runs))
                    for seed, runs in found.items()} for model, found in runs_of.items()}
    from_on = {m: [high for _, high in found.values()] for m, found in ends.items()}
    later = gainer(from_on)
    first, second = ("gpt", "lstm") if later == "gpt" else ("lstm", "gpt")
    top = known_from(runs_of)
    return (f"**The {NAMES[first]} generalises from r_train = {span(from_on[first], '{:g}')} on, "
            f"the {NAMES[second]} from {span(from_on[second], '{:g}')}"
            + ", and so with fewer equations" * bool(later)
            + (f"; from {top:g} on both have A_val ≥ {MEMORISED:g}" if math.isfinite(top) else "")
            + f". {scaling_words(runs_of)}** (c) {courses(runs_of)} (d) {gap_words(ends)}")


def known_from(runs_of):
    """The smallest r_train from which on every run knows the validation set, or infinity."""
    every = [runs for found in runs_of.values() for runs in found.values()]
    return next((r for r in data_size.SHARES if all(
        runs[s].best(A_VAL) >= MEMORISED for runs in every for s in data_size.SHARES if s >= r)),
        math.inf)


def scaling_words(runs_of):
    """Which model's L_val scales better with r_train, by the test of that claim."""
    seeds = list(runs_of["lstm"])
    models = [{(m, r): found[seed][r] for m, found in runs_of.items() for r in data_size.SHARES}
              for seed in seeds]
    better = sum(data_size.scales_better(one)[0] for one in models)
    which = {0: "the GPT's", len(seeds): "the LSTM's"}.get(better)
    lowest = span([data_size.lower_at(one) for one in models], "{:g}")
    return ((f"In L_val {which} falls faster {both(len(seeds))}" if which else
             "Which model's L_val falls faster depends on the seed")
            + f"; the LSTM's is the lower one at {lowest} of the nine r_train, the GPT's at the "
            "others.")


def courses(runs_of):
    """How both models' A_val and L_val go with r_train, means over the seeds."""
    few, some = (0.2, 0.3, 0.4), (0.3, 0.5, 0.8, 0.9)
    accuracy = {m: listed([mean(runs[r].best(A_VAL) for runs in found.values()) for r in few])
                for m, found in runs_of.items()}
    loss = {m: listed([10 ** mean(math.log10(runs[r].best(L_VAL)) for runs in found.values())
                       for r in some], "{:.2g}") for m, found in runs_of.items()}
    fall = {m: factor([math.log10(runs[0.8].best(L_VAL) / runs[0.5].best(L_VAL))
                       for runs in found.values()]) for m, found in runs_of.items()}
    return (f"At r_train = {listed(few, '{:g}')} A_val is {accuracy['lstm']} for the "
            f"LSTM and {accuracy['gpt']} for the GPT. L_val at r_train = {listed(some, '{:g}')} is "
            f"{loss['lstm']} for the LSTM and {loss['gpt']} for the GPT (geometric means over the "
            "seeds): most of the fall is where a model begins to generalise. From 0.5 to 0.8 that "
            f"of the LSTM {fall['lstm']}, that of the GPT {fall['gpt']}.{lagging(runs_of)}")


def lagging(runs_of):
    """The runs with the most data whose losses, in training too, are above those with less."""
    late = [f"the {NAMES[m]}'s with seed {seed} (L_train {runs[0.9].best('train_loss'):.2g}, at "
            f"0.8 {runs[0.8].best('train_loss'):.2g})" for m, found in runs_of.items()
            for seed, runs in found.items()
            if all(runs[0.9].best(metric) > 2 * runs[0.8].best(metric)
                   for metric in (L_VAL, "train_loss"))]
    return (f" At 0.9 {' and '.join(late)} is higher again: its training lags behind."
            if len(late) == 1 else f" At 0.9 {' and '.join(late)} are higher again: their training "
            "lags behind." if late else "")


def gap_words(ends):
    each = "; ".join(f"{NAMES[m]} " + per_seed({seed: f"{low:g} and {high:g}" for seed, (low, high)
                                               in found.items()}) for m, found in ends.items())
    gaps = [round(high - low, 1) for found in ends.values() for low, high in found.values()]
    return (f"The largest r_train that only overfits and the smallest that generalises are {each}: "
            f"{span(gaps, '{:g}')} apart ({span([EQUATIONS * g for g in gaps], '{:.0f}')} "
            "equations; the grid's step is 0.1, so that the true gap may be smaller), where the "
            f"document says 0.3 ({EQUATIONS * 0.3:.0f}). A reason for a gap so small, which is not "
            "tested here: under weight decay memorising may be the cheaper solution with few "
            "equations and the general one with many, as each further equation has to be stored by "
            "the one and costs the other nothing; and the fewer there are, the longer "
            "generalising takes, so that the number of steps matters, too.")


def mixed_answer(store):
    view = store.chosen(list(mixed.CONFIGS.values()))
    runs_of = {m: [found[0] for found in seeds_of(view, {0: config}).values()]
               for m, config in mixed.CONFIGS.items()}
    general, known = ([order_words(m, runs_of[m], *limit) for m in ("gpt", "lstm")]
                      for limit in (("validation", GENERAL), ("train", MEMORISED)))
    config = mixed.CONFIGS["gpt"]
    one = round(config.p**2 * (1 - config.r_train))
    return (f"**Which sums does a model generalise on first? {'; '.join(general)}.** (c) Which it "
            f"knows by heart first (A_train ≥ {MEMORISED:g}): {'; '.join(known)}. Evaluations are "
            f"{GRID} steps apart, so that a difference of one says nothing. There are eleven "
            "ternary equations for each binary one, so that order and number of equations cannot "
            f"be told apart here; about {one} binary ones are for validation.{forgotten(runs_of)}")


def order_words(model, runs, part, limit):
    """Which order a model reaches a limit on first, with every seed, and when."""
    two, three = ([run.reach(f"{part}_accuracy_order{order}", limit) for run in runs]
                  for order in mixed.ORDERS)
    pairs = list(zip(two, three, strict=True))
    near = [a == b or abs(a - b) <= GRID for a, b in pairs]
    which = ("within one evaluation of each other" if all(near) else
             "not alike with every seed" if any(near) else
             f"binary ones {both(len(runs))}" if all(a < b for a, b in pairs) else
             f"ternary ones {both(len(runs))}" if all(a > b for a, b in pairs) else
             "not alike with every seed")
    return f"{NAMES[model]}: {which}, at {steps(two)} (binary) and {steps(three)} (ternary)"


def forgotten(runs_of):
    """The lowest A_val after generalising, where a run falls below that again."""
    low = [(min(v for t, v in run.points(f"validation_accuracy_order{order}") if t >= at),
            f"{NAMES[m]}, {name}") for m, runs in runs_of.items() for run in runs
           for order, name in mixed.ORDERS.items()
           if math.isfinite(at := run.reach(f"validation_accuracy_order{order}", GENERAL))]
    under = sorted(found for found in low if found[0] < GENERAL)
    if not under:
        return ""
    return (f" In {len(under)} of {len(low)} cases A_val comes below {GENERAL:g} again after it "
            f"was reached, to {under[0][0]:.2f} at the lowest ({under[0][1]} sums).")


def attention_answer(store):
    runs, _ = attention.by_recipe(extract.one_origin([
        entry for entry in extract.load("attention") if entry["accuracy"][1] >= GENERAL])[0])
    if not runs:
        raise Missing
    return attention.answer(runs)
