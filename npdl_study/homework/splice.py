"""What a student wrote in the marked places, set into the file as it was handed out.

Taken are the functions that were asked for, and the helpers, constants and imports of the same
file that these use; all else is the handed-out file's.
"""

import ast
import copy
import sys
import types

from npdl_study.homework.judging import sentence

# A derivative needs no more of Python's modules; of npdl's, what the handed-out file imports.
MODULES = {"collections", "dataclasses", "functools", "itertools", "math", "numpy", "operator",
           "typing"}
# Names that no derivation needs; forward, for one that differences it; nor __dunders__ but these.
NEEDLESS = {"exec", "eval", "compile", "open", "globals", "vars", "complex", "complex64",
            "complex128", "imag"}
DUNDER = {"__init__", "__name__", "__class__", "__call__"}


class NotOwn(Exception):
    """What was handed in is not the student's own work, or not there, or no Python."""


def student_class(place, name, holes, pristine=None):
    """(a student's class, the names of the student's functions, what else was changed).

    place      the student's file, a Path
    holes      the functions that were to be written, "Linear.backward"
    pristine   the file as handed out; the student's own if None
    """
    try:
        text = place.read_bytes()
        theirs = ast.parse(text, place.name)
        base = ast.parse(text if pristine is None else pristine)
        tree, functions, changed = _spliced(base, theirs, holes)
        made = sys.modules[place.stem] = types.ModuleType(place.stem)
        made.__file__ = str(place)
        exec(compile(tree, str(place), "exec"), vars(made))
        return getattr(made, name), functions, changed
    except NotOwn as error:
        raise NotOwn(f"{place.name}: {error}") from error
    except (Exception, SystemExit) as error:
        raise NotOwn(sentence(error, f"{place.name} can't be read: it", place)) from error


def _spliced(base, theirs, holes):
    """(`base` with what is `theirs`, names, changed); line numbers are each file's own."""
    ours, written = _functions(base), _functions(theirs)
    missing = [hole for hole in holes if hole not in written]
    if missing:
        raise NotOwn(f"there is no {missing[0]} of its own: write it there")
    classes = {node.name: node for node in base.body if isinstance(node, ast.ClassDef)}
    known, defined = set(_definitions(base)), _definitions(theirs)
    taken, added = {hole: written[hole] for hole in holes}, []
    waiting = list(taken.values())
    while waiting:
        inside = list(ast.walk(waiting.pop()))
        names = {node.id for node in inside if isinstance(node, ast.Name)} - known
        attributes = {node.attr for node in inside if isinstance(node, ast.Attribute)}
        new = [node for name, node in defined.items() if name in names]
        methods = {name: node for name, node in written.items() if name not in {*ours, *taken}
                   and name.rpartition(".")[0] in classes and node.name in attributes}
        known |= names
        added += new
        taken |= methods
        waiting += [*new, *methods.values()]
    added = sorted({id(node): node for node in added}.values(), key=lambda node: node.lineno)
    _refuse([*taken.values(), *added], _imports(base.body), holes)
    for name, node in taken.items():
        home = classes[name.split(".")[0]].body if "." in name else base.body
        at = home.index(ours[name]) if name in ours else len(home)
        home[at : at + (name in ours)] = [node]
    first = next(i for i, node in enumerate(base.body) if hasattr(node, "body"))
    base.body[first:first] = added
    changed = [name for name, node in ours.items() if name in written and name not in taken
               and ast.dump(node) != ast.dump(written[name])]
    return base, {*taken, *(node.name for node in added if hasattr(node, "body"))}, changed


def _functions(tree):
    """{qualname: node} of a file's functions and methods."""
    found = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    return found | {f"{cls.name}.{node.name}": node for cls in tree.body
                    if isinstance(cls, ast.ClassDef) for node in cls.body
                    if isinstance(node, ast.FunctionDef)}


def _definitions(tree):
    """{name: statement} of what a file defines, imports and assigns."""
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:            # each by itself: an unused one is left out
                one = found[(alias.asname or alias.name).split(".")[0]] = copy.copy(node)
                one.names = [alias]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            found |= {n.id: node for n in ast.walk(node)
                      if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return found


def _imports(nodes):
    """{(module, name)} of what these import."""
    return {(getattr(node, "module", None) or alias.name, alias.name) for node in nodes
            if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}


def _refuse(nodes, handed_out, holes):
    """Raise NotOwn for what is no derivation, where it stands in plain sight."""
    backward = all("backward" in hole for hole in holes)
    twins = {hole.removesuffix("_backward") for hole in holes if "." not in hole and backward}
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        word = (getattr(node, "id", None) or getattr(node, "attr", None)
                or getattr(node, "value", None))
        why = ""
        if backward and word == "forward" or isinstance(node, ast.Name) and word in twins:
            why = f"calls {word}: derive it, differences are no derivation"
        elif isinstance(word, complex) or isinstance(word, str) and (
                word in NEEDLESS or word.startswith("__") and word not in DUNDER):
            why = f"uses {word}, which no derivation needs: take it out"
        for module, _ in _imports([node]) - handed_out:
            if module.split(".")[0] not in MODULES:
                why = f"imports {module}: write it here, with NumPy, math and this file's imports"
        if why:
            raise NotOwn(f"line {node.lineno} {why}")
