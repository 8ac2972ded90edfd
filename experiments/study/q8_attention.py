"""Question 8: where the heads of a GPT look, against heads that look nowhere in particular.

From results/attention.json (extract.py). An even head, which gives each of the t + 1 positions
that a query at t may see the weight 1/(t + 1), looks at BOS a good deal: only what is above that
says something about BOS.
"""

import numpy as np

from experiments.study.extract import load
from experiments.study.figures import Figure
from experiments.study.judge import JUDGED, verdict
from experiments.study.measures import GENERAL, MOST, brief, counted
from experiments.study.pages import Table
from experiments.study.records import SEEDS
from npdl_study.plots import style
from npdl_train.runs.recipes import RECIPES

TOKENS = ("BOS", "a", "+", "b", "=", "r")
EQUALS = 4                          # the position whose output is the answer
EARLY, LATE, TRAINED = slice(0, 2), slice(2, 5), slice(EQUALS, None)


def maps():
    """{(recipe, seed): entry} of the GPTs that generalise, of the recipes that are judged."""
    found = {}
    for entry in load("attention"):
        added = {"clip": None, **entry["settings"]}
        for recipe in JUDGED["gpt"]:
            if RECIPES[recipe]["gpt"] == added and entry["seed"] in SEEDS \
                    and entry["accuracy"][1] >= GENERAL:
                found[recipe, entry["seed"]] = entry
    return dict(sorted(found.items()))


# --- numbers --------------------------------------------------------------------------------------
def even_share():
    """1/(t + 1) for the queries after BOS: (5,)."""
    return 1 / np.arange(2, len(TOKENS) + 1)


def to_bos(run):
    """Mean weight on BOS of every head and query after BOS: (L, H, 5)."""
    return np.array(run["mean"])[:, :, 1:, 0]


def first_at_bos(run):
    """At how many of the five queries BOS has the largest mean weight of all: (L, H)."""
    return (np.array(run["mean"])[:, :, 1:].argmax(-1) == 0).sum(-1)


def spread(run, rows=slice(1, None)):
    """Entropy over that of an even head, mean of heads and of the queries `rows`: (L,)."""
    return np.array(run["spread"])[:, :, rows].mean((1, 2))


def recent(run):
    """Weight on a query's own position and the one before, for queries with more to see: (L,)."""
    mean = np.array(run["mean"])
    return np.mean([mean[:, :, t, t - 1 : t + 1].sum(-1) for t in range(2, len(TOKENS))], (0, 2))


def from_equals(run):
    """What the query at =, from whose output the answer is read, looks at: (L, H, 5)."""
    return np.array(run["mean"])[:, :, EQUALS, : EQUALS + 1]


# --- claims ---------------------------------------------------------------------------------------
def excess(run, part):
    """Weight on BOS of the first layer above an even head's, mean of some queries."""
    return float((to_bos(run)[0] - even_share()).mean(0)[part].mean())


def many_heads(run):
    focused = int((first_at_bos(run)[0] > 5 * MOST).sum())
    return [counted(focused - len(run["mean"][0]) / 2 + 0.5)], [focused]


def early_most(run):
    found = [excess(run, EARLY), excess(run, LATE)]
    return [found[0], found[0] - found[1]], found


def less_weight_in_second_layer(run):
    found = to_bos(run).mean((1, 2)).tolist()
    return [found[0] - found[1]], found


def all_heads(run):
    heads = to_bos(run)[0].mean(-1)
    second = to_bos(run)[1].mean()
    return (heads - second).tolist(), [*heads, second]


def anchor(run):
    found = [to_bos(run)[0, :, EQUALS - 1].mean(), even_share()[EQUALS - 1]]
    return [found[0] - found[1]], found


def start_and_recent(run):
    beside = float(np.mean([2 / (t + 1) for t in range(2, len(TOKENS))]))
    found = [to_bos(run)[0].mean(), even_share().mean(), recent(run)[0], beside]
    return [found[0] - found[1], found[2] - found[3]], found


def more_even(run):
    found = spread(run).tolist()
    return [found[1] - found[0]], found


# where, claim, the document's words, test(entry), what its numbers are
CLAIMS = (
    ("8 (b)", "many heads of the first layer give BOS most attention", "many heads of Layer 0",
     many_heads, "heads of 4 with three of five queries or more (many: two heads)"),
    ("8 (b)", "above all at early queries", "especially for early query positions", early_most,
     "weight on BOS above even, early, late"),
    ("8 (b)", "BOS matters less in the second layer", "strongest in Layer 0, less in Layer 1",
     less_weight_in_second_layer, "weight on BOS, layers 1, 2"),
    ("8 (b)", "each head of the first layer gives BOS more than the second layer's mean",
     "strongest in Layer 0 across all heads", all_heads, "weight on BOS, heads 1 to 4, layer 2"),
    ("8 (b)", "BOS is an anchor of the first layer: the row of =, which gives the answer, looks "
     "at it", "an anchor or global reference during early processing", anchor,
     "weight of = on BOS, even"),
    ("Figures 36, 37", "the first layer looks at the start and at recent tokens",
     "start token and nearby numbers", start_and_recent,
     "weight on BOS, even, on its own and the previous token, even"),
    ("Figures 36, 37", "the second layer spreads its weights more evenly",
     "deeper heads more evenly", more_even, "evenness, layers 1, 2"),
)


def verdicts():
    """The Verdicts on the document's maps, by the means over the training set."""
    runs, made = maps(), []
    for where, claim, document, test, numbers in CLAIMS:
        answers = {recipe: {seed: test(run)[0] for (of, seed), run in runs.items() if of == recipe}
                   for recipe in JUDGED["gpt"]}
        shown = [", ".join(map(brief, test(run)[1])) for (recipe, _), run in runs.items()
                 if recipe == "default"]
        made.append(verdict(where, claim, document, {"": answers},
                            numbers=f"{numbers}: {'; '.join(shown)}" if shown else ""))
    return made


# --- figures, tables, numbers ---------------------------------------------------------------------
def figures(_):
    run = maps()["default", SEEDS[0]]
    return [Figure(
        f"attention-seed{SEEDS[0]}-{'-'.join(tokens[1::2])}", str(label),
        f"Attention weights on the training sample {' '.join(tokens[1:])} of the GPT with seed "
        f"{SEEDS[0]}. Row: the token that looks; column: the token looked at; grey: the future. "
        "Right: an even head, which gives 1/(t + 1) to each of the t + 1 tokens it may see.",
        {"maps": shown, "tokens": tokens}, draw_maps, (11.5, 4.9))
        for label, shown, tokens in zip((36, 37), run["maps"], run["tokens"], strict=True)]


def draw_maps(figure, data):
    """Layers x heads, and the even head as a last column."""
    shown, tokens = np.array(data["maps"]), data["tokens"]
    L, H, S, _ = shown.shape
    future = np.triu(np.ones((S, S), bool), 1)
    even = np.tril(np.ones((S, S))) / np.arange(1, S + 1)[:, None]
    grid = figure.subplots(L, H + 1, squeeze=False)
    for (layer, head), axes in np.ndenumerate(grid):
        if head == H and layer > 0:
            axes.set_axis_off()
            continue
        weights = even if head == H else shown[layer, head]
        image = axes.imshow(np.ma.array(weights, mask=future), vmin=0, vmax=1,
                            cmap=style.SEQUENTIAL)
        axes.set_facecolor("#e8e8e8")
        axes.spines[:].set_visible(False)
        axes.set_xticks(range(S), tokens, fontsize=8, parse_math=False)
        axes.set_yticks(range(S), tokens, fontsize=8, parse_math=False)
        axes.tick_params(length=0)
        axes.set_title("even head" if head == H else f"layer {layer + 1}, head {head + 1}",
                       fontsize=9.5)
    grid[-1, 0].set_xlabel("token looked at", fontsize=9)
    grid[-1, 0].set_ylabel("token that looks", fontsize=9)
    figure.colorbar(image, ax=grid, shrink=0.8, pad=0.02, label="attention weight")


def table(_):
    """What the query at = looks at, means over heads and the training set, beside an even head;
    last, what all queries after BOS give to BOS."""
    rows = [(f"{recipe}, seed {seed}", str(layer + 1), *(f"{w:.2f}" for w in row.mean(0)),
             f"{to_bos(run)[layer].mean():.2f}")
            for (recipe, seed), run in maps().items()
            for layer, row in enumerate(from_equals(run))]
    rows.append(("an even head", "", *["0.20"] * 5, f"{even_share().mean():.2f}"))
    return Table(("run", "layer", *(f"= to {token}" for token in TOKENS[:EQUALS + 1]),
                  "all to BOS"), rows, left=2)


def values(_):
    heads = np.array([from_equals(run) for run in maps().values()])     # heads (runs, L, H, 5)
    operands, bos = heads[..., 1] + heads[..., 3], heads[..., 0]
    return {"8 table": table(None), "8 heads": str(bos.size),
            "8 looking": str(int((operands > 2 / (EQUALS + 1)).sum())),
            "8 anchored": str(int((bos > 1 / (EQUALS + 1)).sum())),
            "8 operands": f"{operands.mean():.2f}", "8 bos": f"{bos.mean():.2f}"}


def facts(_):
    rows = np.array([from_equals(run).mean((0, 1)) for run in maps().values()])
    return {"the row of = looks at the operands more than an even head, with every run": bool(
                (rows[:, 1] + rows[:, 3] > 2 / (EQUALS + 1)).all()),
            "and at BOS less": bool((rows[:, 0] < 1 / (EQUALS + 1)).all())}
