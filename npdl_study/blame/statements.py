"""Edits of a statement as a whole: = for +=, np.add.at for [] =, a copy, nothing."""

import ast

from npdl_study.trace.syntax import method, parsed


def of_statement(node):
    """(cost, kind, [statements]) of another whole statement."""
    if isinstance(node, ast.AugAssign):
        for sign, op in (("-", ast.Sub), ("+", ast.Add), ("*", ast.Mult), ("/", ast.Div)):
            if not isinstance(node.op, op):
                kind = "sign" if sign in "+-" else "operator"
                yield 1, kind, [ast.AugAssign(node.target, op(), node.value)]
        yield 1, "overwritten", [ast.Assign([node.target], node.value)]
        if isinstance(node.target, ast.Name):
            apart = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
            yield 1, "in place", [ast.Assign([node.target], apart)]
    target = node.target if isinstance(node, ast.AugAssign) else node.targets[0] if isinstance(
        node, ast.Assign) and len(node.targets) == 1 else None
    if isinstance(node, ast.Assign) and isinstance(target, (ast.Name, ast.Attribute,
                                                            ast.Subscript)):
        yield 1, "overwritten", [ast.AugAssign(target, ast.Add(), node.value)]
        yield 1.3, "sign", [ast.AugAssign(target, ast.Sub(), node.value)]
    if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute,
                                                                ast.Subscript)):
        yield 1, "in place", [ast.Assign(node.targets, method(node.value, "copy"))]
    if isinstance(target, ast.Subscript) and not any(
            isinstance(part, ast.Slice) for part in ast.walk(target.slice)):
        where = [parsed(ast.unparse(part)) for part in (target.value, target.slice)]
        yield 1, "repeated", [ast.Expr(ast.Call(parsed("np.add.at"), [*where, node.value], []))]
    if isinstance(target, ast.Subscript) and isinstance(node, ast.Assign) and not (
            isinstance(node.value, ast.Constant) and node.value.value == 0):
        yield 1.1, "number", [ast.Assign([target], ast.Constant(0))]
    if isinstance(node, ast.For):
        for text in (f"reversed({ast.unparse(node.iter)})",
                     f"list({ast.unparse(node.iter)})[::-1]"):
            yield 1, "reversed", [ast.For(node.target, parsed(text), node.body, node.orelse)]
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr)):
        yield 1.7, "extra line", [ast.Pass()]
