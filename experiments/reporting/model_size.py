"""Question 5 of Problem 4: layers and width."""

from experiments.reporting.model_answers import answers
from experiments.reporting.model_claims import captions
from experiments.reporting.parts import CONTRADICTED, Section, Table, Verdict
from experiments.reporting.records import NAMES, parameters, variant
from experiments.reporting.rules import judge
from experiments.reporting.shapes import best_table, eight, family, figure

LAYERS, WIDTHS = (1, 2, 3), (64, 128, 256)
CONFIGS = {model: {(L, d): variant(model, layers=L, width=d) for L in LAYERS for d in WIDTHS}
           for model in NAMES}
WIDTH_BAR = "width d (log2 scale)"


def called(config):
    return f"L = {config.layers}, d = {config.width}"


def section(store):
    """The Section on the size of the model."""
    both = [config for configs in CONFIGS.values() for config in configs.values()]
    store = store.chosen(both)
    made = Section("Scaling model size (question 5)", [store.words(both)])
    made.parts.append(
        "P is the number of parameters without embeddings: L (8 d² + 4 d) + 36 d + 36 for the "
        "LSTM, L (12 d² + 8 d) + 36 d + 36 for the GPT. The batch size is 512 throughout; where "
        "the document's captions of this question speak of batch sizes, they can only mean d: one "
        "slip, counted once, and the captions are read so.")
    for model, first in (("gpt", 12), ("lstm", 15)):
        for L in LAYERS:
            made.parts.append(curves_figure(store, model, L, str(first + L - 1)))
    for model, label in (("lstm", 18), ("gpt", 20)):
        made.parts.append(size_figure(store, model, str(label)))
        made.parts.append(depth_figure(store, model, str(label + 1)))
    made.parts += [table(store, model) for model in NAMES]
    made.parts.append(steady_table(store))
    made.verdicts = [Verdict("5 (a)", "each curve is of a batch size d", "a batch size d",
                             "d is the width; B is 512 throughout", CONTRADICTED)]
    made.verdicts += [judge(store, statement)
                      for statement in captions(CONFIGS) + answers(CONFIGS)]
    return made


def curves_figure(store, model, L, label):
    configs = {d: CONFIGS[model][L, d] for d in WIDTHS}
    return figure(store, label, f"fig{label}-model-{model}-layers{L}",
                  f"{NAMES[model]}, {L} layer{'s' if L > 1 else ''}: loss and accuracy over the "
                  "training steps, the width d by colour.",
                  family(store, configs, WIDTH_BAR), list(configs.values()), called, (10, 6.2))


def size_figure(store, model, label):
    configs = CONFIGS[model]
    lines = [(f"L = {L}", {parameters(configs[L, d]): configs[L, d] for d in WIDTHS})
             for L in LAYERS]
    return figure(store, label, f"fig{label}-model-{model}-parameters",
                  f"{NAMES[model]}: best losses (log scale) and accuracies, and the first steps "
                  "t_f that reached them, against the number of parameters without embeddings.",
                  eight(store, lines, {"label": "parameters P (log scale)", "scale": "log"}),
                  list(configs.values()), called, (14, 6))


def depth_figure(store, model, label):
    configs = CONFIGS[model]
    lines = [(d, {L: configs[L, d] for L in LAYERS}) for d in WIDTHS]
    return figure(store, label, f"fig{label}-model-{model}-layers",
                  f"{NAMES[model]}: the same against the number of layers L, the width d by "
                  "colour.", eight(store, lines, {"label": "layers L", "scale": "whole"},
                                   WIDTH_BAR), list(configs.values()), called, (14, 6))


def table(store, model):
    rows = [(NAMES[model], str(L), str(d), f"{parameters(config):,}", config)
            for (L, d), config in CONFIGS[model].items()]
    return best_table(store, f"{NAMES[model]}: best values over all steps and the first steps that "
                      "reached them: mean ± deviation over the seeds; the best of a column is "
                      "bold.", ("model", "L", "d", "P"), rows)


def steady_table(store):
    rows = []
    for model in NAMES:
        for L in LAYERS:
            cells = [NAMES[model], str(L)]
            for d in WIDTHS:
                spread = store.spread(CONFIGS[model][L, d], lambda run: run.shortfall())
                cells.append(f"{spread.mean:.4f}" if spread.values else "not run")
            rows.append(cells)
    return Table("How unsteady A_val is: its mean shortfall below its own highest value so far, "
                 "over the evaluations of a run; mean over the seeds.",
                 ("model", "L", *(f"d = {d}" for d in WIDTHS)), rows, left=2)
