"""Pictures of learning: the numbers that they show, and one PNG for each command."""

import numpy as np
import pytest

from npdl.__main__ import main
from npdl.errors import InputError
from npdl.layers.recurrent import GRUCell, LSTMCell, RNNCell
from npdl.losses import SequenceLoss
from npdl_study.plots import embedding_spectrum, flow, style, through_time
from npdl_study.plots.plotting import KINDS, plot
from npdl_train.runs.config import Config
from npdl_train.runs.run import load_run, train
from npdl_train.runs.task import make_model, make_task

MOST_BYTES = 120_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """{model: folder} of two tiny runs."""
    folder = tmp_path_factory.mktemp("runs")
    for model in ("gpt", "lstm"):
        config = Config(model=model, p=5, width=8, layers=2, heads=2, steps=4, batch=8,
                        eval_every=2, threads=1)
        train(config, folder / model, quiet=True)
    return {model: str(folder / model) for model in ("gpt", "lstm")}


def command(*words):
    return main(["plot", *(str(word) for word in words)])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gpt", "lstm"])
@pytest.mark.parametrize("what", KINDS)
def test_each_command_writes_a_png(runs, tmp_path, capsys, what, model):
    if (what, model) == ("attention", "lstm"):
        assert command(what, runs[model]) == 2
        assert "has no attention" in capsys.readouterr().err
        return
    path = tmp_path / f"{what}.png"
    run = [] if what == "gradients" else [runs[model]]
    assert command(what, *run, "--out", path) == 0
    assert capsys.readouterr().out == f"{path}\n"
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG") and 5_000 < len(data) < MOST_BYTES
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(runs, tmp_path):
    one, two = (plot("embeddings", runs["gpt"], tmp_path / f"{i}.png") for i in range(2))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("n", [2, 31, 100])
def test_labels_stand_apart(n):
    even = 2 * np.pi * np.arange(n) / n - 3
    moved = np.sort(embedding_spectrum.apart(np.zeros(n)) % (2 * np.pi))
    assert np.diff(moved).min() > 0.9 * min(embedding_spectrum.NEAREST, 2 * np.pi / n)
    np.testing.assert_array_equal(embedding_spectrum.apart(even), even)


@pytest.mark.parametrize("words", [
    ["attention"], ["embeddings"], ["curves"], ["gradients", "somewhere"], ["flow", "nowhere"],
    ["curves", "nowhere"], ["gradients", "--steps", "1"], ["flow", "--text", "5"],
    ["flow", "--depth", "0"],
])
def test_bad_options_are_one_line(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    assert command(*words) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_attention_reads_the_text_that_is_given(runs, tmp_path):
    plot("attention", runs["gpt"], tmp_path / "a.png", text="1 + 2 =")
    with pytest.raises(InputError, match="give 1 to"):
        plot("attention", runs["gpt"], tmp_path / "b.png", text="1 + 2 = 3 EOS 1 + 2")
    with pytest.raises(InputError, match="unknown token"):
        plot("attention", runs["gpt"], tmp_path / "b.png", text="1 + 99 =")
    assert not (tmp_path / "b.png").exists()


@pytest.mark.parametrize("cls", [RNNCell, GRUCell, LSTMCell])
def test_gradient_norms_are_those_of_the_outputs(cls, monkeypatch):
    """||dL/dstate_0|| by differences through the whole chain."""
    monkeypatch.setattr(through_time, "WIDTH", 3)
    monkeypatch.setattr(through_time, "BATCH", 1)
    cell, steps = cls(3, 3, rng=1, dtype="float64"), 4
    norms = through_time.gradient_norms(cell, steps, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((1, 3)) for _ in range(steps)]
    dh = rng.standard_normal((1, 3))
    assert norms[-1] == pytest.approx(np.sqrt((dh * dh).sum()))

    def loss(state):
        for x in xs:
            state, _ = cell.forward(x, state)
        return ((state[0] if isinstance(state, tuple) else state) * dh).sum()

    slopes, parts = [], cell.parts
    for i in range(3 * parts):
        nudge = np.zeros((parts, 1, 3))
        nudge.ravel()[i] = 1e-5
        above, below = (loss(tuple(s) if parts > 1 else s[0]) for s in (nudge, -nudge))
        slopes.append((above - below) / 2e-5)
    assert norms[0] == pytest.approx(np.linalg.norm(slopes), rel=1e-6)


def test_remembering_cells_carry_the_gradient_further():
    ends = {}
    for prepare in (through_time.start, through_time.remember):
        for name, (cls, _) in through_time.CELLS.items():
            ends[prepare, name] = through_time._curve(cls, prepare, 30, 0)[-1]
    for name in through_time.CELLS:
        assert ends[through_time.remember, name] > 1e3 * ends[through_time.start, name]
    assert ends[through_time.start, "RNN"] < 1e-3 * ends[through_time.start, "LSTM"]


@pytest.mark.parametrize("model", ["gpt", "lstm"])
def test_flow_shows_what_the_layers_compute(model):
    config = Config(model=model, p=5, width=8, layers=2, heads=2)
    task = make_task(config)
    network, samples = make_model(config, task), flow.some_samples(task, config)
    ids, targets, counted = samples
    rows = {name: entry for name, *entry in flow.flow(network, *samples)}
    loss = SequenceLoss("sum")
    out, _ = network.forward(ids)
    logits = out if model == "gpt" else out[0]
    _, c_loss = loss.forward(logits, targets, counted)
    dlogits = loss.backward(1.0, c_loss)
    np.testing.assert_array_equal(rows["classifier"][0], np.abs(logits).ravel())
    np.testing.assert_array_equal(rows["classifier"][1], np.abs(dlogits).ravel())
    assert list(rows)[0] == "embedding" and list(rows)[-1] == "classifier"
    assert not any("dropout" in name for name in rows)
    for _, part in network.params():
        assert not part.grad.any()
    for _, layer in flow.named_layers(network):
        assert "forward" not in vars(layer) and "backward" not in vars(layer)


def test_a_long_title_and_every_dot_can_be_read():
    made = style.figure(6.4, 6, "Embeddings: " + "a text of a long name, " * 6)
    embedding_spectrum._points(axes := made.subplots(), np.eye(3)[:, :2], [" ", "\n", "'"])
    made.canvas.draw()
    box = made._suptitle.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= made.bbox.width
    assert [text.get_text() for text in axes.texts] == ["␣", "\\n", "'"]


def test_the_spectrum_of_a_wave_is_one_line():
    for p, k in [(31, 9), (8, 3), (8, 4), (2, 1)]:
        n = np.arange(p)
        wave = np.cos(2 * np.pi * k * n / p), np.sin(2 * np.pi * k * n / p)
        table = np.stack(wave).T @ np.random.default_rng(0).standard_normal((2, 6)) + 7.0
        shares = embedding_spectrum.spectrum(table)
        assert len(shares) == p // 2
        assert shares[k - 1] == pytest.approx(1.0)


def test_the_spectrum_of_noise_is_even():
    table = np.random.default_rng(0).standard_normal((12, 40_000))
    shares = embedding_spectrum.spectrum(table)           # k = 6 has no partner p - k: half as much
    np.testing.assert_allclose(shares, np.array([2, 2, 2, 2, 2, 1]) / 11, rtol=0.03)


def test_the_plane_of_a_frequency_holds_its_circle():
    n = np.arange(31)
    axes, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))
    table = np.stack([np.cos(2 * np.pi * 9 * n / 31), np.sin(2 * np.pi * 9 * n / 31)]).T @ axes.T
    radius = np.linalg.norm(embedding_spectrum.circle(table, 9), axis=1)
    np.testing.assert_allclose(radius, 1.0)


def test_principal_components_are_those_of_the_covariance():
    table = np.random.default_rng(0).standard_normal((20, 5)) * [5, 3, 1, 1, 1]
    scores, share = embedding_spectrum.principal(table)
    values = np.linalg.eigvalsh(np.cov(table.T, bias=True))[::-1]
    np.testing.assert_allclose(share, values[:2] / values.sum())
    np.testing.assert_allclose(scores.var(0), values[:2])


def test_a_run_that_was_loaded_is_left_as_it_was(runs, tmp_path):
    run = load_run(runs["gpt"])
    before = run.model.state_dict()
    flow.plot_flow(run.config, run.task, "title", run.model)
    for name, array in run.model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_labels_in_any_script_can_be_read(capsys):
    """Of a font that has them, or as code points: no character is an empty box."""
    from matplotlib.font_manager import findfont, get_font

    labels, families = style.readable(["é", "д", "ع", "\U000fffff", "a\U000fffff"])
    assert labels == ["é", "д", "ع", "U+FFFFF", "aU+FFFFF"]
    assert "has \U000fffff: shown as code points" in capsys.readouterr().err
    for label in labels:
        assert not set(label).intersection(*(style.lacks(get_font(findfont(family)), set(label))
                                             for family in families))
