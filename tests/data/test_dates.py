"""Dates in many forms, compared with texts by hand. No text can mean two days."""

import datetime

import numpy as np
import pytest

from npdl.data import dates
from npdl.data.dates import FORMS, Dates, format_date

DAY = datetime.date(2021, 3, 3)
BY_HAND = """\
3 Mar 2021|3 March 2021|03 Mar 2021|3rd March 2021|the 3rd of March, 2021|March 3, 2021
March 3rd, 2021|Mar 3, 2021|Mar 3rd 2021|2021 March 3|Wednesday, March 3, 2021
Wednesday, March 3rd, 2021|Wednesday 3 March 2021|Wednesday, the 3rd of March 2021
Wed 3 Mar 2021|Wed, Mar 3rd, 2021
Wed 03/03/21|03/03/2021|3/3/2021|03/03/21|3/3/21|03.03.2021|3.3.2021|03.03.21|3.3.21|03-03-2021
2021-03-03|3-Mar-21|3-Mar-2021|3 Mar 21|2021/03/03|2021-3-3|2021.03.03|20210303"""


def test_date_formats_by_hand():
    assert [format_date(DAY, form) for form in FORMS] == BY_HAND.replace("\n", "|").split("|")


def test_date_texts_are_unambiguous():
    """Only years, months and days that can be confused are tried."""
    years = (1950, 1999, *range(2000, 2013), 2031, 2049)
    days = [datetime.date(Y, m, d)
            for Y in years for m in range(1, 13) for d in (*range(1, 13), 28)]
    found = {}
    for day in days:
        for form in FORMS:
            assert found.setdefault(format_date(day, form).lower(), day) == day


@pytest.mark.parametrize("r_train", [0.9, 0.25])
def test_days_are_split_once(r_train):
    parts = Dates(r_train, seed=3).parts
    every = np.concatenate(list(parts.values()))
    assert len(set(every)) == len(every) == 36525
    assert len(parts["train"]) == round(36525 * r_train)
    assert set(parts["train"]) == set(Dates(r_train, seed=3).parts["train"])
    assert set(parts["train"]) != set(Dates(r_train, seed=4).parts["train"])
    assert list(Dates(1.0).parts) == ["train"]


def test_drawn_pairs_are_reproducible_and_in_their_set():
    data = Dates(0.5, seed=1)
    (texts, isos), again, other = (data.draw_pairs("validation", 50, 1, step) for step in (7, 7, 8))
    assert (texts, isos) == again != other
    days = {datetime.date.fromisoformat(iso) for iso in isos}
    assert {day.toordinal() for day in days} <= set(data.parts["validation"])
    for text, iso in zip(texts, isos, strict=True):
        day = datetime.date.fromisoformat(iso)
        assert text.lower() in {format_date(day, form).lower() for form in FORMS}
    assert len({case(text) == text for text in texts for case in dates.CASES}) == 2


def test_encoded_pairs_decode_to_their_texts():
    data = Dates()
    texts, isos = data.draw_pairs("train", 20, 0)
    source, lengths, target = data.encode_pairs(texts, isos)
    words = data.words
    assert source.shape == (20, lengths.max()) and target.shape == (20, 12)
    assert [words.source.decode(ids[:n]) for ids, n in zip(source, lengths, strict=True)] == [
        text + dates.END for text in texts]
    assert [words.decode(ids) for ids in target] == isos
    assert (target[:, 0] == words.bos).all() and (target[:, -1] == words.eos).all()
