"""What the laboratory's records are taken to say, on made-up ones."""

import math

import numpy as np
import pytest

from experiments.grokking import answers, collapse, curvature, forks, phases, pictures
from experiments.grokking.paired import paired
from experiments.study.measures import L_TRAIN
from npdl_train.runs.config import Config
from npdl_train.runs.loop import Trainer
from npdl_train.runs.task import make_model, make_task


# --- pairs ----------------------------------------------------------------------------------------
def test_a_paired_difference_has_an_interval():
    before = {0: 4000, 1: 5000, 2: 4500}
    found = paired(before, {0: 2000, 1: 2600, 2: 2200, 7: 1})
    assert found.mean == pytest.approx(-0.299, abs=1e-3) and 0 < found.half < 0.1
    assert found.word() == "sooner"
    assert paired({0: 1, 1: 1}, {0: 100, 1: 101}).word() == "later"
    assert paired(before, {0: 2000, 1: 9000}).word() == "open"
    one = paired({0: 200}, {0: 100})
    assert one.factor() == "0.50 (one pair)" and one.word() == "open"
    assert paired({}, {}).word() == "open" and paired({}, {}).factor() == "-"


def test_a_seed_that_never_generalises_counts():
    never, five = math.inf, dict.fromkeys(range(5), 4000)
    found = paired(five, dict.fromkeys(range(5), never))
    assert found.word() == "open" and found.factor() == "-"        # five signs cannot decide
    ten = dict.fromkeys(range(10), never)
    assert paired(ten, {**ten, **five}).word() == "open"
    assert paired(ten, dict.fromkeys(range(10), 4000)).word() == "sooner"
    assert paired(dict.fromkeys(range(10), 4000), ten).word() == "later"


# --- the circuit ----------------------------------------------------------------------------------
def circuit(excluded, whole=1e-3, **more):
    """A record that is memorised at step 100 and shows its circuit at 300."""
    steps = [1, 100, 200, 300, *range(400, 3400, 100)]
    count = len(steps)
    tail = excluded + [excluded[-1]] * (count - len(excluded))
    return {"step": steps, "train_accuracy": [0.1] + [1.0] * (count - 1),
            "train_loss": [3.0, *[whole] * (count - 1)], "excluded": tail,
            "validation_accuracy": [0.0] * 4 + [1.0] * (count - 4),
            "fresh_circuit": [3.5, 3.5, 3.5] + [0.1] * (count - 3),
            "fresh_loss": [3.5] * 4 + [0.1] * (count - 4),
            "l2_norm": [80.0, 80.0, 60.0, 40.0] + [20.0] * (count - 4), **more}


def test_to_rely_on_the_strongest_frequencies_is_more_than_to_lose_by_random_ones():
    low, high = [3.0, *[0.05] * 15], [3.0, *[0.05] * 15, 0.4]
    assert answers.relies(circuit(high)) is None                    # no control was made
    assert answers.relies(circuit(high, above_random=[0.5, 1.0]))
    assert not answers.relies(circuit(high, above_random=[1.0, 0.6]))
    assert not answers.relies(circuit(low, above_random=[1.0, 1.0]))


def test_the_share_of_the_norms_fall_after_the_circuit():
    assert answers.cleanup(circuit([1.0])) == pytest.approx(0.5)    # 80 to 40, then 40 to 20


def test_the_control_has_a_row_for_each_seed():
    made = circuit([3.0, *[0.05] * 15, 0.4], random=[0.1], above_random=[1.0])
    table = answers.control_values({42: made})["control"]
    assert [row[-1] for row in table.rows] == ["not made yet"] * 4 + ["yes"]


# --- late jumps -----------------------------------------------------------------------------------
def falling(level_at, jump_at, lowest):
    """A loss that falls tenfold in 1000 steps to `level_at`, stays, and jumps."""
    steps = list(range(100, jump_at + 200, 100))
    losses = [max(lowest, lowest * 10 ** ((level_at - step) / 1000)) for step in steps]
    losses[-1] = 1.0
    return {"step": steps, "train_loss": losses, "train_accuracy": [1.0] * len(steps)}


def test_where_a_loss_levels_off_is_another_event_than_its_jump():
    one = falling(5000, 9000, 1e-8)
    assert answers.levelled(one) == 4700                            # the first within twice it
    assert answers.jumped(one) == 9000
    found = {1e-8: {0: one, 1: one}, 1e-12: {0: falling(9000, 20000, 1e-12)}}
    assert answers.delays(found) == {1e-12: {0: 4000}}
    assert answers.predicted(1e-12) == pytest.approx(18420.7, abs=0.1)
    assert answers.predicted(1e-10) == pytest.approx(9210.3, abs=0.1)
    near, early, level = answers.jumps_facts(found).values()
    assert not near and not early and level
    table = answers.jumps_values(found)["jumps table"]
    assert table.rows[0][:4] == ("1e-08", "0", "4700", "")
    assert [row[2] for row in table.rows if row[0] == "1e-10"] == ["not made yet"] * 3
    assert table.rows[6][3] == "4,000" and table.rows[6][-1] == "18,421"


# --- softmax collapse -----------------------------------------------------------------------------
def test_precisions_are_compared_at_the_same_epoch():
    one = {"step": [100, 2500, 10000], "validation_accuracy": [0.1, 0.3, 0.9]}
    assert answers.best({0: one}) == [0.9] and answers.best({0: one}, answers.LIKE) == [0.3]
    assert collapse.ARMS["float16-70"].epochs == answers.LIKE


def test_every_arm_has_its_place_in_the_figure():
    placed = [arm for arms in pictures.COLUMNS.values() for arm in arms]
    assert sorted(placed) == sorted(collapse.ARMS)


def test_every_eps_has_its_trials():
    eps = [trial.facts["eps"] for trial in phases.TRIALS if trial.facts["kind"] == "jumps"]
    assert {one: eps.count(one) for one in eps} == dict.fromkeys(phases.EPS, 3)


# --- the curvature that AdamW sees ----------------------------------------------------------------
def test_a_fall_is_a_crossing_and_the_tenfold_loss_after_it():
    columns = {"step": [0, 10, 20, 30, 40, 50, 60, 70],
               "loss": [1e-4, 2e-4, 3e-3, 1e-3, 2e-4, 2e-4, 2.1e-4, 3e-3],
               "lr_curvature": [5.0, 40.0, 900.0, 50.0, 10.0, 37.9, 38.1, 500.0]}
    assert answers.falls(columns) == [(1, 2), (6, 7)]
    assert answers.falls({name: values[:1] for name, values in columns.items()}) == []
    assert all(answers.curvature_facts(columns).values())
    assert answers.curvature_values(columns)["falls"] == "two"
    late = {**columns, "loss": [1e-4, 2e-4, 2e-4, 2e-4, 3e-3, 2e-4, 2.1e-4, 3e-3]}
    assert not all(answers.curvature_facts(late).values())


def test_the_curvature_is_an_eigenvalue_of_the_hessian_as_adam_divides_it():
    """Of the whole matrix, made column by column, with the root of v_hat worked out anew."""
    config = Config(p=2, width=2, heads=1, layers=1, multiplier=1, steps=3, r_train=1.0,
                    engine="plain", dtype="float64")
    trainer = Trainer(config)
    for _ in range(3):
        trainer.update()
    hessian = curvature.Hessian(config)
    theta = {name: p.data.copy() for name, p in trainer.model.params()}
    sizes = [array.size for array in theta.values()]

    def cut(vector):
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return {name: part.reshape(theta[name].shape)
                for name, part in zip(theta, parts, strict=True)}

    def joined(arrays):
        return np.concatenate([array.ravel() for array in arrays.values()])

    H = np.array([joined(hessian.product(theta, cut(row))) for row in np.eye(sum(sizes))])
    assert np.abs(H - H.T).max() < 1e-3 * np.abs(H).max()         # differences of a finite size
    root = np.sqrt(np.sqrt(joined(trainer.optimizer.v) / (1 - 0.999**3)) + 1e-8)
    values, vectors = np.linalg.eigh((H + H.T) / 2 / root[:, None] / root)
    for i in (0, -1):
        record, u = curvature.measured(hessian, trainer, cut(vectors[:, i]), 1)
        assert record["lr_curvature"] == pytest.approx(1e-3 * values[i], rel=1e-3)
        np.testing.assert_allclose(joined(u), values[i] * vectors[:, i],
                                   atol=5e-3 * abs(values[i]))
    assert record["step"] == 3 and record["gradient_norm"] > 0


def test_a_fork_is_one_number_one_last_digit_away():
    def model():
        return make_model(forks.CONFIG, make_task(forks.CONFIG))
    forked = model()
    forks.nudge(forked, 3)
    before, after = dict(model().params()), dict(forked.params())
    moved = {name: np.flatnonzero(before[name].data != p.data) for name, p in after.items()}
    assert {name: len(places) for name, places in moved.items() if len(places)} == {forks.MOVED: 1}
    was, now = (params[forks.MOVED].data.ravel()[moved[forks.MOVED]] for params in (before, after))
    assert now == np.nextafter(was, np.float32(np.inf)) and now.dtype == np.float32


def test_what_forks_and_seeds_say(monkeypatch):
    """Roundings 5000 and 6000, seeds 5000 and never (10,001)."""
    def columns(step):
        return {"step": [1, 5000, 6000, 10001], L_TRAIN: [1.0, 0.5, 0.4 * (step == 6000), 0.1],
                "validation_accuracy": [0.0, *(0.95 * (t >= step) for t in (5000, 6000, 10001))]}
    found = {"trunk": columns(5000), "fork0": columns(6000), "seed1": columns(math.inf)}
    monkeypatch.setattr(forks, "records", lambda *_: {
        name: {"columns": c} for name, c in found.items()})
    assert forks.steps() == {"roundings": [5000, 6000], "seeds": [5000, math.inf]}
    assert forks.left_trunk() == [6000]
    assert forks.deviations() == pytest.approx({
        "roundings": math.log10(1.2) / math.sqrt(2), "seeds": math.log10(2.0002) / math.sqrt(2)})
