"""The laboratory's measures and answers, from made-up records of every outcome to be expected."""

import math
import re

import numpy as np
import pytest

from experiments.grokking import (
    answers_circuit,
    answers_collapse,
    answers_faster,
    answers_jumps,
    collapse,
    paired,
    phases,
)
from experiments.reporting.parts import section_markdown, write_png


def lab_record(facts, **columns):
    return {"trial": facts, "columns": columns, "made": {}}


# --- softmax collapse -----------------------------------------------------------------------------
def collapse_text(**arms):
    """The section's text of {arm with _ for -: [(largest collapsed share, best A_val), ...]}."""
    records = {}
    for name, seeds in arms.items():
        arm = name.replace("_", "-")
        for seed, (share, best, *end) in enumerate(seeds):
            records[f"{arm}{seed}"] = lab_record(
                {"arm": arm, "seed": seed}, step=[100, 200, *(end or [collapse.ARMS[arm].epochs])],
                train_accuracy=[0.5, 1.0, 1.0], validation_accuracy=[0.0, 0.1, best],
                collapsed=[0.0, share, share], along=[0.1, 0.5, 0.9])
    made = answers_collapse.collapse_section(records)
    return made, section_markdown(made)


@pytest.mark.parametrize("words, arms", [
    ("Yes: it collapses and does not generalise, and float64 does. 0 of 2 generalise",
     {"float32": [(0.5, 0.2)] * 2, "float64": [(0, 0.95)] * 2}),
    ("does not generalise, and StableMax (one seed) does.",
     {"float32": [(0.5, 0.2)], "float64": [(0.5, 0.2)], "stablemax": [(0, 1.0, 9000)],
      "softmax64": [(0.5, 0.1)]}),
    ("With 70 %: Yes: it collapses and does not generalise, and float64 (one seed) does. 0 of 1 "
     "generalise",
     {"float32_70": [(0.9, 0.8)], "float64_70": [(0.2, 1.0)]}),
    ("that the one is the other's cause is not shown", {"float32": [(0.5, 0.2)]}),
    ("that the one is the other's cause is not shown",     # of another seed
     {"float32": [(0.5, 0.2)], "float64": [(0, 0.1), (0, 0.95)]}),
    ("that the one is the other's cause is not shown. 0 of 2 generalise within 20,000 epochs (best "
     "A_val 0.2). The largest share of training pairs whose probability is rounded to 1 is 50% to "
     "90%. In 1 no gradient was left.", {"float32": [(0.9, 0.2, 5000), (0.5, 0.2)]}),
    ("that the one is the other's cause is not shown",
     {"float32": [(0.5, 0.2)], "float64": [(0.5, 0.2)]}),
    ("that the one is the other's cause is not shown",     # the settings do it, not the loss
     {"float32": [(0.5, 0.2)], "stablemax": [(0, 1.0)], "softmax64": [(0, 1.0)]}),
    ("that the one is the other's cause is not shown",     # softmax was not watched for as long
     {"float32": [(0.5, 0.2)], "stablemax": [(0, 1.0, 50000)], "softmax64": [(0, 0.1)]}),
    ("Open: it does not generalise, but does not collapse either. 0 of 2 generalise within 20,000 "
     "epochs (best A_val 0.1 to 0.2). The largest share of training pairs whose probability is "
     "rounded to 1 is 30% to 31%.", {"float32": [(0.3, 0.2), (0.31, 0.1)]}),
    ("No, it generalises. 2 of 2", {"float32": [(0.9, 0.95), (0.0, 1.0)]}),
    ("The seeds differ. 1 of 2", {"float32": [(0.9, 0.1), (0.9, 1.0)]}),
    ("Open: it does not generalise; at least 40% of the training pairs are rounded to 1 with 1 of "
     "2 seeds, at least 20% with 2. 0 of 2", {"float32": [(0.41, 0.1), (0.37, 0.1)]})])
def test_whether_float32_stops_follows_from_the_records(words, arms):
    assert words in collapse_text(**arms)[1]


@pytest.mark.parametrize("words, arms", [
    ("**Does StableMax grok without weight decay?** Not within 60,000 epochs: 0 of 1 seed reaches "
     "A_val ≥ 0.9, the best is 0.4.", {"stablemax": [(0, 0.4)]}),
    ("does not contradict it; in the later half the accuracy was still rising.",
     {"stablemax": [(0, 0.4)]}),
    ("so that this does not contradict it.", {"stablemax": [(0, 0.1)]}),
    ("But it comes further: best A_val within 40,000 epochs 0.4 against 0.1.",
     {"stablemax": [(0, 0.4, 40000)], "softmax64": [(1, 0.1)]}),
    ("the best is 0.1. The paper's run has",
     {"stablemax": [(0, 0.1, 40000)], "softmax64": [(1, 0.1)]}),
    ("Yes, in the one seed tried: 1 of 1 seed reaches A_val ≥ 0.9, at epoch 9,000. The control, "
     "softmax64: not within 40,000 epochs: 0 of 1 seed reaches A_val ≥ 0.9, the best is 0.3. So "
     "the settings alone do not do it in that time.",
     {"stablemax": [(0, 1, 9000)], "softmax64": [(1, 0.3)]}),
    ("too short a time to say", {"stablemax": [(0, 1, 50000)], "softmax64": [(1, 0.3)]}),
    ("in 1 no gradient was left. So the settings alone do not do it in that time.",
     {"stablemax": [(0, 1, 50000)], "softmax64": [(1, 0.3, 900)]}),
    ("So the settings alone can do it, too.",
     {"stablemax": [(0, 1, 9000)], "softmax64": [(1, 0.95)]}),
    ("Not always: 1 of 2 seeds reach", {"orthogonal": [(0, 1), (0, 0.5)]}),
    ("Yes: 2 of 2 seeds reach A_val ≥ 0.9, at epoch 300 to 310. The control, plain: not within 500",
     {"orthogonal": [(0, 1, 300), (0, 1, 310)], "plain": [(0, 0.1)] * 2}),
    ("gradient is sooner in 1 and later in 1 of 2 pairs: so few cannot tell them apart.",
     {"orthogonal": [(0, 1, 300), (0, 1, 300)], "decay": [(0, 1, 250), (0, 0.2)]}),
    ("float32 over float16: one seed alone, nothing follows (best A_val within 2,500 epochs 0.3 "
     "and 0.1); float64 over float32: no difference (best A_val within 10,000 epochs 0.95 and "
     "0.96)",
     {"float16_70": [(1, 0.3)], "float32_70": [(0, 0.95)] * 2, "float64_70": [(0, 0.96)] * 2}),
    ("float32 over float16: the seeds differ (best A_val 0.3 to 0.4 and 0.3 to 0.9); float64 over "
     "float32: not tried",                                   # the float16 trials died
     {"float16_70": [(1, 0.3, 900), (1, 0.4, 900)], "float32_70": [(0, 0.9, 900), (0, 0.3, 900)]}),
    ("float32 over float16: yes in all 2 pairs",
     {"float16_70": [(1, 0.3)] * 2, "float32_70": [(0, 0.9, 300)] * 2}),
    ("no, it is worse in all 2 pairs",
     {"float16_70": [(1, 0.9)] * 2, "float32_70": [(0, 0.1, 300)] * 2})])
def test_what_helps_follows_from_the_records(words, arms):
    assert words in collapse_text(**arms)[1]


def test_every_arm_has_its_place_in_the_figure():
    placed = [arm for arms in answers_collapse.COLUMNS.values() for arm in arms]
    assert sorted(placed) == sorted(collapse.ARMS)


def test_figures_can_be_drawn(tmp_path):
    made, _ = collapse_text(**{arm.replace("-", "_"): [(0.5, 0.5)] for arm in collapse.ARMS})
    write_png(made.figures()[0], tmp_path)
    write_png(answers_circuit.circuit_section({"a": circuit_record()}).figures()[0], tmp_path)
    assert section_markdown(answers_collapse.collapse_section({})).endswith("Not tried yet.")


# --- Grokfast and Muon ----------------------------------------------------------------------------
def test_a_paired_difference_has_an_interval():
    before = {0: 4000, 1: 5000, 2: 4500}
    found = paired.paired(before, {0: 2000, 1: 2600, 2: 2200, 7: 1})
    assert found.mean == pytest.approx(-0.299, abs=1e-3) and 0 < found.half < 0.1
    assert found.verdict() == "sooner" and found.count() == (3, 3, 3)
    assert paired.paired({0: 1, 1: 1}, {0: 100, 1: 101}).verdict() == "later"
    assert paired.paired(before, {0: 2000, 1: 9000}).verdict().startswith("no difference")
    one = paired.paired({0: 200}, {0: 100})
    assert one.factor() == "0.50 (one pair)" and one.verdict().startswith("one seed alone")
    assert paired.paired({}, {}).verdict() == "not tried" and paired.paired({}, {}).factor() == "-"


def test_a_seed_that_never_generalises_counts():
    never, five = math.inf, dict.fromkeys(range(5), 4000)
    found = paired.paired(five, dict.fromkeys(range(5), never))
    assert found.count() == (0, 5, 5) and found.factor() == "-"
    assert found.verdict() == ("5 pairs cannot decide it by signs (of 5 pairs 0 sooner, 5 later, "
                               "sign test p = 0.062)")
    found = paired.paired(five, {0: 2000, 1: 2010, 2: never, 3: never, 4: never})
    assert "(of 5 pairs 2 sooner, 3 later" in found.verdict()
    assert found.factor() == "-" and found.count() == (2, 5, 5)     # which two is no chance
    ten = dict.fromkeys(range(10), never)
    assert paired.paired(ten, {**ten, **five}).verdict().startswith("no difference")
    assert paired.paired(ten, dict.fromkeys(range(10), 4000)).verdict().startswith("sooner (")
    assert paired.paired(dict.fromkeys(range(10), 4000), ten).verdict().startswith("later (")


def faster_text(**arms):
    return section_markdown(answers_faster.faster_section({
        f"{arm}{seed}": lab_record({"model": "gpt", "arm": arm, "seed": seed}, step=[100, at],
                                   validation_accuracy=[0.0, 1.0 if good else 0.5])
        for arm, steps in arms.items() for seed, (at, good) in enumerate(steps)}))


def test_the_answers_on_faster_follow_from_the_records():
    base = [(4000, True), (4400, True), (4100, True)]
    text = faster_text(adamw=base, muon=[(1000, True), (1200, True), (1100, True)])
    assert "**Muon.** LSTM: not tried; GPT: sooner, 0.26" in text
    assert "sooner?** Grokfast: the LSTM not tried, the GPT not tried; Muon: the LSTM not tried, " \
        "the GPT sooner; Muon with" in text
    assert "3 of 3 seeds get there by step 10001, with AdamW 3" in text
    assert "Of 12 such comparisons at most 0.6 would be expected to show a difference by" in text
    text = faster_text(adamw=base, muon=[(10001, False)] * 3, grokfast=[(9000, True)] * 3)
    assert "GPT: 3 pairs cannot decide it by signs (of 3 pairs 0 sooner, 3 later" in text
    assert "p = 0.25); 0 of 3 seeds get there by step 10001, with AdamW 3" in text
    assert "GPT: later, 2.16" in text
    text = faster_text(adamw=base, muon=[(1000, True), (1200, True), (1100, True)],
                       matched=[(1000, True), (1190, True), (1110, True)])
    assert "Against matched: LSTM: not tried; GPT: no difference that these seeds can tell, 1.00" \
        in text


# --- what the model computes, and jumps -----------------------------------------------------------
def test_progress_measures_know_a_circuit_of_waves():
    p, key = 13, (2, 5)
    s, c = np.arange(p)[:, None], np.arange(p)[None]
    table = sum(8 * np.cos(2 * np.pi * k * (s - c) / p) for k in key)
    a, b = np.divmod(np.arange(p * p), p)
    sums, trained = (a + b) % p, np.arange(p * p) % 2 == 0
    logits = table[sums]
    assert sorted(phases.key_frequencies(phases.by_sum(logits, sums, p))) == list(key)
    fresh = phases.untouched(np.stack([a, a, a, b], 1), trained, p)
    found = phases.measured(logits, sums, trained, fresh, key, p)
    assert max(found[name] for name in ("restricted", "fresh_circuit", "fresh_loss")) < 0.01
    assert found["excluded"] == pytest.approx(math.log(p))


def test_a_memoriser_has_no_circuit():
    """Nor has one that knows b + a where a + b is trained: its table of all equations peaks at
    the answers, that of fresh ones does not."""
    p = 31
    a, b = np.divmod(np.arange(p * p), p)
    sums, trained = (a + b) % p, np.random.default_rng(0).permutation(p * p) < p * p // 2
    fresh = phases.untouched(np.stack([a, a, a, b], 1), trained, p)
    noise = np.random.default_rng(1).normal(size=(p * p, p))
    answers = 10.0 * (np.arange(p) == sums[:, None])
    waves = sum(8 * np.cos(2 * np.pi * k * (sums[:, None] - np.arange(p)) / p) for k in (2, 5, 9))
    assert 200 < fresh.sum() < 290 and not (fresh & trained).any()

    def measured(logits):
        keys = phases.key_frequencies(phases.by_sum(logits, sums, p))
        return phases.measured(logits, sums, trained, fresh, keys, p)

    threshold = math.log(p) / 2
    for known in (trained, ~fresh):
        found = measured(noise + np.where(known[:, None], answers, 0))
        assert found["restricted"] < threshold < 3 < found["fresh_circuit"]     # the paper's own
    found = measured(6 * noise + waves / 2)                                     # sees a circuit
    assert found["fresh_circuit"] < threshold < found["fresh_loss"]             # one that is hidden
    table = phases.by_sum(noise[sums != 4], sums[sums != 4], p)      # a sum without equations
    np.testing.assert_allclose(table[4], np.delete(table, 4, 0).mean(0))


def circuit_record(seed=0, **changed):
    return lab_record({"kind": "circuit", "seed": seed}, **{
        "step": [1, 100, 2000, 4000, 5000], "train_accuracy": [0.0, 1.0, 1.0, 1.0, 1.0],
        "validation_accuracy": [0.0, 0.0, 0.5, 1.0, 1.0],
        "fresh_circuit": [3.4, 3.4, 1.0, 0.1, 0.1], "fresh_loss": [3.4, 6.0, 4.0, 0.2, 0.1],
        "restricted": [3.4, 1.0, 0.5, 0.1, 0.1], "excluded": [3.4, 0.2, 0.1, 1.0, 2.0],
        "keys": [[2, 5]] * 5, "embedded": [[5, 2, 3, 4, 1]] * 5,
        "mirror_accuracy": [0.0, 0.2, 0.99, 1.0, 1.0],
        "fresh_accuracy": [0.0, 0.0, 0.1, 1.0, 1.0], "l2_norm": [80.0, 78.0, 50.0, 25.0, 30.0],
        "top": [0.4, 0.4, 0.6, 0.9, 0.9], "train_loss": [3.4, 0.01, 0.001, 0.001, 0.001],
        "validation_loss": [3.4, 4.0, 1.0, 0.01, 0.01], **changed})


LATE = {"fresh_circuit": [3.4, 3.4, 3.0, 0.1, 0.1]}         # no sooner than it shows
NEVER = {"validation_accuracy": [0.0] * 5, "fresh_circuit": [3.4] * 5, "fresh_loss": [6.0] * 5}


@pytest.mark.parametrize("words, changed", [
    ("**Are there three phases (memorising, forming a circuit, cleaning up)?** Yes: the model "
     "comes to rely on the strongest frequencies in 1 of 1 seeds; its norm falls mostly "
     "after the circuit is formed in 1 of 1 seeds.", {}),
    ("comes to half a guess's loss 2000 steps before the model as it is, between memorising and "
     "that in 1 of 1 seeds. That alone proves no circuit", {}),
    ("is 0.1 where it is lowest after memorising and 2 at the end; that of the whole model is "
     "0.001 and 0.001 at the same places", {}),
    ("rises 2-fold and the second does not rise (1.5-fold: 1 of 1; 3-fold: 1)", {}),
    ("Of the norm's fall 61% comes after the circuit.", {}),
    ("b + a is trained is 0.99, on fresh ones 0.1.", {}),
    ("Of the 15 frequencies 2 are needed for 95% of the power; of the embedding's 5 strongest 2 "
     "are among them.", {}),
    ("Of the 15 frequencies 12 are needed for 95% of the power, nearly all: so only the "
     "strongest are taken out above, and to cut down to the key frequencies leaves out little. The "
     "paper", {"keys": [[*range(1, 13)]] * 5}),
    ("between memorising and that in 0 of 1 seeds", LATE),
    ("half a guess's loss together with the model", LATE),
    ("half a guess's loss 2000 steps after the model",
     {**LATE, "fresh_loss": [3.4, 6.0, 1.0, 0.2, 0.1]}),
    ("No seed comes to half a guess's loss on fresh equations in both ways.", NEVER),
    ("No seed comes to half a guess's loss on fresh equations in both ways.",
     {"fresh_loss": [6.0] * 5}),
    ("In part: the model comes to rely on the strongest frequencies in 1 of 1 seeds; its norm "
     "falls mostly after the circuit is formed in 0 of 1 seeds", NEVER),
    ("strongest frequencies in 0 of 1", {"excluded": [3.4, 1.1, 1.0, 1.0, 1.9]}),
    ("strongest frequencies in 0 of 1",                     # so does the loss with them
     {"excluded": [3.4, 0.2, 0.1, 1.0, 2.0], "train_loss": [3.4, 0.01, 0.001, 0.01, 0.02]}),
    ("strongest frequencies in 1 of 1", {"excluded": [3.4, 1.0, None, 1.0, 2.1]}),
    ("No: the model", {"train_accuracy": [0.0] * 5}),
    ("formed in 0 of 1 seeds", {"l2_norm": [80.0, 78.0, 30.0, 25.0, 30.0]}),
    ("Of the norm's fall 0% comes", {"l2_norm": [80.0, 78.0, 20.0, 40.0, 45.0]}),
    ("Of the norm's fall 100% comes", {"l2_norm": [30.0, 40.0, 60.0, 25.0, 25.0],
                                       "train_accuracy": [0.0, 0.0, 1.0, 1.0, 1.0]}),
    ("Of the norm's fall 100% comes",                       # the circuit before memorising
     {"train_accuracy": [0.0, 0.0, 0.0, 1.0, 1.0], "l2_norm": [80.0, 78.0, 50.0, 40.0, 30.0]})])
def test_the_answer_on_phases_follows_from_the_records(words, changed, monkeypatch):
    monkeypatch.setattr("reporting.draw.WINDOW", 1)       # of five evaluations each counts
    made = answers_circuit.circuit_section({"a": circuit_record(**changed)})
    assert words in section_markdown(made)


def test_one_spike_is_no_reliance():
    steps = [1, *range(100, 5001, 100)]
    calm = [3.4] + [0.1] * (len(steps) - 1)
    spike = circuit_record(step=steps, train_accuracy=[0.0] + [1.0] * (len(steps) - 1),
                           excluded=[*calm[:-1], 9.0], train_loss=calm, fresh_circuit=calm,
                           fresh_loss=calm, validation_accuracy=calm)["columns"]
    assert answers_circuit.turning(spike)[:2] == (0.1, 0.1) and not answers_circuit.relies(spike)


def test_seeds_without_a_circuit_are_counted():
    text = section_markdown(answers_circuit.circuit_section({
        "a": circuit_record(), "b": circuit_record(1, **LATE), "c": circuit_record(2, **NEVER)}))
    assert "loss 0 to 2000 steps before the model as it is (in 2 of 3 seeds)" in text
    assert "between memorising and that in 1 of 3 seeds" in text and "In part: the model" in text


def test_a_lookup_of_fresh_equations_leads_without_a_circuit():
    """Why the lead decides nothing: the mean over equations with the same sum is right long before
    most of them are, also where each is learned on its own."""
    p = 31
    a, b = np.divmod(np.arange(p * p), p)
    sums, rng = (a + b) % p, np.random.default_rng(0)
    trained = rng.permutation(p * p) < p * p // 2
    fresh = phases.untouched(np.stack([a, a, a, b], 1), trained, p)
    known = trained | (rng.uniform(size=p * p) < 0.4)
    logits = 3 * rng.normal(size=(p * p, p)) + 12.0 * known[:, None] * (
        np.arange(p) == sums[:, None])
    keys = phases.key_frequencies(phases.by_sum(logits, sums, p))
    found = phases.measured(logits, sums, trained, fresh, keys, p)
    assert found["fresh_circuit"] < math.log(p) / 2 < 3 < found["fresh_loss"]


def fold(length, jump=40000):
    """Steps and losses that fall by a factor e in `length` steps, level off, and jump."""
    steps = [*range(100, jump + 200, 100)]
    return steps, [*(math.exp(-step / length) + 1e-8 for step in steps[:-1]), 1.0]


def jumps_text(**eps):
    """The text of [(steps, losses), ...] for `usual` and `small` eps."""
    return section_markdown(answers_jumps.jumps_section({
        f"{name}{seed}": lab_record(
            {"kind": "jumps", "eps": {"usual": 1e-8, "small": 1e-12}[name], "seed": seed},
            step=steps, train_accuracy=[1.0] * len(steps), train_loss=losses)
        for name, seeds in eps.items() for seed, (steps, losses) in enumerate(seeds)}))


def test_the_answer_on_jumps_follows_from_the_records():
    early = ([100, 200, 300], [1e-3, 1e-7, 1.0])
    late = ([s + 18300 if s > 100 else s for s in early[0]], early[1])
    calm = ([100, 200, 72001], [1e-3, 1e-7, 1e-8])
    text = jumps_text(usual=[early] * 2, small=[calm] * 2)
    assert "with eps 1e-08, watched to step 48001, 2 of 2 jump (after step 200)" in text
    assert "with eps 1e-12, watched to step 72001, 0 of 2 jump. The larger" in text
    assert ("**Do the jumps come from AdamW's eps?** It looks as if eps decided whether they come, "
            "as long as they were watched; 2 pairs cannot prove it (sign test p = 0.5).") in text
    assert ("in 2 of 2 pairs; where the smaller one does not, it was watched for 71801 steps more. "
            "Where") in text
    assert ("lowest training loss is 10 times that with the smaller one; 10,000 times are expected "
            "where both level off before they jump.") in text
    text = jumps_text(usual=[early] * 6, small=[calm] * 6)
    assert "Eps decides whether they come" in text
    assert "An eps of 1e-12 is reached 18,421 steps later than 1e-08." in text
    text = jumps_text(usual=[early] * 2, small=[late] * 2)
    assert "It looks as if eps decided when they come; 2 pairs cannot prove it" in text
    assert ("in 2 of 2 pairs; where both do, the smaller one's comes 18300 steps later: in 2 of 2 "
            "within a factor 1.5") in text
    text = jumps_text(usual=[early, early], small=[early, early])
    assert "Not from eps alone" in text and "comes 0 steps later: in 0 of 2" in text
    text = jumps_text(usual=[late] * 2, small=[early] * 2)
    assert "The smaller eps jumps first with every seed, the opposite" in text
    assert "comes -18300 steps later" in text
    text = jumps_text(usual=[calm] * 2, small=[calm] * 2)
    assert "?** These seeds leave it open." in text and "in 0 of 2 pairs. Where" in text
    text = jumps_text(usual=[early] * 3, small=[late, late, early])
    assert "in 2 of 3 pairs" in text and "Not from eps alone" in text
    text = jumps_text(usual=[early] * 3, small=[late, late, calm])
    assert "eps decided when they come; 3 pairs" in text
    late_usual = ([100, 60000, 60100], [1e-3, 1e-7, 1.0])
    text = jumps_text(usual=[late_usual], small=[calm])
    assert "when they come, or whether" in text and "cannot tell a delay from an absence" in text
    assert "Tried so far: 1 of 6; no seed has both values of eps" in jumps_text(usual=[early])


def test_the_fall_of_the_loss_is_measured_before_it_levels_off():
    steps, losses = fold(2000)
    assert answers_jumps.folding({"step": steps, "train_loss": losses}) == pytest.approx(
        2000, rel=0.02)
    text = jumps_text(usual=[fold(2000)], small=[fold(1900, 60000)])
    assert re.search("eps 1e-08 in 20.. steps, as expected; with eps 1e-12 in 19.. steps", text)
    text = jumps_text(usual=[fold(2000)] * 2, small=[fold(2000), fold(500)])
    assert "steps, as expected with 1 of 2 seeds." in text
    assert "which is not what is expected: the explanation fails" in jumps_text(
        usual=[fold(300)], small=[fold(300)])
    short = ([100, 200], [0.5, 0.4])
    assert "with eps 1e-08 it is not seen to" in jumps_text(usual=[short], small=[short])
