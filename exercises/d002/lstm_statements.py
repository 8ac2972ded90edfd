"""Document 002, Problem 3: four statements about the LSTM cell, each tested on npdl's LSTMCell."""

import math
from functools import partial

import numpy as np

from exercises.framework import Claim, judge
from exercises.worked import Solution, Table, listing, num, terms, vec
from npdl.functions import sigmoid
from npdl.layers.recurrent import LSTMCell

QUESTION = """\
Problem 3. An LSTM cell without biases: i_t, f_t, o_t = sigmoid(W x_t + U h_(t-1)), c~_t the same
with tanh, c_t = f_t * c_(t-1) + i_t * c~_t, h_t = o_t * tanh(c_t). True or false:
(a) if x_t is the zero vector, h_t = h_(t-1);  (b) if f_t is very small or zero, no error reaches \
earlier steps; (c) the entries of f_t, i_t, o_t are not negative; (d) f_t, i_t, o_t can be seen as \
probability distributions."""

TITLES = {"3a": "An LSTM without input", "3b": "An LSTM that forgets: does error go back?",
          "3c": "The signs of an LSTM's gates", "3d": "Gates as probability distributions"}

claim_of = partial(Claim, "002", "Problem 3")
GATES = ("i", "f", "o", "g")


def lstm_cell(width=6, d_in=3, forget=None, recurrent=1.0, keep=GATES, seed=0):
    """A float64 LSTMCell, normal weights of variance 1/H, no bias.

    forget     None, or the constant value of f: 0 exactly, or above 0 and below 1
    recurrent  scales U
    keep       the gates whose U stays; the other blocks of U are 0
    """
    rng = np.random.default_rng(seed)
    cell = LSTMCell(d_in, width, rng=seed, dtype="float64")
    cell.W_x.data[...] = rng.standard_normal(cell.W_x.shape) / math.sqrt(width)
    cell.W_h.data[...] = rng.standard_normal(cell.W_h.shape) * recurrent / math.sqrt(width)
    cell.b.data[...] = 0
    for n, gate in enumerate(GATES):
        if gate not in keep:
            cell.W_h.data[:, n * width:(n + 1) * width] = 0
    if forget is not None:
        block = slice(width, 2 * width)
        cell.W_x.data[:, block] = cell.W_h.data[:, block] = 0
        cell.b.data[block] = -1000.0 if forget == 0 else math.log(forget / (1 - forget))
    return cell


def still(cell, h, c):
    """h' after one step with x = 0 from h and c (B, H)."""
    (new, _), _ = cell.forward(np.zeros((len(h), cell.W_x.shape[0])), (h, c))
    return new


def error_lengths(cell, steps=20, size=1.0, seed=1):
    """(steps + 1,) lengths of the gradient of (h, c), going back from a unit gradient of h.

    `size` scales the inputs and the first state; near 0 every tanh is the identity.
    """
    rng = np.random.default_rng(seed)
    state = tuple(0.5 * size * rng.standard_normal((2, 1, cell.d_hidden)))
    caches = []
    for x in size * rng.standard_normal((steps, 1, cell.W_x.shape[0])):
        state, cache = cell.forward(x, state)
        caches.append(cache)
    d = (np.full_like(state[0], cell.d_hidden**-0.5), np.zeros_like(state[1]))
    lengths = [1.0]
    for cache in reversed(caches):
        _, d = cell.backward(d, cache)
        lengths.append(math.sqrt(sum(float((part * part).sum()) for part in d)))
    return np.array(lengths)


def gate_values(samples=2000, width=6, seed=2):
    """f, i, o (samples, H) each, of a random cell at random inputs and states."""
    rng = np.random.default_rng(seed)
    cell = lstm_cell(width)
    state = tuple(rng.standard_normal((2, samples, width)))
    _, cache = cell.forward(2 * rng.standard_normal((samples, 3)), state)
    i, f, o = cache.i, cache.f, cache.o
    return f, i, o


def zero_input():
    """Claims of part (a)."""
    cell, rng = lstm_cell(), np.random.default_rng(3)
    h, c = rng.uniform(-1, 1, (2, 500, 6))
    moved = np.abs(still(cell, h, c) - h).max(-1)
    yield claim_of(
        "a", "x = 0 makes h' = h", "False",
        f"false: h moves by {moved.min():.2f} to {moved.max():.2f} (its largest entry)",
        judge(moved.min() > 1e-3),
        f"an example (seeds 0 and 3): {len(h)} random states of 6 units, x = 0")


def forgetting():
    """Claims of part (b)."""
    closed = error_lengths(lstm_cell(forget=0.0))
    cut = error_lengths(lstm_cell(forget=0.0, recurrent=0.0))
    output = error_lengths(lstm_cell(forget=0.0, keep=("o",)))
    strong = error_lengths(lstm_cell(forget=0.0, recurrent=8.0), 60, size=1e-40)
    yield claim_of(
        "b", "f = 0 keeps the error from earlier steps", "False",
        "false: f = 0 closes the road through c only; h still feeds the gates",
        judge(closed[5] > 0, provided=closed[0] == 1 and cut[2] == 0),
        "an example (seeds 0 and 1): "
        f"f = 0 exactly: length of the error 1, 2, 5 steps back {listing(closed[[1, 2, 5]], '.1e')}"
        f"; with U = 0 too, {listing(cut[[1, 2, 5]], 'g')}")
    yield claim_of(
        "b", "the error flows through the input gate and the candidate",
        "because i and c~ depend on h",
        "these, and the output gate as well, which the reason leaves out: o depends on h too",
        judge(output[3] == 0, "confirmed", "under-specified"),
        f"an example (seeds 0 and 1): f = 0 and U = 0 but for the output gate: 1, 2, 3 steps back "
        f"{listing(output[1:4], '.1e')}")
    yield claim_of(
        "b, summary", "the reason for the answer is that a small f makes gradients vanish",
        "False - small f leads to vanishing gradients",
        "that would speak for True, and contradicts the solution above it; nor does it hold: with "
        "a large U the error grows at f = 0",
        judge(strong[-1] < 1),
        "an example (seeds 0 and 1): "
        f"f = 0, U eight times larger, states near 0: the error's length is "
        f"{strong[20]:.1e} after 20 steps and {strong[60]:.1e} after 60, from 1")


def signs():
    """Claims of part (c)."""
    gates = np.concatenate(gate_values())
    extremes = [float(sigmoid(np.array([z]))[0]) for z in (-1000.0, 1000.0)]
    rng = np.random.default_rng(4)
    state = rng.uniform(-1, 1, (2, 2000, 6))
    (_, c), cache = lstm_cell().forward(rng.standard_normal((2000, 3)), tuple(state))
    f = cache.f
    all_negative = int((c < 0).all(-1).sum())
    flips = int((np.sign(f * state[1]) != np.sign(state[1])).sum())
    yield claim_of(
        "c", "the entries of f, i, o are not negative", "True",
        "true: the sigmoid's values are",
        judge(float(gates.min()) >= 0 and extremes[0] >= 0),
        "an example (seeds 0 and 2): "
        f"{gates.size} gate values between {gates.min():.4f} and {gates.max():.4f}")
    yield claim_of(
        "c", "a forget gate that is not negative keeps the memory from being all negative",
        "never makes the memory completely negative",
        "the memory can be all negative; what holds is that f * c has the signs of c, so that it "
        "is not f that makes it so",
        judge(all_negative == 0, if_false="under-specified", provided=flips == 0),
        "an example (seeds 0 and 4): "
        f"{all_negative} of 2000 random steps end with all 6 entries of c below 0; f changed the "
        f"sign of {flips} of 12000 entries")


def distributions():
    """Claims of part (d)."""
    sums = np.concatenate([gate.sum(-1) for gate in gate_values()])
    half, whole = float(sigmoid(np.zeros(2)).sum()), int((np.abs(sums - 1) < 1e-9).sum())
    yield claim_of(
        "d", "f, i, o can be seen as probability distributions", "False",
        f"false: the sums of 6 entries run from {sums.min():.2f} to {sums.max():.2f}",
        judge(sums.min() < 0.99 or sums.max() > 1.01),
        f"an example (seeds 0 and 2): {len(sums)} gates; {whole} sum to 1. They can: two units "
        f"at 0 sum to {half:g}, so not necessarily is right and never would not be")


def claims():
    return [*zero_input(), *forgetting(), *signs(), *distributions()]


KEPT = 0.7                                  # (b): the memory that f = 0 drops
MEMORY, CANDIDATE = -0.8, -0.5              # (c): both negative


def lstm_step(x, h, c, W=1.0, U=1.0, f=None):
    """{i, f, o, g, c, h} of one step; f is the gate's value where it is given."""
    z = W * x + U * h
    gate, g = sigmoid(z), math.tanh(z)
    forget = gate if f is None else f
    new_c = forget * c + gate * g
    return {"i": gate, "f": forget, "o": gate, "g": g, "c": new_c, "h": gate * math.tanh(new_c)}


def worked_zero_input(h=0.5, c=0.5):
    """Part (a)."""
    s, rest = lstm_step(0.0, h, c), lstm_step(0.0, 0.0, 0.0)
    work = Solution("3a", f"One unit, W = U = 1, xₜ = 0, hₜ₋₁ = {h}, cₜ₋₁ = {c}.")
    work.step("With xₜ = 0 the gates still hear hₜ₋₁.",
              "iₜ = fₜ = oₜ = σ(W·0 + U hₜ₋₁),   c̃ₜ = tanh(U hₜ₋₁)",
              f"σ({h}) = {num(s['i'])},   tanh({h}) = {num(s['g'])}")
    work.step("The memory moves.", "cₜ = fₜ cₜ₋₁ + iₜ c̃ₜ",
              f"{num(s['f'])} · {c} + {num(s['i'])} · {num(s['g'])} = {num(s['c'])}")
    work.step("So does the hidden state.", "hₜ = oₜ tanh(cₜ)",
              f"{num(s['o'])} · tanh({num(s['c'])}) = {num(s['h'])}, and hₜ₋₁ was {num(h, 1)}")
    work.step("The one exception worth knowing: from rest it stays at rest.",
              "hₜ₋₁ = cₜ₋₁ = 0:  c̃ₜ = tanh(0) = 0,  cₜ = 0,  hₜ = 0",
              f"cₜ = {num(rest['c'], 0)}, hₜ = {num(rest['h'], 0)}")
    work.answer = (f"False: with xₜ = 0 the state goes from hₜ₋₁ = {h} to hₜ = {num(s['h'])}; "
                   "from hₜ₋₁ = cₜ₋₁ = 0 it would stay.")
    work.check("cₜ and hₜ by the definition, in one line each",
               abs(s["c"] - (sigmoid(h) * c + sigmoid(h) * math.tanh(h))) < 1e-15
               and abs(s["h"] - sigmoid(h) * math.tanh(s["c"])) < 1e-15)
    work.check("at rest nothing moves", rest["h"] == rest["c"] == 0)
    return work


def road_through_h(h, U=1.0):
    """The parts of dh'/dh at f = 0, x = 0: through i, through the candidate, through o."""
    s = lstm_step(0.0, h, 0.0, U=U, f=0.0)
    slope, bend = s["i"] * (1 - s["i"]) * U, s["o"] * (1 - math.tanh(s["c"]) ** 2)
    return bend * slope * s["g"], bend * s["i"] * (1 - s["g"] ** 2) * U, \
        slope * math.tanh(s["c"])


def worked_forgetting(h=0.5):
    """Part (b)."""
    s, parts = lstm_step(0.0, h, KEPT, f=0.0), road_through_h(h)
    total, after = sum(parts), sum(road_through_h(s["h"]))
    bend, both = s["o"] * (1 - math.tanh(s["c"]) ** 2), after * total
    step = 1e-6
    two = [lstm_step(0.0, lstm_step(0.0, h + e, KEPT, f=0.0)["h"], 0.0, f=0.0)["h"]
           for e in (step, -step)]
    numeric = (two[0] - two[1]) / (2 * step)
    strong = sum(road_through_h(0.0, U=8.0))
    work = Solution("3b", f"One unit, W = U = 1, xₜ = 0, hₜ₋₁ = {h}, cₜ₋₁ = {KEPT}; fₜ kept at 0.")
    work.step("fₜ = 0 closes the memory's own road.", "∂cₜ/∂cₜ₋₁ = fₜ = 0",
              f"{num(s['f'], 0)} · {num(KEPT, 1)} of the old memory is left in cₜ = {num(s['c'])}")
    work.step("But iₜ, c̃ₜ and oₜ are made of hₜ₋₁; error goes back through them.",
              "∂hₜ/∂hₜ₋₁ = oₜ (1 − tanh²cₜ) [iₜ (1 − iₜ) U c̃ₜ + iₜ (1 − c̃ₜ²) U] + oₜ (1 − oₜ) U "
              "tanh(cₜ)",
              f"iₜ = oₜ = {num(s['i'])}, c̃ₜ = {num(s['g'])}, cₜ = iₜ c̃ₜ = {num(s['c'])}, oₜ (1 "
              f"− tanh²cₜ) = {num(bend)}\nthrough iₜ "
              f"{num(parts[0])}, through c̃ₜ {num(parts[1])}, through oₜ {num(parts[2])}:  "
              f"{terms(parts)} = {num(total)}")
    work.step("Two steps: multiply the factors of both.", "∂hₜ₊₁/∂hₜ₋₁ = ∂hₜ₊₁/∂hₜ · ∂hₜ/∂hₜ₋₁",
              f"hₜ = {num(s['h'])}:  {num(after)} · {num(total)} = {num(both)}")
    work.step("Does a small fₜ at least make the error vanish? Not necessarily: U decides.",
              "hₜ₋₁ near 0:  iₜ = oₜ = 1/2,  ∂hₜ/∂hₜ₋₁ = U/4",
              f"U = 1: {num(sum(road_through_h(0.0)))};  U = 8: {num(strong)}, it grows")
    work.answer = (f"False: with fₜ = 0 exactly, ∂hₜ/∂hₜ₋₁ = {num(total)} ≠ 0, by way of iₜ, c̃ₜ "
                   "and oₜ.")
    work.check("two steps against a difference of hₜ₊₁", abs(numeric - both) < 1e-8)
    work.check("at hₜ₋₁ = 0 the factor is U/4", abs(strong - 2) < 1e-12)
    return work


def worked_signs(values=(-4.0, -1.0, 0.0, 1.0, 4.0)):
    """Part (c)."""
    gates = [sigmoid(z) for z in values]
    f = i = gates[3]
    parts = [f * MEMORY, i * CANDIDATE]
    work = Solution("3c")
    work.step("e^(−z) is positive for every real z, so the denominator is above 1.",
              "σ(z) = 1/(1 + e⁻ᶻ),   e⁻ᶻ > 0   →   0 < σ(z) < 1",
              table=Table(("z", "e⁻ᶻ", "σ(z)"),
                          tuple((num(z, 0), num(math.exp(-z)), num(g))
                                for z, g in zip(values, gates, strict=True))))
    work.step("fₜ multiplies cₜ₋₁ by such a number: it shrinks cₜ₋₁ and keeps its sign. It does "
              "not keep cₜ₋₁ from being negative; iₜ c̃ₜ may be negative too.",
              "cₜ = fₜ cₜ₋₁ + iₜ c̃ₜ",
              f"cₜ₋₁ = {num(MEMORY, 1)}, fₜ = iₜ = {num(f)}, c̃ₜ = {num(CANDIDATE, 1)}:  cₜ = "
              f"{terms(parts)} = {num(sum(parts))}")
    work.answer = (f"True: every entry is a σ, between {num(gates[0])} and {num(gates[-1])} here, "
                   "always above 0 and below 1.")
    work.check("all values lie in (0, 1) and rise with z",
               all(0 < a < b < 1 for a, b in zip(gates, gates[1:], strict=False)))
    return work


def worked_distributions(z=(2.0, 0.0, -1.0)):
    """Part (d)."""
    gates = [sigmoid(v) for v in z]
    powers = [math.exp(v) for v in z]
    soft = [p / sum(powers) for p in powers]
    half = [sigmoid(0.0)] * 2
    work = Solution("3d", f"Three units with z = {vec(z, 0)}.")
    work.step("The sigmoid looks at each entry alone.", "fⱼ = σ(zⱼ)",
              f"z = {vec(z, 0)}:  f = {vec(gates)}")
    work.step("Add them up.", "Σⱼ fⱼ", f"{terms(gates)} = {num(sum(gates))}, not 1")
    work.step("What would sum to 1 is a softmax, which divides by the sum of all.",
              "softmax(z)ⱼ = e^zⱼ / Σₖ e^zₖ", f"{vec(soft)}, sum {num(sum(soft))}")
    work.step("They can sum to 1 by chance, so 'not necessarily' is right and 'never' is not.",
              numbers=f"two units at z = 0: {terms(half, 1)} = {num(sum(half), 0)}")
    work.answer = (f"False: not negative, but the sum is {num(sum(gates))} here; n entries can "
                   "sum to anything between 0 and n.")
    work.check("the softmax of the same numbers does sum to 1", abs(sum(soft) - 1) < 1e-12)
    work.check("the gates' sum is not 1", abs(sum(gates) - 1) > 0.1)
    return work


def solutions():
    return [worked_zero_input(), worked_forgetting(), worked_signs(), worked_distributions()]
