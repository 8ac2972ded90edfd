"""Convert TeX to MathML, which browsers display without a script or an external font."""

import functools
import re
from itertools import zip_longest
from xml.etree import ElementTree

from docutils.utils.math.latex2mathml import tex2mathml

LONG = 40                       # letters of TeX: no wider than a phone
SIGN = r"(?<=[^=\s{(])\s*[+-]|\\,(?=\s*\\mathrm)"      # a sum's, or a product's of words
SIZED = r"\\[bB]igg?\s*[()\[\]]"
RELATION = r"(?<![<>])=|\\(?:le|ge|ne|approx|leftarrow|Rightarrow)\b|<|>"
ALSO = (    # what docutils doesn't know or sets differently, such as an index below an accent
    (r"\\[lr]Vert\b", r"\\|"),
    (r"(\\(?:dot|hat|bar|tilde|vec|over\w+)(?: \w|\\\w+|\{(?:\w|\\\w+\{\w\})\}))(?=_)", r"{\1{}}"),
    (r"\\([bB]igg?)(?=\s*(?:[)\]|]|\\\}|\\r[a-z]+|\\\|))", r"\\\1r"),
    (r"\\([bB]igg?)(?=\s*[(\[\\])", r"\\\1l"),
)


@functools.lru_cache(maxsize=4096)
def to_mathml(tex, block=False):
    """Return a formula as a <math> element on one line. Raises MathError for invalid TeX."""
    for pattern, by in ALSO:
        tex = re.sub(pattern, by, tex)
    root = ElementTree.fromstring(
        tex2mathml(tex.strip(), as_block=block).replace("&ApplyFunction;", "\u2061"))
    for node in root.iter():
        node.text, node.tail = node.text and node.text.strip(" \n"), None
        node.tag = node.tag.rpartition("}")[2]
    for node in root.iter():
        if node.tag == "mover" and node[1].tag == "mo" and node[0].tag != "mo":
            node[1].set("style", "padding-bottom: .13em")       # or it sits on the letter
        if node.tag == "mo" and node.text in ("⟨", "⟩", "‖") and "minsize" not in node.attrib:
            node.set("stretchy", "false")
        _add_function_spaces(node)
    return ElementTree.tostring(root, "unicode", short_empty_elements=False)


def to_mathml_parts(tex):
    """Return an equation as several MathML elements, between which a narrow page can break lines.

    The equation is split at wide spaces and before relations. A long part is also split before its
    signs, which may be in brackets with a size of their own (\\big).
    """
    groups = []
    tex = re.sub(r"(\\Rightarrow)\s*\\quad\b", r"\1\\;", tex)     # an arrow begins its group
    for group in _split_tex(tex, r"\\q?quad\b"):
        parts = [piece for part in _split_tex(re.sub(r"^\s*\\q?quad\b", "", group), RELATION)
                 for piece in (_split_tex(part, SIGN, SIZED) if len(part) > LONG else [part])]
        groups.append("".join(
            to_mathml(_balance_brackets(part if n == 0 else "{}" + part), block=True)
            for n, part in enumerate(parts)))
    return "".join(f'<span class="group">{group}</span>' for group in groups)


def _balance_brackets(tex):
    """Add an invisible bracket to a part if the matching bracket is in another part."""
    odd = sum(1 if sign[-1] in "([" else -1 for sign in re.findall(SIZED, tex))
    return rf"\bigl.{tex}" if odd < 0 else rf"{tex}\bigr." if odd > 0 else tex


def _split_tex(tex, pattern, ignored_brackets=r"(?!)"):
    """Split TeX before each match of `pattern`, but not inside of brackets that count."""
    pieces, depth, start = [], 0, 0
    for match in re.finditer(rf"{ignored_brackets}|(?P<cut>{pattern})|"
                             r"(?P<open>\\begin|\\lVert|\\langle|[{(\[])|"
                             r"(?P<close>\\end|\\rVert|\\rangle|[})\]])", tex):
        depth += bool(match["open"]) - bool(match["close"])
        if match["cut"] and depth == 0:
            pieces.append(tex[start: match.start()])
            start = match.start()
    return [piece for piece in [*pieces, tex[start:]] if piece.strip(" \n,")]


def _add_function_spaces(row):
    """Put a space between tanh and c in tanh c, because the invisible sign there has no width."""
    made = []
    for part, after in zip_longest(list(row), row[1:]):
        first = after[0] if after is not None and after.tag == "mrow" and len(after) else after
        power = part.tag == "msup" and part[0].tag == "mi" and len(part[0].text or "") > 1
        apart = first is not None and first.text not in ("(", "[", "{")
        if part.text != "\u2061" or not apart:
            made.append(part)
        if apart and (power or part.text == "\u2061"):
            made.append(ElementTree.Element("mspace", width="0.1667em"))
    row[:] = made
