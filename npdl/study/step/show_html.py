"""Write a Walk (a layer's recorded statements) as one interactive page, which works offline."""

import ast
import html
import json
import linecache
import math
import string
import tokenize
from pathlib import Path

from npdl.study.containment import format_exception
from npdl.study.step import maths

PARTS = Path(__file__).parent / "page"


def format_page(walk, phases):
    """Return the page of a Walk as HTML text."""
    read = {name: (PARTS / name).read_text(encoding="utf-8")
            for name in ("page.html", "page.css", "draw.js", "page.js")}
    writer, error = _Data(), walk.recording.error
    data = json.dumps({
        "title": walk.title, "steps": [writer.format_step(step) for step in walk.steps(phases)],
        "calls": writer.calls, "functions": writer.functions, "arrays": writer.arrays,
        "notes": walk.notes, "error": format_exception(error) if error is not None else "",
        "finals": [{"name": row.name, "right": row.right, "error": _round_number(row.error),
                    "reason": row.inconclusive_text} for row in walk.finals],
    }, separators=(",", ":"))
    return string.Template(read["page.html"]).substitute(
        title=html.escape(walk.title), style=read["page.css"], draw=read["draw.js"],
        script=read["page.js"], data=data.replace("<", "\\u003c"),    # data must not begin a tag
    )


def format_iframe(title, page):
    """Return a page in an iframe, which a notebook shows."""
    return (f'<iframe title="{html.escape(title)}, line by line" sandbox="allow-scripts" '
            'style="width:100%;height:44rem;border:1px solid #8884" '
            f'srcdoc="{html.escape(page)}"></iframe>')


class _Data:
    """Collects the functions, calls and arrays of the steps in lists without duplicates."""

    def __init__(self):
        self.numbers, self.functions, self.calls, self.arrays = {}, [], [], []

    def find_or_add(self, entries, key, make_entry):
        """Return the index of a key's entry in a list; append make_entry() for a new key."""
        if key not in self.numbers:
            made = make_entry()                         # this may add other entries first
            self.numbers[key] = len(entries)
            entries.append(made)
        return self.numbers[key]

    def format_step(self, step):
        return {
            "call": self.find_or_add_call(step.call),
            "from": step.statement.first_line, "to": step.statement.last_line,
            "turn": step.iterations,
            "reads": [{"name": name + path, "array": self.find_or_add_array(summary)}
                      for name, shown in step.reads.items() for path, summary in shown],
            "writes": [self.format_write(write, *pair)
                       for write in step.writes for pair in write.shown],
            "error": None if step.error is None else format_exception(step.error),
        }

    def format_write(self, write, path, summary):
        mark = write.mark
        return {
            "name": write.name + path, "how": write.how, "array": self.find_or_add_array(summary),
            "check": mark and {"kind": mark.kind, "text": mark.text, "of": mark.of,
                               "line": mark.line, "call": self.find_or_add_call(mark.call)},
        }

    def find_or_add_array(self, summary):
        """Add an ArraySummary to the page, and return its index in the list of arrays."""
        found = {
            "shape": list(summary.shape), "dtype": summary.dtype,
            "norm": _round_number(summary.norm), "low": _round_number(summary.low),
            "high": _round_number(summary.high), "nan": summary.nan, "inf": summary.inf,
            "entries": [list(map(_round_number, row)) for row in summary.entries.tolist()],
        }
        return self.find_or_add(self.arrays, repr(found), lambda: found)

    def find_or_add_call(self, call):
        """Add a Call to the page, and return its index in the list of calls; None for None."""
        return None if call is None else self.find_or_add(self.calls, call, lambda: {
            "parent": self.find_or_add_call(call.parent),
            "pair": self.find_or_add_call((*call.pairs, None)[0]),
            "function": self.find_or_add_function(call), "phase": call.phase,
        })

    def find_or_add_function(self, call):
        """Add the function of a Call to the page, and return its index in the list of functions."""
        return self.find_or_add(self.functions, call.function, lambda: {
            "name": call.name, "module": call.function.globals.get("__name__", ""),
            "lines": list(_format_source_lines(call.function)),
        })


def _format_source_lines(function):
    """Yield a list [number, code, comment, HTML formula, Unicode formula] for each line."""
    source, node = linecache.getlines(function.file), function.node
    comments = {token.start[0]: token.start[1]              # {line: column of its comment}
                for token in tokenize.generate_tokens(iter(source).__next__)
                if token.type == tokenize.COMMENT}
    docstring_end = node.body[0].end_lineno if ast.get_docstring(node) else 0
    simple = {s.first_line: s.node for s in function.statements if s.is_simple}
    for n in range(node.lineno, node.end_lineno + 1):
        if not node.body[0].lineno <= n <= docstring_end:
            line = source[n - 1].rstrip()
            at = comments.get(n, len(line))
            code = html.escape(line[node.col_offset : at].rstrip(), quote=False)
            formulas = [write(simple[n]) if n in simple else "" for write in (
                maths.format_html_formula, maths.format_formula)]
            yield [n, code, line[at:].lstrip("#").strip(), *formulas]


def _round_number(value):
    """Return a float with six digits. JSON has no NaN and no infinity, so these become text."""
    return float(f"{value:.6g}") if math.isfinite(value) else str(value)
