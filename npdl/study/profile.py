"""Measure the time of each source line in a training step: `python -m npdl profile GPT`."""

import html
import inspect
import linecache

import numpy as np

from npdl.backend import make_rng
from npdl.cli.console import checked_path_text, parse_positive
from npdl.engine import RecordedStep, compile_step, profile
from npdl.engine.target import TARGETS
from npdl.errors import InputError
from npdl.layers.recurrent import Cell
from npdl.losses import SequenceLoss
from npdl.optim import AdamW
from npdl.study.check.samples import make_example_call
from npdl.study.check.target import find_npdl_class
from npdl.study.containment import write_text
from npdl.study.trace.source import find_definitions
from npdl.study.trees import cast_tree, draw_upstream

VOCABULARY = 64
HEADS = {"num_heads": 4, "num_kv_heads": 4}
HEAD = "<tr><th>ms<th>share<th>MFLOP<th>MB<th>line<th>source</tr>"
PAGE = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>td {{ padding: 0 .6em; text-align: right }} i {{ color: #666; font-style: normal }}
td:last-child {{ font-family: monospace; text-align: left; white-space: pre }}</style>
<h1>{title}</h1>{body}</html>
"""


def add_arguments(parser):
    """Add the arguments of `python -m npdl profile` to an argparse parser."""
    parser.add_argument("name", metavar="LAYER", help="a layer or model of npdl (LayerNorm, LSTM, "
                        "GPT). A layer without a width, such as Softmax, has a small input")
    for name, value, what in (("batch", 32, "number of sequences"),
                              ("length", 64, "tokens or time steps of a sequence"),
                              ("width", 128, "value of d_model, d_in, d_out and d_hidden")):
        parser.add_argument(f"--{name}", type=parse_positive, default=value,
                            help=f"{what} (default {value})")
    parser.add_argument("--target", choices=TARGETS, default="auto",
                        help="run C or NumPy; auto runs C if a compiler is found (default auto)")
    parser.add_argument("--html", metavar="FILE", type=checked_path_text,
                        help="write a page with the costs next to the source instead of printing")


def run(options):
    """Print the costs of each source line, or write them to an HTML page."""
    recorded = record_step(options)
    if recorded.why_not is not None:
        raise InputError(f"{options.name} can't be profiled, because its step can't be recorded "
                         f"({recorded.why_not}); profile another model or layer")
    lines = profile.profile(recorded)
    print(write_text(options.html, format_page(lines, options.name)) if options.html else
          profile.format_report(lines))


def format_page(line_costs, title):
    """Return an HTML page with the source of the functions that ran, and each line's costs."""
    total, parts = sum(one.seconds for one in line_costs), []
    for file in {one.file for one in line_costs}:
        costs = {one.number: one for one in line_costs if one.file == file}
        source = linecache.getlines(file)
        for node, owner in find_definitions("".join(source)).values():
            shown = range(node.lineno, node.end_lineno + 1)
            seconds = sum(one.seconds for n, one in costs.items() if n in shown)
            if seconds > 0:
                rows = "".join(_format_row(n, source[n - 1].rstrip(), costs.get(n), total)
                               for n in shown)
                name = f"{owner}.{node.name}".strip(".")
                parts.append((seconds, f"<h2>{name}, {seconds / total:.1%}</h2>"
                              f"<table>{HEAD}{rows}</table>"))
    return PAGE.format(title=f"A step of {html.escape(title)}: {total * 1e3:.3g} ms",
                       body="".join(text for _, text in sorted(parts, reverse=True)))


def _format_row(line_number, code, costs, total_seconds):
    """Return the HTML row of a source line; `costs` is None for a line without costs."""
    end = f"<td>{line_number}<td>{html.escape(code)}</tr>"
    if costs is None:
        return f"<tr>{4 * '<td>'}{end}"
    share = costs.seconds / total_seconds
    return (f'<tr style="background:rgba(213,94,0,{share:.2f})"><td>{costs.seconds * 1e3:.3f}'
            f"<td>{share:.1%}<td>{costs.flop / 1e6:.2f}<td>{costs.bytes / 1e6:.2f}{end}")


def record_step(options):
    """Run a step of the model or layer that the options name; return the RecordedStep.

    A RecordedStep (npdl.engine) has the operations that the step runs. For a model, the step is a
    training step with AdamW; for a layer, it is forward and backward.
    """
    cls, rng = find_npdl_class(options.name), make_rng(0, 5)
    taken = inspect.signature(cls).parameters
    needed, arrays = ([name for name, p in inspect.signature(function).parameters.items()
                       if p.default is p.empty] for function in (cls, cls.forward))
    sizes = HEADS | dict.fromkeys(("d_in", "d_out", "d_hidden", "d_model", "d_inner"),
                                  options.width) | {"max_len": options.length}
    shape = options.batch, options.length
    if list(taken)[:1] == ["vocab_size"] and "d_model" not in needed:
        model = cls(VOCABULARY, **{name: n for name, n in sizes.items() if name in taken})
        ids, targets = rng.integers(0, VOCABULARY, (2, *shape))
        step = compile_step(model, SequenceLoss(), AdamW(model), target=options.target)
        step(ids, targets, np.ones(shape, bool))
        return step.recorded
    if needed and sizes.keys() >= {*needed}:
        layer = cls(*(sizes[name] for name in needed))
        shape = (*(shape[:1] if issubclass(cls, Cell) else shape), options.width)
        inputs, named = [rng.standard_normal(shape, np.float32) for _ in arrays[1:]], {}
    else:
        layer, inputs, named = make_example_call(cls)
        inputs = cast_tree(tuple(inputs), "float32")
    dout = cast_tree(draw_upstream(layer.forward(*inputs, **named)[0], rng), "float32")
    step = RecordedStep(run_layer, (layer,), options.target)
    step(inputs, named, dout)
    return step


def run_layer(layer, inputs, options, dout):
    """Run a layer and return (outputs, gradients of the inputs)."""
    outputs, cache = layer.forward(*inputs, **options)
    return outputs, layer.backward(dout, cache)
