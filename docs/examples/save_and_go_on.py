"""A training loop of your own, saved half-way and resumed, with bitwise identical results.

It saves the parameters, the optimizer's moments and its number of steps. The step decides which
batch is drawn, so nothing else has to be saved.
    python docs/examples/save_and_go_on.py [FOLDER]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import npdl
from npdl.data import ModularArithmetic, batch_indices
from npdl.losses import exact_match
from npdl.safetensors import read, write

DATA, HALF, END = ModularArithmetic(p=5, r_train=0.9), 150, 300


def make_fresh_training():
    model = npdl.GPT(DATA.vocabulary.size, 32, 1, 2, max_len=DATA.sequence_length, rng=0)
    return model, npdl.AdamW(model, lr=3e-3)


def train(model, optimizer, until):
    loss_of = npdl.SequenceLoss()
    while optimizer.steps < until:
        batch = DATA.train.take(batch_indices(len(DATA.train), 32, optimizer.steps, seed=0))
        logits, cache = model.forward(batch.inputs)
        _, c_loss = loss_of.forward(logits, batch.targets, batch.answer_mask)
        optimizer.zero_grad()
        model.backward(loss_of.backward(1.0, c_loss), cache)
        npdl.clip_by_global_norm(optimizer.params.values(), 1.0)
        optimizer.step()


def save(path, model, optimizer):
    groups = {"model": model.state_dict(), **optimizer.state_dict()}     # "m", "v", and the steps
    steps = np.array(groups.pop("steps"))
    write(path, {"steps": steps, **{f"{group}/{name}": array for group, arrays in groups.items()
                                    for name, array in arrays.items()}})


def load(path, model, optimizer):
    arrays = read(path)
    groups = {"model": {}, "steps": int(arrays.pop("steps")), **{m: {} for m in optimizer.moments}}
    for key, array in arrays.items():
        group, name = key.split("/", 1)
        groups[group][name] = array
    model.load_state_dict(groups.pop("model"))
    optimizer.load_state_dict(groups)


def main(folder=None):
    path = Path(folder or tempfile.mkdtemp()) / "half.safetensors"
    whole = make_fresh_training()
    train(*whole, HALF)
    save(path, *whole)
    train(*whole, END)
    again = make_fresh_training()      # as another process would
    load(path, *again)
    train(*again, END)
    equal = [np.array_equal(p.data, q.data) for (_, p), (_, q) in zip(
        whole[0].params(), again[0].params(), strict=True)]
    print(f"resumed at step {HALF}: {sum(equal)} of {len(equal)} parameters are bitwise identical")
    examples = DATA.train
    logits, _ = again[0].forward(examples.inputs)
    accuracy = exact_match(logits, examples.targets, examples.answer_mask)
    print(f"after {END} steps {accuracy:.1%} of the sums are right; the saved half is in {path}")
    return accuracy * all(equal)


if __name__ == "__main__":
    with npdl.BLASThreads(1):            # more threads are slower for arrays this small
        main(*sys.argv[1:])
