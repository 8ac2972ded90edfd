"""Write the source of npdl's layers in three styles, for tests of `blame`.

cache      a Layer whose forward returns a Cache after its output
self       a class that stores its cache in self
functions  f_forward(x, W) and f_backward(dy, cache), for layers without sub-layers
"""

import ast
import contextlib
import functools
import inspect
import textwrap
from collections import Counter

from npdl.core import Layer, Param
from npdl.study.check.samples import find_layer_classes, make_example_call

STYLES = ("cache", "self", "functions")


def list_layer_styles():
    return [(name, style) for name, cls in find_layer_classes().items()
            for style in STYLES
            if type(make_example_call(cls)[0]) is cls and make_source(name, style)]


@functools.cache
def make_source(name, style):
    """Return the source of a layer in a style, or None if it can't be written so."""
    cls = find_layer_classes()[name]
    if "backward" not in vars(cls) or "forward" not in vars(cls):
        return None
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    for node in ast.walk(tree):                         # remove docstrings
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    space = vars(inspect.getmodule(cls))
    names = sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & set(space)
                   - {name} | {"Cache", "xp"} & set(space))
    head = f"from {cls.__module__} import {', '.join(names)}\n\n\n" if names else ""
    with contextlib.suppress(LookupError, StopIteration):
        written = {"cache": ast.unparse, "self": _convert_to_self,
                   "functions": functools.partial(_convert_to_functions, name)}[style](tree)
        return ast.unparse(ast.parse(head + written))   # every simple statement on one line
    return None


def _find_method(tree, name):
    return next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)


def _convert_to_self(tree):
    forward, backward = _find_method(tree, "forward"), _find_method(tree, "backward")

    class InSelf(ast.NodeTransformer):
        def visit_Return(self, node):
            kept = ast.parse("out, self.cache = value").body[0]
            kept.value = node.value
            return [kept, ast.Return(ast.Name("out", ast.Load()))]

    InSelf().visit(forward)
    cache = backward.args.args.pop().arg
    backward.body.insert(0, ast.parse(f"{cache} = self.cache").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def _convert_to_functions(name, tree):
    layer, inputs, options = make_example_call(find_layer_classes()[name])
    params = dict(layer.params())
    if options or not all(isinstance(vars(layer).get(n), Param) for n in params) or any(
            isinstance(value, (Layer, list)) for value in vars(layer).values()):
        raise LookupError(name)
    forward, backward = _find_method(tree, "forward"), _find_method(tree, "backward")
    added = Counter(ast.unparse(n.target) for n in ast.walk(backward)
                    if isinstance(n, ast.AugAssign))
    in_loops = {n for loop in ast.walk(backward) if isinstance(loop, (ast.For, ast.If))
                for n in ast.walk(loop)}

    class Functions(ast.NodeTransformer):
        def visit_Attribute(self, node):
            text = ast.unparse(node)
            known = {f"self.{p}.{part}": word + p for p in params
                     for part, word in (("data", ""), ("grad", "d_"))}
            if text in known:
                return ast.Name(known[text], node.ctx)
            return self.generic_visit(node)

        def visit_Name(self, node):
            return ast.Name("_layer", node.ctx) if node.id == "self" else node

        def visit_AugAssign(self, node):
            alone = added[ast.unparse(node.target)] == 1 and node not in in_loops
            is_grad = ast.unparse(node.target) in {f"self.{p}.grad" for p in params}
            node = self.generic_visit(node)
            return ast.Assign([node.target], node.value) if alone and is_grad else node

        def visit_Return(self, node):
            node = self.generic_visit(node)
            if node.value in caches and params:
                kept = [node.value.elts[1], *(ast.Name(p, ast.Load()) for p in params)]
                node.value.elts[1] = ast.Tuple(kept, ast.Load())
            elif node in returns and params:
                first = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                own = [ast.Name(f"d_{p}", ast.Load()) for p in params]
                node.value = ast.Tuple([*first, *own], ast.Load())
            return node

    returns = [n for n in ast.walk(backward) if isinstance(n, ast.Return)]
    caches = [n.value for n in ast.walk(forward) if isinstance(n, ast.Return)]
    if not all(isinstance(value, ast.Tuple) and len(value.elts) == 2 for value in caches):
        raise LookupError(name)
    several = [p for p in params if added[f"self.{p}.grad"] != 1 or any(
        isinstance(n, ast.AugAssign) and ast.unparse(n.target) == f"self.{p}.grad"
        for n in in_loops)]
    for function in (forward, backward):
        function.args.args = function.args.args[1:]
        function.name = f"my_{name.lower()}_{function.name}"
    own = forward.args
    fixed = [*zip(own.args[::-1], own.defaults[::-1], strict=False),
             *zip(own.kwonlyargs, own.kw_defaults, strict=True)]
    fixed = [ast.Assign([ast.Name(a.arg, ast.Store())], value) for a, value in fixed
             if a not in own.args[: len(inputs)]]
    own.args = own.args[: len(inputs)] + [ast.arg(p) for p in params]
    own.defaults, own.kwonlyargs, own.kw_defaults = [], [], []
    forward.body = fixed + forward.body
    start = [ast.parse(f"{', '.join(['cache', *params])} = cache").body[0]] * bool(params) + [
        ast.parse(f"d_{p} = np.zeros_like({p})").body[0] for p in several]
    if backward.args.args[-1].arg != "cache":
        raise LookupError(name)
    parts = [Functions().visit(function) for function in (forward, backward)]
    parts[1].body = start + parts[1].body
    code = "\n\n\n".join(ast.unparse(ast.fix_missing_locations(part)) for part in parts)
    return ("import numpy as np\n"
            "from npdl.study.check.samples import find_layer_classes, make_example_call\n"
            f"_layer, _inputs, _ = make_example_call(find_layer_classes()[{name!r}])\n\n\n"
            f"def my_{name.lower()}_sample():\n    return (*_inputs, *(p.data for _, p in "
            f"_layer.params()))\n\n\n{code}")
