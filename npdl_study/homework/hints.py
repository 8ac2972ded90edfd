"""What a blanked function keeps: its equations, its shapes, its names, as comments."""

import ast
import re
import textwrap

from npdl_study.trace.statements import comments

WIDTH = 100


def equation_of(lines, owner, function, twin=None):
    """The equation behind a function: of its forward `twin`, of its class, of its comments, or
    its own, whichever is there first."""
    if twin is not None and twin is not function and ast.get_docstring(twin):
        return _first_sentence(ast.get_docstring(twin))
    about = owner if "ward" in function.name else None      # a class's equation is its forward's
    own, whole = (ast.get_docstring(node) or "" if node is not None else ""
                  for node in (function, about))
    said = _said_in(lines, function.body[0].lineno, function.end_lineno).values()
    said = "; ".join(dict.fromkeys(_bare(text) for text, _ in said if "=" in text))
    first = [_first_sentence(text) for text in (whole, without_answer(own)) if text]
    found = [text for text in (first[:1] if whole else []) + [said] + first if "=" in text]
    named = f"the one that {function.name.removesuffix('_backward')} computes"
    return (found + [text for text in first if text] + [named])[0]


def without_answer(text):
    """A docstring up to the first equation of a gradient in it: "dx = y (dy - ...)"."""
    kept = re.split(r"[:;,.]?\s+d[a-zA-Z]\w* = ", text)[0]
    return kept if kept == text else kept.rstrip() + "."


def _spaced(text):
    return re.sub(r"\s+", " ", text).strip()


def _bare(comment):
    """The equation of a comment, without a name and its shape before it."""
    return re.sub(r"^\w+ \([^)]*\)[:,]? ", "", _spaced(comment)).rstrip(":")


def _first_sentence(text):
    """The first sentence of a docstring, its equations beside one another, no citation in it."""
    paragraph = re.sub(r",?\n {4,}", ",  ", text.split("\n\n")[0])
    sentence = re.split(r"(?<=[^.])[.] (?=[A-Z`(])", _spaced(paragraph))[0].rstrip(".:")
    return _spaced(re.sub(r"\([A-Z][^()]*\d{4}[^()]*\),?", "", sentence)).replace(":,", ":")


def _said_in(lines, first, last):
    """`comments` of source lines first..last, 1 the first."""
    every = comments("\n".join(lines))
    return {n: told for n, told in every.items() if first <= n <= last}


def hinted(lines, function, body, equation, indent):
    """Comment lines in place of a body: equation, cache, what is added to, the comments."""
    hints = [("equation", equation)]
    read = _read(body)
    if read:
        hints.append(("cache has", ", ".join(read)))
    made = _made(body)
    if made:
        hints.append(("cache needs", ", ".join(made)))
    added = [ast.unparse(n.target) for s in body for n in ast.walk(s)
             if isinstance(n, ast.AugAssign)]
    if added:
        hints.append(("adds to", ", ".join(dict.fromkeys(added))))
    called = _called(body)
    if called:
        hints.append(("may use", ", ".join(called)))
    hints += _said(lines, function, body)
    returned = [n.value for s in body for n in ast.walk(s)
                if isinstance(n, ast.Return) and n.value is not None]
    outline = _outline(returned[-1]) if returned else "..."
    if outline != "..." and len(body) > 1:                  # else it is the whole answer
        hints.append(("returns", outline))
    width = min(20, max(len(name) for name, _ in hints))
    shown = [f"{indent}# Yours to write. What is known:"]
    for name, hint in hints:
        head = f"{indent}#   {name:<{width}}  "
        shown += textwrap.wrap(hint, WIDTH, initial_indent=head,
                               subsequent_indent=f"{indent}#   {'':<{width}}  ")
    return shown


def _said(lines, function, body):
    """(name, comment) of the lines of a body that have one."""
    targets = {}
    for statement in (n for s in body for n in ast.walk(s) if isinstance(n, ast.stmt)):
        for line in range(statement.lineno, (statement.end_lineno or 0) + 1):
            if not hasattr(statement, "body"):
                targets[line] = target_of(statement)
            elif line < statement.body[0].lineno:               # if ...: what is done then
                targets[line] = target_of(statement.body[0])
    said = _said_in(lines, body[0].lineno, function.end_lineno)
    hints = []
    for line, (text, alone) in said.items():
        name = "" if alone else targets.get(line, "")
        hints.append((name, _spaced(text.removeprefix(name) if name else text)))
    return hints


def _outline(value):
    """An expression without what is computed in it: (y, Cache(...))."""
    if isinstance(value, ast.Tuple):
        return f"({', '.join(_outline(part) for part in value.elts)})"
    if isinstance(value, ast.Call):
        return f"{ast.unparse(value.func)}(...)"
    return ast.unparse(value) if isinstance(value, (ast.Name, ast.Constant)) else "..."


def target_of(statement):
    """What a statement writes."""
    if isinstance(statement, ast.AugAssign):
        return ast.unparse(statement.target)
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        return ", ".join(ast.unparse(part) for part in parts)
    return "return" if isinstance(statement, ast.Return) else ""


def line_hint(lines, owner, function, statement, twin=None):
    """(what the statement writes, the equation): its own comment's, else the last one before it,
    else the function's, if that tells more of what the gradient belongs to."""
    said = _said_in(lines, function.body[0].lineno, function.end_lineno)
    target = target_of(statement)
    own = [text for line, (text, _) in said.items()
           if statement.lineno <= line <= statement.end_lineno]
    if own and "=" in own[0]:
        return target, _bare(own[0])
    before = [text for line, (text, _) in said.items() if line < statement.lineno and "=" in text]
    whole = equation_of(lines, owner, function, twin)
    near = _bare(before[-1]) if before else whole
    names = [a or b for a, b in re.findall(r"(?:^|, )(?:self\.(\w+)\.grad|d(\w+))", target)]
    if any(not _uses(name, near) or _uses(name, whole) > _uses(name, near) for name in names):
        near = whole
    return target, near if not own else f"{_spaced(own[0])}; {near}"


def _uses(name, equation):
    """How often a name stands in an equation, not counting "name =" and "a, name, b ="."""
    return len(re.findall(rf"\b{name}\b(?!(?:, \w+)* =)", equation))


PLAIN = ("len", "range", "enumerate", "reversed", "list", "tuple", "zip", "isinstance", "type",
         "Cache")
ARRAYS = ("sum", "mean", "reshape", "swapaxes", "copy", "astype", "max", "insert", "append")


def _called(body):
    """The functions and methods of npdl that a body calls: what else could be known of them?"""
    found = []
    for node in (n for s in body for n in ast.walk(s) if isinstance(n, ast.Call)):
        name = ast.unparse(node.func)
        last = name.rsplit(".", 1)[-1]
        plain = name in PLAIN or name.startswith("check") or (
            "." in name and (last in ARRAYS or name.startswith("xp.")))
        if not plain and re.fullmatch(r"[\w.]+", name) and not name.endswith("Error"):
            found.append(name)
    return list(dict.fromkeys(found))


def _read(body):
    """What some statements read of the cache, each once."""
    return list(dict.fromkeys(
        n.attr for s in body for n in ast.walk(s)
        if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == "cache"))


def _made(body):
    """The fields of the Cache that a forward makes."""
    return list(dict.fromkeys(
        k.arg for s in body for n in ast.walk(s) if isinstance(n, ast.Call)
        and getattr(n.func, "id", "") == "Cache" for k in n.keywords if k.arg))
