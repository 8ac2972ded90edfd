"""Pictures with sliders show the same values that npdl computes."""

import itertools
import json
import re

import numpy as np
import pytest

from docs.book.pictures import DRAWINGS
from docs.book.trained import descend_valley
from npdl import SGD, AdamW, LSTMCell, ScaledDotAttention
from tests.tools import chromium


def compute_gate(data, forget, take, show):
    """Run an LSTM cell of one unit with these values of the gates before their sigmoids."""
    cell = LSTMCell(1, 1, dtype="float64")
    cell.W_x.data[...], cell.W_h.data[...] = 0, 0
    cell.b.data[...] = [take, forget, show, np.arctanh(data["offered"])]
    zero, one = np.zeros((1, 1)), np.ones((1, 1))
    (h, c), cache = cell.forward(zero, (zero, np.array([[data["held"]]])))
    _, (_, dc_prev) = cell.backward((one, zero), cache)
    found = {"f": cache.f, "i": cache.i, "o": cache.o, "c": c, "h": h, "back": dc_prev}
    return {name: float(value[0, 0]) for name, value in found.items()}


def compute_attention(data, temperature, hidden):
    """Compute the attention of one query to five keys, the last `hidden` of which are masked."""
    keys, values = (np.array(data[name])[:, None] for name in ("scores", "values"))
    mask = np.arange(len(keys)) < len(keys) - hidden
    y, cache = ScaledDotAttention().forward(np.array([[1 / temperature]]), keys, values, mask[None])
    return {f"A{k}": float(share) for k, share in enumerate(cache.A[0])} | {"y": float(y[0, 0])}


def compute_paths(data, sgd, adamw):
    """Return the paths of SGD and AdamW with these learning rates."""
    paths = {"SGD": descend_valley(lambda model: SGD(model, sgd), data["steps"]),
             "AdamW": descend_valley(lambda model: AdamW(model, adamw, weight_decay=0.0),
                                     data["steps"])}
    return paths | {f"{name}_end": float(np.hypot(*path[-1])) for name, path in paths.items()}


MOVED = {"gate": compute_gate, "shares": compute_attention, "valley": compute_paths}


def read_drawing(name):
    """Return a picture's HTML, what its script knows, and its sliders as (least, most, first)."""
    text = (DRAWINGS / f"{name}.html").read_text(encoding="utf-8")
    sliders = [tuple(map(float, found)) for found in re.findall(
        r'min="([-.\d]+)" max="([-.\d]+)" step="[.\d]+" value="([-.\d]+)"', text)]
    return text, json.loads(re.search(r'json">(.*?)<', text)[1]), sliders


def format_number(value):
    """Format a number as the page's script does."""
    return f"{value:.3f}".replace("-", "−") if value < 1000 else "over 1000"


@pytest.mark.parametrize("name", MOVED)
def test_the_picture_shows_at_first_what_npdl_computes(name):
    text, known, sliders = read_drawing(name)
    found = MOVED[name](known, *(first for _, _, first in sliders))
    said = dict(re.findall(r'data-value="(\w+)">([^<]+)<', text))
    assert said and said == {key: format_number(found[key]) for key in said}
    bars = r'data-bar="(\w+)" data-from="(\d+)" data-unit="(\d+)".* x="(.*?)" width="(.*?)"'
    for key, x, unit, left, width in re.findall(bars, text):
        np.testing.assert_allclose((float(left), float(width)), (
            int(x) + min(0, found[key]) * int(unit), abs(found[key]) * int(unit)), rtol=1e-4)
    for points, key in re.findall(r'points="([^"]*)".* data-path="(\w+)"', text):
        at = np.array([point.split(",") for point in points.split()], float)
        np.testing.assert_allclose(at, [175, 125] + np.array(found[key]) * [75, -130], atol=0.051)


@pytest.mark.slow
@pytest.mark.skipif(chromium.find_browser() is None, reason="no browser")
@pytest.mark.parametrize("name", MOVED)
def test_the_page_computes_what_npdl_computes(name, tmp_path):
    figure, path = "document.querySelector('figure')", tmp_path / "picture.html"
    script = (DRAWINGS.parent / "static" / "moving.js").read_text(encoding="utf-8")
    text, known, sliders = read_drawing(name)
    with chromium.open_page() as page:
        path.write_text(f"<!doctype html><body><figure>{text}</figure>".replace(
            '<script src="../_static/moving.js">', f"<script>{script}"), encoding="utf-8")
        page.open(path.as_uri(), f"{figure} && {figure}.found")
        for given in itertools.product(*(sorted(set(slider)) for slider in sliders)):
            page.evaluate(f"{list(given)}.forEach((v, n) => {{"
                          f"const slider = {figure}.querySelectorAll('input')[n];"
                          "slider.value = v; slider.dispatchEvent(new Event('input'))})")
            found, expected = page.evaluate(f"{figure}.found"), MOVED[name](known, *given)
            for key, value in expected.items():
                np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-12,
                                           err_msg=f"{name} {given} {key}")
            said = page.evaluate(f"Object.fromEntries([...{figure}.querySelectorAll('text[data-"
                                 "value]')].map(t => [t.dataset.value, t.textContent]))")
            assert said == {key: format_number(expected[key]) for key in said}, given
        page.evaluate(f"{figure}.querySelector('input').focus()")
        before = page.evaluate(f"{figure}.querySelector('output').textContent")
        page.press("ArrowLeft")
        assert page.evaluate(f"{figure}.querySelector('output').textContent") != before
        assert page.complaints == []
