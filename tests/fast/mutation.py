"""One-token mistakes in the fast wing: does its equality with the textbook catch them? See
mutation_score.

Each mutant takes the place of its function while a few steps of both engines are compared
(cases and refusals beside this file); it is caught when they differ, fail, or take far
too long. The reasons of survivors, where a change can make no difference, are written here by hand.
"""

import inspect
import itertools
import types

from npdl.models.gpt import GPT
from npdl.models.lstm_lm import LSTMLM
from npdl.optim import AdamW
from npdl_study.trace.source import patched
from npdl_train.fast import (
    adapters,
    attention,
    engine,
    flat_parameters,
    fused,
    gpt,
    kernels,
    loss,
    lstm,
    memory,
    prefix,
    snapshot,
)
from tests.fast import test_adapters as of_llamas
from tests.fast.cases import (
    BATCHES,
    assert_chosen,
    assert_equal,
    assert_equal_for_large_tables,
    assert_equal_on_a_device,
    assert_erf_fit,
    assert_kernels,
    assert_same_updates,
    assert_tree,
    build,
    drawn,
    forget,
    grid,
)
from tests.fast.refusals import (
    assert_a_changed_batch_is_read_again,
    assert_batches_are_refused,
    assert_changes_are_refused,
    assert_refusals,
)
from tests.fast.snapshot import assert_every_change
from tests.tools.mutants import mutants
from tests.tools.mutation import time_limit

MODULES = (kernels, fused, prefix, attention, gpt, lstm, loss, flat_parameters,
           memory, snapshot, engine, adapters)
SECONDS = 30
WHERE, CAUGHT, GOALS = "function of the wing", ("caught",), {("caught",): 0.90}
# What a survivor's line holds -> why no result can show the change.
REASONS = {
    "keep_freed_memory": "how much memory the C library keeps",
    "self.chunks.append": "how much memory is asked for at once",
    "taken = -(-size": "how many bytes lie between two arrays",
    "spare_for": "only its shape and dtype are asked for",
    "len(self.known)": "how many arrays are remembered",
    "blocks:": "how many rows are taken at a time changes none of them",
    "block = BLOCK": "the same for numbers that are updated",
    "for start in range(begin": "the same",
    "length = PART": "the same for queries",
    "V > SMALL_TABLE": "two ways to the same sum",
    "self.once =": "the same",
    "self.same = size": "two ways to the same sum",
    "self.readers[d.dtype]": "what is summed and the sum have one dtype",
    "starts = [t for t": "into how many runs a batch is cut changes no sum",
    "place = to_device(place": "rows gathered, or read where they stand: the same",
    "np.where(seen, 0, -math.inf)": "the smallest integer hides what -inf does",
    "math.sqrt(Q.shape[-1])": "queries and keys have one width",
    "one.backward(n_at": "a block's maps are written once in a step",
    "every.backward(n, d": "the same",
    "others.backward(n, d": "the same",
    'entries.readers("tokens"': "only sums ask for the table's size",
    "return None not in params": "joined or each by itself: the same numbers",
    "np.diff(node, prepend": "what is below 0 is below every row",
    "rows, None, masks, m": "where every row goes on, none is copied",
    "words.most": "looked up or computed again: the same numbers",
    "words.size <=": "the same",
    "small = S >": "two ways to the same probabilities",
    "S > TURNED": "two ways to the same maximum",
    "S <= SHORT_AXIS": "two ways to the same sum",
    "_lay_out(rows, counted, every)": "more rows than are needed",
    "rows.every.index": "only the benchmarks ask for every row",
    "x.reshape(2, S, n, heads": "-1 or another name of the axis that is left",
    "swapaxes(-1, -2)": "axes counted from the front, of which there are four",
    "reshape": "-1 stands for the axis that is left, from whichever end it is counted",
    ".sum(-1": "the last of two axes, from whichever end it is counted",
    ".max(-1": "the same",
    "axis=-1": "the same",
    "x.shape[-1]": "the same",
    "x.shape[-2]": "the first of two axes, from whichever end it is counted",
    "share = 1 / x.shape[1]": "two arrays of one width",
    "// ROW": "how many bytes lie between two rows",
    "spare = self.grads": "what it holds has been added, or it is None",
    "give_freed_memory_back": "how much memory the C library keeps",
    "if decay else g": "a decay of 0 adds 0",
    "fused.sgd": "a decay of 0 adds 0",
    "1e-6": "1e-6 beside a norm of some 10",
    "chunk": "into how many pieces a batch is cut changes no sum but for rounding",
    "count = max(": "the same",
    "cuts = [i * size": "the same",
    "turns, s, wanted)": "a gradient that nobody wants may be computed",
    "out=y)) / len(x)": "where squares lie until they are summed",
    "/ len(dy)": "two arrays of one shape",
}


CHOICES = [(kind, choice) for kind in (GPT, LSTMLM) for choice in grid(kind)[:100]]


def checks():
    """What a mutant must pass: a part of the grid, and what the grid does not look at."""
    yield from llamas()
    for kind, choice in CHOICES:
        yield lambda k=kind, c=choice: assert_chosen(k, c)
    for kind, (batch, counted) in itertools.product((GPT, LSTMLM), itertools.product(
            BATCHES, ("ragged", "the last", "all"))):
        yield lambda k=kind, b=batch, c=counted: assert_equal(lambda: build(k), drawn(b, c))
    models = [(GPT, {}), (GPT, {"norm": "pre", "positions": "learned"}), (LSTMLM, {}),
              (LSTMLM, {"num_layers": 1, "padding_id": 0})]
    for (kind, chosen), counted in itertools.product(models, ("the last", "ragged")):
        for dtype, atol in (("float64", 1e-12), ("float32", 2e-5)):
            yield lambda k=kind, o=chosen, c=counted, d=dtype, a=atol: assert_equal_on_a_device(
                lambda: build(k, dtype=d, **o), drawn("few shared", c), atol=a)
    yield from (assert_kernels, assert_erf_fit, assert_refusals, assert_equal_for_large_tables,
                assert_changes_are_refused, assert_a_changed_batch_is_read_again,
                assert_batches_are_refused)
    for batch in BATCHES:
        yield lambda b=batch: assert_tree(drawn(b, "all").inputs)
    for kind, decay, norm in itertools.product(flat_parameters.UPDATES, (0.0, 0.3), (1.0, 1e6)):
        yield lambda k=kind, d=decay, n=norm: assert_same_updates(k, d, n)
    for kind, chosen in ((GPT, {"adapters": "lora"}), (LSTMLM, {"num_layers": 2})):
        yield lambda k=kind, c=chosen: assert_every_change(k, c, AdamW, 1)


def llamas():
    """What a mutant of a Llama's step must pass."""
    equal, llama, batch = (of_llamas.assert_as_the_textbook, of_llamas.llama, of_llamas.batch)
    for options in of_llamas.KINDS:
        yield lambda o=options: equal(llama(**o), batch(), must_fit=True)
    for change in of_llamas.CHANGES.values():
        model = llama()
        change(model)
        yield lambda m=model: equal(m, batch())


def functions():
    """Every function and method that the wing defines, inner ones left out."""
    return [f for module in MODULES for value in vars(module).values()
            if getattr(value, "__module__", None) == module.__name__
            for f in _of(value) if f.__code__.co_filename == module.__file__]   # no dataclass's


def _of(value):
    found = vars(value).values() if inspect.isclass(value) else [value]
    return [inspect.unwrap(f) for f in found if isinstance(f, types.FunctionType)]


mistakes = mutants


def judge_of(functions):
    return judge


def reason(mutant):
    """Why no result can show a survivor, or None."""
    return next((why for part, why in REASONS.items() if part in str(mutant)), None)


def judge(mutant):
    """"caught" if any check fails with the mutant in place, else "survived"."""
    with patched(mutant.function, mutant.code()):
        forget()
        try:
            with time_limit(SECONDS):
                for check in checks():
                    check()
        except Exception:           # a difference, an error of NumPy's, or too long
            return "caught"
    return "survived"
