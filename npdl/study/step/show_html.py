"""Write a walk through a layer as one interactive page, which needs no network and no file."""

import ast
import html
import io
import json
import keyword
import linecache
import math
import string
import tokenize
from pathlib import Path

from npdl.study.containment import message
from npdl.study.step import maths
from npdl.study.step.fold import is_checking
from npdl.study.trace.source import original_file

PARTS = Path(__file__).parent / "page"


def page(walk, phases=("forward", "backward")):
    """Return the page of a Walk, as text."""
    read = {name: (PARTS / name).read_text(encoding="utf-8")
            for name in ("page.html", "page.css", "draw.js", "page.js")}
    data = json.dumps(_data(walk, phases), separators=(",", ":"))
    return string.Template(read["page.html"]).substitute(
        title=html.escape(walk.title), style=read["page.css"], draw=read["draw.js"],
        script=read["page.js"], data=data.replace("<", "\\u003c"),    # so no tag or comment opens
    )


def framed(walk):
    """Return the page in a frame, as a notebook shows it."""
    return (f'<iframe title="{html.escape(walk.title)}, line by line" sandbox="allow-scripts" '
            'style="width:100%;height:44rem;border:1px solid #8884" '
            f'srcdoc="{html.escape(page(walk))}"></iframe>')


def _data(walk, phases):
    """Return the data of the page, as JSON can hold it."""
    writer = _Data(walk)
    steps = [writer.step(step) for step in walk.steps(phases)]
    error = walk.recording.error
    return {
        "title": walk.title, "steps": steps, "calls": writer.calls,
        "functions": writer.functions, "arrays": writer.arrays, "notes": walk.notes,
        "finals": [{"name": row.name, "right": row.right, "error": _number(row.error),
                    "reason": row.reason} for row in walk.finals],
        "error": message(error) if error is not None else "",
    }


class _Data:
    """Collects the functions, calls and arrays that steps mention."""

    def __init__(self, walk):
        self.walk = walk
        self.functions, self.calls, self.arrays = [], [], []
        self._function_of, self._call_of, self._array_of = {}, {}, {}

    def step(self, step):
        found = {
            "call": self.call(step.call), "from": step.line.first, "to": step.line.last,
            "turn": [f"{name} = {value}" for loop in step.turns for name, value in loop],
            "reads": [{"name": name + path, "array": self.array(summary)}
                      for name, shown in step.reads.items() for path, summary in shown],
            "writes": [w for write in step.writes for w in self.writes(step, write)],
        }
        if step.error is not None:
            found["error"] = message(step.error)
        return found

    def writes(self, step, write):
        mark = self.walk.mark(step, write.name)
        for path, summary in write.shown:
            found = {"name": write.name + path, "how": write.how, "array": self.array(summary)}
            if mark is not None and mark.text:
                found["check"] = self.check(mark)
            yield found

    def array(self, summary):
        """Return the number of an array in the page's list, which has each array once."""
        rows, columns = summary.cells.shape
        found = {
            "shape": list(summary.shape), "dtype": summary.dtype, "norm": _number(summary.norm),
            "low": _number(summary.low), "high": _number(summary.high), "nan": summary.nan,
            "inf": summary.inf, "rows": rows, "columns": columns,
            "scale": _number(summary.scale), "picture": summary.packed(),
        }
        if summary.values is not None:
            found["values"] = [[_short(v) for v in row] for row in summary.values.tolist()]
        key = repr(found)
        if key not in self._array_of:
            self._array_of[key] = len(self.arrays)
            self.arrays.append(found)
        return self._array_of[key]

    def check(self, mark):
        kind = "right" if mark.right else "kink" if mark.kink else (
            "upstream" if mark.upstream else "wrong")
        found = {"kind": kind, "text": mark.text}
        if mark.call is not None:
            found |= {"call": self.call(mark.call), "line": mark.line, "of": mark.of}
        return found

    def call(self, call):
        """Return the number of a call in the page's list."""
        if call.number not in self._call_of:
            parent = None if call.parent is None else self.call(call.parent)
            pair = self.call(call.pairs[0]) if call.pairs else None
            self._call_of[call.number] = len(self.calls)
            self.calls.append({
                "function": self.function(call), "parent": parent, "phase": call.phase,
                "pair": pair, "at": call.line.first if call.line else None,
                "owner": type(call.owner).__name__ if call.owner is not None else "",
            })
        return self._call_of[call.number]

    def function(self, call):
        """Return the number of a function in the page's list, with its code and formulas."""
        function, code = call.function, call.function.code
        node = function.node
        key = (code.co_filename, node.lineno)
        if key not in self._function_of:
            self._function_of[key] = len(self.functions)
            source = linecache.getlines(code.co_filename)
            formulae, said, skip = {}, {}, _skipped(function)
            for line in function.lines:
                if line.is_simple:
                    for found, write in ((formulae, maths.mathml), (said, maths.text)):
                        found[line.first] = found.get(line.first, "") + write(line.node)
            coloured = _coloured(source, node.lineno, node.end_lineno)
            self.functions.append({
                "name": call.name, "file": _place(code.co_filename),
                "lines": [[n, *coloured[n], formulae.get(n, ""), said.get(n, "")]
                          for n in range(node.lineno, node.end_lineno + 1) if n not in skip],
            })
        return self._function_of[key]


def _skipped(function):
    """Return the lines of a function's docstring, and those that only check arguments."""
    told = [n for n in function.node.body[:1] if isinstance(n, ast.Expr)
            and isinstance(n.value, ast.Constant)]
    told += [line.node for line in function.lines if is_checking(line.node)]
    return {n for node in told for n in range(node.lineno, node.end_lineno + 1)}


def _place(filename):
    """Return a file's name from its package on, without the folders of this machine."""
    parts = original_file(filename).replace("\\", "/").split("/")
    at = max((i for i, part in enumerate(parts) if part == "npdl"), default=len(parts) - 1)
    return "/".join(parts[at:])


def _coloured(source, first, last):
    """Return {line: (HTML of the code, its comment)} of a function, without its indentation."""
    spans = {n: [] for n in range(first, last + 1)}
    for kind, (row, start), (end_row, end) in _colours("".join(source)):
        if row == end_row and row in spans:
            spans[row].append((start, end, kind))
    indent = len(source[first - 1]) - len(source[first - 1].lstrip())
    found = {}
    for n, marks in spans.items():
        line, comment = source[n - 1].rstrip(), ""
        if marks and marks[-1][2] == "c":
            start = marks.pop()[0]
            line, comment = line[:start].rstrip(), line[start:].lstrip("# ")
        found[n] = _marked(line, marks, indent), comment
    return found


def _colours(source):
    """Yield (kind, start, end) of each coloured part; an f-string is one string."""
    opened = []                                         # starts of the enclosing f-strings
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            opened.append(token.start)
        elif name.endswith("STRING_END"):
            start = opened.pop()
            if not opened:
                yield "s", start, token.end
        elif not opened and (kind := _kind(token)):
            yield kind, token.start, token.end


def _kind(token):
    if token.type == tokenize.COMMENT:
        return "c"
    if token.type == tokenize.STRING:
        return "s"
    if token.type == tokenize.NUMBER:
        return "n"
    return "k" if token.type == tokenize.NAME and keyword.iskeyword(token.string) else ""


def _marked(line, spans, indent):
    found, at = [], indent
    for start, end, kind in spans:
        found += [html.escape(line[at:start]), f'<i class="{kind}">',
                  html.escape(line[start:end]), "</i>"]
        at = end
    return "".join(found) + html.escape(line[at:])


def _number(value):
    """Return a float with six digits that JSON can hold, or None."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _short(value):
    return f"{value + 0.0:.3g}" if math.isfinite(value) else "NaN" if math.isnan(value) else "inf"
