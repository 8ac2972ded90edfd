"""Plot the attention weights of a GPT on a sequence, or of an encoder-decoder on a translation."""

import numpy as np

from npdl.decoding import greedy
from npdl.decoding.model_scorers import make_scorer
from npdl.errors import InputError
from npdl.models import lstm_seq2seq, seq2seq
from npdl.models.gpt import attentions
from npdl.train import style

MOST_TOKENS = 32


def choose_tokens(run, text=None):
    """Return (ids, tokens) of a text, or of a sample of the run's data if `text` is None.

    `ids` is an array (S,), and `tokens` is a list of the S tokens as text.
    """
    vocabulary = run.task.vocabulary
    if run.config.text is not None:
        if text is None:
            run.task.load_data()
            text = vocabulary.decode(run.task.split_ids["validation"][: min(24, run.task.max_len)])
        return np.asarray(vocabulary.encode(text)), list(map(style.escape_token, text))
    if text is None:
        ids = (run.task.data.validation or run.task.data.train).inputs[0].tolist()
        ids = ids[: ids.index(vocabulary.eq) + 1]
    else:
        ids = vocabulary.encode(f"BOS {text}")
    return np.asarray(ids), [vocabulary.tokens[i] for i in ids]


def plot_attention(run, title, text=None):
    """Return a Figure of the attention weights, a map for each layer (row) and head (column).

    If the model translates, there is one map for each layer, which shows the mean over the heads.

    Raises InputError for a run without attention, and for a text that is empty or too long.
    """
    if run.config.translates:
        return plot_alignment(run, title, text)
    if run.config.model != "gpt":
        raise InputError("attention: the model of this run is an LSTM, which has no attention; "
                         "give the folder of a GPT run")
    ids, tokens = choose_tokens(run, text)
    longest = min(MOST_TOKENS, run.task.max_len)
    if not 1 <= len(ids) <= longest:
        raise InputError(f"attention: the text has {len(ids)} tokens; give a --text with 1 to "
                         f"{longest} tokens")
    _, cache = run.model.forward(ids[None])
    A = attentions(cache)[0]                            # A (L, H, S, S)
    future = np.triu(np.ones(A.shape[2:], bool), 1)
    return _draw_maps(np.ma.array(A, mask=np.broadcast_to(future, A.shape)), tokens, tokens, title,
                      "row: query token; column: token it attends to; grey: masked future tokens")


def plot_alignment(run, title, text=None):
    """Return a Figure with the attention weights of each output token (row) of a translation.

    The columns are the characters of the source text. There is one map for each layer, which shows
    the mean over the heads. If `text` is None, a date of the held-out data is translated.
    """
    model, words = run.model, run.task.vocabulary
    if text is None:
        [text], _ = run.task.data.draw_pairs(list(run.task.data.parts)[-1], 1, run.config.seed)
    source = words.encode(text)[None]
    [found] = greedy(make_scorer(model, source, first=[words.bos]), MOST_TOKENS, words.eos)
    _, cache = model.forward(source, np.array([[words.bos, *found.tokens[:-1]]]))
    if run.config.model == "seq2seq":
        A = seq2seq.attentions(cache)[2][0].mean(1)     # A (L, T, S), the mean over the heads
    else:
        A = lstm_seq2seq.attentions(cache)              # A (1, T, S)
    return _draw_maps(A[:, None], [words.target[i] for i in found.tokens],
                      [*map(style.escape_token, text), "end"], title,
                      "row: the output token; column: the source character it attends to", 0.26)


def _draw_maps(A, row_tokens, column_tokens, title, note, inches=0.19):
    """Return a Figure of the weights A (L, H, R, S), with the tokens of the rows and columns.

    `inches` is the width of a column and the height of a row.
    """
    L, H, R, S = A.shape
    width, height = max(1.9, inches * S), max(1.9, inches * R)
    size = 9 if S <= 10 or inches > 0.2 else 6.5
    made = style.make_figure(width * H + 1.7, height * L + 1.2, title, note)
    grid = made.subplots(L, H, squeeze=False, sharex=True, sharey=True)
    for (layer, head), axes in np.ndenumerate(grid):
        image = axes.imshow(A[layer, head], vmin=0, vmax=1, cmap=style.SEQUENTIAL)
        axes.set_facecolor("#e8e8e8")
        axes.spines[:].set_visible(False)
        for ticks, tokens in ((axes.set_xticks, column_tokens), (axes.set_yticks, row_tokens)):
            ticks(range(len(tokens)), tokens, fontsize=size, color=style.INK, parse_math=False)
        if max(map(len, column_tokens)) > 3:
            axes.tick_params(axis="x", labelrotation=90)
        axes.tick_params(length=0)
        if layer == 0 and H > 1:
            axes.set_title(f"head {head + 1}", color=style.INK, fontsize=11)
        if head == 0 and L > 1:
            axes.set_ylabel(f"layer {layer + 1}", color=style.INK, fontsize=11)
    bar = made.colorbar(image, ax=grid, shrink=0.8, pad=0.02)
    bar.set_label("attention weight", color=style.INK)
    bar.outline.set_visible(False)
    return made
