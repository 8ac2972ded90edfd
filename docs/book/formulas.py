"""TeX as MathML, which browsers show without a script or a font from elsewhere."""

import functools
import re
from xml.etree import ElementTree

from docutils.utils.math.latex2mathml import tex2mathml

ALSO = (                        # what docutils does not know, or sets differently from TeX
    (r"\\dots\b", r"\\ldots"), (r"\\[lr]Vert\b", r"\\|"), (r"\\[lr]vert\b", r"|"),
    (r"\\([bB]igg?)(?=\s*(?:[)\]|]|\\\}|\\r[a-z]+|\\\|))", r"\\\1r"),
    (r"\\([bB]igg?)(?=\s*[(\[\\])", r"\\\1l"),
    (r"\\mathrel\{([^}]*)\}", r"\1"),
)


@functools.lru_cache(maxsize=4096)
def mathml(tex, block=False):
    """A formula as a <math> element on one line; MathError for what TeX would not take."""
    for pattern, by in ALSO:
        tex = re.sub(pattern, by, tex)
    root = ElementTree.fromstring(
        tex2mathml(tex.strip(), as_block=block).replace("&ApplyFunction;", "\u2061"))
    for node in root.iter():
        node.text, node.tail = node.text and node.text.strip(" \n"), None
        node.tag = node.tag.rpartition("}")[2]
        tags = [part.tag.rpartition("}")[2] for part in node]
        if node.tag == "munderover" and tags[0] != "mo" and tags[2] == "mo":
            _accent(node)
    return ElementTree.tostring(root, "unicode", short_empty_elements=False)


def _accent(node):
    """An x with a dot above and k below becomes a dotted x with the index k."""
    base, index, accent = node
    over = ElementTree.Element("mover", accent="true")
    over.extend([base, accent])
    node.tag = "msub"
    node[:] = [over, index]
