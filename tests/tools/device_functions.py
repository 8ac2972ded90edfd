"""What npdl asks of an array module, and that CuPy has each: `python -m tests.tools.device_functions`.

Runs every gradient case, the losses, training steps of both models under all optimizers, and all
decoders on the stand-in for CuPy, and lists every function, method and operator that was called.
Exit status 1 if CuPy lacks one; the stand-in would already have refused it.
"""

import sys
from collections import Counter

import numpy as np

from npdl import backend, losses
from npdl.decoding import beam_search, exhaustive_search, greedy, sample
from npdl.decoding.wiring import Recomputed, continuation
from npdl.models.gpt import GPT
from npdl.models.llama import Llama
from npdl.models.lstm_lm import LSTMLM
from tests.tools import fakecupy
from tests.tools.cases import all_cases
from tests.tools.device_helpers import SETTINGS, on_device, run_case, small_config
from tests.tools.fakecupy_array import FUNCTIONS, METHODS, NAMES, OPERATORS
from tests.tools.trained import trained

CASES = all_cases()                             # their inputs are made on NumPy


def run_cases():
    for case in CASES:
        run_case(case, on_device)


def run_training():
    for model in ("gpt", "lstm"):
        for settings in SETTINGS:
            config = small_config(model, settings)
            if config is not None:
                trainer = trained(config, 1)
                with trainer.engine:
                    trainer.evaluate()
                trainer.state()


def run_losses():
    rng = backend.stream(1)
    logits = backend.to_device(rng.standard_normal((4, 5, 7)).astype("float32"))
    targets = backend.to_device(rng.integers(0, 7, (4, 5)))
    counted = backend.to_device(np.ones((4, 5), bool))
    eq_positions = backend.to_device(np.full(4, 2))
    for reduction in losses.REDUCTIONS:
        losses.loss_and_accuracy(logits, targets, eq_positions, counted, reduction)
    p = backend.xp.exp(losses.log_softmax(logits))
    losses.kl_divergence(p, p)


def run_decoders():
    for model in (GPT(7, 16, 2, 2, max_len=16), LSTMLM(7, 16),
                  Llama(7, 16, 2, 4, 2, 8, max_len=16)):
        for scorer in (continuation(model, [1, 2]), Recomputed(model, [1, 2])):
            greedy(scorer, 4)
            beam_search(scorer, 3, 4)
            exhaustive_search(scorer, 2)
            sample(scorer, 4, 0, top_k=3, top_p=0.9)


PARTS = {"layers": run_cases, "training": run_training, "losses": run_losses,
         "decoding": run_decoders}


def used_by_part():
    """{part: Counter of the names that it called on the stand-in}."""
    found = {}
    for part, run in PARTS.items():
        with fakecupy.installed(), backend.using("cupy"):
            run()
            found[part] = Counter(fakecupy.used)
    return found


def cupy_has(name):
    """Whether CuPy has a function "tanh", a method ".sum" or an operator "__add__"."""
    if name.startswith("."):
        return name[1:] in METHODS
    if name.startswith("__"):
        return name in OPERATORS
    if name.startswith("special."):
        return name[8:] in NAMES["special"]         # cupyx.scipy.special
    return name in FUNCTIONS


def main():
    found = used_by_part()
    names = sorted(set().union(*found.values()))
    print(f"{'name':<16}{'in CuPy ' + NAMES['version']:<16}used by")
    for name in names:
        users = ", ".join(part for part, used in found.items() if name in used)
        print(f"{name:<16}{'yes' if cupy_has(name) else 'NO':<16}{users}")
    missing = [name for name in names if not cupy_has(name)]
    print(f"{len(names)} functions, methods and operators; CuPy lacks {len(missing)}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
