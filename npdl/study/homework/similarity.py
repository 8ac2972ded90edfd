"""Find equal code. Names of variables, spaces and comments don't matter."""

import ast

SHORTEST = 150          # code with fewer characters is not compared: short code is often equal


def normalise_methods(source, methods):
    """Return the code of some methods without names and comments, to compare it.

    Returns "" if the code is short or invalid. The student's file must have run in a child process
    before, which shows that it doesn't crash Python's parser.
    """
    try:
        code = "\n".join(sorted(
            _normalise_function(node) for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef) and node.name in methods))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return code if len(code) >= SHORTEST else ""


def _normalise_function(function):
    """Return a function's code with numbers for names and without annotations and docstring."""
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
    """Find equal code; return {submission: text} for `graded`, {submission: {exercise: Grade}}.

    The text lists other submissions with equal code, such as "ada (Linear); ben (Tanh)".
    """
    return {name: "; ".join(f"{other} ({exercise})" for exercise, grade in own.items() if grade.code
                            for other, theirs in graded.items()
                            if other != name and theirs[exercise].code == grade.code)
            for name, own in graded.items()}
