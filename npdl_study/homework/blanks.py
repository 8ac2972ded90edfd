"""Student files: a copy of npdl's own source, cut down to what is asked, with holes in it.

Everything is taken from the source as it stands (inspect, ast), so that a student file can't
drift from the layer that it asks for. Classes and functions that the student does not write are
imported from npdl.
"""

import ast
import importlib
import inspect
import json
import sys
import textwrap
import types
from dataclasses import dataclass

import numpy as np

from npdl.backend import stream
from npdl.errors import InputError
from npdl_study.check.samples import sample
from npdl_study.homework.hints import equation_of, hinted, line_hint, without_answer
from npdl_study.trace.syntax import names_of
from npdl_study.trees import upstream

WIDTH = 100
FUNCTIONS = (ast.FunctionDef,)
# What a forward asks for besides: methods and functions of the same module, whoever calls them.
BESIDES = {"MultiHeadAttention": ("MultiHeadAttention.split", "MultiHeadAttention.join"),
           "SinusoidalPositions": ("sinusoidal",), "SequenceLoss": ("exact_match",)}
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


@dataclass
class Hole:
    """What is to be written: a function, or one statement of it; the equation behind it; and
    npdl's own, as "module:qualname"."""

    file: str
    qualname: str
    equation: str
    statement: str = ""
    original: str = ""


class Source:
    """The source of a module, as text and as a tree."""

    def __init__(self, name):
        self.name = name
        module = importlib.import_module(name)
        self.path = module.__file__
        self.lines = inspect.getsource(module).splitlines()
        self.tree = ast.parse("\n".join(self.lines))
        self.definitions = {n.name: n for n in self.tree.body if isinstance(n, DEFINITIONS)}
        self.assigned = {t.id for n in self.tree.body if isinstance(n, ast.Assign)
                         for t in n.targets if isinstance(t, ast.Name)}
        self.edits = []

    def functions(self, class_name, forward, reached):
        """{qualname: node} of what a student writes for a class: its own backward functions (or
        forward ones) and the module's that these call, or that those call which it inherits; only
        what a sample reaches, and none that only calls another of them."""
        chosen = self._methods(class_name, forward)
        inherited = [f for base in self._bases(class_name) if not chosen
                     for f in self._methods(base, forward).values()]
        chosen |= self.called([*chosen.values(), *inherited], forward)
        chosen = {name: f for name, f in chosen.items()
                  if (self.path, name) in reached and not _only_raises(f)}
        besides = BESIDES.get(class_name, ()) if forward else ()
        return chosen | {name: self.defined(name) for name in besides}

    def defined(self, qualname):
        """The node of a function or a method."""
        owner, _, name = qualname.rpartition(".")
        body = self.definitions[owner].body if owner else self.tree.body
        return next(f for f in body if isinstance(f, FUNCTIONS) and f.name == name)

    def _methods(self, class_name, forward):
        own = {f.name: f for f in self.definitions[class_name].body if isinstance(f, FUNCTIONS)}
        return {f"{class_name}.{name}": f for name, f in own.items()
                if _is_asked(name, own, forward)}

    def _bases(self, class_name):
        """The names of a class's bases in its own module."""
        return [b.id for b in self.definitions[class_name].bases
                if isinstance(b, ast.Name) and b.id in self.definitions]

    def called(self, functions, forward):
        """{name: node} of the module's functions of the wanted direction that these call."""
        names = names_of(*functions)
        return {name: node for name, node in self.definitions.items()
                if isinstance(node, FUNCTIONS) and name in names
                and _is_asked(name, self.definitions, forward)}

    def edited(self):
        """The whole text, with the edits."""
        return "\n".join(_edited(self.lines, 1, len(self.lines), self.edits)) + "\n"

    def twin(self, qualname):
        """The forward function beside `softmax_backward`, or None."""
        stem = qualname.removesuffix("_backward")
        return self.definitions.get(stem) if stem != qualname else None

    def closure(self, names, left_out=()):
        """The definitions that these need from their own module: base classes and functions,
        without those in `left_out`, {(module, name)}."""
        kept, waiting = set(), list(names)
        while waiting:
            name = waiting.pop()
            if name in kept or (self.name, name) in left_out:
                continue
            kept.add(name)
            node = self.definitions[name]
            bases = self._bases(name) if isinstance(node, ast.ClassDef) else ()
            used = names_of(node)
            waiting += [n for n, other in self.definitions.items()
                        if n in bases or (n in used and isinstance(other, FUNCTIONS))]
        return kept


def delegates(function, chosen):
    """Whether a function only hands its work to another that is to be written."""
    body = [s for s in _body(function) if not isinstance(s, (ast.Return, ast.Expr))
            and not (isinstance(s, ast.If) and _only_raises(s))]
    names = {name for name in chosen if "." not in name}
    return bool(body) and all(
        isinstance(s, ast.Assign) and isinstance(s.value, ast.Call)
        and getattr(s.value.func, "id", "") in names for s in body)


def called_first(found):
    """[(Source, qualname, node)] with what a function calls before it, else as they stand."""
    ordered = []

    def put(entry):
        _, qualname, node = entry
        names = names_of(node)
        names |= {f"{qualname.split('.')[0]}.{n.attr}" for n in ast.walk(node)
                  if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "self"}
        waiting.remove(entry)
        for other in [e for e in waiting if e[1] in names]:
            if other in waiting:
                put(other)
        ordered.append(entry)

    waiting = list(found)
    while waiting:
        put(waiting[0])
    return ordered


def _is_asked(name, beside, forward):
    """Whether a function is of the wanted direction, by its name and its neighbours'."""
    if forward:
        return name == "forward" or name.startswith("_forward") or f"{name}_backward" in beside
    return name == "backward" or name.startswith("_backward") or name.endswith("_backward")


def _only_raises(node):
    return all(isinstance(s, (ast.Raise, ast.Pass)) for s in _body(node))


def _body(node):
    """The statements of a function after its docstring, or of an `if`."""
    told = isinstance(node, FUNCTIONS) and ast.get_docstring(node)
    return node.body[1:] if told else node.body


def reached_by(cls):
    """{(file, qualname)} of the functions that run in forward and backward of a class's sample."""
    return reached(lambda: run_sample(cls))


def reached(work):
    """{(file, qualname)} of the functions that run in work()."""
    found = set()

    def see(frame, event, arg):
        if event == "call":
            found.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


def run_sample(cls):
    """Forward and backward of a class's sample. Raises InputError when it has none of its own."""
    layer, inputs, options = sample(cls)
    if type(layer) is not cls:
        raise InputError(f"{cls.__name__} is no layer of its own, so it can't be graded alone; "
                         "choose a class that is built on it, or --level lstm")
    with np.errstate(all="ignore"):
        outputs, cache = layer.forward(*inputs, **options)
        layer.backward(upstream(outputs, stream(0, 78)), cache)


def student_text(sources, title):
    """The text of a student file.

    sources   [(Source, names)]: the classes and functions of each module that the file defines,
              with the Source's edits (first line, last line, new lines); the rest it imports
    """
    parts, used, defined = [], set(), set()
    for source, names in sources:
        nodes = [source.definitions[name] for name in source.definitions if name in names]
        used |= names_of(*nodes)
        defined |= set(names)
        for node in nodes:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            edited = _edited(source.lines, first, node.end_lineno, source.edits)
            parts.append("\n" + "\n".join(edited))
    imports = _imports([source for source, _ in sources], used, defined)
    return "\n\n".join([f'"""{title}"""', "\n".join(imports), *parts]) + "\n"


def _edited(lines, first, last, edits):
    result, at = [], first
    for start, end, new in sorted(edits, key=lambda edit: edit[0]):
        if first <= start and end <= last:
            result += lines[at - 1 : start - 1] + new
            at = end + 1
    return result + lines[at - 1 : last]


def _imports(sources, used, defined):
    """Import statements of what the kept code uses: the standard library, others, npdl's."""
    plain, named = set(), {}
    for source in sources:
        for module, alias in imported(source):
            name = alias.asname or alias.name
            if module is None and name.split(".")[0] in used:
                plain.add(f"import {ast.unparse(alias)}")
            elif module is not None and name in used - defined:
                named.setdefault(module, set()).add(ast.unparse(alias))
        own = (set(source.definitions) | source.assigned) & used - defined
        if own:
            named.setdefault(source.name, set()).update(own)
    standard = {line for line in plain if line.split()[1].split(".")[0] in sys.stdlib_module_names}
    order = sorted(named, key=lambda m: (m.startswith("npdl"), "." not in m, m))
    return [line for block in (standard, plain - standard) if block
            for line in (*sorted(block), "")] + [_from(m, sorted(named[m])) for m in order]


def imported(source):
    """(module, alias) of what a module imports from others, (None, alias) of whole modules."""
    for node in source.tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((getattr(node, "module", None), alias) for alias in node.names)


def _from(module, names):
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    listed = textwrap.fill(", ".join(names), WIDTH - 4)
    return f"from {module} import (\n{textwrap.indent(listed, '    ')},\n)"


def blank_function(source, qualname, function, owner, file):
    """The Hole, and an edit of the source: the whole body of a function gone, what its comments
    say kept as hints, an answer in its docstring not."""
    body, first = _body(function), function.body[0].lineno
    twin = source.twin(qualname)
    equation = equation_of(source.lines, owner, function, twin)
    indent = " " * body[0].col_offset
    message = f"{qualname} in {file} is yours to write; the equation: {equation}"
    said = ast.get_docstring(function, clean=False)
    new = _docstring(said, indent)
    new += hinted(source.lines, function, body, equation, indent) + _raising(message, indent)
    source.edits.append((first, function.end_lineno, new))
    return Hole(file, qualname, equation, original=f"{source.name}:{qualname}")


def blank_line(source, qualname, function, owner, file, statement):
    """The Hole, and an edit of the source: one statement gone."""
    indent = " " * statement.col_offset
    target, equation = line_hint(source.lines, owner, function, statement,
                                 source.twin(qualname))
    message = f"{target} of {qualname} in {file} is yours to write; the equation: {equation}"
    said = ast.get_docstring(function, clean=False)
    if said and without_answer(said) != said:
        first = function.body[0]
        source.edits.append((first.lineno, first.end_lineno,
                             _docstring(said, " " * first.col_offset)))
    sign = "+=" if isinstance(statement, ast.AugAssign) else "="
    shown = "return" if target == "return" else f"{target} {sign}"
    new = textwrap.wrap(equation, WIDTH, initial_indent=f"{indent}# {shown} ?    ",
                        subsequent_indent=f"{indent}#     ") + _raising(message, indent)
    source.edits.append((statement.lineno, statement.end_lineno, new))
    return Hole(file, qualname, equation, target, f"{source.name}:{qualname}")


def _docstring(said, indent):
    """The lines of a docstring without an answer in it; none for none."""
    return f'{indent}"""{without_answer(said)}"""'.splitlines() if said else []


def _raising(message, indent):
    pieces = textwrap.wrap(message, WIDTH - len(indent) - 8, drop_whitespace=False)
    quoted = [f"{indent}    {json.dumps(piece, ensure_ascii=False)}" for piece in pieces]
    return [f"{indent}raise NotImplementedError(", *quoted, f"{indent})"]


def statements(function, forward):
    """The statements of a function that are worth a line of homework, in their order."""
    found = []
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AugAssign)) and _computes(node, forward):
            found.append(node)
    returns = [n for n in ast.walk(function)
               if isinstance(n, ast.Return) and n.value is not None]
    return sorted(found, key=lambda n: n.lineno) or returns


def texts(functions):
    """{text} of the statements of functions that compute something."""
    return {ast.unparse(s) for f in functions for s in statements(f, forward=True)}


# Calls that only arrange arrays.
ARRANGING = {"reshape", "split", "join", "gradients_of", "split_groups", "swapaxes", "zeros",
             "zeros_like", "empty", "empty_like", "Cache", "copy", "len", "type", "astype", "stack",
             "by_layer", "start", "map_state", "real_steps", "h_of", "reversed", "range", "append",
             "asarray", "ones", "to_device", "checked_ids"}


def _computes(node, forward):
    target = ast.unparse(node.target if isinstance(node, ast.AugAssign) else node.targets[0])
    if not forward and not (target.lstrip("(").startswith("d") or ".grad" in target):
        return False
    called = {getattr(n.func, "attr", getattr(n.func, "id", "")) for n in ast.walk(node.value)
              if isinstance(n, ast.Call)}
    products = any(isinstance(n, (ast.BinOp, ast.UnaryOp)) for n in _outside_calls(node.value))
    looked_up = (isinstance(node.value, ast.Subscript)
                 and ast.unparse(node.value.value).endswith(".data"))       # self.W.data[ids]
    return isinstance(node, ast.AugAssign) or products or looked_up or bool(called - ARRANGING)


def _outside_calls(value):
    """The nodes of an expression that are in no index and in no arranging call."""
    yield value
    for child in ast.iter_child_nodes(value):
        if not isinstance(value, ast.Subscript) or child is value.value:
            yield from _outside_calls(child)


def loaded(text, name):
    """The module that a student file's text makes."""
    module = types.ModuleType(name)
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return module
