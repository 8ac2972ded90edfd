"""Why clipping decides about the losses, and what makes the spikes: text, figure, table.

Built from results/balance.json and results/spikes.json (reporting.balance, reporting.spikes).
"""

import numpy as np

from experiments.reporting import balance, spikes
from experiments.reporting.parts import Figure, Table
from experiments.reporting.records import origin

LOST = 100                      # times the last loss of the unchanged run: not recovered


def parts(stated, clipped):
    """What a Section says of it, with the GPT's Readings (puzzle_runs) without and with it."""
    made = [explanation(stated, clipped)]
    (traces, how), tried = balance.load(), spikes.load()
    if traces:
        made += [f"{measured(traces)} Computed by {origin(how)}.", Figure(
            "puzzle-balance", "P2",
            "A GPT, seed 0: training loss; the largest norm of the gradient that AdamW was given "
            f"in {balance.EVERY} steps, and the norm of the root of its second moment; the length "
            "of the update over that of the decay. Below the dashed line the decay is the longer.",
            balance.figure_data(traces), balance.draw, size=(10.5, 6.5))]
    if tried:
        made += [changes_table(tried),
                 f"{changes(tried)} Computed by {origin(tried.get('made', {}))}."]
    return made


def explanation(stated, clipped):
    words = [
        "A likely reason, measured in one seed over some hundred steps only. A GPT that has "
        "memorised the training set is trained by ever smaller gradients, and now and then its "
        "update overshoots: the loss jumps, and with it the gradient. AdamW remembers the square "
        "of that gradient in its second moment for some thousand steps and divides by its root, "
        "while the weight decay goes on at full rate: the weights shrink faster than they are "
        "renewed, and the loss settles where its gradient is large enough to hold them. So a spike "
        "that is not clipped would raise the level of the loss that follows. Clipping at norm 1 "
        "bounds what a spike can leave in the second moment."
    ]
    if stated.runs and clipped.runs:
        words.append(
            "As stated, the median training loss of the last ten evaluations is "
            f"{stated.each('level', '.2g')} and the norm of the parameters at the end "
            f"{stated.each('norm', '.3g')}; clipped, {clipped.each('level', '.2g')} and "
            f"{clipped.each('norm', '.3g')}. Spikes do not go away: {stated.each('spikes')} as "
            f"stated, {clipped.each('spikes')} clipped.")
        if max(stated.values("norm")) >= min(clipped.values("norm")):
            words.append("The norms at the end do not tell the two apart: that the weights shrink "
                         "more without clipping is not seen in them.")
    return " ".join(words)


def measured(traces):
    """The figure's numbers, as a paragraph."""
    said = []
    for name, columns in traces.items():
        step = np.array(columns["step"])
        gradient, root = np.array(columns["gradient"]), np.array(columns["root_v"])
        late = step > step[-1] / 2
        said.append(
            f"{name}, a largest gradient of {gradient[step > balance.MEMORISED].max():.2g}, and in "
            f"the second half a median gradient of {np.median(gradient[late]):.2g} under a second "
            f"moment with a root of norm {np.median(root[late]):.2g}")
    return (f"Measured over {step[-1]} steps, after step {balance.MEMORISED}: {'; '.join(said)}. "
            "The smaller the gradient beside that root, the shorter the update.")


def changes_table(tried):
    rows = [(name, str(len(losses) * spikes.EVERY), str(spikes.peaks(losses)),
             f"{max(losses):.2g}", f"{np.median(losses):.2g}", f"{losses[-1]:.2g}")
            for name, losses in tried["losses"].items()]
    return Table(
        f"One GPT, clipped at norm 1, trained on from step {tried['step']} with one setting "
        f"changed: spikes (the training loss, looked at every {spikes.EVERY} steps, rises above "
        f"{spikes.HIGH}), and the losses.",
        ("changed", "steps", "spikes", "largest", "median", "last"), rows)


def changes(tried):
    """How often the loss spikes with each change, and whether it recovers."""
    counts = {name: spikes.peaks(losses) for name, losses in tried["losses"].items()}
    last = {name: losses[-1] for name, losses in tried["losses"].items()}
    before = counts.pop("nothing")
    lost = [f"{name} ({last[name]:.2g})" for name in counts if last[name] > LOST * last["nothing"]]
    often = "once" if before == 1 else f"{before} times"
    shown = len(tried["losses"]["nothing"]) * spikes.EVERY
    return (
        f"From the same state, in {shown} steps, the loss rises above {spikes.HIGH} {often} where "
        f"nothing is changed; {', '.join(f'{n} with {name}' for name, n in counts.items())}. "
        "Counts so small, of one GPT, do not say what makes the spikes; a tenth of the learning "
        "rate goes about as far in ten times the steps. "
        + (f"A spike is not recovered from within these steps with {', '.join(lost)}; where "
           f"nothing is changed the last loss is {last['nothing']:.2g}." if lost else
           "From every spike the loss is back within these steps.")
    )
