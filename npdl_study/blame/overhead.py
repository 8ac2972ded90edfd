"""How much longer a layer takes under `step` and `blame` than its forward and backward alone.

    python -m npdl_study.blame.overhead [--rounds 3] [--width 32]

Each round times the layer alone and then every tool, in seconds of the processor, so that what else
the machine does counts little; the table has the medians of the ratios. Everything is in float64,
the numerical checks of `step` and `blame` included. The wrong sign stands in a copy of the layer's
own file.
"""

import argparse
import ast
import inspect
import statistics
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np

from npdl.backend import stream
from npdl.console import OneLineParser, begin, guarded
from npdl.layers.attention import causal_mask
from npdl.layers.norm import LayerNorm
from npdl.layers.recurrent import LSTM
from npdl.layers.transformer import Block
from npdl_study.blame.blame import blame
from npdl_study.blame.edits import edits
from npdl_study.blame.vocabulary import Vocabulary
from npdl_study.check.check import Check
from npdl_study.trees import copied
from npdl_study.check.samples import sample
from npdl_study.check.target import find_class
from npdl_study.step.step import digest, step
from npdl_study.trace.record import record
from npdl_study.trace.trace import original_file

AT_LEAST = 0.02             # seconds for which the layer alone runs in a round
LAYERS = {"LayerNorm": LayerNorm, "LSTM": LSTM, "GPT block": Block}


def wide(cls, width):
    """(layer, inputs, options) of a class of LAYERS: 8 sequences of 16 steps, `width` features."""
    rng = stream(0, 15)
    x = rng.standard_normal((8, 16, width))
    if cls.__name__ == "LayerNorm":
        return cls(width), (x,), {}
    if cls.__name__ == "LSTM":
        return cls(width, width, rng=rng), (x,), {}
    return cls(width, 4, 4, rng=rng), (x,), {"mask": causal_mask(16)}


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


def with_wrong_sign(cls, given_of, folder):
    """The class from a copy of its file in which the backward's last sign that matters is wrong."""
    for i, text in enumerate(with_other_signs(cls, given_of)):
        copy = Path(folder) / f"wrong_{i}.py"
        copy.write_text(text, encoding="utf-8")
        wrong = find_class(f"{copy}:{cls.__name__}")
        if not Check(*given_of(wrong)).works():
            return wrong
    raise ValueError(f"no statement of {cls.__name__}'s backward has a sign to change")


def with_other_signs(cls, given_of):
    """The text of a class's file with one sign of its backward changed, the last one first."""
    file = inspect.getsourcefile(cls)
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    check = Check(*given_of(cls))
    recording = record(check.layer, check.inputs, check.options, copied(check.upstreams[0]))
    own = [run.statement for run in reversed(recording.phase("backward"))
           if original_file(run.call.code.co_filename) == file]
    for statement in own:
        first = lines[statement.first - 1]
        indent = first[: len(first) - len(first.lstrip())]
        for edit in edits(statement, Vocabulary()):
            if (edit.kind, edit.rank) == ("sign", 0):
                changed = ast.unparse(ast.fix_missing_locations(edit.node))
                yield "\n".join([*lines[: statement.first - 1], textwrap.indent(changed, indent),
                                 *lines[statement.last:], ""])


def tools(check, cls, given_of, folder):
    """{what: a call to time}; the column heads of the table."""
    layer, inputs, options = given_of(cls)
    wrong = given_of(with_wrong_sign(cls, given_of, folder))
    return {
        "recorded": lambda: watched(check, None),
        "recorded with pictures": lambda: watched(check, digest),
        "step": lambda: step(layer, *inputs, **options),
        "blame, right": lambda: blame(layer, *inputs, **options),
        "blame, a wrong sign": lambda: blame(wrong[0], *wrong[1], **wrong[2]),
    }


def seconds(work, times=1):
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times


def measured(cls, given_of, rounds):
    """(median seconds alone, {tool: median ratio})."""
    check = Check(*given_of(cls))
    alone(check)
    times = max(1, round(AT_LEAST / seconds(lambda: alone(check), 3)))
    with tempfile.TemporaryDirectory() as folder:
        works = tools(check, cls, given_of, folder)
        bare, ratios = [], {name: [] for name in works}
        for _ in range(rounds):
            bare.append(seconds(lambda: alone(check), times))
            for name, work in works.items():
                ratios[name].append(seconds(work) / bare[-1])
    return statistics.median(bare), {name: statistics.median(r) for name, r in ratios.items()}


def run(options):
    """Print the table."""
    sizes = {"as `step` shows it": sample,
             f"width {options.width}": lambda cls: wide(cls, options.width)}
    head = True
    for size, given_of in sizes.items():
        for name, cls in LAYERS.items():
            bare, ratios = measured(cls, given_of, options.rounds)
            if head:
                print(f"| layer | alone | {' | '.join(ratios)} |")
                print(f"|---|--:|{'--:|' * len(ratios)}")
            head = False
            factors = " | ".join(f"{factor:.0f} x" for factor in ratios.values())
            print(f"| {name}, {size} | {1000 * bare:.2f} ms | {factors} |", flush=True)
    return 0


def main(arguments=None):
    parser = OneLineParser(prog="python -m npdl_study.blame.overhead",
                           description="Time layers under step and blame.")
    parser.add_argument("--rounds", type=_count, default=3, help="medians are of so many")
    parser.add_argument("--width", type=_count, default=32, help="of the larger layers")
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
