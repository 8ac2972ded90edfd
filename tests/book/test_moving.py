"""Pictures with sliders: what the page computes is what npdl computes."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from docs.book import moving
from tests.tools import chromium

STATIC = Path(moving.__file__).parent / "static"


def page_of(name, folder):
    text = moving.figure(name, "What it shows").split("html\n", 1)[1].rpartition("</script>")[0]
    path = folder / f"{name}.html"
    path.write_text(f"<!doctype html><body>{text}</script>".replace(
        '<script src="../_static/moving.js">', f"<script>{(STATIC / 'moving.js').read_text()}"),
        encoding="utf-8")
    return path.as_uri()


@pytest.mark.slow
@pytest.mark.skipif(chromium.find() is None, reason="no browser")
def test_the_page_computes_what_npdl_computes(tmp_path):
    figure = "document.querySelector('[data-moving]')"
    with chromium.browser() as page:
        for name, (compute, _, sliders, _) in moving.MOVED.items():
            page.open(page_of(name, tmp_path), f"{figure} && {figure}.found")
            steps = [sorted({least, first, most}) for *_, least, most, _, first in sliders]
            for given in itertools.product(*steps):
                page.value(f"{list(given)}.forEach((v, n) => {{"
                           f"const slider = {figure}.querySelectorAll('input')[n];"
                           "slider.value = v; slider.dispatchEvent(new Event('input'))})")
                found = page.value(f"{figure}.found")
                for key, value in compute(*given).items():
                    np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-12,
                                               err_msg=f"{name} {given} {key}")
                said = page.value(f"Object.fromEntries([...{figure}.querySelectorAll('text[data-"
                                  "value]')].map(t => [t.dataset.value, t.textContent]))")
                assert said == {key: moving.shown(compute(*given)[key]) for key in said}, given
            page.value(f"{figure}.querySelector('input').focus()")
            before = page.value(f"{figure}.querySelector('output').textContent")
            page.press("ArrowLeft")
            assert page.value(f"{figure}.querySelector('output').textContent") != before
            assert page.complaints == []
