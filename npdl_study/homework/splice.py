"""What a student wrote in the marked places, set into the file as it was handed out.

Taken are the functions that were asked for and what of the student's these need: helpers, imports,
constants, the statements that change them. At home and in class it is this one splice.
"""

import ast
import copy
import dis
import io
import linecache
import sys
import traceback
import types

from npdl_study.containment import message
from npdl_study.homework.submissions import NotOwn

# A derivative needs no more of Python's modules; of npdl's, xp and what is imported already.
MODULES = {"__future__", "abc", "collections", "collections.abc", "contextlib", "copy",
           "dataclasses", "enum", "fractions", "functools", "itertools", "math", "numbers", "numpy",
           "numpy.fft", "numpy.linalg", "numpy.ma", "numpy.polynomial", "numpy.random",
           "numpy.testing", "numpy.typing", "operator", "typing", "warnings"}
# What no derivation needs: to run or read other code, to take differences of forward.
COMPLEX = {"complex", "complex64", "complex128"}
NEEDLESS = {"GLOBAL": {"exec", "eval", "compile", "open", "__import__", "complex"},
            "ATTR": COMPLEX | {"imag", "forward"}, "CONST": COMPLEX}
KINDS = {**dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"), "GLOBAL"),
         **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"), "ATTR"),
         **dict.fromkeys(("LOAD_CONST", "RETURN_CONST"), "CONST"), "STORE_NAME": "OWN"}
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
LINES = {}          # {path of a student's file: how many lines it has}; then come the handed-out


def student_names(place, task, pristine, text):
    """{name: value} of a student's file: its Path (for messages), what was asked (HANDED_OUT), the
    file as handed out, or without its forward, and the student's bytes."""
    lines = io.StringIO(text.decode(errors="replace") + "\n", None).readlines()
    linecache.cache[str(place)] = (0, None, lines + pristine.splitlines(True), str(place))
    LINES[str(place)] = len(lines)
    try:
        base, theirs = ast.parse(pristine), ast.parse(text, place.name)
        _splice(ast.increment_lineno(base, len(lines)), theirs, task["holes"], task["forward"])
        made = sys.modules[place.stem] = types.ModuleType(place.stem)
        exec(compile(base, str(place), "exec", dont_inherit=True), vars(made))
        return vars(made)
    except (Exception, SystemExit) as error:
        raise NotOwn(f"{place.name}: {error}" if isinstance(error, NotOwn) else
                     sentence(error, f"{place.name} can't be read: it", place)) from error


def sentence(error, name, place):
    """An exception of student code, with the last line of the student's file that it came through,
    handed-out lines left out."""
    if isinstance(error, NotImplementedError):
        return f"not written: {message(error).partition(': ')[2]}"
    at = [f" ({place.name}, line {frame.lineno}: {frame.line})"
          for frame in traceback.extract_tb(error.__traceback__)
          if frame.filename == str(place) and frame.lineno <= LINES[str(place)]]
    return f"{name} raised {message(error)}{''.join(at[-1:])}"


def _splice(base, theirs, holes, forward):
    """Set what is `theirs` into `base`; `forward` whether forwards were asked for."""
    homes, taken, words, names, attributes = dict(_homes(base)), [], [], {"*"}, set()
    ours = {home: set().union(*map(_changed, body)) for home, body in homes.items()}
    written = [(home, node) for home, body in _homes(theirs) if home in homes
               for node in _apart(body)]
    asked = {home + node.name: (home, node) for home, node in written
             if isinstance(node, ast.FunctionDef) and home + node.name in holes}
    for hole in holes:
        if hole not in asked:
            raise NotOwn(f"there is no {hole} of its own: write it there")
    new = [*asked.values()]
    while new:
        taken += new
        words += [word for _, node in new for word in _words(node)]
        names |= {word for kind, word, _ in words if kind == "GLOBAL"}
        attributes |= {word for kind, word, _ in words if kind == "ATTR"}
        new = [(home, node) for home, node in written if (home, node) not in taken
               and (_changed(node) - ours[home]) & (names | attributes if home else names)]
    _refuse(words, [node for _, node in taken], base.body, forward)
    for home, body in homes.items():
        own = {node.name: node for node in body if isinstance(node, DEFINITIONS)}
        at = min(map(body.index, own.values()), default=len(body))
        for node in (node for where, node in written if where == home):
            old, is_taken = own.get(getattr(node, "name", "")), (home, node) in taken
            if old:                             # what comes after it there does so here
                at = body.index(old) + 1
                body[at - 1] = own[node.name] = node if is_taken else old
            elif is_taken and "*" not in _changed(node):
                body.insert(at, node)
                at += 1
    base.body[:0] = [node for _, node in taken if "*" in _changed(node)]


def _homes(tree):
    """[("" or "Linear.", the statements of a file or of its classes)]."""
    return [("", tree.body)] + [(f"{node.name}.", node.body) for node in tree.body
                                if isinstance(node, ast.ClassDef)]


def _apart(body):
    """Statements; of an import one for each name, so that what is unused is left out."""
    for node in body:
        for alias in getattr(node, "names", [None]):
            one = copy.copy(node)
            if alias:
                one.names = [alias]
            yield one


def _changed(node):
    """The names that a statement of a file or a class binds or changes; "*": who knows."""
    found = {"*"} if getattr(node, "module", "") == "__future__" else set()
    for inner in [node] if isinstance(node, DEFINITIONS) else ast.walk(node):
        call, parts = getattr(inner, "value", None), []
        if isinstance(inner, (ast.alias, *DEFINITIONS)):
            found.add((getattr(inner, "asname", "") or inner.name).split(".")[0])
        elif isinstance(inner, ast.Expr) and isinstance(call, ast.Call):
            parts = [call.func, *call.args]     # TABLE.update(...), np.copyto(TABLE, ...)
        elif not isinstance(getattr(inner, "ctx", ast.Load()), ast.Load):
            parts = [inner]
        found |= {name.id for part in parts if not isinstance(part, ast.Call)
                  for name in ast.walk(part) if isinstance(name, ast.Name)}
    return found


def _words(node):
    """(of KINDS, what, line) of a statement's code: a function's locals are none of these."""
    codes = [compile(ast.Module([node], []), "", "exec", dont_inherit=True)]
    for code in codes:
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        yield from ((KINDS[step.opname], step.argval, step.positions.lineno)
                    for step in dis.get_instructions(code) if step.opname in KINDS)


def _imports(nodes):
    """{(module, name)} of what these import."""
    return {(getattr(node, "module", None) or alias.name, alias.name) for node in nodes
            if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}


def _refuse(words, nodes, base, forward):
    """Raise NotOwn for what is no derivation, where it stands in plain sight."""
    own = {word for kind, word, _ in words if kind == "OWN"} | ({"forward"} if forward else set())
    for kind, word, line in words:
        if isinstance(word, complex) or word in NEEDLESS.get(kind, set()) - own:
            raise NotOwn(f"line {line} uses {word}: derive it, differences and others' code are no "
                         "derivation")
    allowed = _imports(base) | {("npdl.backend", "xp")}
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        for module in {module for module, _ in _imports([node]) - allowed} - MODULES:
            raise NotOwn(f"line {node.lineno} imports {module}: write it here, with NumPy, math "
                         "and this file's imports")
