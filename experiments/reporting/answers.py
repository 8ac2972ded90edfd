"""The document's eight questions, each answered in a paragraph whose numbers the records give."""

import math

import study

from reporting import (
    attention,
    compute_claims,
    data_size,
    decay_claims,
    extract,
    mixed,
    model_answers,
    model_size,
    sanity,
)
from reporting.effects import LOW, change, means
from reporting.judgement import judgement
from reporting.measures import GENERAL, MEMORISED, listed, losses, mean, slope, span, steps
from reporting.records import NAMES

L_VAL, A_VAL, A_TRAIN = "validation_loss", "validation_accuracy", "train_accuracy"
NOTHING = "Not answered: the runs are missing."
EQUATIONS = study.BASE.p**2


def answers(store, sections):
    """[(question, paragraph, label of its figure)]."""
    made = {"1 and 2": (sanity_answer, "1"), "3": (data_answer, "5"), "4": (mixed_answer, "8"),
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


class Missing(Exception):
    """A run that an answer needs is not there."""


def lower(found, one="lstm", other="gpt"):
    """The model whose values all lie below the other's, or None."""
    if max(found[one]) < min(found[other]):
        return one
    return other if max(found[other]) < min(found[one]) else None


def seeds_of(view, configs):
    """{seed: {key: Run}} for the seeds that every setting has; Missing without any."""
    runs = {key: view.all_runs(config) for key, config in configs.items()}
    seeds = [seed for seed in next(iter(runs.values()))
             if all(seed in found for found in runs.values())]
    if not seeds:
        raise Missing
    return {seed: {key: found[seed] for key, found in runs.items()} for seed in seeds}


def factor(decades):
    """"falls 12 to 30-fold" for changes of log10 of several seeds."""
    if not decades:
        raise Missing
    low, high = min(decades), max(decades)
    if low < 0 < high:
        return (f"goes both ways, from {two_digits(10**-low)} times lower with one seed to "
                f"{two_digits(10**high)} times higher with another")
    ends = dict.fromkeys(map(two_digits, sorted((10 ** abs(low), 10 ** abs(high)))))
    return f"{'falls' if high <= 0 else 'rises'} by a factor of {' to '.join(ends)}"


def two_digits(value):
    """1.9, 89, 510, 110,000."""
    return f"{float(f'{value:.2g}'):,g}"


def per_seed(found):
    """"x with seed 0, y with seed 42"."""
    return ", ".join(f"{words} with seed {seed}" for seed, words in found.items())


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
    runs = store.by([config], "stated").all_runs(config).values()
    if not runs:
        return "The recipe without clipping, as the text states it, was not run."
    least = min(run.best("train_loss") for run in runs)
    return (f"Without clipping, as the text states the recipe, the GPT's L_train is {least:.2g} "
            f"at the least, {least / printed:.0f} times the document's (the loss puzzle, below)"
            + (": its numbers come from the clipping that its course's starter code does."
               if least > 3 * printed else "."))


def data_answer(store):
    every = [c for found in data_size.CONFIGS.values() for c in found.values()]
    view = store.chosen(every)
    runs_of = {model: seeds_of(view, configs) for model, configs in data_size.CONFIGS.items()}
    ends = {model: {seed: (data_size.largest_overfit(runs), data_size.smallest_general(runs))
                    for seed, runs in found.items()} for model, found in runs_of.items()}
    both = "; ".join(f"{NAMES[m]} " + per_seed({seed: f"{low:g} and {high:g}" for seed, (low, high)
                                               in found.items()}) for m, found in ends.items())
    gaps = [high - low for found in ends.values() for low, high in found.values()]
    from_on = {m: span([high for _, high in found.values()], "{:g}") for m, found in ends.items()}
    top = known_from(runs_of)
    return (
        f"**The LSTM generalises from r_train = {from_on['lstm']} on, the GPT from "
        f"{from_on['gpt']}"
        + (f"; from {top:g} on both have A_val ≥ {MEMORISED:g}" if math.isfinite(top) else "")
        + f".** (c) {courses(runs_of)} (d) The largest r_train that only overfits and the smallest "
        f"that generalises are {both}: {span([EQUATIONS * g for g in gaps], '{:.0f}')} equations "
        "apart; the document says 0.3, and that the model needs substantial data, which no run can "
        f"deny: it would be as true of any of these numbers up to {EQUATIONS}. A "
        "reason for a gap so small, which is not tested here: each equation more is one that a "
        "memorising solution has to store and a general one has for nothing, so that under "
        "weight decay the cheaper of the two changes at some number; and generalising takes the "
        "longer the fewer there are, so that the number of steps sets it, too.")


def known_from(runs_of):
    """The smallest r_train from which on every run knows the validation set, or infinity."""
    every = [runs for found in runs_of.values() for runs in found.values()]
    return next((r for r in data_size.SHARES if all(
        runs[s].best(A_VAL) >= MEMORISED for runs in every for s in data_size.SHARES if s >= r)),
        math.inf)


def courses(runs_of):
    """How both models' A_val and L_val go with r_train, means over the seeds."""
    few, some = (0.2, 0.3), (0.3, 0.5, 0.9)
    accuracy = {m: listed([mean(runs[r].best(A_VAL) for runs in found.values()) for r in few])
                for m, found in runs_of.items()}
    loss = {m: [10 ** mean(math.log10(runs[r].best(L_VAL)) for runs in found.values())
                for r in some] for m, found in runs_of.items()}
    rising = [NAMES[m] for m, (_, middle, high) in loss.items() if high > middle]
    lowest = [data_size.lower_at({(m, r): found[seed][r] for m, found in runs_of.items()
                                  for r in data_size.SHARES})
              for seed in runs_of["lstm"] if seed in runs_of["gpt"]]
    return (f"With fewer equations the A_val at r_train = {listed(few, '{:g}')} is "
            f"{accuracy['lstm']} for the LSTM, {accuracy['gpt']} for the GPT. L_val at r_train = "
            f"{listed(some, '{:g}')} is {losses(loss['lstm'])} for the LSTM and "
            f"{losses(loss['gpt'])} for the GPT (geometric means over the seeds)"
            + (f": once it generalises, more data make that of the {' and of the '.join(rising)} "
               "no lower" if rising else "")
            + f"; the LSTM's is the lower one at {span(lowest, '{:g}')} of the nine r_train.")


def mixed_answer(store):
    said, first = [], {}
    view = store.chosen(list(mixed.CONFIGS.values()))
    for model, config in mixed.CONFIGS.items():
        runs = seeds_of(view, {0: config})
        for part, limit in (("train", MEMORISED), ("validation", GENERAL)):
            reached = {order: [found[0].reach(f"{part}_accuracy_order{order}", limit)
                               for found in runs.values()] for order in mixed.ORDERS}
            name = "A_train" if part == "train" else "A_val"
            said.append(f"{NAMES[model]} {name} ≥ {limit:g} at {steps(reached[2])} (binary) and "
                        f"{steps(reached[3])} (ternary)")
            first[model, part] = whichever(reached[2], reached[3], "binary", "ternary")
    general = {model: first[model, "validation"] for model in NAMES}
    head = "; ".join(
        f"the {NAMES[m]} generalises {f'on {which} sums first' if which else 'on neither first'}"
        for m, which in general.items())
    known = ", ".join(f"{first[m, 'train'] or 'neither'} ({NAMES[m]})" for m in NAMES)
    return (f"**{head[0].upper()}{head[1:]}.** (c) What is known by heart first, with every seed: "
            f"{known}. {'; '.join(said)}, a value for each seed; evaluations are 100 steps apart. "
            "There are eleven ternary equations for each binary one.")


def whichever(a, b, first, second):
    """Which of two lists of steps, seed by seed, is the earlier one; None for neither."""
    if all(x < y for x, y in zip(a, b, strict=True)):
        return first
    if all(x > y for x, y in zip(a, b, strict=True)):
        return second
    return None


def size_answer(store):
    every = [c for found in model_size.CONFIGS.values() for c in found.values()]
    view, said, change_of = store.chosen(every), [], {"width": {}, "depth": {}, "size": {}}
    for model, c in model_size.CONFIGS.items():
        wide = means(view, [(c[L, 64], c[L, 256]) for L in model_size.LAYERS])
        deep = means(view, [(c[1, d], c[3, d]) for d in model_size.WIDTHS])
        runs = seeds_of(view, c).values()
        by_size = [slope(*model_answers.logarithms(these)) for these in runs]
        for what, found in zip(change_of, (wide, deep, by_size), strict=True):
            change_of[what][model] = found
        rise = {what: span([model_answers.rise(these, *pair) for these in runs], "{:+.3f}")
                for what, pair in (("d", (model_answers.NARROW, model_answers.WIDE)),
                                   ("L", (model_answers.SHALLOW, model_answers.DEEP)))}
        said.append(
            f"{NAMES[model]}: from d = 64 to 256 (mean over L) L_val {factor(wide)} and A_val "
            f"changes by {rise['d']}; from one layer to three (mean over d) L_val {factor(deep)} "
            f"and A_val changes by {rise['L']}; for ten times as many parameters P L_val changes "
            f"by {losses(by_size)} decades")
    width, depth, size = (effect(found) for found in change_of.values())
    return (f"**The validation loss: width {width}; depth {depth}; the number of parameters "
            f"{size}.** (c) {'; '.join(said)}. {narrow(store)}")


def effect(changes):
    """What a setting does to both models' validation loss, in words: {model: decades by seed}."""
    said = {model: ("lowers {}" if max(found) < 0 else "raises {}" if min(found) > 0 else
                    "leaves {} open") for model, found in changes.items()}
    if len(set(said.values())) > 1:
        return " and ".join(word.format(f"the {NAMES[model]}'s") for model, word in said.items())
    more = lower(changes)
    return said["lstm"].format("both models'") + (
        f" (the {NAMES[more]}'s more)" if more and said["lstm"].startswith("lowers") else "")


def narrow(store):
    """What the start does to the LSTM at the smallest width, as a sentence."""
    configs = [model_size.CONFIGS["lstm"][L, 64] for L in model_size.LAYERS]
    values = [mean(run.best(A_VAL) for c in configs for run in view.all_runs(c).values())
              for view in (store.chosen(configs), store.by(configs, "release"))
              if all(view.all_runs(c) for c in configs)]
    if len(values) < 2:
        return "By the release recipe, another start of the LSTM, these sizes were not run."
    return (f"The LSTM's A_val at d = 64 is {values[0]:.2f} by this start, {values[1]:.2f} by that "
            "of the release recipe (older code; means over L and seeds): what width brings it "
            "depends on the start.")


def compute_answer(store):
    every = [c for found in compute_claims.CONFIGS.values() for c in found.values()]
    view, T, said, worse = store.chosen(every), compute_claims.T, [], {}
    for model, c in compute_claims.CONFIGS.items():
        rows = seeds_of(view, c)
        least, most = (change(view, c[32], c[512], (until, until)) for until in (LOW * T, T))
        better = gains(rows, T)
        low = [f"{runs[32].best(A_VAL, LOW * T):.3f} to {runs[512].best(A_VAL, LOW * T):.3f}"
               for runs in rows.values()]
        said.append(
            f"{NAMES[model]}: after {LOW:.0%} of the steps A_val goes from {' and from '.join(low)}"
            f" as B goes from 32 to 512, and L_val {factor(least)}"
            f"; after all steps L_val {factor(most)}; from α = 0.1 to 1 L_val falls by a factor of "
            f"{two_digits(min(better))} to {two_digits(max(better))}, over all B")
        worse[model] = ("worse" if min(least) > 0 else "better" if max(least) < 0 else
                        "better or worse, by the seed,")
    return (f"**After {LOW:.0%} of the steps a batch of 512 is, in L_val, {worse['lstm']} "
            f"than one of 32 for the LSTM and {worse['gpt']} for the GPT.** (c) {'; '.join(said)}. "
            "(Equal steps are not equal compute: a batch of 512 costs sixteen times one of 32.)")


def gains(rows, T):
    """By what factor the lowest L_val falls from a tenth of the steps to all of them: for every
    seed and batch."""
    return [run.best(L_VAL, T / 10) / run.best(L_VAL) for runs in rows.values()
            for run in runs.values()]


def decay_answer(store):
    configs = decay_claims.CONFIGS
    view = store.chosen(list(configs.values()))
    rows = seeds_of(view, configs)
    loss = {seed: losses([runs[d].best(L_VAL) for d in configs]) for seed, runs in rows.items()}
    general = {seed: steps([runs[d].reach(A_VAL, GENERAL) for d in configs])
               for seed, runs in rows.items()}
    norm = {seed: steps(map(mean, decay_claims.late(runs)[0].values()))
            for seed, runs in rows.items()}
    fall = change(view, configs[0.25], configs[1.0])
    ordered = sum(decay_claims.norm_and_general(runs)[0] for runs in rows.values())
    ends = all(runs[0.25].reach(A_VAL, GENERAL) > runs[1.0].reach(A_VAL, GENERAL)
               for runs in rows.values())
    latest = {seed: steps([runs[d].first(L_VAL) for d in configs])
              for seed, runs in rows.items()}
    return (
        f"**With decay 1 it generalises {'sooner' if ends else 'not always sooner'} than with "
        f"0.25; smaller norm and sooner generalisation with every step of the decay: {ordered} of "
        f"{len(rows)} seeds.** (c) For decay 0.25, 0.5, 0.75, 1 the lowest L_val is "
        f"{per_seed(loss)}: from the first to the last it {factor(fall)}; A_val ≥ {GENERAL:g} "
        f"comes at step {per_seed(general)}, the lowest L_val at step {per_seed(latest)}. "
        f"(d) The norm is {norm_course(view)}. In the later half of the steps before the first "
        f"jump of the loss the mean norm is {per_seed(norm)}. An "
        "explanation that fits, and is not tested here: among the "
        "solutions that know the training set the general one needs the smaller weights, so that "
        "the decay moves the model there at its own rate.")


def norm_course(view):
    """The norm with decay 1 at the start, when memorised, when general, and at the end."""
    config, said = decay_claims.CONFIGS[1.0], []
    for seed, run in view.all_runs(config).items():
        at = [1, run.reach(A_TRAIN, MEMORISED), run.reach(A_VAL, GENERAL), config.steps]
        values = [next((v for t, v in run.points("l2_norm") if t >= step), math.nan)
                  for step in at if math.isfinite(step)]
        said.append(" → ".join(f"{v:.0f}" for v in values) + f" with seed {seed}")
    return ("with decay 1, at the start, once memorised, once general and at the end, "
            + " and ".join(said))


def attention_answer(store):
    runs, _ = attention.by_recipe(extract.one_origin([
        entry for entry in extract.load("attention") if entry["accuracy"][1] >= GENERAL])[0])
    if not runs:
        raise Missing
    return attention.answer(runs)
