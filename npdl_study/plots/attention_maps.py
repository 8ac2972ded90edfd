"""Where each head looks: the attention weights of a GPT run on one sequence."""

import numpy as np

from npdl.errors import InputError
from npdl.models.gpt import attentions
from npdl_study.plots import style

MOST_TOKENS = 32


def tokens_of(run, text=None):
    """(ids (S,), their tokens) of what is shown: `text`, or one of the run's own samples."""
    vocabulary = run.task.vocabulary
    if run.config.text is None:
        ids = _equation(run, text)
        return ids, [vocabulary.tokens[i] for i in ids]
    if text is None:
        run.task.prepare()
        text = vocabulary.decode(run.task.parts["validation"][: min(24, run.task.max_len)])
    ids = np.asarray(vocabulary.encode(text))
    shown = {"\n": "\\n", " ": "␣", "\t": "\\t"}
    return ids, [shown.get(character, character) for character in text]


def _equation(run, text):
    vocabulary = run.task.vocabulary
    if text is not None:
        return vocabulary.encode(f"BOS {text}")
    examples = run.task.data.validation
    examples = examples if len(examples) else run.task.data.train
    ids = examples.inputs[0]
    return ids[: int(np.flatnonzero(ids == vocabulary.eq)[0]) + 1]


def plot_attention(run, title, text=None):
    """A Figure: one map for each layer (row) and head (column); a query's row sums to 1.

    Raises InputError for a run without attention and for a text that is too long to be shown.
    """
    if run.config.model != "gpt":
        raise InputError("attention: this run is an LSTM and has no attention; give the folder of "
                         "a GPT run")
    ids, tokens = tokens_of(run, text)
    longest = min(MOST_TOKENS, run.task.max_len)
    if not 1 <= len(ids) <= longest:
        raise InputError(f"attention: {len(ids)} tokens; give 1 to {longest} with --text")
    _, cache = run.model.forward(ids[None])
    A = attentions(cache)[0]                            # A (L, H, S, S)
    L, H, S, _ = A.shape
    cell = max(1.9, 0.19 * S)
    made = style.figure(cell * H + 1.7, cell * L + 1.2, title,
                        "row: the token that looks; column: the token looked at; grey: the "
                        "future, which no token may see")
    grid = made.subplots(L, H, squeeze=False, sharex=True, sharey=True)
    future = np.triu(np.ones((S, S), bool), 1)
    for layer in range(L):
        for head in range(H):
            axes = grid[layer, head]
            image = axes.imshow(np.ma.array(A[layer, head], mask=future), vmin=0, vmax=1,
                                cmap=style.SEQUENTIAL)
            _label(axes, tokens, layer, head, L)
    bar = made.colorbar(image, ax=grid, shrink=0.8, pad=0.02)
    bar.set_label("attention weight", color=style.INK)
    bar.outline.set_visible(False)
    return made


def _label(axes, tokens, layer, head, L):
    axes.set_facecolor("#e8e8e8")
    axes.spines[:].set_visible(False)
    size = 9 if len(tokens) <= 10 else 6.5
    axes.set_xticks(range(len(tokens)), tokens, fontsize=size, color=style.INK, parse_math=False)
    axes.set_yticks(range(len(tokens)), tokens, fontsize=size, color=style.INK, parse_math=False)
    axes.tick_params(length=0)
    if layer == 0:
        axes.set_title(f"head {head + 1}", color=style.INK, fontsize=11)
    if head == 0:
        axes.set_ylabel(f"layer {layer + 1}", color=style.INK, fontsize=11)
