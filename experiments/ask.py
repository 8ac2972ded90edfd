"""Ask a trained model: the most probable answers to an equation, with their probabilities.

  python experiments/ask.py runs/gpt-p31-plus-seed0 "5 + 7 ="
"""

if __name__ == "__main__":
    from npdl.script import begin

    begin()         # Ctrl-C is quiet from here on

import argparse
import sys

import numpy as np

from npdl.decoding.wiring import Recomputed
from npdl.errors import InputError
from npdl.training.cli import OneLineParser, guarded
from npdl.training.run import load_run


def answers(run, question):
    """Every token that may follow `question` (say "5 + 7 =") and its probability, best first."""
    if run.config.text is not None:
        raise InputError("this run was trained on text; continue a text with generate.py")
    vocabulary = run.task.vocabulary
    ids = vocabulary.encode("BOS " + question)
    if ids[-1] != vocabulary.eq:
        example = f"5 {run.config.operator} 7 ="
        raise InputError(f"question {question!r}: must end in '=', as in {example!r}")
    log_p, _ = Recomputed(run.model, ids).start()
    p = np.exp(log_p[0])
    order = np.argsort(-p, kind="stable")
    return [(vocabulary.tokens[i], float(p[i])) for i in order]


def main(arguments=None):
    parser = OneLineParser(description=__doc__,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run folder")
    parser.add_argument("question", help="an equation up to its '=', tokens apart")
    parser.add_argument("--top", type=int, default=5, help="answers to show (default: 5)")
    options = parser.parse_args(arguments)

    def work():
        if options.top < 1:
            raise InputError(f"--top {options.top}: must be 1 or more")
        run = load_run(options.run)
        print(f"{options.question}    ({run.config.model}, step {run.step})")
        for token, probability in answers(run, options.question)[: options.top]:
            print(f"{token:>6}  {probability:8.4%}")
        return 0

    return guarded(parser.prog, work)


if __name__ == "__main__":
    sys.exit(main())
