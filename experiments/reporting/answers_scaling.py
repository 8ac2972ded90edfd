"""The answers to the document's questions 5 to 7: on sizes, batches and weight decay."""

import math

import study

from reporting import compute_answers, compute_claims, decay_claims, model_answers, model_size
from reporting.effects import LOW, change
from reporting.jumps import jumps
from reporting.measures import GENERAL, MEMORISED, accuracies, losses, mean, span, steps
from reporting.records import NAMES
from reporting.rules import STUDENT
from reporting.wording import both, factor, gainer, of_both, per_seed, seeds_of, two_digits

L_VAL, A_VAL, A_TRAIN = "validation_loss", "validation_accuracy", "train_accuracy"
TRAINED = int(study.BASE.r_train * study.BASE.p**2)     # equations in the training set
NEAR = 1000                 # steps around a moment, before it and after it
SAME = 0.05                 # norms that are that near are as small
BEFORE = 300                # steps before a jump that still belong to it


# --- 5: the model's size --------------------------------------------------------------------------
def size_answer(store):
    every = [c for found in model_size.CONFIGS.values() for c in found.values()]
    view = store.chosen(every)
    runs_of = of_both(view, model_size.CONFIGS)
    wide = {m: changes(runs, model_answers.NARROW, model_answers.WIDE)
            for m, runs in runs_of.items()}
    deep = {m: changes(runs, model_answers.SHALLOW, model_answers.DEEP)
            for m, runs in runs_of.items()}
    return (f"**{width_words(runs_of, wide)}; three layers have a lower L_val than one in "
            f"{by_model(deep)}; with the number of parameters alone it falls by more than chance "
            f"{slope_words(runs_of)}.** (c) Which model scales better? "
            f"{scales(runs_of, 'd', model_answers.NARROW, model_answers.WIDE)} "
            f"{scales(runs_of, 'L', model_answers.SHALLOW, model_answers.DEEP)} "
            f"{by_parameters(runs_of)} {third_layer(runs_of['lstm'])} {narrow(store)}")


def width_words(runs_of, wide):
    """What width does from the smallest to the largest, and at each doubling."""
    pairs = [((L, a), (L, b)) for L in model_size.LAYERS
             for a, b in zip(model_size.WIDTHS, model_size.WIDTHS[1:], strict=False)]
    each = {m: changes(runs, *zip(*pairs, strict=True)) for m, runs in runs_of.items()}
    ends = ("From d = 64 to 256 L_val falls for both models, at every depth and with every seed"
            if all(change < 0 for found in wide.values() for change in found) else
            f"Of d = 64 and 256 the larger has the lower L_val in {by_model(wide)}")
    if all(change < 0 for found in each.values() for change in found):
        return ends
    return f"{ends}, but not at every doubling of d: it falls in {by_model(each)}"


def changes(runs_of, few, many):
    """log10 of L_val after over before, for each seed and each pair of settings."""
    return [math.log10(runs[b].best(L_VAL) / runs[a].best(L_VAL)) for runs in runs_of.values()
            for a, b in zip(few, many, strict=True)]


def by_model(found):
    """"4 of 6 pairs of runs (LSTM), 5 of 6 (GPT)" whose loss falls."""
    said = [f"{sum(change < 0 for change in these)} of {len(these)}" for these in found.values()]
    names = [f"({NAMES[m]})" for m in found]
    said[0] += " pairs of runs"
    return ", ".join(f"{words} {name}" for words, name in zip(said, names, strict=True))


def scales(runs_of, what, few, many):
    """Which model gains more, in L_val and in A_val, by the mean over the pairs of a seed."""
    fall = {m: [math.log10(model_answers.gain(runs, few, many)) for runs in found.values()]
            for m, found in runs_of.items()}
    rise = {m: [model_answers.rise(runs, few, many) for runs in found.values()]
            for m, found in runs_of.items()}
    said = [f"in L_val {who(fall)} ({said_of(fall, lambda v: factor([-x for x in v]))})",
            f"in A_val {who(rise)} ({said_of(rise, lambda v: span(v, '{:+.3f}'))})"]
    mean_over = "L" if what == "d" else "d"
    return f"With {what}, means over {mean_over}: {', '.join(said)}."


def said_of(found, words):
    return "; ".join(f"{NAMES[m]} {words(values)}" for m, values in found.items())


def who(found):
    """The model that gains more with every seed."""
    better = gainer(found)
    return (f"the {NAMES[better]} {both(len(found[better]))}" if better else
            "neither with every seed")


def slopes_of(runs_of):
    """{model: [(slope, half of its 95 % interval)]} of log10 L_val over log10 P, a seed each."""
    return {m: [line(*model_answers.logarithms(runs)) for runs in found.values()]
            for m, found in runs_of.items()}


def line(xs, ys):
    """(slope, half of Student's 95 % interval) of the least-squares line."""
    steep = model_answers.slope(xs, ys)
    free, middle = len(xs) - 2, mean(xs)
    left = mean(ys) - steep * middle
    variance = math.fsum((y - left - steep * x) ** 2 for x, y in zip(xs, ys, strict=True)) / free
    width = math.sqrt(variance / math.fsum((x - middle) ** 2 for x in xs))
    return steep, STUDENT[free - 1] * width


def slope_words(runs_of):
    """With how many seeds the slope over P is told from none."""
    return ", ".join(
        f"with {sum(steep + half < 0 for steep, half in found)} of {len(found)} seeds ({NAMES[m]})"
        for m, found in slopes_of(runs_of).items())


def by_parameters(runs_of):
    found = slopes_of(runs_of)
    falls = {m: [-steep for steep, _ in these] for m, these in found.items()}
    each = said_of(found, lambda these: ", ".join(f"{steep:.1f} ± {half:.1f}"
                                                  for steep, half in these))
    near = all(abs(a - b) < half + other for (a, half), (b, other) in zip(*found.values(),
                                                                          strict=True))
    return (f"With P, over the nine sizes: in L_val {who(falls)} (decades for ten times as many "
            f"parameters, with 95 % intervals{', which overlap' * near}: {each}).")


def third_layer(runs_of):
    """What the LSTM's third layer does beside its second."""
    two, three = ([(L, d) for d in model_size.WIDTHS] for L in (2, 3))
    found = changes(runs_of, two, three)
    sizes = [10**change for change in found]
    if min(sizes) > 1:
        return (f"A third layer raises the LSTM's L_val at every width, by a factor of "
                f"{two_digits(min(sizes))} to {two_digits(max(sizes))}.")
    return (f"A third layer raises the LSTM's L_val in {sum(size > 1 for size in sizes)} of "
            f"{len(sizes)} pairs of runs.")


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


# --- 6: batches and steps -------------------------------------------------------------------------
def compute_answer(store):
    every = [c for found in compute_claims.CONFIGS.values() for c in found.values()]
    view, T = store.chosen(every), compute_claims.T
    rows = {m: seeds_of(view, c) for m, c in compute_claims.CONFIGS.items()}
    better = {m: gains(found) for m, found in rows.items()}
    every = [one for found in better.values() for one in found]
    head = ("More steps help at every batch size" if min(every) > 1 else
            f"More steps help in {sum(one > 1 for one in every)} of {len(every)} runs")
    more = said_of(better, lambda v: f"{two_digits(min(v))} to {two_digits(max(v))} times")
    full = {m: change(view, c[32], c[512]) for m, c in compute_claims.CONFIGS.items()}
    early = {share: {m: change(view, c[32], c[512], (share * T, share * T))
                     for m, c in compute_claims.CONFIGS.items()} for share in LOW}
    few = "; ".join(f"after {share:.0%}: {said_of(found, factor)}"
                    for share, found in early.items())
    alike = len({of_all(found) for found in (full, *early.values())}) == 1
    return (f"**{head} (the median L_val of the last {compute_answers.LAST} evaluations is at α = "
            f"0.1 so many times that at α = 1: {more}). At equal steps a larger batch, 512 for 32, "
            f"has after all of them the {of_all(full)}; after few of them "
            f"{'too' if alike else 'it depends'}.** (c) L_val from B = 32 to 512, after all "
            f"steps: {said_of(full, factor)}; {few}. A_val: {ceiling(rows)}. "
            f"{equal_compute(rows, T)}")


def of_all(full):
    """What becomes of the loss of both models with the larger batch."""
    every = [one for found in full.values() for one in found]
    if max(every) < 0:
        return "lower L_val with both models and every seed"
    return ("higher L_val with both models and every seed" if min(every) > 0 else
            f"lower L_val in {sum(one < 0 for one in every)} of {len(every)} cases")


def gains(rows):
    """By what factor L_val, as the median of the last evaluations, falls from a tenth of the steps
    to all of them: for every seed and batch."""
    return [compute_answers.after(run, L_VAL, 0.1) / compute_answers.after(run, L_VAL, 1.0)
            for runs in rows.values() for run in runs.values()]


def ceiling(rows):
    """A_val of all batches after all steps and after few."""
    T, batches = compute_claims.T, compute_claims.BATCHES
    low = {m: [[runs[B].best(A_VAL, LOW[0] * T) for runs in found.values()]
               for B in (batches[0], batches[-1])] for m, found in rows.items()}
    least = {m: min(run.best(A_VAL) for runs in found.values() for run in runs.values())
             for m, found in rows.items()}
    return "; ".join(
        f"{NAMES[m]}, at least {least[m]:.3f} for every B after all steps, {accuracies(low[m][0])} "
        f"for B = {batches[0]} and {accuracies(low[m][1])} for B = {batches[-1]} after {LOW[0]:.0%}"
        for m in rows)


def equal_compute(rows, T):
    """The smallest batch after all steps beside the largest after a tenth of them."""
    small, large = compute_claims.BATCHES[0], compute_claims.BATCHES[-1]
    each = {m: ([runs[small].best(A_VAL) for runs in found.values()],
                [runs[large].best(A_VAL, T / 10) for runs in found.values()])
            for m, found in rows.items()}
    words = "; ".join(f"{accuracies(a)} against {accuracies(b)} ({NAMES[m]})"
                      for m, (a, b) in each.items())
    better = ("small batches are far better: " if all(min(a) > 2 * max(b) for a, b in each.values())
              else "")
    return (f"Equal steps are not equal compute: a batch of {large} takes all {TRAINED} equations, "
            f"{TRAINED // small} times those of one of {small}. At like compute {better}A_val of "
            f"B = {small} after all steps, and of B = {large} after a tenth of them, which is "
            f"{TRAINED / small / 10:g} times that compute, is {words}.")


# --- 7: weight decay ------------------------------------------------------------------------------
def decay_answer(store):
    configs = decay_claims.CONFIGS
    rows = seeds_of(store.chosen(list(configs.values())), configs)
    general = {seed: {d: run.reach(A_VAL, GENERAL) for d, run in runs.items()}
               for seed, runs in rows.items()}
    ends = all(at[0.25] > at[1.0] for at in general.values())
    fall = [math.log10(runs[1.0].best(L_VAL) / runs[0.25].best(L_VAL)) for runs in rows.values()]

    def each(of, words):
        return per_seed({seed: words([of(run) for run in runs.values()])
                         for seed, runs in rows.items()})

    return (
        f"**With decay 1 the LSTM generalises {'sooner' if ends else 'not always sooner'} than "
        f"with 0.25{f', {both(len(rows))}' * ends}. {norm_head(rows, general)}** (c) For decay "
        f"{', '.join(f'{d:g}' for d in configs)} "
        f"the lowest L_val is {each(lambda run: run.best(L_VAL), losses)}: from the first to the "
        f"last it {factor(fall)}. A_val is {each(lambda run: run.best(A_VAL), accuracies)}; it "
        f"reaches {GENERAL:g} at step {each(lambda run: run.reach(A_VAL, GENERAL), steps)}, its "
        f"highest value at {each(lambda run: run.first(A_VAL), steps)}; L_val is lowest at "
        f"{each(lambda run: run.first(L_VAL), steps)}. {jump_words(rows)} (d) {norm_words(rows)}")


def norm_at(run, step):
    """The norm at the first evaluation from a step on; NaN without one."""
    return next((v for t, v in run.points("l2_norm") if t >= step), math.nan)


def around(run):
    """(norm, its relative change from NEAR steps before to NEAR after, steps that it has been as
    small without a break) when a run generalises; None where it does not."""
    at = run.reach(A_VAL, GENERAL)
    if math.isinf(at):
        return None
    norm = norm_at(run, at)
    ends = [norm_at(run, step) for step in (at - NEAR, at + NEAR)]
    points = run.points("l2_norm")
    over = max((t for t, v in points if t < at and v > norm * (1 + SAME)), default=0)
    return norm, abs(ends[1] / ends[0] - 1), at - next(t for t, _ in points if t > over)


def norm_head(rows, general):
    found = [around(run) for runs in rows.values() for run in runs.values()]
    found = [one for one in found if one]
    if not found:
        return "No run generalises."
    norms, _, waited = zip(*found, strict=True)
    at = [step for steps_of in general.values() for step in steps_of.values()
          if math.isfinite(step)]
    return (f"When it generalises, at step {span(at, '{:.0f}')}, the norm of its weights is "
            f"{span(norms, '{:.0f}')}, for decays "
            f"{max(decay_claims.DECAYS) / min(decay_claims.DECAYS):g}-fold apart, and has stayed "
            f"as small (within {SAME:.0%}) for the last {span(waited, '{:.0f}')} steps.")


def norm_words(rows):
    """Where the norm goes, and what that may mean."""
    found = [around(run) for runs in rows.values() for run in runs.values()]
    found = [one for one in found if one]
    start = [run.points("l2_norm")[0][1] for runs in rows.values() for run in runs.values()]
    known = [norm_at(run, run.reach(A_TRAIN, MEMORISED)) for runs in rows.values()
             for run in runs.values() if math.isfinite(run.reach(A_TRAIN, MEMORISED))]
    words = (f"The norm is {span(start, '{:.0f}')} at the start and {span(known, '{:.0f}')} when "
             "the training set is known.")
    if not found:
        return words
    norms, moved, waited = zip(*found, strict=True)
    before = "It falls before the model generalises" if max(norms) < min(known) else (
        "It does not always fall before the model generalises")
    return (f"{words} {before}; from {NEAR} steps before that to {NEAR} after it changes by "
            f"{span([100 * m for m in moved], '{:.1f}')} %. "
            f"{late_norms(rows)} An explanation that fits in part, and is not tested here: among "
            "the solutions that know the training set the general one needs the smaller weights, "
            "and decay brings the weights there, the more of it the sooner."
            + (f" But small weights are not enough: one run had them for {max(waited):.0f} steps "
               "before it generalised." if max(waited) > NEAR else ""))


def late_norms(rows):
    found = {seed: decay_claims.late(runs) for seed, runs in rows.items()}
    norm = {seed: f"{steps(map(mean, norms.values()))} in {when}"
            for seed, (norms, when) in found.items()}
    done = sum(run.reach(A_VAL, GENERAL) <= decay_claims.calm(runs) / 2
               for runs in rows.values() for run in runs.values())
    ordered = sum(decay_claims.norm_and_general(runs)[0] for runs in rows.values())
    return ("Its mean in the steps that the decays of a seed share, before any of them jumps, is "
            f"{per_seed(norm)} ({done} of {sum(map(len, rows.values()))} runs have generalised "
            "before these steps): smaller norm and sooner generalisation with every step of the "
            f"decay in {ordered} of {len(rows)} seeds.")


def jump_words(rows):
    """What the jumps of the training loss have to do with these numbers."""
    runs = [run for found in rows.values() for run in found.values()]
    cut = sum(any(0 <= jump.before["step"] - run.first(L_VAL) <= BEFORE for jump in jumps(run))
              for run in runs)
    after = sum(any(jump.before["step"] < run.reach(A_VAL, GENERAL) < math.inf
                    for jump in jumps(run)) for run in runs)
    return (f"Jumps of the training loss (below) have a part in this: in {cut} of {len(runs)} runs "
            f"L_val is lowest in the {BEFORE} steps before one, and in {after} A_val reaches "
            f"{GENERAL:g} only after one." if cut or after else "")
