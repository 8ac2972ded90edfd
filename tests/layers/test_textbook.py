"""The textbook's rules that its source can be asked about: imports, writing in place."""

import ast
from pathlib import Path

import pytest

import npdl

ROOT = Path(npdl.__file__).parent
LAYERS = sorted(p for p in (ROOT / "layers").glob("*.py") if p.name != "__init__.py")
MODELS = sorted(p for p in (ROOT / "models").glob("*.py") if p.name != "__init__.py")
PAGES = [*LAYERS, *MODELS, ROOT / "losses.py"]
BELOW = {"npdl.core", "npdl.backend", "npdl.functions", "npdl.losses", "npdl.init", "npdl.errors",
         "npdl.training_errors", "npdl.exceptions", "numpy", "math",
         "typing"}
ALSO = {"sequential.py": {"inspect"}}        # which options a layer of the chain takes
# Statements that write into an array or a list: (file, their beginning) -> why they may.
IN_PLACE = {
    ("batch_norm.py", "self.running_"): "BatchNorm's running statistics",
    ("embedding.py", "self.W.data[padding_id]"): "the padding row starts at zero",
    ("attentive_rnn.py", "dstates[j]"): "entries of a list are replaced by new arrays",
}
WRITERS = {"copyto", "put", "place", "putmask", "fill_diagonal", "fill", "sort", "at", "resize"}


def every(pages):
    return pytest.mark.parametrize("path", pages, ids=lambda path: path.name)


def imports(path):
    """The modules that a source file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def module_of(path):
    return ".".join(("npdl", *path.relative_to(ROOT).with_suffix("").parts))


@every([*PAGES, ROOT / "optim.py"])
def test_a_page_imports_what_is_below_it_and_other_pages(path):
    pages = {module_of(page) for page in (LAYERS if path in LAYERS else PAGES)}
    pages = set() if path.parent == ROOT else pages         # a loss or an optimizer needs no layer
    assert set(imports(path)) <= BELOW | pages | ALSO.get(path.name, set())


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
