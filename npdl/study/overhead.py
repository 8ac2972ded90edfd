"""How much longer a layer takes under `step` and `blame` than its forward and backward alone.

    python -m npdl.study.overhead [--rounds 9] [--width 64]

Each round times the layer alone and then every tool, in seconds of the processor, so that what else
the machine does counts little; the table has the medians of the ratios. Everything is in float64,
the numerical checks of `step` and `blame` included.
"""

import argparse
import statistics
import sys
import time

import numpy as np

from npdl.backend import stream
from npdl.layers.attention import causal_mask
from npdl.layers.norm import LayerNorm
from npdl.layers.recurrent import LSTM
from npdl.layers.transformer import Block
from npdl.script import OneLineParser, begin, guarded
from npdl.study.blame import blame
from npdl.study.check import Check, copied
from npdl.study.edits import edits
from npdl.study.patch import edited_code, function_of, patched
from npdl.study.record import record
from npdl.study.samples import sample
from npdl.study.step import digest, step
from npdl.study.vocabulary import Vocabulary

AT_LEAST = 0.02             # seconds for which the layer alone runs in a round


def small():
    """{name: (layer, inputs, options)} in the sizes of `step`'s own samples."""
    return {name: sample(cls) for name, cls in
            {"LayerNorm": LayerNorm, "LSTM": LSTM, "GPT block": Block}.items()}


def wide(width):
    """The same layers on 8 sequences of 16 steps, `width` features."""
    rng = stream(0, 15)
    x = rng.standard_normal((8, 16, width))
    mask = causal_mask(16)
    return {"LayerNorm": (LayerNorm(width), (x,), {}),
            "LSTM": (LSTM(width, width, rng=rng), (x,), {}),
            "GPT block": (Block(width, 4, 4, rng=rng), (x,), {"mask": mask})}


def alone(check):
    """One forward and backward."""
    check.reset()
    dout = copied(check.upstreams[0])
    with np.errstate(all="ignore"):
        _, cache = check.forward(check.layer, *check.inputs, **check.options)
        check.layer.backward(dout, cache)


def watched(check, shown):
    """The same under the recorder; `shown` makes the pictures of `step` too."""
    check.reset()
    record(check.layer, check.inputs, check.options, copied(check.upstreams[0]), shown,
           forward=check.forward)


def wrong_sign(check):
    """(function, code): the backward's last statement that a changed sign makes wrong."""
    recording = record(check.layer, check.inputs, check.options, copied(check.upstreams[0]))
    for run in reversed(recording.phase("backward")):
        for edit in edits(run.statement, Vocabulary()):
            if edit.kind == "sign" and edit.rank == 0:
                code = edited_code(run.call.code, run.statement, edit.node)
                function = function_of(run.call.code)
                with patched(function, code):
                    if not check.works():
                        return function, code
    raise ValueError("no statement of this backward has a sign to change")


def tools(check, given):
    """{what: a call to time}; the column heads of the table."""
    layer, inputs, options = given
    function, code = wrong_sign(check)

    def blamed():
        with patched(function, code):
            blame(layer, *inputs, **options)

    return {
        "recorded": lambda: watched(check, None),
        "recorded with pictures": lambda: watched(check, digest),
        "step": lambda: step(layer, *inputs, **options),
        "blame, right": lambda: blame(layer, *inputs, **options),
        "blame, a wrong sign": blamed,
    }


def seconds(work, times=1):
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times


def measured(given, rounds):
    """(median seconds alone, {tool: median ratio})."""
    check = Check(given[0], given[1], given[2])
    alone(check)
    times = max(1, round(AT_LEAST / seconds(lambda: alone(check), 3)))
    works = tools(check, given)
    bare, ratios = [], {name: [] for name in works}
    for _ in range(rounds):
        bare.append(seconds(lambda: alone(check), times))
        for name, work in works.items():
            ratios[name].append(seconds(work) / bare[-1])
    return statistics.median(bare), {name: statistics.median(r) for name, r in ratios.items()}


def run(options):
    """Print the table."""
    rows = {f"{name}, as `step` shows it": given for name, given in small().items()}
    rows |= {f"{name}, width {options.width}": given
             for name, given in wide(options.width).items()}
    for i, (name, given) in enumerate(rows.items()):
        bare, ratios = measured(given, options.rounds)
        if not i:
            print(f"| layer | alone | {' | '.join(ratios)} |")
            print(f"|---|--:|{'--:|' * len(ratios)}")
        factors = " | ".join(f"{factor:.0f} x" for factor in ratios.values())
        print(f"| {name} | {1000 * bare:.2f} ms | {factors} |", flush=True)
    return 0


def main(arguments=None):
    parser = OneLineParser(prog="python -m npdl.study.overhead",
                           description="Time layers under step and blame.")
    parser.add_argument("--rounds", type=_count, default=9, help="medians are of so many")
    parser.add_argument("--width", type=_count, default=64, help="of the larger layers")
    options = parser.parse_args(arguments)
    return guarded(parser.prog, lambda: run(options))


def _count(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be 1 or more")
    return value


if __name__ == "__main__":
    begin()
    sys.exit(main())
