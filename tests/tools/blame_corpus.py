"""Mistakes of meaning, and right layers in odd styles, as students write them: is blame right?

    python -m tests.tools.blame_corpus                              # the table of all of it
    python -m tests.tools.blame_corpus --layers softmax,lstm --styles tuple --show
    python -m tests.tools.blame_corpus --write DIR                  # the files, to be read
    python -m tests.tools.blame_corpus --pairs --every 8            # two mistakes in one backward

Each layer in tests/corpus is written once: @W stands for a parameter, @dW for its gradient, $x for
what is kept in the cache. The same mistakes are then made in every style of STYLES. A mistake says
after its name what a right diagnosis has in it (a regular expression).
"""

import argparse
import collections
import itertools
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from npdl_study.blame.blame import blame
from npdl_study.check.gradcheck import gradcheck
from npdl_study.check.target import build
from npdl_study.step.step import step

CORPUS = Path(__file__).parent / "corpus"
STYLES = ("cache", "tuple", "dict", "self", "functions", "lists")
INPUTS = {"": "rng.standard_normal(({0},))", "bits": "bits(rng, ({0},))"}


@dataclass
class Source:
    """One layer: the lines of its forward and backward, and what they are about."""

    name: str
    inputs: list = field(default_factory=list)
    params: dict = field(default_factory=dict)
    parts: dict = field(default_factory=dict)
    keep: list = field(default_factory=list)
    dout: str = "dy"
    changes: list = field(default_factory=list)


@dataclass
class Change:
    """A mistake, or with `right` another right way to write it: [(old lines, new lines)]."""

    layer: object
    name: str
    right: bool
    says: str = ""
    styles: tuple = STYLES
    hunks: list = field(default_factory=list)


def layers(names=(), folder=CORPUS):
    """Every Source in the corpus."""
    found = []
    for path in sorted(Path(folder).glob("*.txt")):
        for block in re.split(r"(?m)^(?=layer )", path.read_text())[1:]:
            found.append(_source(block.splitlines()))
    return [s for s in found if not names or s.name in names]


def _source(lines):
    source, part = Source(lines[0].split()[1]), None
    for line in lines[1:]:
        word, _, rest = line.partition(" ")
        if part == "change" and line[:1] in "+-" and line:
            hunks = source.changes[-1].hunks
            if line[0] == "-" and (not hunks or hunks[-1][1]):
                hunks.append(([], []))
            hunks[-1][line[0] == "+"].append(line[1:] if line[0] == "+" else line[2:])
        elif word in ("wrong", "right"):
            part = "change"
            name, styles, says = re.match(r"([\w-]+)(?: \[(.*?)\])?(?:: (.*))?$", rest).groups()
            source.changes.append(Change(source, name, word == "right", says or "",
                                         tuple(styles.split()) if styles else STYLES))
        elif word == "input":
            source.inputs.append(rest)
        elif word == "param":
            name, shape = rest.split()
            source.params[name] = shape
        elif word == "keep":
            source.keep = rest.split()
        elif word in ("forward", "backward", "helper"):
            part = word
            source.parts[part] = []
            source.dout = rest or source.dout
        elif part != "change":
            source.parts[part].append(line if part == "helper" else line[4:])
    return source


@dataclass
class Case:
    """One file: its text, the lines where the mistake stands, how blame is asked."""

    change: object
    style: str
    text: str
    lines: tuple

    def __str__(self):
        return f"{self.change.layer.name}/{self.change.name}/{self.style}"


MARK = "#~"                                             # at the end of a line with the mistake
# Another mistake in a whole file: its name -> (the file, [(as it stands there, as it is here)]).
SECOND = {"lstm_carried": ("lstm_time", [
    ("# TimeLSTM: np\\.tanh\\(c_next\\)", "# TimeLSTM: .*"),
    ("tanh_c_next = c_next  #~", "tanh_c_next = np.tanh(c_next)"),
    ("layer.backward(dhs[:, t, :] + dh, dc)", "layer.backward(dhs[:, t, :] + dh, 0)  #~")])}


def whole_files():
    """{name: text} of the files that are in no style of ours: "# CLASS: pattern of the diagnosis"
    first, one mistake, its line with MARK."""
    found = {path.stem: path.read_text() for path in sorted(CORPUS.glob("*.py"))}
    for name, (file, changes) in SECOND.items():
        found[name] = found[file]
        for old, new in changes:
            assert found[name].count(old) == 1, (name, old)
            found[name] = found[name].replace(old, new)
    return found


def cases(names=(), styles=STYLES, folder=CORPUS):
    """Every Case: the layers as they are, their other right forms, and their mistakes."""
    for source in layers(names, folder):
        for change in [Change(source, "as-it-is", True), *source.changes]:
            for style in styles:
                if style in change.styles:
                    yield case(change, style, rendered(source, changed(source, change), style))


def pairs(names=(), styles=STYLES, folder=CORPUS):
    """Every Case of two mistakes in one layer, which stand apart; the styles in turn."""
    for source in layers(names, folder):
        wrong = [change for change in source.changes if not change.right]
        for one, two in itertools.combinations(wrong, 2):
            both = Change(source, f"{one.name}+{two.name}", False, f"{one.says}|{two.says}",
                          [s for s in styles if s in one.styles and s in two.styles],
                          [*one.hunks, *two.hunks])
            try:
                parts = changed(source, both)
            except AssertionError:                      # they are about the same lines
                continue
            if both.styles:
                style = both.styles[len(one.name + two.name) % len(both.styles)]
                yield case(both, style, rendered(source, parts, style))


def case(change, style, marked):
    """The Case of a file with its MARKs."""
    lines = tuple(n for n, line in enumerate(marked.splitlines(), 1) if line.endswith(MARK))
    return Case(change, style, marked.replace(MARK, ""), lines)


def changed(source, change):
    """The parts of a layer with a change made, the lines of a mistake marked."""
    parts = {name: list(lines) for name, lines in source.parts.items()}
    for old, new in change.hunks:
        starred = any(line.startswith("*") for line in new)
        new = [line[1:] + (MARK * (not change.right and (line[0] == "*" or not starred)))
               for line in new]
        for lines in (parts["backward"], parts["forward"], parts.get("helper", [])):
            at = [i for i in range(len(lines)) if lines[i : i + len(old)] == old]
            if at:
                assert len(at) == 1, f"{source.name}/{change.name}: {old} stands twice"
                lines[at[0] : at[0] + len(old)] = new
                break
        else:
            raise AssertionError(f"{source.name}/{change.name}: no {old}")
    return parts


def rendered(source, parts, style):
    """A file in one style."""
    plain = style in ("functions", "lists")
    forward = [_names(line, source, style, False) for line in parts["forward"]]
    backward = [_names(line, source, style, True) for line in parts["backward"]]
    params, keep = list(source.params), list(source.keep)
    if style == "functions":
        keep += params
    if plain:
        backward = _zeros(source, backward) + backward
    if style in ("tuple", "functions"):
        backward.insert(0, f"{', '.join(keep)}{',' * (len(keep) == 1)} = cache")
    if style == "lists" and params:
        unpack = f"{', '.join(params)}{',' * (len(params) == 1)} = self.params"
        forward.insert(0, unpack)
        backward.insert(0, unpack)
    _end(source, forward, backward, style, keep)
    names = [text.split()[0] for text in source.inputs]
    values = ", ".join([_input(text) for text in source.inputs]
                       + [f"rng.standard_normal(({shape},))" for shape in source.params.values()
                          if style == "functions"])
    head = ["import numpy as np", *(["from npdl.core import Cache, Layer, Param"] * (not plain)),
            "", "", *parts.get("helper", []), *([""] * 2 if "helper" in parts else []),
            "def bits(rng, shape):", "    found = rng.random(shape) < 0.6",
            "    found[:, 0] = True", "    return found", "", ""]
    if style == "functions":
        body = [f"def net_sample():\n    rng = np.random.default_rng(1)\n    return {values},",
                "", "", f"def net_forward({', '.join(names + params)}):", *_in(forward, 4), "", "",
                f"def net_backward({source.dout}, cache):", *_in(backward, 4)]
        return "\n".join([*head, *body, ""])
    cache = ", cache" if style in ("cache", "tuple", "dict") else ""
    body = [f"class Net{'' if plain else '(Layer)'}:", "    def __init__(self):",
            "        rng = np.random.default_rng(0)", *_in(_made(source, style), 8), "",
            "    @classmethod", "    def sample(cls):", "        rng = np.random.default_rng(1)",
            f"        return cls(), ({values},)", "",
            f"    def forward(self, {', '.join(names)}):", *_in(forward, 8), "",
            f"    def backward(self, {source.dout}{cache}):", *_in(backward, 8)]
    return "\n".join([*head, *body, ""])


def _in(lines, by):
    return [" " * by + line for text in lines for line in text.splitlines()]


def _names(line, source, style, backward):
    """A line's placeholders, as this style writes them."""
    own = style in ("functions", "lists")
    line = re.sub(r"@d(\w+)", r"d\1" if own else r"self.\1.grad", line)
    line = re.sub(r"@(\w+)", r"\1" if own else r"self.\1.data", line)
    kept = {"cache": r"cache.\1", "dict": r'cache["\1"]', "self": r"self.\1", "lists": r"self.\1",
            "tuple": r"\1", "functions": r"\1"}[style]
    return re.sub(r"\$(\w+)", kept, line)


def _zeros(source, backward):
    """Room for gradients that are not made by one statement, which is turned to `dW = `."""
    room = []
    for name in source.params:
        uses = [i for i, line in enumerate(backward) if re.search(rf"\bd{name}\b", line)]
        if len(uses) == 1 and re.match(rf"d{name} \+?= ", backward[uses[0]]):
            backward[uses[0]] = backward[uses[0]].replace("+=", "=", 1)
        elif uses:
            room.append(f"d{name} = np.zeros_like({name})")
    return room


def _end(source, forward, backward, style, keep):
    """Put what a forward and a backward return into the words of this style."""
    at = next(i for i, line in enumerate(forward) if line.startswith("return "))
    out = forward[at].removeprefix("return ")
    fields = ", ".join(keep) + "," * (len(keep) == 1)
    both = {"cache": f"Cache({', '.join(f'{k}={k}' for k in keep)})",
            "dict": "{" + ", ".join(f'"{k}": {k}' for k in keep) + "}"}
    forward[at] = f"return {out}, {both.get(style, '(' + fields + ')')}"
    if style == "functions":
        forward[at : at + 1] = [f"cache = ({fields})", f"return {out}, cache"]
        if source.params:
            backward[-1] += ", " + ", ".join(f"d{name}" for name in source.params)
            if MARK in backward[-1]:
                backward[-1] = backward[-1].replace(MARK, "") + MARK
    if style in ("self", "lists"):
        forward[at : at + 1] = [f"{', '.join(f'self.{k}' for k in keep)} = {', '.join(keep)}",
                                f"return {out}"]
    if style == "lists":
        backward[-1:-1] = [f"self.grads[{i}][...] = d{name}"
                           for i, name in enumerate(source.params)]


def _made(source, style):
    """The lines of a constructor."""
    arrays = {name: f"rng.standard_normal(({shape},))" for name, shape in source.params.items()}
    if style == "lists":
        return [f"self.params = [{', '.join(arrays.values())}]",
                "self.grads = [np.zeros_like(p) for p in self.params]"]
    return [f"self.{name} = Param({made})" for name, made in arrays.items()] or ["self.rng = rng"]


def _input(text):
    name, shape, *kind = text.split()
    if kind and kind[0].startswith("<"):
        return f"rng.integers(0, {kind[0][1:]}, ({shape},))"
    return INPUTS[kind[0] if kind else ""].format(shape)


@dataclass
class Found:
    """What blame and step said of a Case."""

    case: object
    right: bool = False
    on_line: bool = False
    diagnosed: bool = False
    accused: bool = False
    named: bool = False         # not first, but among the lines of which either can mend it
    promised: str = ""          # "kept", "broken": every gradient is right with its change, or not
    seconds: float = 0.0
    report: object = None


def tried(case, folder):
    """Run blame on a Case, and step on a right one: a Found."""
    path = Path(folder) / f"{re.sub(r'[^a-z0-9]', '_', str(case).lower())}.py"
    path.write_text(case.text)
    name = f"{path}:{'net' if case.style == 'functions' else 'Net'}"
    layer, inputs, options = build(name, cache="self" if case.style == "self" else None)
    start = time.process_time()
    report = blame(layer, *inputs, **options)
    found = Found(case, report.right, promised=promise(report, case, path, name),
                  seconds=time.process_time() - start, report=report)
    if case.change.right:
        walk = step(layer, *inputs, **options)
        wrong = [mark for mark in walk.marks.values() if mark.right is False]
        asked = report.kind == "unchecked"              # a question accuses nobody
        found.accused = not (report.right or asked) or bool(wrong)
        found.diagnosed = found.on_line = not found.accused
        return found
    found.on_line = not report.right and report.line in case.lines
    found.diagnosed = bool(re.search(case.change.says, report.diagnosis, re.I)) and found.on_line
    found.named = not found.on_line and bool(set(report.either) & set(case.lines))
    found.accused = not report.right and not found.on_line and not found.named
    return found


def promise(report, case, path, name):
    """Whether every gradient is right, as a Blame says, with its new line: "kept", "broken"; or
    "" where it says no such thing."""
    if not report.new or "every gradient is right" not in report.diagnosis or ";" in report.new:
        return ""
    lines = case.text.splitlines()
    old = lines[report.line - 1]
    lines[report.line - 1] = old[: len(old) - len(old.lstrip())] + report.new
    lines[report.line : report.line - 1 + len(report.source.splitlines())] = []
    mended = path.with_name(f"mended_{path.name}")
    mended.write_text("\n".join(lines) + "\n")
    try:
        layer, inputs, options = build(name.replace(path.name, mended.name),
                                       cache="self" if case.style == "self" else None)
        return "kept" if not gradcheck(layer, *inputs, **options).wrong else "broken"
    except Exception:
        return "broken"


def run(chosen, folder, show=False):
    """[Found] of the chosen cases; what went wrong is printed with `show`."""
    results = []
    for case in chosen:
        found = tried(case, folder)
        results.append(found)
        if show and not (found.diagnosed and found.on_line and found.promised != "broken"):
            print(f"{case}: line {found.report.line} for {case.lines}, "
                  f"{found.report.kind!r} {found.promised}: {found.report.diagnosis}", flush=True)
    return results


def table(results):
    """The table in Markdown, a row for each layer."""
    rows = collections.OrderedDict()
    for found in results:
        row = rows.setdefault(found.case.change.layer.name, [0] * 8)
        own = (0, 1) if found.case.change.right else (2, 3, 4, 5, 6, 7)
        values = (1, found.accused) if found.case.change.right else (
            1, found.on_line, found.named, found.diagnosed, found.accused, found.right)
        for i, value in zip(own, values, strict=True):
            row[i] += int(value)
    rows["all"] = [sum(row[i] for row in rows.values()) for i in range(8)]
    lines = ["| layer | right files | accused | wrong files | on the line | named beside | "
             "right diagnosis | another accused | called right |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for name, (good, accused, bad, line, named, said, others, missed) in rows.items():
        lines.append(f"| {name} | {good} | {accused} | {bad} | {_share(line, bad)} | {named} | "
                     f"{_share(said, bad)} | {others} | {missed} |")
    return "\n".join(lines)


def _share(part, whole):
    return f"{part} ({100 * part / whole:.0f} %)" if whole else "-"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.tools.blame_corpus",
                                     description="Score blame over mistakes of meaning.")
    parser.add_argument("--layers", default="", help="only these, with commas between")
    parser.add_argument("--styles", default=",".join(STYLES))
    parser.add_argument("--corpus", metavar="DIR", default=CORPUS,
                        help="layers of your own, written as those in tests/corpus")
    parser.add_argument("--every", type=int, default=1, help="take one case in N")
    parser.add_argument("--only", default="", help="only cases whose name has this in it")
    parser.add_argument("--pairs", action="store_true", help="two mistakes in one backward")
    parser.add_argument("--show", action="store_true", help="print what was missed")
    parser.add_argument("--write", metavar="DIR", help="write the files there and stop")
    options = parser.parse_args(arguments)
    names = options.layers.split(",") if options.layers else ()
    make = pairs if options.pairs else cases
    chosen = [c for c in make(names, options.styles.split(","), options.corpus)
              if options.only in str(c)]
    chosen = chosen[:: options.every]
    if options.write:
        Path(options.write).mkdir(parents=True, exist_ok=True)
        for case in chosen:
            (Path(options.write) / f"{str(case).replace('/', '_')}.py").write_text(case.text)
        return
    with tempfile.TemporaryDirectory() as folder:
        results = run(chosen, folder, options.show)
    print(table(results))
    mistakes = {str(f.case.change.layer.name) + f.case.change.name for f in results
                if not f.case.change.right}
    promised = collections.Counter(found.promised for found in results)
    slowest = max(results, key=lambda found: found.seconds)
    print(f"\n{len(mistakes)} mistakes, {len(results)} files; promises kept {promised['kept']}, "
          f"broken {promised['broken']}; longest {slowest.seconds:.1f} s: {slowest.case}")


if __name__ == "__main__":
    sys.exit(main())
