"""The layers of tests/tools/corpus as files: right ones, with a mistake, with two.

Each layer is written once: @W stands for a parameter, @dW for its gradient, $x for what is kept in
the cache. The same mistakes are then made in every style of STYLES. A mistake says after its name
what a right diagnosis has in it (a regular expression).
"""

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path

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
