"""Pairs of dates for translation: a date in one of many forms, and the same date in ISO 8601.

In 03/04/21 the month comes first. In 03.04.21 and 03-04-2021 the day comes first. A year with two
digits is between 1950 and 2049.
"""

import datetime
import string

import numpy as np

from npdl.backend import make_rng
from npdl.data.sequences import pad_with_lengths
from npdl.data.text import Characters
from npdl.errors import InputError
from npdl.options import require_fraction

FIRST, LAST = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# Y 2021, y 21; M March, m 3, b Mar, 0m 03; d 3, 0d 03, o 3rd; W Wednesday, w Wed
FORMS = (
    "{d} {b} {Y}", "{d} {M} {Y}", "{0d} {b} {Y}", "{o} {M} {Y}", "the {o} of {M}, {Y}",
    "{M} {d}, {Y}", "{M} {o}, {Y}", "{b} {d}, {Y}", "{b} {o} {Y}", "{Y} {M} {d}",
    "{W}, {M} {d}, {Y}", "{W}, {M} {o}, {Y}", "{W} {d} {M} {Y}", "{W}, the {o} of {M} {Y}",
    "{w} {d} {b} {Y}", "{w}, {b} {o}, {Y}", "{w} {0m}/{0d}/{y}", "{0m}/{0d}/{Y}", "{m}/{d}/{Y}",
    "{0m}/{0d}/{y}", "{m}/{d}/{y}", "{0d}.{0m}.{Y}", "{d}.{m}.{Y}", "{0d}.{0m}.{y}", "{d}.{m}.{y}",
    "{0d}-{0m}-{Y}", "{Y}-{0m}-{0d}", "{d}-{b}-{y}", "{d}-{b}-{Y}", "{d} {b} {y}", "{Y}/{0m}/{0d}",
    "{Y}-{m}-{d}", "{Y}.{0m}.{0d}", "{Y}{0m}{0d}",
)
CASES = (str, str, str.lower, str.upper)        # unchanged with a probability of 1/2
END = "\n"                                      # the last token of a source
LONGEST = 40                                    # tokens of a source; all FORMS are shorter


class DateWords:
    """The vocabularies of sources and targets.

    A source is a written date, followed by END, which shows that "May 2" is not the beginning of
    "May 21". A target is an ISO date between BOS and EOS.
    """

    source = Characters("".join(sorted(END + string.ascii_letters + string.digits + " ,-./")))
    target = ("-", *string.digits, "BOS", "EOS")
    bos, eos = target.index("BOS"), target.index("EOS")

    def encode(self, text):
        """Return the ids (S + 1,) of a written date of S characters, followed by END.

        Raises InputError for unknown characters, for an empty text, and for LONGEST or more
        characters.
        """
        if not 0 < len(text) < LONGEST:
            raise InputError(f"the date {text[:LONGEST]!r} has {len(text)} characters; give 1 to "
                             f"{LONGEST - 1}, such as 'March 3rd, 2021'")
        return self.source.encode(text + END)

    def decode(self, ids):
        """Return the text of target tokens, without BOS and EOS."""
        return "".join(self.target[i] for i in ids if i not in (self.bos, self.eos))


class Dates:
    """All days from FIRST to LAST, split into training and validation, written as texts.

        texts, isos = Dates(r_train=0.9, seed=0).draw_pairs("validation", 64, seed, step)

    `parts` is {"train": days, "validation": other days}. A day is an integer (date.toordinal). The
    fraction of days in "train" is r_train. Raises InputError unless 0 < r_train <= 1.
    """

    words = DateWords()

    def __init__(self, r_train=0.9, seed=0):
        require_fraction(r_train=r_train)
        days = FIRST.toordinal() + make_rng(seed, 5).permutation((LAST - FIRST).days + 1)
        cut = max(1, round(len(days) * r_train))
        parts = {"train": days[:cut], "validation": days[cut:]}
        self.parts = {name: part for name, part in parts.items() if len(part)}

    def draw_pairs(self, part, count, *key):
        """Draw `count` days of the set `part`, and return their texts and their ISO dates.

        `part` is "train" or "validation". The random numbers depend only on `key`.
        """
        rng = make_rng(*key)
        days = [datetime.date.fromordinal(day) for day in rng.choice(self.parts[part], count)]
        forms, cases = rng.integers(0, len(FORMS), count), rng.integers(0, len(CASES), count)
        return ([CASES[case](format_date(day, FORMS[form]))
                 for day, form, case in zip(days, forms, cases, strict=True)],
                [day.isoformat() for day in days])

    def encode_pairs(self, texts, isos):
        """Return the padded ids of the sources (B, S), their lengths (B,), and the target ids."""
        words = self.words
        source, lengths = pad_with_lengths([words.encode(text) for text in texts])
        target = [[words.bos, *map(words.target.index, iso), words.eos] for iso in isos]
        return source, lengths, np.array(target)


def format_date(day, form):
    """Return the text of a datetime.date in one of FORMS."""
    d, m, Y = day.day, day.month, day.year
    M, W = MONTHS[m - 1], WEEKDAYS[day.weekday()]
    ordinal = "th" if 11 <= d <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(d % 10, "th")
    return form.format_map({"Y": Y, "y": f"{Y % 100:02}", "M": M, "b": M[:3], "m": m,
                            "0m": f"{m:02}", "d": d, "0d": f"{d:02}", "o": f"{d}{ordinal}",
                            "W": W, "w": W[:3]})
