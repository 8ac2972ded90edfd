"""Notice equal code, whatever the names of its variables, its spacing and its comments are."""

import ast
import inspect
import textwrap

SHORTEST = 60           # nodes of the tree; shorter code is often equal in honest work
LONGEST = 100_000       # bytes of a file; a larger one takes the grader more time


def normalised(text, names):
    """Return the functions of a file that have these names, normalised; "" if they are short.

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
    nodes = sum(1 for function in functions for _ in ast.walk(function))
    return "\n".join(dumps) if nodes >= SHORTEST else ""


def _normalise(function):
    """Number the names of variables, and remove annotations, the docstring and bare calls."""
    numbers = {}
    function.returns = None
    function.body = [line for line in function.body if not isinstance(line, ast.Expr)]
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            node.arg, node.annotation = numbers.setdefault(node.arg, str(len(numbers))), None
        elif isinstance(node, ast.Name):
            node.id = numbers.setdefault(node.id, str(len(numbers)))


def normalised_reference(exercise):
    """Return npdl's own solution, normalised."""
    sources = [inspect.getsource(getattr(exercise.cls, name)) for name in exercise.methods]
    return normalised("\n".join(map(textwrap.dedent, sources)), exercise.methods)


def find_copies(graded):
    """Return {name: the others with equal code, as text} of {name: {layer: normalised code}}."""
    return {name: "; ".join(f"{other} ({layer})" for layer, code in own.items() if code
                            for other, theirs in graded.items()
                            if other != name and theirs[layer] == code)
            for name, own in graded.items()}
