"""Plots: the numbers that they show, and one PNG file for each command."""

import numpy as np
import pytest

from npdl.__main__ import main
from npdl.core import named_layers
from npdl.layers.recurrent import LSTMCell
from npdl.losses import SequenceLoss
from npdl.study.plots import embedding_spectrum, flow, through_time
from npdl.study.plots.plotting import KINDS
from npdl.train.config import Config
from npdl.train.run import train
from npdl.train.task import make_model, make_task
from tests.tools.refusals import check_refused


@pytest.fixture(scope="module")
def run_folders(tmp_path_factory):
    """Return {name: folder} of three tiny runs; the run "text" is that of a GPT."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "play.txt").write_text("to be or not to be, " * 40)
    shape = dict(width=8, layers=2, heads=2, steps=4, batch=8, engine="plain", eval_every=2)
    runs = {"gpt": Config(p=5, **shape), "lstm": Config(model="lstm", p=5, **shape),
            "text": Config(text=str(folder / "play.txt"), block=8, **shape)}
    for name, config in runs.items():
        train(config, folder / name, quiet=True)
    return {name: str(folder / name) for name in runs}


@pytest.mark.slow
@pytest.mark.parametrize("what, model", [("flow", "text"), ("attention", "text"), *(
    (what, model) for what in KINDS for model in ("gpt", "lstm")[: 1 + (what != "gradients")])])
def test_each_command_writes_the_same_png_twice(run_folders, tmp_path, capsys, what, model):
    if (what, model) == ("attention", "lstm"):
        check_refused(main, ["plot", what, run_folders[model]], "has no attention", capsys)
        return
    run = [] if what == "gradients" else [run_folders[model]]
    paths = [tmp_path / "1.png", tmp_path / "2.png"]
    for path in paths:
        assert main(["plot", what, *run, "--out", str(path)]) == 0
        assert capsys.readouterr().out == f"{path}\n"
    assert paths[0].read_bytes() == paths[1].read_bytes() and b"PNG" in paths[0].read_bytes()[:8]


@pytest.mark.parametrize("words", [
    ["attention"], ["curves"], ["gradients", "somewhere"], ["flow", "nowhere"],
    ["gradients", "--steps", "0"], ["gradients", "--out", "a.pdf"],
    ["flow", "--text", "5"], ["flow"],
])
def test_bad_options_give_one_error_line_and_write_nothing(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    check_refused(main, ["plot", *words], "", capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("text", "error"), [
    ("1 + 2 =", ""), ("1 + 2 = 3 EOS 1 + 2", "with 1 to 6 tokens"), ("1 + 99 =", "unknown token")])
def test_attention_plot_takes_a_text_or_gives_an_error(run_folders, tmp_path, capsys, text, error):
    out = tmp_path / "a.png"
    status = main(["plot", "attention", run_folders["gpt"], "--text", text, "--out", str(out)])
    assert status == (2 if error else 0) and error in capsys.readouterr().err


def test_gradient_norms_agree_with_finite_differences(monkeypatch):
    monkeypatch.setattr(through_time, "WIDTH", 3)
    monkeypatch.setattr(through_time, "BATCH", 1)
    cell, steps = LSTMCell(3, 3, rng=1, dtype="float64"), 4
    norms = through_time.compute_gradient_norms(cell, steps, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((1, 3)) for _ in range(steps)]
    dh = rng.standard_normal((1, 3))

    def loss(state):
        for x in xs:
            state, _ = cell.forward(x, state)
        return (state[0] * dh).sum()

    moved = 1e-5 * np.eye(6).reshape(6, 2, 1, 3)
    slopes = [(loss(tuple(m)) - loss(tuple(-m))) / 2e-5 for m in moved]
    assert norms[0] == pytest.approx(np.linalg.norm(slopes), rel=1e-6)
    assert norms[-1] == pytest.approx(np.linalg.norm(dh))


@pytest.mark.parametrize("model", ["gpt", "lstm"])
def test_flow_shows_activations_and_gradients_and_leaves_the_model_alone(model):
    config = Config(model=model, p=5, width=8, layers=2, heads=2)
    task = make_task(config)
    network, samples = make_model(config, task), flow.choose_samples(task, config)
    ids, targets, counted = samples
    rows = {name: entry for name, *entry in flow.measure_layer_magnitudes(network, *samples)}
    loss = SequenceLoss("sum")
    logits = network.forward(ids)[0] if model == "gpt" else network.forward(ids)[0][0]
    _, c_loss = loss.forward(logits, targets, counted)
    np.testing.assert_array_equal(rows["classifier"][0], np.abs(logits).ravel())
    np.testing.assert_array_equal(rows["classifier"][1], np.abs(loss.backward(1.0, c_loss)).ravel())
    assert list(rows)[0] == "embedding" and list(rows)[-1] == "classifier"
    assert not any(part.grad.any() for _, part in network.params())
    assert not any("forward" in vars(layer) for _, layer in named_layers(network))


@pytest.mark.parametrize("p, k", [(31, 9), (8, 3), (8, 4), (2, 1)])
def test_spectrum_and_projection_find_the_circle_of_a_frequency(p, k):
    n = np.arange(p)
    waves = np.stack([wave(2 * np.pi * k * n / p) for wave in (np.cos, np.sin)]).T
    axes, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))
    shares = embedding_spectrum.compute_power_spectrum(waves @ axes.T + 7.0)
    assert len(shares) == p // 2 and shares[k - 1] == pytest.approx(1.0)
    if p == 31:
        radius = np.linalg.norm(embedding_spectrum.project_to_frequency(waves @ axes.T, k), axis=1)
        np.testing.assert_allclose(radius, 1.0)


def test_principal_components_are_those_of_the_covariance():
    table = np.random.default_rng(0).standard_normal((20, 5)) * [5, 3, 1, 1, 1]
    scores, share = embedding_spectrum.compute_principal_components(table)
    values = np.linalg.eigvalsh(np.cov(table.T, bias=True))[::-1]
    np.testing.assert_allclose(share, values[:2] / values.sum())
    np.testing.assert_allclose(scores.var(0), values[:2])
