"""Find the syntax tree of a function that runs, and compile a changed tree.

A function is found by its file, its first line and its name. So the search also works for a class
inside of a function, and for a name that is assigned twice.
"""

import ast
import contextlib
import functools
import inspect

HOOK = "__npdl__"


@functools.lru_cache(maxsize=64)
def find_definitions(text):
    """Return {(first line, name): (node, class name or "")} of all functions in a file's text."""
    found, todo = {}, [(ast.parse(text), "")]
    for node, owner in todo:
        for child in ast.iter_child_nodes(node):
            inside = owner
            if isinstance(child, ast.FunctionDef):
                first = min([child.lineno] + [d.lineno for d in child.decorator_list])
                found[first, child.name] = child, owner
                inside = ""
            elif isinstance(child, ast.ClassDef):
                inside = child.name
            todo.append((child, inside))
    return found


def compile_definition(code, node, owner):
    """Compile a changed definition; return a code object that can replace `code`, or None.

    node   the changed definition, whose nodes all have line numbers
    owner  the name of the class around the function, or ""
    The result is None if, for example, the new code has other free variables.
    """
    free = ", ".join(name for name in code.co_freevars if name != "__class__")
    tree = ast.parse(f"def _({free}):\n    class {owner or '_'}:\n        pass")
    tree.body[0].body[0].body = [node]
    try:
        compiled = compile(tree, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, TypeError):
        return None
    found = find_code(compiled, f"_.<locals>.{owner or '_'}.{node.name}")
    if found is None or found.co_freevars != code.co_freevars:
        return None
    return found.replace(co_qualname=code.co_qualname, co_firstlineno=code.co_firstlineno)


def find_code(compiled, qualname):
    """Return the code object in a compiled module that has this qualified name, or None."""
    inner = [constant for constant in compiled.co_consts if inspect.iscode(constant)]
    return next((c for c in inner if c.co_qualname == qualname), None) or next(
        filter(None, (find_code(c, qualname) for c in inner)), None)


@contextlib.contextmanager
def patch_code(function, code):
    """Replace the code object of a function during the `with` block."""
    before = function.__code__
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = before


@contextlib.contextmanager
def replace_statement(statement, new_node):
    """Replace a Statement by a new syntax node in the `with` block; yield True if it compiles."""
    function = statement.function
    block, at = _find_block_and_index(function.node, statement.node)
    block[at] = ast.fix_missing_locations(ast.copy_location(new_node, statement.node))
    try:
        code = compile_definition(function.code, function.node, function.owner)
        with contextlib.ExitStack() as stack:
            for f in function.functions if code is not None else ():
                stack.enter_context(patch_code(f, code))
            yield code is not None
    finally:
        block[at] = statement.node


def _find_block_and_index(tree, node):
    """Return the list that contains a statement's node in a tree, and its index in the list."""
    blocks = (block for parent in ast.walk(tree) for _, block in ast.iter_fields(parent))
    return next((block, block.index(node)) for block in blocks
                if isinstance(block, list) and node in block)
