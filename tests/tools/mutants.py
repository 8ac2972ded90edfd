"""Functions with one token changed, to see whether a wrong backward is found.

The tokens of a function's assignments and returns are changed one at a time: an operator, a
number, a name (for another name that the function reads), a `.T` that is dropped.
"""

import ast
import io
import keyword
import linecache
import tokenize
from dataclasses import dataclass

from npdl_study.trace.source import find_code
from npdl_study.trace.statements import lines_of

OPERATORS = {"+": ("-", "*"), "-": ("+", "*"), "*": ("/", "+"), "/": ("*", "-"), "@": ("*",),
             "+=": ("-=", "="), "-=": ("+=",), "**": ("*",), "//": ("*",)}
FUNCTIONS = {"sum": ("mean", "max"), "mean": ("sum",), "exp": ("tanh",), "add": ("subtract",),
             "zeros_like": ("ones_like",), "zeros": ("ones",)}
NEVER = {"self", "cache", "xp", "True", "False", "None", "range", "len", "zip", "reversed", "list",
         "enumerate", "tuple", "isinstance"}


@dataclass
class Mutant:
    """`was` at (line, column) of `function`'s source, replaced by `now`."""

    function: object
    line: int
    column: int
    was: str
    now: str

    def __str__(self):
        return (f"{self.function.__qualname__}:{self.line}: {self.was!r} -> {self.now!r} in "
                f"{linecache.getline(self.function.__code__.co_filename, self.line).strip()}")

    @property
    def statement(self):
        return lines_of(self.function.__code__).at(self.line)

    def changed(self):
        """The line as it is changed, as a syntax tree; an empty one for a part of a statement."""
        line = linecache.getline(self.function.__code__.co_filename, self.line)
        try:
            return ast.parse((line[: self.column] + self.now
                              + line[self.column + len(self.was):]).strip())
        except SyntaxError:
            return ast.Module([], [])

    def code(self):
        """The changed function's code, its changed source known to linecache."""
        code = self.function.__code__
        lines = linecache.getlines(code.co_filename)[:]
        text = lines[self.line - 1]
        end = self.column + len(self.was)
        lines[self.line - 1] = text[: self.column] + self.now + text[end:]
        return compiled(code, lines)


def compiled(code, lines):
    """The code of a function as it stands in other `lines` of its file; linecache knows them.

    Only the function is compiled, at its own lines, in a class of its own name.
    """
    name, own = f"{code.co_filename}#mutant", lines_of(code).node
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    grown = len(lines) - len(linecache.getlines(code.co_filename))      # a mutant may be longer
    alone = ["\n"] * (own.lineno - 1) + lines[own.lineno - 1 : own.end_lineno + grown]
    *around, _ = code.co_qualname.split(".")
    if around:
        alone[own.lineno - 2] = f"class {around[0]}:\n"
    return find_code(compile("".join(alone), name, "exec"), code.co_qualname)


def mutants(function):
    """Every Mutant of a function that still compiles."""
    code = function.__code__
    own = lines_of(code)
    source = "".join(linecache.getlines(code.co_filename))
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(source).readline)
              if own.node.lineno < t.start[0] <= own.node.end_lineno]
    names = sorted({t.string for t, before in zip(tokens[1:], tokens, strict=False)
                    if _is_name(t) and before.string != "."} - NEVER - _called(tokens))
    found = []
    for i, token in enumerate(tokens):
        statement = own.at(token.start[0])
        if statement is None or not statement.is_simple:
            continue
        for now in _changes(token, tokens, i, names):
            was = ".T" if now == "" and token.string == ".T" else token.string
            column = token.start[1]
            if token.string == "T" and now == "":
                was, column = ".T", column - 1
            mutant = Mutant(function, token.start[0], column, was, now)
            try:
                if mutant.code() is not None and not nests_itself(mutant.changed()):
                    found.append(mutant)
            except SyntaxError:
                continue
    return found


def nests_itself(tree):
    """Return True if a list is put into itself, of which NumPy makes an array without an end."""
    return any(isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
               and call.func.attr in ("append", "insert", "extend")
               and any(ast.unparse(call.func.value) == ast.unparse(a) for a in call.args)
               for call in ast.walk(tree))


def _is_name(token):
    return token.type == tokenize.NAME and not keyword.iskeyword(token.string)


def _called(tokens):
    return {t.string for t, after in zip(tokens, tokens[1:], strict=False) if after.string == "("}


def _changes(token, tokens, i, names):
    before = tokens[i - 1].string if i else ""
    after = tokens[i + 1].string if i + 1 < len(tokens) else ""
    if token.type == tokenize.OP:
        unary = token.string == "-" and before in ("", "=", "(", ",", "return", "[", "+=")
        return ("",) if unary else OPERATORS.get(token.string, ())
    if token.type == tokenize.NUMBER:
        return (str(eval(token.string) + 1),)
    if not _is_name(token):
        return ()
    if before == ".":
        if token.string == "T":
            return ("",)
        return FUNCTIONS.get(token.string, ())
    if token.string not in names or after == "=" or after == "(":
        return ()
    # the next names in the alphabet, and those that start alike: dq for dk
    place = names.index(token.string)
    others = [names[(place + k) % len(names)] for k in (1, len(names) - 1)]
    return tuple(dict.fromkeys(n for n in others if n != token.string))
