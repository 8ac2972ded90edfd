"""Blame on mistakes that people made in their own backwards, and mended: a few, and all."""

import re

import pytest

from tests.tools.real_mistakes import asked, cases, measured, place, table

ON_LINE = 0.7
QUICK = ("exp-without-upstream", "gru-reset-twice", "exponential-times-its-argument",
         "unsqueeze-compares-and-does-not-assign", "difference-of-a-table-and-a-column")
UNPROVED = {                        # what no change proves is found by the gradients that it moves
    "max-pool-at-the-place-in-its-window": "where it does is wrong",
    "sum-gives-only-ones": "wrong gradients alone",
    "product-with-the-other-gradient": "other.grad, which is None",
    "conv-strides-that-leave-a-remainder": "the line read ad",
    "dense-layer-clips-the-error-by-the-error": "what it hands over",
}


def test_the_sets_are_what_they_promise():
    found = cases()
    assert sum(case.set in ("open", "held") for case in found) >= 20
    assert len({case.name for case in found}) == len(found)
    for case in found:
        assert case.source and re.search(rf"class {case.ask}\b|def {case.ask}_forward\(",
                                         case.text()), case.name
        compile(case.text(), case.name, "exec")
        compile(case.text(mended=True), case.name, "exec")
        re.compile(case.says)
        assert case.right == (not case.mend) == (case.text() == case.text(mended=True)), case.name
        assert case.gradients or not case.right, case.name
        written = case.text().splitlines()
        assert all(written[n - 1].strip() for n in case.lines), case.name


def test_an_answer_is_put_where_it_points():
    case = next(c for c in cases(("open",)) if c.name == "gru-reset-twice")
    line, = case.lines
    told = {"right": False, "line": line, "either": []}
    assert place(case, told) == "on the line"
    assert place(case, told | {"line": line + 1, "either": [line, line + 1]}) == "beside"
    assert place(case, told | {"line": line + 1}) == "elsewhere"
    assert place(case, told | {"right": True}) == "called right"
    assert place(case, {"refused": "no"}) == "no line"


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_mistake_is_found_and_its_mend_is_true(name, tmp_path):
    case = next(c for c in cases() if c.name == name)
    found = measured(case, tmp_path, asked)
    assert found["place"] == "on the line" and found["mend"] and found["kept"]


@pytest.mark.slow
@pytest.mark.parametrize("name", UNPROVED)
def test_without_a_proof_the_line_is_found(name, tmp_path):
    case = next(c for c in cases() if c.name == name)
    found = measured(case, tmp_path, asked)
    assert found["place"] == "on the line" and UNPROVED[name] in found["told"]["diagnosis"], found


@pytest.mark.slow
def test_the_score(tmp_path):
    """Of one in six; `python -m tests.tools.real_mistakes --show` tells each of all."""
    results = [measured(case, tmp_path) for case in cases(("open", "held"))[::6]]
    on_line = sum(found["place"] == "on the line" for found in results)
    assert on_line >= ON_LINE * len(results), table(results)
    assert not [found["case"].name for found in results if found["place"] == "called right"]
