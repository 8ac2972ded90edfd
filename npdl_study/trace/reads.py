"""What a statement read: each array that it names, as it was before the statement ran."""

import ast
import functools

import numpy as np

MOST = 8                        # arrays that are shown beside one statement


@functools.lru_cache(maxsize=4096)
def uses(node):
    """{source: expression} of what a statement reads: names, attributes and parts of them."""
    found = {}
    for part in _parts_read(node):
        _visit(part, found)
    return found


def _parts_read(node):
    if isinstance(node, ast.Assign):
        return [node.value]
    if isinstance(node, ast.AugAssign):
        own = ast.parse(ast.unparse(node.target), mode="eval").body
        return [node.value] if isinstance(node.target, ast.Attribute) else [own, node.value]
    if isinstance(node, ast.If) and isinstance(node.test, ast.Constant):    # several on one line
        return [part for inner in node.body for part in _parts_read(inner)]
    if isinstance(node, (ast.Return, ast.Expr, ast.AnnAssign)):
        return [node.value] if node.value is not None else []
    return []


def _visit(node, found):
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
        if _is_path(node):
            found.setdefault(ast.unparse(node), node)
            return
        inner = [node.value]                            # the shape of what a call returned
    elif isinstance(node, ast.Call):
        if ast.unparse(node.func) == "Cache":
            return                                      # what is only kept for backward
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        inner += node.args + [keyword.value for keyword in node.keywords if keyword.arg != "out"]
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.Lambda, ast.DictComp, ast.SetComp)):
        return                                          # their names are bound inside
    else:
        inner = list(ast.iter_child_nodes(node))
    for child in inner:
        _visit(child, found)


def _is_path(node):
    """Whether an expression only looks something up: x, self.W.data, hs[t + 1], x[:, t]."""
    if isinstance(node, ast.Name):
        return True
    if isinstance(node, ast.Subscript):
        plain = (ast.Constant, ast.Name, ast.Slice, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.Add,
                 ast.Sub, ast.USub, ast.Load, ast.Mult)
        return all(isinstance(n, plain) for n in ast.walk(node.slice)) and _is_path(node.value)
    return isinstance(node, ast.Attribute) and _is_path(node.value)


def arrays_read(statement, names):
    """Yield (source, value) of what a statement reads; `names` are the locals before it."""
    for source, node in list(uses(statement.node).items())[:MOST]:
        try:
            value = _value(node, names)
        except Exception:                               # a lookup of the student's that raises
            continue
        if isinstance(value, (np.ndarray, np.floating, tuple, list)):
            yield source, value


def entries_written(node, source, array, names):
    """A mask of the entries of `source` that an assignment to a part of it writes, or None."""
    target = getattr(node, "target", None) or getattr(node, "targets", [None])[0]
    if not isinstance(target, ast.Subscript) or ast.unparse(target.value) != source:
        return None
    mask = np.zeros(np.shape(array), bool)
    try:
        mask[_value(target.slice, names)] = True
    except Exception:                                   # an index that is no simple one
        return None
    return mask


def _value(node, names):
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, names)
        return None if isinstance(owner, np.ndarray) and node.attr != "T" else getattr(
            owner, node.attr)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Slice):
        return slice(*(part and _value(part, names) for part in (node.lower, node.upper,
                                                                  node.step)))
    if isinstance(node, ast.Tuple):
        return tuple(_value(item, names) for item in node.elts)
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, names), _value(node.right, names)
        sign = {ast.Add: 1, ast.Sub: -1}.get(type(node.op))
        return left * right if sign is None else left + sign * right
    whole = _value(node.value, names)
    return whole[_value(node.slice, names)] if isinstance(whole, (np.ndarray, tuple, list)) \
        else None
