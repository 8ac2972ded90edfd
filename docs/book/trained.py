"""Tiny trained models, one or two for each chapter, which show the purpose of its layers.

    python -m docs.book --train         # trains all of them again, and writes their records

`MODELS` is {name: function that trains a model and returns its record}. A record is a small JSON
file in data/, with rounded numbers. pictures.py draws it. A test trains the models again.

A vocabulary is a sorted array of words or letters, and np.searchsorted finds their ids.
"""

import contextlib
import copy
import itertools
import json
from pathlib import Path

import numpy as np

import npdl
from experiments.study.runs import Study
from npdl.adapt.models import add_lora
from npdl.data.dates import Dates
from npdl.decoding.beam import beam_search
from npdl.decoding.model_scorers import make_scorer
from npdl.decoding.sampling import greedy
from npdl.functions import softmax
from npdl.layers.sequential import first_output

DATA = Path(__file__).parent / "data"
IGNORED = -1            # a target that doesn't count


def make_record(name):
    """Train a model and return its record, converted to JSON types."""
    return json.loads(json.dumps(MODELS[name]()))


def write_record(name):
    """Train a model, write its record into data/, and return the path."""
    path = DATA / f"{name}.json"
    path.write_text(json.dumps(make_record(name), separators=(",", ":")) + "\n", encoding="utf-8")
    return path


def read_record(name):
    """Return the stored record of a model, with arrays for lists of numbers; {} for other names."""
    if name not in MODELS:
        return {}
    text = (DATA / f"{name}.json").read_text(encoding="utf-8")
    return json.loads(text, object_hook=_lists_to_arrays)


def _lists_to_arrays(record):
    """Return a dictionary with arrays in place of its lists of numbers."""
    for key, value in record.items():
        with contextlib.suppress(ValueError):           # rows of several lengths stay a list
            if isinstance(value, list) and np.array(value).dtype.kind in "if":
                record[key] = np.array(value)
    return record


def fit(model, make_batch, steps, lr=1e-2, *, loss=None, optimizer=None, on_step=lambda step: None):
    """Train a model and return its losses.

    make_batch(step) returns (inputs, targets), where inputs may be a tuple. Targets equal to
    IGNORED do not count. on_step(step) is called before each step and after the last.
    """
    loss = loss or npdl.CrossEntropy(ignored=IGNORED)
    optimizer, losses = optimizer or npdl.AdamW(model, lr), []
    for step in range(steps):
        on_step(step)
        inputs, targets = make_batch(step)
        out, cache = model.forward(*inputs if isinstance(inputs, tuple) else [inputs])
        value, c_loss = loss.forward(first_output(out), targets)
        optimizer.zero_grad()
        dy = first_output(loss.backward(1.0, c_loss))
        model.backward((dy, None) if isinstance(out, tuple) else dy, cache)
        optimizer.step()
        losses.append(float(value))
    on_step(steps)
    return losses


def make_sequential(*parts):
    """Return a Sequential in float64; the tuple (Linear, 3, 2) creates the layer Linear(3, 2).

    The layers that are given as tuples have the seeds 1, 2, 3, ...
    """
    seeds = itertools.count(1)
    return npdl.Sequential(*(part[0](*part[1:], rng=next(seeds), dtype="float64")
                             if isinstance(part, tuple) else part for part in parts))


def predict(model, inputs):
    """Return the first output of a model."""
    return first_output(model.forward(inputs)[0])


def probabilities(model, inputs):
    return softmax(predict(model, inputs))


def measure_accuracy(model, inputs, targets):
    """Return the accuracy on the unmasked targets."""
    is_right = predict(model, inputs).argmax(-1) == targets
    return float(is_right[targets != IGNORED].mean())


def rounded(values, digits=3):
    """Return arrays or numbers as lists, rounded to `digits` decimals."""
    return np.round(np.asarray(values, float), digits).tolist()


# -- chapters 1 to 4: a line, a bend, probabilities of letters, a week in the plane -----------

NUMBERS = ("one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
           "fifteen sixteen seventeen eighteen nineteen twenty").split()
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def make_record_of_thermometer_line():
    """Fit one weight and one bias to five pairs of Celsius and Fahrenheit, both in hundreds."""
    celsius = np.array([[-20.0], [0.0], [15.0], [37.0], [100.0]]) / 100
    fahrenheit = celsius * 1.8 + 0.32
    model, seen = npdl.Linear(1, 1, rng=0, dtype="float64"), []
    fit(model, lambda step: (celsius, fahrenheit), 300, loss=npdl.SquaredError(),
        optimizer=npdl.SGD(model, 0.5), on_step=lambda step: seen.append(
            (model.W.data[0, 0], 100 * model.b.data[0])))
    shown = (0, 3, 10, 30, 300)
    return {"celsius": rounded(100 * celsius[:, 0]), "fahrenheit": rounded(100 * fahrenheit[:, 0]),
            "steps": shown, "slopes": rounded([seen[n][0] for n in shown]),
            "offsets": rounded([seen[n][1] for n in shown])}


def make_record_of_xor_networks():
    """Train two networks on exclusive or, with and without a tanh between the linear layers."""
    x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = np.array([[0.0], [1.0], [1.0], [0.0]])
    grid = np.linspace(-0.25, 1.25, 13)
    plane = np.array([[a, b] for b in grid[::-1] for a in grid])
    found = {}
    for name, between in (("straight", []), ("bent", [npdl.Tanh()])):
        model = make_sequential((npdl.Linear, 2, 6), *between, (npdl.Linear, 6, 1))
        fit(model, lambda step: (x, y), 600, 2e-2, loss=npdl.SquaredError())
        found[name] = rounded(predict(model, plane).reshape(13, 13), 2)
        found[f"{name}_points"] = rounded(predict(model, x)[:, 0])
    return found


def make_record_of_next_letters():
    """Train a model to predict the next letter in the names of the numbers from one to twenty."""
    words = np.unique([*"".join(NUMBERS), "."])
    before = np.searchsorted(words, [*"".join(NUMBERS)])
    after = np.searchsorted(words, [*"".join(name[1:] + "." for name in NUMBERS)])
    model = npdl.Embedding(len(words), len(words), rng=0, dtype="float64")
    losses = fit(model, lambda step: (before, after), 400, 5e-2)
    t = np.searchsorted(words, "t")
    z = predict(model, t[None])[0]
    counts = np.bincount(after[before == t], minlength=len(words))
    order = np.argsort(-counts, kind="stable")[:7]
    return {"letters": words[order].tolist(), "scores": rounded(z[order]),
            "rest": rounded(np.delete(z, order)), "p": rounded(softmax(z)[order]),
            "counts": counts[order].tolist(), "total": int(counts.sum()),
            "losses": rounded([losses[0], losses[-1]])}


def make_record_of_weekday_embeddings():
    """Train 2-D embeddings of the seven days, by predicting a day at most one day away."""
    days = np.repeat(np.arange(7), 3)
    beside = (days + np.tile([0, 1, -1], 7)) % 7
    table = npdl.Embedding(7, 2, rng=0, dtype="float64")
    model = npdl.Sequential(table, npdl.Linear(2, 7, bias=False, rng=1, dtype="float64"))
    fit(model, lambda step: (days, beside), 600,
        optimizer=npdl.AdamW(model, 1e-2, weight_decay=0.3))
    return {"days": DAYS, "points": rounded(table.W.data)}


# -- chapters 5 to 8: a light, a bracket, a name, a word that a later word explains ----------

FILLER = "abcdefgh"
BRACKETS = {"(": ")", "[": "]", "{": "}"}


def make_record_of_light_switch():
    """Train an RNN of 3 units to tell if a light is on. 1 and 0 switch it; - leaves it as it is."""
    rng = np.random.default_rng(0)
    model = make_sequential((npdl.Embedding, 3, 3), (npdl.RNN, 3, 3), (npdl.Linear, 3, 2))

    def batch(step, S=16):
        ids = rng.choice(3, (32, S), p=(0.7, 0.15, 0.15))       # of -, 0 and 1
        ids[:, 0] = 1
        last = np.maximum.accumulate(np.where(ids > 0, np.arange(S), 0), 1)
        return ids, np.take_along_axis(ids, last, 1) - 1

    fit(model, batch, 600)
    text = "0--1-----0---1--"
    ids = np.array([["-01".index(button) for button in text]])
    x, _ = model.layers[0].forward(ids)
    (h, last), cache = model.layers[1].forward(x)
    only_last = np.zeros_like(h)
    only_last[:, -1] = model.layers[2].W.data @ np.array([1.0, -1.0])
    dx, _ = model.layers[1].backward((only_last, None), cache)
    return {"text": text, "h": rounded(h[0].T, 2),
            "p": rounded(probabilities(model, ids)[0, :, 1], 2),
            "reach": rounded(np.linalg.norm(dx[0], axis=-1), 12),
            "right": rounded(measure_accuracy(model, *batch(0, 300)))}


def make_record_of_closing_brackets():
    """Train an LSTM to close the bracket that was opened, after any number of letters."""
    rng, words = np.random.default_rng(0), np.unique([*BRACKETS, *BRACKETS.values(), *FILLER])
    model = npdl.LSTMLM(len(words), 8, 1, 4, rng=1, dtype="float64")
    counted = np.searchsorted(words, [*BRACKETS.values()])

    def draw_text():
        kind = rng.choice(list(BRACKETS))
        return kind + "".join(rng.choice(list(FILLER), rng.integers(1, 11))) + BRACKETS[kind]

    def batch(step):
        ids = np.searchsorted(words,
                              [[*(draw_text() + draw_text() + 24 * "a")[:24]] for _ in range(24)])
        targets = ids[:, 1:]
        return ids[:, :-1], np.where(np.isin(targets, counted), targets, IGNORED)

    fit(model, batch, 700, 2e-2)
    text = "[abcdefgh](abc)"
    (z, _), cache = model.forward(np.searchsorted(words, [[*text]]))
    steps = cache.lstm.layers[0].layer.steps
    p = softmax(z[0])
    return {"text": text, **{name: rounded([getattr(step, name)[0] for step in steps], 2)
                             for name in "ifo"},
            "c": rounded([np.arctanh(step.tanh_c[0]) for step in steps], 2),
            "p": {b: rounded(p[:, k], 2) for b, k in zip(BRACKETS.values(), counted, strict=True)},
            "right": rounded(measure_accuracy(model, *batch(0)))}


NAMES = {"anna": "she", "mary": "she", "lucy": "she", "tom": "he", "john": "he", "paul": "he"}
MIDDLE = "went to the old red house by the sea and sat in the green garden until".split()


def make_record_of_pronouns():
    """Train a GRU to say "he" or "she" at the end of a sentence that began with a name."""
    rng, words = np.random.default_rng(0), np.unique([*NAMES, *MIDDLE, "he", "she", "met"])
    model = make_sequential((npdl.Embedding, len(words), 6), (npdl.GRU, 6, 3), (npdl.Linear, 3, 2))
    model.layers[1].layers[0].cell.b.data[:3] = -2          # update gates near 0 at the start

    def batch(step):
        who = rng.choice(list(NAMES), 32)
        ids = np.searchsorted(words, [[name, *MIDDLE] for name in who])
        targets = np.full(ids.shape, IGNORED)
        targets[:, -1] = [NAMES[name] == "she" for name in who]
        return ids, targets

    fit(model, batch, 400)
    shown = {}
    for name in ("anna", "tom"):
        ids = np.searchsorted(words, [[name, *MIDDLE]])
        (h, _), cache = model.layers[1].forward(model.layers[0].forward(ids)[0])
        shown[name] = {"z": rounded([s.z[0] for s in cache.layers[0].layer.steps], 4),
                       "h": rounded(h[0], 2), "p": rounded(probabilities(model, ids)[0, :, 1], 2)}
    return {"words": MIDDLE, **shown}


PLACES = {"river": "shore", "water": "shore", "fish": "shore",
          "money": "house", "town": "house", "street": "house"}


def make_record_of_bank_meanings():
    """Train a forward and a bidirectional RNN on "bank", whose meaning depends on a later word."""
    rng, kinds = np.random.default_rng(0), list(PLACES)
    words = np.unique([*kinds, *"we sat on the bank of near".split()])

    def batch(step):
        texts = [["we", "sat", "on", "the", "bank", rng.choice(["of", "near"]), "the",
                  rng.choice(kinds)] for _ in range(32)]
        ids = np.searchsorted(words, texts)
        targets = np.full(ids.shape, IGNORED)
        targets[:, 4] = [PLACES[text[-1]] == "shore" for text in texts]
        return ids, targets

    found = {"last": kinds}
    ids = np.searchsorted(words, [[*"we sat on the bank of the".split(), last] for last in kinds])
    one, first_half, second_half = (npdl.RNN(6, H, rng=seed, dtype="float64")
                                    for H, seed in ((8, 2), (4, 2), (4, 3)))
    for name, layer in (("forwards", one), ("both", npdl.Bidirectional(first_half, second_half))):
        model = make_sequential((npdl.Embedding, len(words), 6), layer,
                                npdl.Linear(8, 2, rng=4, dtype="float64"))
        fit(model, batch, 300)
        p = probabilities(model, ids)[:, 4]
        found[name] = rounded(p[:, 1], 2)
        right = [row[int(PLACES[last] == "shore")] for row, last in zip(p, kinds, strict=True)]
        found[f"{name}_loss"] = rounded(-np.log(right).mean())
    return found


# -- chapters 9 to 13: deep stacks, a date, two heads, blocks, a GPT that counts ------------------

def make_record_of_deep_networks():
    """Train networks of 20 layers on the exclusive or of three bits, with and without LayerNorm."""
    x = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    y = (x > 0).sum(1) % 2
    found = {}
    for name in ("plain", "normed"):
        parts, rng = [npdl.Linear(3, 16, rng=0, dtype="float64")], np.random.default_rng(1)
        for _ in range(20):
            parts += [npdl.Linear(16, 16, rng=rng, dtype="float64"), npdl.GELU()]
            parts += [npdl.LayerNorm(16, dtype="float64")] if name == "normed" else []
        model = npdl.Sequential(*parts, npdl.Linear(16, 2, rng=2, dtype="float64"))
        sizes, a = [], x
        for part in model.layers[:-1]:
            a, _ = part.forward(a)
            if isinstance(part, npdl.LayerNorm if name == "normed" else npdl.GELU):
                sizes.append(a.std(0).mean())           # across the inputs, mean over units
        losses = fit(model, lambda step: (x, y), 300, 3e-3)
        found[name] = {"spread": rounded(sizes, 14), "losses": rounded(losses[::5])}
    return found


def make_record_of_date_translation():
    """Train an LSTM with attention to translate dates, as in chapter 13."""
    data, words = Dates(), Dates.words
    model = npdl.LSTMSeq2Seq(len(words.source.characters), len(words.target), 32, 1, 48, rng=0,
                             dtype="float64")

    def batch(step):
        source, lengths, target = data.encode_pairs(*data.draw_pairs("train", 48, 0, step))
        return (source, target[:, :-1], lengths), target[:, 1:]

    fit(model, batch, 400, 5e-3)
    text = "Saturday, March 14th, 2015"
    source, lengths, target = data.encode_pairs([text], ["2015-03-14"])
    logits, cache = model.forward(source, target[:, :-1], lengths)
    return {"text": text, "iso": words.decode(logits[0].argmax(-1)),
            "A": rounded(cache.attention.A[0][:10], 2)}


class SelfAttention(npdl.MultiHeadAttention):
    """Attention of each position to itself and to earlier ones."""

    def forward(self, x):
        return super().forward(x, x, x, npdl.causal_mask(x.shape[1]))

    def backward(self, dy, cache):
        return sum(super().backward(dy, cache))         # x is used three times


def make_record_of_attention_heads():
    """Train one head and two heads to predict the previous letter and the first one of its line."""
    rng, V, S = np.random.default_rng(0), 8, 8

    def batch(step):
        ids = rng.integers(0, V, (32, S))
        targets = np.full((32, S), IGNORED)
        targets[:, 1:] = ids[:, :-1] + V * ids[:, :1]
        return ids, targets

    found = {}
    for H in (1, 2):
        model = make_sequential((npdl.Embedding, V, 32), (npdl.LearnedPositions, S, 32),
                                (SelfAttention, 32, H), (npdl.Linear, 32, V * V))
        fit(model, batch, 600)
        _, cache = model.forward((ids := batch(0)[0])[:1])
        found["text"] = "".join("abcdefgh"[k] for k in ids[0])
        found[f"A{H}"] = rounded(cache.layers[2].attend.A[0], 2)
        found[f"right{H}"] = rounded(measure_accuracy(model, *batch(0)))
    return found


UNITS = ["", *(f" {unit}" for unit in NUMBERS[:9])]
COUNTED = "".join(f"{ten}{unit} " for ten in ("twenty", "thirty", "forty", "fifty")
                  for unit in UNITS)
LETTERS = np.unique([*COUNTED])


def train_to_count(model, steps, S=24, B=16, **options):
    """Train a model to continue COUNTED, a text that counts in words; return its losses."""
    ids, rng = np.searchsorted(LETTERS, [*COUNTED]), np.random.default_rng(0)

    def batch(step):
        starts = rng.integers(0, len(ids) - S - 1, B)
        return (np.stack([ids[s: s + S] for s in starts]),
                np.stack([ids[s + 1: s + S + 1] for s in starts]))

    return fit(model, batch, steps, 3e-3, **options)


def make_record_of_block_predictions():
    """Train a GPT of four blocks, and return the prediction that each block's output would give."""
    model = npdl.GPT(len(LETTERS), 24, 4, 2, max_len=64, norm="pre", activation="relu", rng=0,
                     dtype="float64")
    train_to_count(model, 500)
    text = "thirty four thirty "
    _, cache = model.forward(np.searchsorted(LETTERS, [[*text]]))
    normed = [model.decoder.norm.forward(c.y)[0] for c in cache.decoder.blocks]
    rows = np.array([softmax(model.classifier.forward(y)[0][0, -1]) for y in normed])
    top = np.argsort(-rows.max(0))[:5]
    return {"text": text, "letters": LETTERS[top].tolist(), "p": rounded(rows[:, top], 2)}


def make_record_of_counting_gpt():
    """Train a GPT to count in words, and record its continuations of "twenty one "."""
    model = npdl.GPT(len(LETTERS), 32, 2, 2, max_len=96, norm="pre", activation="relu", rng=0,
                     dtype="float64")
    said = {}

    def record_continuation(step):
        if step in (0, 100, 800):
            best, = greedy(make_scorer(model, np.searchsorted(LETTERS, [*"twenty one "])), 32)
            said[step] = "".join(LETTERS[list(best.tokens)])

    losses = train_to_count(model, 800, S=44, B=8, on_step=record_continuation)
    return {"said": said, "losses": rounded(losses[::10])}


# -- chapters 14 to 19: two paths, a wrong greedy choice, ranks, late addition, lines, a fall

CURVATURE, START = [1.0, 50.0], [-2.0, 0.6]


def descend_valley(make_optimizer, steps):
    """Return the path (`steps` + 1 points) of make_optimizer(model) in a quadratic valley."""
    model = npdl.Linear(1, 2, bias=False, dtype="float64")
    model.W.data[...] = [START]
    optimizer, path = make_optimizer(model), [model.W.data[0].copy()]
    for _ in range(steps):
        model.W.grad[...] = CURVATURE * model.W.data
        optimizer.step()
        path.append(model.W.data[0].copy())
    return path


def make_record_of_valley():
    """Return paths of SGD and AdamW in a valley that is 50 times as steep across as along."""
    makes = {"SGD": lambda model: npdl.SGD(model, 0.036),
             "AdamW": lambda model: npdl.AdamW(model, 0.1, weight_decay=0.0)}
    return {"curvature": CURVATURE} | {name: rounded(descend_valley(make, 60))
                                       for name, make in makes.items()}


SENTENCES = {"the dog runs home": 2, "the cat drinks milk": 2, "the bird sings now": 2,
             "the child plays outside": 2, "a storm is coming": 5}


def make_record_of_sentence_search():
    """Train a language model on five sentences, and compare greedy decoding with beam search."""
    texts = [["start", *text.split(), "."] for text, count in SENTENCES.items()
             for _ in range(count)]
    words = np.unique(texts)
    ids = np.searchsorted(words, texts)
    model = npdl.LSTMLM(len(words), 12, 1, 12, rng=0, dtype="float64")
    fit(model, lambda step: (ids[:, :-1], ids[:, 1:]), 250, 2e-2)
    scorer = make_scorer(model, np.searchsorted(words, ["start"]))
    end = int(np.searchsorted(words, "."))
    found = {"greedy": greedy(scorer, 5, eos=end)[0],
             "beam": beam_search(scorer, 2, 5, eos=end).best}
    p = probabilities(model, np.searchsorted(words, [["start", "the"]]))[0]
    first, second = (dict(zip(words.tolist(), rounded(row), strict=True)) for row in p)
    return {name: [" ".join(words[list(best.tokens)]), rounded(np.exp(best.log_prob))]
            for name, best in found.items()} | {
        "first": {word: first[word] for word in ("the", "a")},
        "second": {word: second[word] for word in ("dog", "cat", "bird", "child")}}


def make_record_of_adapter_ranks():
    """Train adapters of rank 1 to 6, with which a model that fits one curve learns another."""
    waves = np.linspace(-2, 2, 64)[:, None] * np.arange(1, 5)
    features = np.concatenate([np.sin(waves), np.cos(waves)], 1)
    rng = np.random.default_rng(7)
    mix = rng.standard_normal((8, 8))
    old, new = features @ mix, features @ (mix + rng.standard_normal((8, 3)) @
                                           rng.standard_normal((3, 8)))
    found = {"ranks": [1, 2, 3, 4, 6], "loss": [], "learned": []}
    base = npdl.Sequential(npdl.Linear(8, 8, rng=0, dtype="float64"))
    fit(base, lambda step: (features, old), 600, 3e-2, loss=npdl.SquaredError())
    found["before"] = rounded(np.square(base.forward(features)[0] - new).mean())
    for rank in found["ranks"]:
        model = copy.deepcopy(base)
        add_lora(model, rank, rng=1)
        losses = fit(model, lambda step: (features, new), 800, 3e-2, loss=npdl.SquaredError())
        found["loss"].append(rounded(losses[-1]))
        found["learned"].append(sum(p.data.size for _, p in model.params()))
    return found


def make_record_of_late_generalisation():
    """Return both accuracies of a stored run of the study: the default GPT with seed 42."""
    runs = Study().curves("gpt")
    at = runs.seeds.index(42)
    return {"step": runs.step.tolist(), **{name: rounded(runs.values[name][at], 5)
                                           for name in ("train_accuracy", "validation_accuracy")}}


def make_record_of_longer_sequences():
    """Train models to recall the letter two positions back, and test them on longer sequences."""
    V = 6
    found = {"places": list(range(3, 41))}                   # counted from 1
    for name, model in (
            ("turned", npdl.Llama(V, 16, 1, 2, 2, 24, max_len=40, tied=False, rng=0,
                                  dtype="float64")),
            ("added", npdl.GPT(V, 16, 1, 2, max_len=40, norm="pre", positions="learned",
                               activation="relu", rng=0, dtype="float64"))):
        rng = np.random.default_rng(0)

        def batch(step, S=12, rng=rng):
            ids = rng.integers(0, V, (24, S))
            targets = np.full(ids.shape, IGNORED)
            targets[:, 2:] = ids[:, :-2]
            return ids, targets

        fit(model, batch, 400)
        ids, targets = batch(0, 40)
        found[name] = rounded((predict(model, ids).argmax(-1) == targets)[:, 2:].mean(0))
    return found


def make_record_of_loss_after_memorising():
    """Return training losses of stored runs of the study: the default LSTM after memorising.

    log_loss        the logarithm of the loss with seed 42, from step 3000 on
    steps_for_e     for each seed, the steps in which the loss falls by a factor e, as an average
                    from step 5000 to step 10,000
    """
    runs = Study().curves("lstm")
    log_loss = np.log(runs.values["train_loss"].astype(float))
    from_5000, to_10000 = (log_loss[:, runs.step == step][:, 0] for step in (5000, 10_000))
    late = runs.step >= 3000
    return {"step": runs.step[late].tolist(),
            "log_loss": rounded(log_loss[runs.seeds.index(42), late]),
            "steps_for_e": rounded(5000 / (from_5000 - to_10000), 0)}


MODELS = {name.removeprefix("make_record_of_"): function for name, function in globals().items()
          if name.startswith("make_record_of_")}
