"""Notice equal code, whatever the names of its variables, its spacing and its comments are."""

import ast

SHORTEST = 150          # characters; shorter code is often equal in honest work


def find_methods(text, exercise):
    """Yield the methods of an exercise in a student's file, as syntax trees."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and node.name == exercise.name:
            yield from (one for one in node.body if isinstance(one, ast.FunctionDef)
                        and one.name in exercise.methods)


def normalised(functions):
    """Return syntax trees of functions as normalised code; "" if it is short.

    Their file must have run in a process of its own: a hostile one can crash Python's parser.
    """
    try:
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


def find_copies(graded):
    """Return {name: the others with equal code, as text} of {name: {layer: normalised code}}."""
    return {name: "; ".join(f"{other} ({layer})" for layer, code in own.items() if code
                            for other, theirs in graded.items()
                            if other != name and theirs[layer] == code)
            for name, own in graded.items()}
