"""Question 8: which tokens the heads of a GPT attend to.

results/study/attention.json has the attention weights of trained GPTs: of two training samples,
and the mean over the training set. `python -m experiments.study --attention RUN...` writes it. A
uniform head gives each of the t + 1 positions that query t may attend to the weight 1/(t + 1), so
it gives BOS much weight, too; the claims are compared with such a head.
"""

import json

import numpy as np

from experiments.study.figures import Figure
from experiments.study.runs import RESULTS, SEEDS
from experiments.study.text import format_table
from npdl.train import style

TITLE = "Question 8: attention"
RUNS, MODELS = {}, ()               # no runs of its own: attention.json is from trained models
FILE = RESULTS / "attention.json"
SAMPLES = ((5, 7), (9, 6))          # the assignment's; others if they aren't in the training set
TOKENS = ("BOS", "a", "+", "b", "=", "r")
EQUALS = 4                          # the position whose output is the answer
UNIFORM = 1 / np.arange(2, len(TOKENS) + 1)     # a uniform head's weight on BOS, queries after BOS


def read_entries(recipe="default"):
    """Return {seed: entry of attention.json} of the GPTs trained by a recipe."""
    with open(FILE, encoding="utf-8") as file:
        by_seed = {entry["seed"]: entry for entry in json.load(file) if entry["recipe"] == recipe}
    return {seed: by_seed[seed] for seed in SEEDS if seed in by_seed}


def mean_attention_weights(recipe="default"):
    """Return the mean attention weights (seeds, L, H, query, key)."""
    return np.array([entry["mean"] for entry in read_entries(recipe).values()])


def compute_effects(study, lstm_recipe):
    """Return {claim in claims.csv: its effects} (see verdict.py). No claim is about the LSTM."""
    A = mean_attention_weights()
    bos = A[:, :, :, 1:, 0]                                 # (n, L, H, 5) weight on BOS
    above = (bos[:, 0] - UNIFORM).mean(1)                   # (n, 5) first layer, above uniform
    early, late = above[:, :2].mean(1), above[:, 2:].mean(1)
    most = (A[:, 0, :, 1:].argmax(-1) == 0).sum(-1)         # (n, H) queries that attend most to BOS
    layers = bos.mean((2, 3))
    heads = bos[:, 0].mean(-1) - layers[:, 1, None]
    recent = np.mean([A[:, 0, :, t, t - 1 : t + 1].sum(-1).mean(1) for t in range(2, 6)], 0)
    recent_uniform = np.mean([2 / (t + 1) for t in range(2, 6)])
    entropy = np.array([entry["spread"] for entry in read_entries().values()])[..., 1:].mean((2, 3))
    return {
        "many heads of the first layer attend most to BOS": [(most >= 3).sum(1) - 1.5],
        "above all at early queries": [early, early - late],
        "BOS matters less in the second layer": [layers[:, 0] - layers[:, 1]],
        "each head of the first layer gives BOS more than the second layer's mean": list(heads.T),
        "in the first layer the query =, which gives the answer, attends to BOS":
            [above[:, EQUALS - 1]],
        "the first layer attends to the start and to recent tokens":
            [above.mean(1), recent - recent_uniform],
        "the second layer spreads its weights more evenly": [entropy[:, 1] - entropy[:, 0]],
    }


# --- figures, tables, answer ----------------------------------------------------------------------
def make_figures(study):
    entry = read_entries()[SEEDS[0]]
    samples = " and ".join(" ".join(tokens[1:]) for tokens in entry["tokens"])
    return [Figure("fig36-37-attention", "36 and 37", f"Attention weights of the GPT with seed "
                   f"{SEEDS[0]} on the training samples {samples}, two rows each. A row of a map "
                   "is a query, and a column is a key. Masked (future) keys are grey. The maps on "
                   "the right show a uniform head.",
                   lambda canvas: draw_attention_maps(canvas, entry), (11.5, 9.6))]


def draw_attention_maps(canvas, entry):
    size = len(TOKENS)
    future = np.triu(np.ones((size, size), bool), 1)
    uniform = np.tril(np.ones((size, size))) / np.arange(1, size + 1)[:, None]
    maps = np.array(entry["maps"])                          # (samples, L, H, S, S)
    samples, L, H = maps.shape[:3]
    grid = canvas.subplots(samples * L, H + 1)
    for (row, head), axes in np.ndenumerate(grid):
        sample, layer = divmod(row, L)
        if head == H and layer > 0:
            axes.set_axis_off()
            continue
        weights = uniform if head == H else maps[sample, layer, head]
        image = axes.imshow(np.ma.array(weights, mask=future), vmin=0, vmax=1,
                            cmap=style.SEQUENTIAL)
        axes.set_facecolor("#e8e8e8")
        axes.spines[:].set_visible(False)
        for ticks in (axes.set_xticks, axes.set_yticks):
            ticks(range(size), entry["tokens"][sample], fontsize=8, parse_math=False)
        axes.tick_params(length=0)
        axes.set_title("uniform head" if head == H else f"layer {layer + 1}, head {head + 1}",
                       fontsize=9.5)
    grid[-1, 0].set_xlabel("key", fontsize=9)
    grid[-1, 0].set_ylabel("query", fontsize=9)
    canvas.colorbar(image, ax=grid, shrink=0.5, pad=0.02, label="attention weight")


def make_tables(study):
    rows = []
    for recipe in ("default", "stated"):
        for seed, A in zip(read_entries(recipe), mean_attention_weights(recipe), strict=True):
            rows += [(f"{recipe}, seed {seed}", layer + 1,
                      *(f"{w:.2f}" for w in A[layer, :, EQUALS, : EQUALS + 1].mean(0)),
                      f"{A[layer, :, 1:, 0].mean():.2f}") for layer in range(A.shape[0])]
    rows.append(("a uniform head", "", *["0.20"] * 5, f"{UNIFORM.mean():.2f}"))
    return [("The table shows how much the query = attends to each token: mean over heads and the "
             "training set. The last column is the attention of all queries after BOS to BOS.",
             format_table(("run", "layer", *(f"= to {token}" for token in TOKENS[: EQUALS + 1]),
                           "all to BOS"), rows, 2))]


def make_answer(study):
    A = np.concatenate([mean_attention_weights(recipe) for recipe in ("default", "stated")])
    at_equals = A[:, :, :, EQUALS, :]                       # (runs, L, H, key)
    operands, bos = at_equals[..., 1] + at_equals[..., 3], at_equals[..., 0]
    rows = [(f"mean over {len(A)} runs", f"{operands.mean():.2f}", f"{bos.mean():.2f}"),
            ("a uniform head", "0.40", "0.20"),
            ("heads that attend to them more than a uniform head",
             f"{np.sum(operands > 0.4)} of {bos.size}", f"{np.sum(bos > 0.2)} of {bos.size}")]
    return f"""
**(b) Which tokens do the heads attend to, and why?** The answer is computed at the query =. It
attends to the two operands, not to BOS. A plausible reason is that the answer depends on a and b,
and that BOS is the same in every equation.

{format_table(("attention of the query =", "a and b together", "BOS"), rows)}

The assignment reports heads that attend to BOS. But a uniform head's map is brightest at BOS as
well, because early queries have few tokens to attend to. The claims are tested with two seeds,
which is too few to decide most of them."""
