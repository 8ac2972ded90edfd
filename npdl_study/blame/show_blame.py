"""A Blame as HTML, for a notebook: no script, no style sheet, no id: several can stand in one."""

import html
import linecache

import numpy as np

from npdl_study.containment import message

AROUND = 4                      # lines that are shown before and after the one at fault
SMALL = 1e-3                    # smaller numbers are written as 1.2e-07
GOOD, BAD = "#2e7d3233", "#c6282833"


def blame_html(report):
    """What a Blame found: its line marked among its neighbours, the numbers, the diagnosis."""
    said = str(report)
    if not report.line:
        return _box(GOOD if report.right else BAD, _pre(said))
    where = f"{report.file.rpartition('/')[2]}:{report.line} in {report.function}"
    parts = [_heading("not written yet" if report.kind == "blank" else report.head,
                      where + report.turn_text), _source(report)]
    if report.error is not None and report.kind != "blank":
        parts.append(_heading("raised", message(report.error)))
    if report.either:
        parts.append(_heading("or line", ", ".join(map(str, report.others))))
    if report.diagnosis:
        parts.append(_heading("diagnosis", report.diagnosis))
    if report.name and report.computed is not None:
        parts += [_heading(word, report.name) + _pre(shown(value))
                  for word, value in (("computed", report.computed), ("should be", report.wanted))]
    parts += [_heading(*line.strip().split(": ", 1)) for line in said.splitlines()
              if line.startswith(("  so these gradients are wrong: ", "note: "))]
    return _box(BAD, "".join(parts))


def shown(value, width=68):
    """An array in a line or two, its shape first; of one of small numbers, its size."""
    if value is None:
        return "not known"
    if isinstance(value, tuple):
        return ", ".join(shown(item, width) for item in value if item is not None)
    array = np.asarray(value)
    small = np.abs(array).max(initial=0) < SMALL if array.dtype.kind == "f" else False
    text = np.array2string(array, precision=4, suppress_small=not small, threshold=12, edgeitems=2,
                           max_line_width=width)
    return f"{array.shape} {text}" if "\n" not in text else \
        f"{array.shape}\n" + "\n".join("    " + line for line in text.splitlines())


def _source(report):
    """The lines around the one at fault, which is marked."""
    lines = linecache.getlines(report.file)
    count = max(len(report.source.splitlines()), 1)
    first = max(report.line - AROUND, 1)
    rows = []
    for number, line in enumerate(lines[first - 1 : report.line + count - 1 + AROUND], first):
        text = html.escape(f"{number:4}  {line.rstrip()}")
        if report.line <= number < report.line + count:
            text = f'<mark style="background:{BAD};color:inherit">{text}</mark>'
        rows.append(text)
    return f'<pre style="margin:.4em 0">{chr(10).join(rows) or html.escape(report.source)}</pre>'


def _heading(word, text):
    return f"<div><b>{html.escape(word)}</b> {html.escape(text)}</div>"


def _pre(text):
    return f'<pre style="margin:.2em 0">{html.escape(text)}</pre>'


def _box(colour, inside):
    return f'<div style="border-left:.4em solid {colour};padding:.2em .8em">{inside}</div>'
