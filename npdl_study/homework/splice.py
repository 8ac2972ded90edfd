"""What a student wrote in the marked places, set into the file as it was handed out.

Taken are the functions that were asked for, and the helpers, constants and imports of the same
file that these use; all else is the handed-out file's.
"""

import ast
import copy
import linecache
import sys
import traceback
import types

from npdl_study.containment import message

# A derivative needs no more of Python's modules; of npdl's, what the handed-out file imports.
MODULES = {"collections", "collections.abc", "dataclasses", "functools", "itertools", "math",
           "numpy", "numpy.fft", "numpy.linalg", "numpy.ma", "numpy.random", "numpy.typing",
           "operator", "typing"}
# What no derivation needs: to run or read other code, to take differences of forward.
NEEDLESS = {"exec", "eval", "compile", "open", "__import__", "complex", "complex64", "complex128",
            "imag"}
HANDED_OUT = 1 << 24        # above all line numbers of students


class NotOwn(Exception):
    """What was handed in is not the student's own work, or not there, or no Python."""


def student_names(place, holes, text, pristine=None):
    """{name: value} of a student's file: its Path (for messages), the functions that were to be
    written, "Linear.backward", its bytes, the file as handed out (the student's own if None)."""
    linecache.cache[str(place)] = (len(text), None, text.decode(errors="replace").splitlines(True),
                                   str(place))
    try:
        theirs = ast.parse(text, place.name)
        base = ast.parse(text if pristine is None else pristine)
        if pristine is not None:
            ast.increment_lineno(base, HANDED_OUT)
        tree = _spliced(base, theirs, holes)
        made = sys.modules[place.stem] = types.ModuleType(place.stem)
        exec(compile(tree, str(place), "exec"), vars(made))
        return vars(made)
    except NotOwn as error:
        raise NotOwn(f"{place.name}: {error}") from error
    except (Exception, SystemExit) as error:
        raise NotOwn(sentence(error, f"{place.name} can't be read: it", place)) from error


def sentence(error, name, place):
    """An exception of student code, with the last line of the student's file that it came through,
    handed-out lines left out."""
    if isinstance(error, NotImplementedError):
        return " ".join(str(error).split())
    at = [f" ({place.name}, line {frame.lineno}: {frame.line})"
          for frame in traceback.extract_tb(error.__traceback__)
          if frame.filename == str(place) and frame.lineno < HANDED_OUT]
    return f"{name} raised {message(error)}{''.join(at[-1:])}"


def of_forward(holes):
    """Whether forwards were to be written."""
    return not all("backward" in hole for hole in holes)


def handed_out(text, holes):
    """(a handed-out file without the forward of what is to be written, the modules it imports)."""
    tree = ast.parse(text)
    for name, node in _functions(tree).items():
        if not of_forward(holes) and (node.name == "forward" or f"{name}_backward" in holes):
            node.body = ast.parse("raise NotImplementedError('forward is not in this process: "
                                  "derive the backward')").body
    return ast.unparse(tree), sorted({module for module, _ in _imports(tree.body)})


def _spliced(base, theirs, holes):
    """`base` with what is `theirs`."""
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
    return base


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
    needless = NEEDLESS if of_forward(holes) else NEEDLESS | {"forward"}
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        word = getattr(node, "id", getattr(node, "attr", getattr(node, "value", None)))
        if isinstance(word, complex) or isinstance(word, str) and word in needless:
            raise NotOwn(f"line {node.lineno} uses {word}: derive it, differences and others' code "
                         "are no derivation")
        for module in {module for module, _ in _imports([node]) - handed_out} - MODULES:
            raise NotOwn(f"line {node.lineno} imports {module}: write it here, with NumPy, math "
                         "and this file's imports")
