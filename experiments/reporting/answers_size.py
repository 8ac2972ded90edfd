"""The answer to the document's question 5: on width, depth and the number of parameters."""

import math

from experiments.reporting import model_answers, model_size
from experiments.reporting.measures import mean, span
from experiments.reporting.records import NAMES
from experiments.reporting.rules import STUDENT
from experiments.reporting.wording import factor, of_both, said_of, two_digits, who

L_VAL, A_VAL = "validation_loss", "validation_accuracy"


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
