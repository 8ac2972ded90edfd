"""Blame on mistakes of meaning, in every style that students write: a sample, and all of it."""

import re
import warnings

import pytest

from npdl_study.blame.blame import blame
from npdl_study.check.target import build
from tests.tools import slow
from tests.tools.blame_corpus import run, table
from tests.tools.corpus_files import MARK, STYLES, cases, layers, pairs, whole_files

ON_LINE, DIAGNOSED = 0.9, 0.7
QUICK = ("powers",)
SURE = (*QUICK, "rnn_naive", "vae_heads")       # the diagnosis is that of the file's first line


def assert_kept(results):
    """The promises: lines, diagnoses, nothing wrong called right, nothing right accused."""
    wrong = [found for found in results if not found.case.change.right]
    said = table(results)
    assert not [str(f.case) for f in wrong if f.right], "wrong layers that were called right"
    assert not [str(f.case) for f in results if f.case.change.right and f.accused]
    assert sum(f.on_line for f in wrong) >= ON_LINE * len(wrong), said
    assert sum(f.diagnosed for f in wrong) >= DIAGNOSED * len(wrong), said


def test_the_corpus_is_what_it_promises():
    sources = layers()
    mistakes = [change for s in sources for change in s.changes if not change.right]
    right = len(sources) + sum(change.right for s in sources for change in s.changes)
    assert len(sources) >= 12 and len(mistakes) >= 60 and right >= 40
    assert all(len(change.styles) >= 3 for change in mistakes)
    assert all(case.lines or case.change.right for case in cases())


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_one_mistake_in_every_style(style, tmp_path):
    case = next(c for c in cases(("layernorm",), (style,)) if c.change.name == "mean-constant")
    found, = run([case], tmp_path)
    assert found.on_line and found.report.new


@pytest.mark.parametrize("file", slow.but(QUICK, whole_files()))
def test_whole_files_in_no_style_of_ours(file, tmp_path):
    text, path = whole_files()[file], tmp_path / f"{file}.py"
    name, says = re.match(r"# (\w+): (.*)", text).groups()
    path.write_text(text.replace(f"  {MARK}", ""))
    layer, inputs, options = build(f"{path}:{name}")
    report = blame(layer, *inputs, **options)
    marked = [n for n, line in enumerate(text.splitlines(), 1) if line.endswith(MARK)]
    assert not report.right, str(report)
    assert report.line in marked, str(report)
    if file in SURE:
        assert re.search(says, report.diagnosis) or report.new, str(report)


def test_no_edit_warns(tmp_path):
    case = next(c for c in cases(("relu_block",), ("tuple",)) if c.change.name == "mask-of-dh")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found, = run([case], tmp_path)
    assert found.on_line and not warned


@pytest.mark.slow
def test_a_part_of_the_corpus(tmp_path):
    """One in 30; `python -m tests.tools.blame_corpus` does all of it."""
    assert_kept(run(list(cases())[7::30], tmp_path))


PAIRS = ("attention/value-transposed+key-transposed/cache",
         "highway/gate-slope+relu-forgotten/cache", "rnn/truncated+slope-of-previous/dict")


@pytest.mark.slow
@pytest.mark.parametrize("name", slow.but(PAIRS[:1], PAIRS))
def test_of_two_mistakes_both_are_named(name, tmp_path):
    case = next(c for c in pairs() if str(c) == name)
    found, = run([case], tmp_path)
    assert {found.report.line, found.report.second} == set(case.lines), str(found.report)
    assert "every gradient is right" not in found.report.diagnosis and not found.report.new


@pytest.mark.slow
def test_pairs_are_found_on_one_of_their_lines(tmp_path):
    results = run(list(pairs())[::36], tmp_path)
    assert not [str(f.case) for f in results if f.right or f.promised == "broken"]
    assert sum(f.on_line for f in results) >= ON_LINE * len(results), table(results)
