"""Notice equal code, whatever the names of its variables, its spacing and its comments are."""

import ast
import hashlib
import inspect
import textwrap

SHORTEST = 60           # nodes of the tree; shorter code is often equal in honest work
LONGEST = 100_000       # bytes of a file; a larger one takes the grader more time


def fingerprint(text, names):
    """Return a digest of the functions of a file that have these names; "" if they are short.

    The file must have run in a process of its own: a hostile one can crash Python's parser.
    """
    if len(text) > LONGEST:
        return ""
    try:
        functions = [node for node in ast.walk(ast.parse(text))
                     if isinstance(node, ast.FunctionDef) and node.name in names]
        for function in functions:
            _normalise(function)
        dumps = sorted(map(ast.dump, functions))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    if sum(1 for function in functions for _ in ast.walk(function)) < SHORTEST:
        return ""
    return hashlib.sha256("".join(dumps).encode()).hexdigest()


def _normalise(function):
    """Number the names of variables, and remove docstring, annotations and checks of arguments."""
    numbers = {}
    function.returns, function.decorator_list = None, []
    function.body = [line for line in function.body if not isinstance(line, ast.Expr)
                     or isinstance(line.value, ast.Call)
                     and not ast.unparse(line.value).startswith("check_")]
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            node.arg, node.annotation = numbers.setdefault(node.arg, str(len(numbers))), None
        elif isinstance(node, ast.Name):
            node.id = numbers.setdefault(node.id, str(len(numbers)))


def reference_fingerprint(exercise):
    """Return the digest of npdl's own solution."""
    functions = [getattr(exercise.cls, blank) for _, blank in exercise.methods]
    return fingerprint("\n".join(textwrap.dedent(inspect.getsource(f)) for f in functions),
                       {f.__name__ for f in functions})


def find_copies(digests):
    """Return {name: text for the column "same as"} of {name: {layer: digest}}."""
    return {name: "; ".join(
        f"{other} ({', '.join(same)})" for other, theirs in digests.items() if other != name
        and (same := [layer for layer, digest in own.items() if digest
                      and digest == theirs.get(layer)])) for name, own in digests.items()}
