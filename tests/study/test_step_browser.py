"""The page in a real browser: it opens, steps, plays, and asks for nothing."""

import time

import numpy as np
import pytest

from npdl.layers.recurrent import LSTM
from npdl.study.step.step import step
from tests.study.test_step import Fails, Hostile
from tests.tools.chromium import find_browser, open_page

pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    find_browser() is None, reason="no Chromium; on Debian: apt-get install chromium")]
NOW = "document.querySelector('.lane.active .row.now')"
AT = "Number(document.body.dataset.step)"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    walks = {"lstm": step(LSTM(2, 3), np.random.default_rng(0).standard_normal((2, 3, 2))),
             "fails": step(Fails(3, 4), np.ones((5, 3))),
             "hostile": step(Hostile(), np.ones((2, 2)))}
    return {name: walk.to_html(folder / f"{name}.html") for name, walk in walks.items()}


@pytest.fixture(scope="module")
def tab():
    with open_page() as page:
        page.resize(1300, 850)
        yield page


@pytest.mark.parametrize("name", ["lstm", "fails"])
def test_every_step_shows_its_line_and_arrays(tab, pages, name):
    tab.open(pages[name].as_uri())
    count = tab.evaluate("Number(document.getElementById('slider').max) + 1")
    assert count >= 3
    broken = tab.evaluate("""(() => { const slider = document.getElementById('slider'), bad = [];
        for (let i = 0; i <= Number(slider.max); i++) {
          slider.value = i; slider.dispatchEvent(new Event('input'));
          const row = document.querySelector('.lane.active .row.now');
          const shown = document.querySelectorAll('#written .heat, #written .error').length;
          if (!row || !shown || Number(document.body.dataset.step) !== i) bad.push(i);
        } return bad; })()""")
    assert broken == [] and not tab.complaints
    assert all(url.startswith("file://") and url.endswith(".html") for url in tab.requests)


def test_keys_move_between_steps_and_play(tab, pages):
    tab.open(pages["lstm"].as_uri() + "#keys")
    for key, wanted in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Home", 0)):
        tab.press(key)
        assert tab.evaluate(AT) == wanted
    tab.press("End")
    last = tab.evaluate(AT)
    assert last == tab.evaluate("Number(document.getElementById('slider').max)")
    tab.press(" ")                                      # from the end, play starts again
    assert tab.evaluate("document.body.dataset.playing") == "yes"
    tab.wait(f"{AT} >= 1", 10)
    tab.press(" ")
    at = tab.evaluate(AT)
    time.sleep(1.2)
    assert tab.evaluate(AT) == at and tab.evaluate("document.body.dataset.playing") == "no"


def test_a_loop_is_followed_turn_by_turn(tab, pages):
    tab.open(pages["lstm"].as_uri() + "#turns")
    tab.evaluate("""[...Array(200)].some(() => { document.getElementById('on').click();
        const row = document.querySelector('.lane.active .row.now');
        return row && row.textContent.includes('do = dh'); })""")
    line = tab.evaluate(f"{NOW}.dataset.line")
    turns = [tab.evaluate("document.getElementById('turn').textContent")]
    for _ in range(2):
        tab.press("ArrowDown")
        assert tab.evaluate(f"{NOW}.dataset.line") == line
        turns.append(tab.evaluate("document.getElementById('turn').textContent"))
    assert [t[-5:] for t in turns] == ["t = 2", "t = 1", "t = 0"]
    assert tab.evaluate("document.getElementById('turn-on').disabled")
    assert "the gradient of o" in tab.evaluate("document.getElementById('written').textContent")
    assert tab.evaluate("document.querySelector('#forward .row.pair').textContent").strip()


def test_an_exception_is_shown(tab, pages):
    tab.open(pages["fails"].as_uri() + "#error")
    verdict = tab.evaluate("document.getElementById('verdict').textContent")
    assert "layer raised ValueError" in verdict
    tab.press("w")
    assert "self.W.grad" in tab.evaluate(f"{NOW}.textContent")
    assert "raised ValueError" in tab.evaluate("document.getElementById('written').textContent")
    tab.open(pages["hostile"].as_uri())                 # its error's text opens a comment and a tag
    assert "<!-- <script" in tab.evaluate("document.getElementById('verdict').textContent")
