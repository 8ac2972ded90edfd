"""Question 8: where the heads of a GPT look, against heads that look nowhere in particular.

Built from results/attention.json (reporting.extract). An even head, which gives each of the t + 1
positions that a query at t may see the weight 1/(t + 1), looks at BOS a good deal: only what is
above that says something about BOS.
"""

import numpy as np

from experiments.reporting import extract
from experiments.reporting.measures import relaxed
from experiments.reporting.parts import FAILS, HOLDS, MISSING, OPEN, Figure, Section, Table, Verdict
from experiments.reporting.rules import TIMES, silent
from experiments.study import READ
from npdl.training.cli import RECIPES
from npdl_study.plots import style

TOKENS = ("BOS", "a", "+", "b", "=", "r")
EQUALS = 4                          # the position whose output is the answer
MOST = 0.6                          # of the five queries: a head that gives BOS most attention


def section():
    """The Section on attention maps."""
    runs, by = extract.one_origin([entry for entry in extract.load("attention")
                                   if entry["accuracy"][1] >= 0.9])
    made = Section("Attention maps (question 8)")
    if not runs:
        made.parts.append("No maps are there: `python experiments/reporting/extract.py attention "
                          "RUN` makes them from the folder of a trained GPT.")
    else:
        chosen = one_for_each_seed(runs)
        made.parts += [f"{introduction(runs)} {by}", bos_table(runs), equals_table(runs),
                       answer(chosen)]
        for i, (run, k) in enumerate([(run, k) for run in chosen for k in (0, 1)]):
            made.parts.append(maps_figure(run, k, str(36 + k) if i < 2 else f"A{i - 1}"))
    made.verdicts = [silent("Figure 35", "a grid of maps with random scores, as an illustration"),
                     *verdicts(*by_recipe(runs))]
    return made


def by_recipe(runs):
    """(the runs that are judged, those by the recipe with nothing added), one for each seed."""
    judged = one_for_each_seed(runs)
    return judged, [run for run in runs if not run["settings"] and run not in judged]


def one_for_each_seed(runs):
    """The runs that are shown and judged: of each seed the study's (READ), or another."""
    def rank(run):
        return run["settings"] != READ["gpt"], run["seed"]

    return list({run["seed"]: run for run in sorted(runs, key=rank)[::-1]}.values())[::-1]


def called(run):
    """What a run is called in a table: its seed and its recipe."""
    added = {"clip": None, **run["settings"]}
    recipe = next((name for name, recipes in RECIPES.items() if recipes[run["model"]] == added),
                  ", ".join(f"{name} {value}" for name, value in run["settings"].items()))
    return f"seed {run['seed']}, {recipe}"


def introduction(runs):
    good = ", ".join(f"{called(run)}: {run['accuracy'][1]:.1%} of the validation set after "
                     f"{run['step']} steps" for run in runs)
    return (
        f"GPTs that generalise ({good}). Maps of single samples say little by themselves: the "
        "tables are means over all equations of the training set. A head that looks evenly at "
        "all it may see gives BOS one half at the first operand, a third at the operator and so "
        f"on, {even_share().mean():.2f} on the average over the five queries after BOS, and its "
        "map is brightest on the left and at the top without any interest in BOS; the last column "
        "of each figure shows it. Of the last layer only the rows of = and r reach the loss, which "
        "counts the answer alone: its other rows are by-products that nothing has trained. Layers "
        "and heads are counted from 1; document 004's Layer 0 is layer 1 here."
    )


# --- numbers --------------------------------------------------------------------------------------
def even_share():
    """1/(t + 1) for the queries after BOS: (5,)."""
    return 1 / np.arange(2, len(TOKENS) + 1)


def to_bos(run):
    """Mean weight on BOS of every head and query after BOS: (L, H, 5)."""
    return np.array(run["mean"])[:, :, 1:, 0]


def first_at_bos(run):
    """At how many of the five queries BOS has the largest mean weight of all: (L, H)."""
    mean = np.array(run["mean"])[:, :, 1:]
    return (mean.argmax(-1) == 0).sum(-1)


def spread(run, rows=slice(1, None)):
    """Entropy over that of an even head, mean of heads and of the queries `rows`: (L,)."""
    return np.array(run["spread"])[:, :, rows].mean((1, 2))


def recent(run):
    """Weight on a query's own position and the one before, for queries with more to see: (L,)."""
    mean = np.array(run["mean"])
    return np.mean([mean[:, :, t, t - 1 : t + 1].sum(-1) for t in range(2, len(TOKENS))], (0, 2))


# --- tables ---------------------------------------------------------------------------------------
def bos_table(runs):
    heads = len(runs[0]["mean"][0])
    rows = []
    for run in runs:
        weight, counts, evenness = to_bos(run).mean(-1), first_at_bos(run), spread(run)
        for layer, row in enumerate(weight):
            rows.append((called(run), f"{layer + 1}", *(f"{w:.2f}" for w in row),
                         f"{row.mean():.2f}", f"{row.mean() - even_share().mean():+.2f}",
                         ", ".join(map(str, counts[layer])), f"{evenness[layer]:.2f}"))
    return Table(
        "Mean attention to BOS by the five queries after it, over the training set; what of it is "
        f"above an even head's {even_share().mean():.2f}; at how many of the five queries each "
        "head gives BOS its largest weight; and how evenly weights are spread: their entropy over "
        "that of even ones.",
        ("run", "layer", *(f"head {h + 1}" for h in range(heads)), "layer's mean", "above even",
         "BOS largest", "evenness"), rows, left=2)


def equals_table(runs):
    rows = []
    for run in runs:
        mean = np.array(run["mean"])[:, :, EQUALS, : EQUALS + 1].mean(1)
        for layer, row in enumerate(mean):
            rows.append((called(run), f"{layer + 1}", *(f"{w:.2f}" for w in row),
                         f"{row[1] + row[3]:.2f}"))
    return Table(
        "What the query at = looks at, from whose output the answer is read; means over heads and "
        f"the training set. An even head gives each {1 / (EQUALS + 1):.2f}, and "
        f"{2 / (EQUALS + 1):.2f} to both operands.",
        ("run", "layer", *TOKENS[: EQUALS + 1], "a and b"), rows, left=2)


def answer(runs):
    """Our answer to 8 (b), with the numbers of both tables."""
    def mean(layer):
        return np.mean([np.array(run["mean"])[layer, :, EQUALS] for run in runs], (0, 1))

    first, last = mean(0), mean(-1)
    bos = [to_bos(run).mean((1, 2)) - even_share().mean() for run in runs]
    above = sum((excess > 0).sum() for excess in bos)
    heads = np.array([np.array(run["mean"])[:, :, EQUALS] for run in runs])     # (runs, L, H, S)
    looking = int((heads[..., 1] + heads[..., 3] > 2 / (EQUALS + 1)).sum())
    anchored = int((heads[..., 0] > 1 / (EQUALS + 1)).sum())
    even = 2 / (EQUALS + 1)
    operands = min(first[1] + first[3], last[1] + last[3]) > even
    head = ("The row that gives the answer looks at the operands, not at BOS"
            if operands and max(first[0], last[0]) < even / 2 else
            "The row that gives the answer looks at more than the operands")
    return (
        f"**{head}.** (b) The row of the token = gives a and b together {first[1] + first[3]:.2f} "
        f"of its weight in the first layer and {last[1] + last[3]:.2f} in the last, where an even "
        f"head gives {even:.2f}; BOS gets {first[0]:.2f} and {last[0]:.2f}, where an even head "
        f"gives {even / 2:.2f} (means over heads and the runs shown below). Of the "
        f"{heads[..., 0].size} heads of these runs {looking} give a and b there more than an even "
        f"head does, and {anchored} give BOS more. Over all rows, BOS gets more "
        f"than an even head's share in {above} of {sum(map(len, bos))} layers. That is what the "
        "task asks for: r depends on a and b alone, and BOS is always the same."
    )


# --- figures --------------------------------------------------------------------------------------
def maps_figure(run, k, label):
    tokens = run["tokens"][k]
    data = {"maps": run["maps"][k], "tokens": tokens}
    text = " ".join(tokens[1:])
    return Figure(
        f"attention-seed{run['seed']}-{'-'.join(tokens[1::2])}", label,
        f"Attention weights on the training sample {text} ({called(run)}). Row of a map: the token "
        "that looks; column: the token looked at; grey: the future. Right: an even head, "
        "1/(t + 1) everywhere.", data, draw_maps, size=(11.5, 4.9))


def draw_maps(figure, data):
    """Layers x heads, and the even head as a last column."""
    maps, tokens = np.array(data["maps"]), data["tokens"]
    L, H, S, _ = maps.shape
    future = np.triu(np.ones((S, S), bool), 1)
    even = np.tril(np.ones((S, S))) / np.arange(1, S + 1)[:, None]
    grid = figure.subplots(L, H + 1, squeeze=False)
    for (layer, head), axes in np.ndenumerate(grid):
        if head == H and layer > 0:
            axes.set_axis_off()
            continue
        shown = even if head == H else maps[layer, head]
        image = axes.imshow(np.ma.array(shown, mask=future), vmin=0, vmax=1,
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


# --- verdicts -------------------------------------------------------------------------------------
def verdicts(runs, others=()):
    """What document 004 says of its maps, judged by the means over the training set."""
    early, late, trained = slice(0, 2), slice(2, 5), slice(EQUALS, None)

    def excess(run, part):
        return float((to_bos(run)[0] - even_share()).mean(0)[part].mean())

    def anchored(run):
        return float(to_bos(run)[0, :, EQUALS - 1].mean())

    def focused(run, times=1):
        return int((first_at_bos(run)[0] >= 5 * relaxed(MOST, times)).sum())

    heads = len(runs[0]["mean"][0]) if runs else 0
    beside = float(np.mean([2 / (t + 1) for t in range(2, len(TOKENS))]))
    rules = [
        ("8 (b)", "many heads of the first layer give BOS most attention",
         "many heads of Layer 0", lambda run, times=1: focused(run, times) >= heads / 2,
         lambda run: f"{focused(run)} of {heads} heads at {5 * MOST:g} of 5 queries or more",
         True),
        ("8 (b)", "above all at early queries", "especially for early query positions",
         lambda run: excess(run, early) > max(0, excess(run, late)),
         lambda run: f"above even by {excess(run, early):+.2f} early, {excess(run, late):+.2f} "
                     "late"),
        ("8 (b)", "BOS matters less in the second layer", "strongest in Layer 0, less in Layer 1",
         lambda run: to_bos(run)[0].mean() > to_bos(run)[1].mean(),
         lambda run: f"layer 1 {to_bos(run)[0].mean():.2f}, layer 2 {to_bos(run)[1].mean():.2f}"),
        ("8 (b)", "each head of the first layer gives BOS more than the second layer's mean",
         "strongest in Layer 0 across all heads",
         lambda run: to_bos(run)[0].mean(-1).min() > to_bos(run)[1].mean(),
         lambda run: "heads of layer 1 " + ", ".join(f"{w:.2f}" for w in to_bos(run)[0].mean(-1))
                     + f"; layer 2 {to_bos(run)[1].mean():.2f}"),
        ("8 (b)", "BOS is an anchor of the first layer: the row of =, which gives the answer, "
         "looks at it", "an anchor or global reference during early processing",
         lambda run: anchored(run) > even_share()[EQUALS - 1],
         lambda run: f"= gives BOS {anchored(run):.2f} (even {even_share()[EQUALS - 1]:.2f}), all "
                     f"queries {to_bos(run)[0].mean():.2f} (even {even_share().mean():.2f})"),
        ("Figures 36, 37", "the first layer looks at the start and at recent tokens",
         "start token and nearby numbers",
         lambda run: recent(run)[0] > beside and to_bos(run)[0].mean() > even_share().mean(),
         lambda run: f"BOS {to_bos(run)[0].mean():.2f} (even {even_share().mean():.2f}), own and "
                     f"previous {recent(run)[0]:.2f} (even {beside:.2f})"),
        ("Figures 36, 37", "the second layer spreads its weights more evenly",
         "deeper heads more evenly", lambda run: spread(run)[1] > spread(run)[0],
         lambda run: f"evenness {spread(run)[0]:.2f}, then {spread(run)[1]:.2f}; of = and r alone "
                     f"{spread(run, trained)[0]:.2f}, then {spread(run, trained)[1]:.2f}"),
    ]
    return [judged(runs, others, *rule) for rule in rules]


def judged(runs, others, where, claim, document, test, words, threshold=False):
    """A Verdict: what every run says, or that runs do not agree; beside it, other thresholds and
    the other recipe."""
    numbers = "; ".join(f"{called(run)}: {words(run)}" for run in runs) or "no run"
    beside = [f"threshold × {times:g}: {agreed_on(test, runs, times)}"
              for times in TIMES if threshold]
    beside += [f"{called(run)}: {words(run)}" for run in others]
    recipes = {"stated": agreed_on(test, others)} if others else {}
    return Verdict(where, claim, document, numbers, agreed_on(test, runs), "; ".join(beside),
                   recipes, {run["seed"]: bool(test(run)) for run in runs})


def agreed_on(test, runs, *times):
    answers = {bool(test(run, *times)) for run in runs}
    return MISSING if not answers else OPEN if len(answers) == 2 else (
        HOLDS if answers == {True} else FAILS)
