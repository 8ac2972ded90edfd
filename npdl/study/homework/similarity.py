"""Notice equal code, whatever the names of its variables, its spacing and its comments are."""

import ast
import inspect
import textwrap

SHORTEST = 150          # characters; shorter code is often equal in honest work


def normalised(text, names):
    """Return the functions of a file that have these names, normalised; "" if they are short.

    The file must have run in a process of its own: a hostile one can crash Python's parser.
    """
    try:
        functions = [node for node in ast.walk(ast.parse(text))
                     if isinstance(node, ast.FunctionDef) and node.name in names]
        code = "\n".join(sorted(map(_normalised, functions)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return code if len(code) >= SHORTEST else ""


def _normalised(function):
    """Return a function with numbered variables, without annotations, docstring and bare calls."""
    numbers = {}
    function.returns = None
    function.body = [line for line in function.body if not isinstance(line, ast.Expr)]
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            node.arg, node.annotation = numbers.setdefault(node.arg, str(len(numbers))), None
        elif isinstance(node, ast.Name):
            node.id = numbers.setdefault(node.id, str(len(numbers)))
    return ast.unparse(function)


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
