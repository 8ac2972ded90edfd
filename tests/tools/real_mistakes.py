"""Mistakes that people made in backwards of their own: does blame name the line that they mended?

    python -m tests.tools.real_mistakes                         # the table of all sets
    python -m tests.tools.real_mistakes open held --show        # what was missed, in words
    python -m tests.tools.real_mistakes --write DIR             # the files, to be read

A set is a text in tests/tools/corpus/real. Each case says where it is from, what to ask blame for,
and what a right diagnosis has in it (a regular expression). The author's lines end in "#-", the
lines that mended them in "#+"; "#!" marks a line that may be named as well. A case without a mark
is right as it stands, and says how many gradients there are to check.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from npdl.errors import NpdlError
from npdl_study.blame.blame import blame
from npdl_study.check.target import build

FOLDER = Path(__file__).parent / "corpus" / "real"
SETS = ("open", "held", "fresh", "fresh-held", "unseen", "more", "wild", "strangers",
        "passers", "pairs", "right", "unseen-right")
HEAD = "import numpy as np\n\n\n"
PROMISE = re.compile(r"every gradient( that was compared)? is right")
MENDS = re.compile(r"with `([^`]+)` in place of `([^`]+)`")
LIMIT = 900                                     # seconds for one file, on a busy machine too
COLUMNS = ("files", "on the line", "beside", "elsewhere", "no line", "called right",
           "true mend elsewhere", "the author's mend", "promises", "true")
RIGHT = ("right files", "confirmed", "accused", "no verdict", "all gradients checked")


@dataclass
class Case:
    """One file: where it is from, what is asked, the diagnosis it should have, its lines."""

    set: str
    name: str
    source: str
    ask: str
    says: str
    gradients: int
    body: list

    def text(self, mended=False):
        """The file as its author wrote it, or as he mended it."""
        gone = "#-" if mended else "#+"
        return HEAD + "\n".join(re.sub(r"  #[-+!]$", "", line) for line in self.body
                                if not line.endswith(gone)) + "\n"

    @property
    def lines(self):
        """The numbers of the lines that may be named in the author's file."""
        kept = [line for line in self.body if not line.endswith("#+")]
        return [n + HEAD.count("\n") for n, line in enumerate(kept, 1)
                if line.endswith(("#-", "#!"))]

    @property
    def mend(self):
        """The statements of the mend."""
        return [line.removesuffix("#+").strip() for line in self.body if line.endswith("#+")]

    @property
    def right(self):
        return not self.lines


def cases(sets=SETS, folder=FOLDER):
    """Every Case of the sets."""
    found = []
    for name in sets:
        path = Path(folder) / f"{name}.txt"
        blocks = re.split(r"(?m)^case ", path.read_text())[1:] if path.is_file() else []
        found += [_case(name, block) for block in blocks]
    return found


def _case(name, block):
    head, body = block.rstrip().split("\n\n", 1)
    title, *rows = head.splitlines()
    told = dict(row.split(" ", 1) for row in rows)
    return Case(name, title, told["from"], told["ask"], told.get("says", ""),
                int(told.get("gradients", 0)), body.splitlines())


def asked(path, name):
    """What blame says of a file: {word: value}; in this process."""
    try:
        layer, inputs, options = build(f"{path}:{name}")
        report = blame(layer, *inputs, **options)
    except NpdlError as error:
        return {"refused": str(error)}
    return {"right": report.right, "line": report.line, "either": list(report.either),
            "kind": report.kind, "diagnosis": report.diagnosis, "new": report.new,
            "source": report.source, "text": str(report),
            "checked": sum(row.right is True for row in report.finals)}


def answer(path, name):
    """The same, in a process of its own that is stopped after LIMIT seconds."""
    command = [sys.executable, "-m", "tests.tools.real_mistakes", "--one", str(path), name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"refused": f"no answer within {LIMIT} s"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"refused": "it crashed: " + done.stderr.strip()[-300:]}


def place(case, told):
    """Where an answer points: a word of COLUMNS, or of RIGHT."""
    if told.get("right"):
        return "confirmed" if case.right else "called right"
    if case.right:
        return "accused" if told.get("line") or told.get("kind") == "manners" else "no verdict"
    if not told.get("line"):
        return "no line"
    if told["line"] in case.lines:
        return "on the line"
    return "beside" if set(told["either"]) & set(case.lines) else "elsewhere"


def as_mended(case, told):
    """Whether an answer says what the author's mend was."""
    same = any(_same(told.get("new") or "", line) for line in case.mend)
    return same or bool(case.says and re.search(case.says, told.get("diagnosis") or "", re.I))


def _same(one, other):
    try:
        one, other = (ast.parse(text.strip() + " pass" * text.strip().endswith(":"))
                      for text in (one, other))
        return ast.dump(one) == ast.dump(other)
    except SyntaxError:
        return False


def kept(case, told, folder, ask):
    """Whether the lines with which every gradient is said to be right make them so; None without
    that promise."""
    promise = PROMISE.search(told.get("text", ""))
    if case.right or not told.get("line") or promise is None:
        return None
    text = case.text()
    said = "\n".join(line for line in told["text"].splitlines() if "note: or " not in line)
    pairs = MENDS.findall(said)
    if told["new"] and not (pairs and _found(text, pairs[0][1])):
        pairs[:1] = [(told["new"], told["source"])]     # of a long statement a part is printed
    for new, old in pairs:
        text = _put(text, old, new, told["line"])
    path = Path(folder) / f"{_stem(case)}_mended.py"
    path.write_text(text)
    again = ask(path, case.ask)                 # without "right" where it has no answer
    return again.get("right") or bool(promise[1]) and again.get("diagnosis", "").endswith(
        "What was compared is right")


def _put(text, old, new, near):
    """A file with the statement `old`, of several the nearest to a line, written anew; of a loop
    its head; what is no statement, in that line."""
    lines, found = text.splitlines(), _found(text, old)
    if not found:
        before, there, after = lines[near - 1].rpartition(old)
        lines[near - 1] = before + new * bool(there) + after
    for node in sorted(found, key=lambda node: abs(node.lineno - near))[:1]:
        indent, last = " " * node.col_offset, node.end_lineno
        if hasattr(node, "body"):
            last = node.body[0].lineno - 1
        lines[node.lineno - 1 : last] = [indent + line for line in new.splitlines()]
    return "\n".join(lines) + "\n"


def _found(text, old):
    """The statements of a file that are written so, or loops with such a head."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)
            and _same(ast.unparse(node).split("\n")[0], old)]


def _stem(case):
    return re.sub(r"\W", "_", f"{case.set}_{case.name}")


def measured(case, folder, ask=answer):
    """{word: value} of one case: the answer, where it points, what it promises; `ask` asked runs
    in this process."""
    path = Path(folder) / f"{_stem(case)}.py"
    path.write_text(case.text())
    told = ask(path, case.ask)
    where = place(case, told)
    return {"case": case, "told": told, "place": where, "kept": kept(case, told, folder, ask),
            "mend": where == "on the line" and as_mended(case, told)}


def table(results):
    """The tables in Markdown, a row for each set: of wrong files, and of right ones."""
    wrong = [found for found in results if not found["case"].right]
    right = [found for found in results if found["case"].right]
    return "\n\n".join(_rows(columns, own, counts) for columns, own, counts in (
        (COLUMNS, wrong, _wrong), (RIGHT, right, _right)) if own)


def _rows(columns, results, counts):
    rows = [f"| set | {' | '.join(columns)} |", "|---|" + "--:|" * len(columns)]
    for name in dict.fromkeys(found["case"].set for found in results):
        own = [found for found in results if found["case"].set == name]
        rows.append(f"| {name} | {' | '.join(map(str, (len(own), *counts(own))))} |")
    return "\n".join(rows)


def _wrong(results):
    promised = [found["kept"] for found in results if found["kept"] is not None]
    return (*(_count(results, word) for word in COLUMNS[1:6]),
            sum(found["place"] == "elsewhere" and found["kept"] is True for found in results),
            sum(found["mend"] for found in results), len(promised), sum(promised))


def _right(results):
    return (*(_count(results, word) for word in RIGHT[1:4]),
            sum(found["told"].get("checked") == found["case"].gradients for found in results))


def _count(results, word):
    return sum(found["place"] == word for found in results)


def told_of(found):
    """What was said of one case, in a line."""
    case, told = found["case"], found["told"]
    said = told.get("refused") or told["text"].splitlines()[0] + " / " + told["diagnosis"]
    promise = {None: "", True: "", False: " PROMISE NOT KEPT"}[found["kept"]]
    return (f"{case.set}/{case.name}: {found['place']}, line {told.get('line')} for "
            f"{case.lines}{promise}: {said[:300]}")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.tools.real_mistakes",
                                     description="Score blame over mistakes that people made.")
    parser.add_argument("sets", nargs="*", default=SETS, metavar="SET", help=", ".join(SETS))
    parser.add_argument("--folder", default=FOLDER, metavar="DIR", help="where the sets are")
    parser.add_argument("--only", default="", help="only cases whose name has this in it")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one case in N")
    parser.add_argument("--show", action="store_true", help="print each answer in a line")
    parser.add_argument("--write", metavar="DIR", help="write the files there and stop")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = set(options.sets) - set(SETS)
    if unknown:
        parser.error(f"there is no set {min(unknown)!r}; give some of: {', '.join(SETS)}")
    if options.one:
        print(json.dumps(asked(*options.one)))
        return
    chosen = [c for c in cases(options.sets, options.folder) if options.only in c.name]
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.write or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for case in chosen[:: options.every]:
            if options.write:
                (folder / f"{_stem(case)}.py").write_text(case.text())
                continue
            results.append(measured(case, folder))
            if options.show:
                print(told_of(results[-1]), flush=True)
    if results:
        print(table(results))


if __name__ == "__main__":
    sys.exit(main())
