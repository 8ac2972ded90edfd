"""Plot the activations and the gradients of each layer of a model."""

import numpy as np

from npdl.core import Layer, named_layers
from npdl.data.text import draw_windows
from npdl.layers.dropout import Dropout
from npdl.layers.recurrent import RecurrentLayer
from npdl.layers.transformer import Identity
from npdl.losses import SequenceLoss
from npdl.train import style
from npdl.train.task import make_model

SAMPLES = 256


def _record_magnitudes(layer, method_name, magnitudes, get_value):
    """Replace a layer's method by one that also records magnitudes.

    Each call appends the absolute values of the array get_value(arguments, result) to
    magnitudes[layer].
    """
    method = getattr(layer, method_name)

    def call_and_record(*arguments, **options):
        returned = method(*arguments, **options)
        value = get_value(arguments, returned)
        first = value[0] if isinstance(value, tuple) else value
        if first is not None and np.asarray(first).dtype.kind == "f":
            magnitudes.setdefault(layer, []).append(np.abs(np.array(first)).ravel())
        return returned

    setattr(layer, method_name, call_and_record)


def measure_layer_magnitudes(model, ids, targets, answer_mask):
    """Run forward and backward; return [(dotted name, activations, gradients)] of the layers.

    Activations are the magnitudes |y| of a layer's outputs, as one vector. Gradients are
    |dL/dy| for the summed loss L. Dropout, Identity, and layers that contain other layers are left
    out, except for recurrent layers. The layers are in the order in which forward runs them.
    """
    names, activations, gradients = {}, {}, {}
    for name, layer in named_layers(model):
        if layer is not model and not isinstance(layer, (Dropout, Identity)) and (
                isinstance(layer, RecurrentLayer) or not list(layer.children())) and \
                type(layer).forward is not Layer.forward:
            names.setdefault(layer, name)
    loss = SequenceLoss("sum")
    try:
        for layer in names:                             # the classes stay as they are
            _record_magnitudes(layer, "forward", activations, lambda given, returned: returned[0])
            _record_magnitudes(layer, "backward", gradients, lambda given, returned: given[0])
        outputs, cache = model.forward(ids)
        logits = outputs[0] if isinstance(outputs, tuple) else outputs
        _, c_loss = loss.forward(logits, targets, answer_mask)
        model.backward(loss.backward(1.0, c_loss), cache)
    finally:
        for layer in names:
            del layer.forward, layer.backward
    model.zero_grad()
    return [(names[layer], np.concatenate(outputs), np.concatenate(gradients[layer]))
            for layer, outputs in activations.items() if layer in gradients]


def choose_samples(task, config):
    """Return (ids, targets, mask) of up to SAMPLES training sequences, each an array (B, S)."""
    if config.text is not None:
        ids, targets = draw_windows(
            task.split_ids["train"], config.block, config.batch, config.seed, 0)
        return ids, targets, np.ones(ids.shape, bool)
    train = task.data.train
    few = train.take(np.arange(min(SAMPLES, len(train))))
    return few.inputs, few.targets, few.answer_mask


def plot_flow(run, title):
    """Return a Figure of a model's activations and gradients, before and after its training."""
    samples = choose_samples(run.task, run.config)
    rows = {"at the start": measure_layer_magnitudes(make_model(run.config, run.task), *samples),
            "trained": measure_layer_magnitudes(run.model, *samples)}
    names = [name.removeprefix("decoder.").replace("lstm.layers", "lstm")
             for name, _, _ in rows["trained"]]
    made = style.make_figure(
        10.5, 1.9 + 0.24 * len(names), title,
        "dot: root mean square; bar: the middle 90 % of the magnitudes; zeros are left out")
    looks = {"at the start": (style.ORANGE, -0.16, "o"), "trained": (style.BLUE, 0.16, "D")}
    panels = made.subplots(1, 2, sharey=True)
    shown = (("activation", "forward, downwards"), ("gradient", "backward, upwards"))
    for which, (axes, (what, title)) in enumerate(zip(panels, shown, strict=True)):
        for label, layers in rows.items():
            colour, shift, marker = looks[label]
            for row, entry in enumerate(layers):
                _draw_range(axes, entry[1 + which], row + shift, colour, marker,
                            label if not row else "")
        axes.set_xscale("log")
        style.label_axes(axes, f"magnitude of the {what}s (log scale)", "", title, grid="x")
    panels[0].set_yticks(range(len(names)), names, fontfamily="monospace", fontsize=8)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    panels[1].legend(frameon=False, labelcolor=style.INK, fontsize=9, ncols=2, loc="lower right",
                     bbox_to_anchor=(1.0, 1.0))
    return made


def _draw_range(axes, magnitudes, row, colour, marker, label):
    magnitudes = magnitudes[magnitudes > 0]
    if not len(magnitudes):
        return
    low, high = np.quantile(magnitudes, [0.05, 0.95])
    axes.plot([low, high], [row, row], color=colour, linewidth=3, alpha=0.35,
              solid_capstyle="round")
    rms = np.sqrt(np.square(magnitudes, dtype=np.float64).mean())
    axes.plot([rms], [row], marker, color=colour, markersize=4.5, label=label or None,
              linestyle="none")
