"""A layer writes into nothing but gradients, as its source shows."""

import ast
from pathlib import Path

import npdl

ROOT = Path(npdl.__file__).parent
PAGES = [*(ROOT / "layers").glob("*.py"), *(ROOT / "models").glob("*.py"), ROOT / "losses.py"]
# Statements that write into an array or a list: (file, their beginning) -> why they may.
IN_PLACE = {
    ("batch_norm.py", "self.running_"): "BatchNorm's running statistics",
    ("embedding.py", "self.W.data[padding_id]"): "the padding row starts at zero",
    ("attentive_rnn.py", "dstates[j]"): "entries of a list are replaced by new arrays",
}
WRITERS = {"copyto", "put", "place", "putmask", "fill_diagonal", "fill", "sort", "at", "resize"}


def writes(node):
    """What a statement or call writes into, as source; None when it makes something new."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        has_out = any(k.arg == "out" for k in node.keywords) and ast.unparse(node.func) != "Cache"
        if name in WRITERS or has_out:
            return ast.unparse(node)
    if isinstance(node, ast.AugAssign) and not ast.unparse(node.target).endswith(".grad"):
        return ast.unparse(node)
    targets = node.targets if isinstance(node, ast.Assign) else []
    for target in targets:
        for part in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(part, ast.Subscript):
                return ast.unparse(node)
    return None


def written(source):
    """All statements and calls of a source that write in place."""
    found = [writes(node) for node in ast.walk(ast.parse(source))]
    return [statement for statement in found if statement is not None]


def test_nothing_changes_in_place_but_gradients():
    found = [(path.name, statement) for path in PAGES for statement in written(path.read_text())]

    def allowed(place, statement):
        return [key for key in IN_PLACE if key[0] == place and statement.startswith(key[1])]

    unknown = [pair for pair in found if not allowed(*pair)]
    assert not unknown, unknown
    used = {key for pair in found for key in allowed(*pair)}
    assert used == IN_PLACE.keys(), "an exception that is no longer needed"
