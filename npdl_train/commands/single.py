"""One model in one file: the textbook's own classes that it needs, and a training loop.

  python -m npdl single GPT > gpt.py && python gpt.py

The classes are cut from npdl's source as they stand there. What checks what comes in (npdl.errors)
and what is for a GPU stays behind, and so does each function that nothing in the file asks for.
The file needs NumPy alone, and computes what npdl computes, to the last digit.
"""

import ast
import importlib
import inspect
import re
import textwrap

import npdl
from npdl.errors import InputError
from npdl_train.console import set_description

CHECKS = ("npdl.errors", "npdl.training_errors")
ERRORS = (*CHECKS, "npdl.exceptions")
# Checks that return what they were given stay behind; others, which fill in a default, come.
SAME = ("check_key_mask", "checked_ids", "checked_lengths", "checked_params", "checked_state",
        "checked_tokens")
# Methods of a Layer that stay behind: a check, and one whose name NumPy's arrays have, too.
APART = {"__setattr__", "astype"}
IN_NUMPY = {"to_device": "np.asarray", "to_host": "np.asarray", "xp": "np"}

TOKENS = """\
    p = 11                                          # a + b modulo p, read as: a b -> sum
    a, b = np.divmod(np.arange(p * p), p)
    data = np.stack([a, b, (a + b) % p], 1)
"""
LEARN = """\
    optimizer, criterion = AdamW(model, lr=3e-3, weight_decay=0.1), {criterion}
    for step in range(200):
        {forward}
        loss, c_loss = criterion.forward({outputs}, {targets})
        model.zero_grad()
        {backward}
        clip_by_global_norm(optimizer.params.values(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == 199:
            print(step, repr(float(loss)))
"""
NEXT_TOKEN = {"criterion": "CrossEntropy()", "outputs": "logits", "targets": "data[:, 1:]",
              "forward": "logits, cache = model.forward(data[:, :-1])",
              "backward": "model.backward(criterion.backward(1.0, c_loss), cache)"}
REVERSED = TOKENS + """\
    start = np.full((p * p, 1), p)                  # the source a b, the target b a
    target = np.concatenate([start, data[:, 1::-1]], 1)
"""
FROM_SOURCE = NEXT_TOKEN | {
    "forward": "logits, cache = model.forward(data[:, :2], target[:, :-1])",
    "targets": "target[:, 1:]"}
NUMBERS = """\
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 5, 2)){cast}
    y = {wanted}
"""
REGRESSION = {"criterion": "SquaredError()", "outputs": "y_hat", "targets": "y",
              "forward": "y_hat, cache = model.forward(x)",
              "backward": "model.backward(criterion.backward(1.0, c_loss)[0], cache)"}
RECURRENT = REGRESSION | {
    "forward": "(y_hat, state), cache = model.forward(x)",
    "backward": "model.backward((criterion.backward(1.0, c_loss)[0], None), cache)"}
FLOAT32 = '.astype("float32")'

# model: (what it is made with, the lines of its data, the words of its loop)
LOOPS = {
    "GPT": ("p, d_model=32, num_layers=1, num_heads=2", TOKENS, NEXT_TOKEN),
    "GPT2": ("p, d_model=32, num_layers=1, num_heads=2, max_len=8", TOKENS, NEXT_TOKEN),
    "Llama": ("p, d_model=32, num_layers=1, num_heads=2, num_kv_heads=1, d_inner=48, max_len=8",
              TOKENS, NEXT_TOKEN),
    "LSTMLM": ("p, d_model=32, num_layers=1", TOKENS, NEXT_TOKEN | {
        "forward": "(logits, state), cache = model.forward(data[:, :-1])",
        "backward": "model.backward((criterion.backward(1.0, c_loss), None), cache)"}),
    "Seq2Seq": ("p, p + 1, d_model=32, num_layers=1, num_heads=2", REVERSED, FROM_SOURCE),
    "LSTMSeq2Seq": ("p, p + 1, d_model=32", REVERSED, FROM_SOURCE),
    "MLP": ("[2, 16, 1]", NUMBERS.format(cast=FLOAT32, wanted="x[..., :1] * x[..., 1:]"),
            REGRESSION),
    "AttentiveRNN": ("2, 2", NUMBERS.format(cast=FLOAT32, wanted="np.tanh(x.cumsum(1) / 5)"),
                     RECURRENT),
    "BiRNN": ("2", NUMBERS.format(cast=FLOAT32, wanted="x + x[:, ::-1]"), RECURRENT),
}


def add_arguments(parser):
    set_description(parser, __doc__, given_only=True)
    parser.add_argument("model", metavar="MODEL", help=f"one of {', '.join(LOOPS)}")


def run(options):
    print(single(options.model), end="")


def single(name):
    """The source of one file with the model called `name`; InputError if there is none."""
    if name not in LOOPS:
        raise InputError(f"model {name!r} is unknown; give one of: {', '.join(LOOPS)}")
    loop = loop_of(name)
    asked = [name, "AdamW", "clip_by_global_norm", LOOPS[name][2]["criterion"][:-2]]
    cut = Cut([getattr(npdl, each) for each in asked], loop)
    return f'{heading(name)}\n\n{cut.imports()}\n{cut.text()}\n\nif __name__ == "__main__":\n{loop}'


def heading(name):
    cls = getattr(npdl, name)
    return (f'"""{inspect.getdoc(cls).splitlines()[0]}\n\nA layer is its parameters plus two '
            "methods: forward(x) -> (y, cache) computes the output and\nwhat backward will need; "
            "backward(dy, cache) adds into each param.grad and returns the gradient of\nthe "
            f"input. Cut from npdl {npdl.__version__}; MIT licence. `python {name.lower()}.py` "
            'trains it.\n"""')


def loop_of(name):
    arguments, data, words = LOOPS[name]
    return f"{data}    model = {name}({arguments})\n{LEARN.format(**words)}"


class Module:
    """A module's source, its definitions, and where the names in it come from."""

    def __init__(self, name):
        self.name = name
        self.source = inspect.getsource(importlib.import_module(name)).encode()
        self.tree = ast.parse(self.source)
        self.starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.definitions, self.imported, self.libraries = {}, {}, {}
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.definitions[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in ast.walk(node.targets[0]):
                    if isinstance(target, ast.Name):
                        self.definitions[target.id] = node
            elif isinstance(node, ast.ImportFrom) and node.module.startswith("npdl."):
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = node.module, alias.name
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    self.libraries[alias.asname or alias.name] = ast.unparse(node)

    def span(self, node):
        """The bytes of a node, from its first to behind its last."""
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        start = self.starts[first - 1] + (node.col_offset if first == node.lineno else 0)
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def lines(self, node):
        """The bytes of the lines that a statement stands on, its comment's too."""
        start, end = self.span(node)
        newline = self.source.find(b"\n", end)
        return (self.source.rfind(b"\n", 0, start) + 1,
                len(self.source) if newline < 0 else newline + 1)

    def commented(self, node):
        """The bytes of a definition's lines, from the comment that stands on top of it."""
        start, end = self.lines(node)
        while self.source[:start].endswith(b"\n"):
            above = self.source.rfind(b"\n", 0, start - 1) + 1
            if not self.source[above:start].startswith((b"#", b"@")):
                break
            start = above
        return start, end


class Cut:
    """What some classes and functions need of npdl, as one text."""

    def __init__(self, things, more=""):
        self.modules, self.kept, self.libraries = {}, {}, {"np": "import numpy as np"}
        self.attributes = {node.attr for node in ast.walk(ast.parse(textwrap.dedent(more)))
                           if isinstance(node, ast.Attribute)}
        left = [(thing.__module__, thing.__name__) for thing in things]
        while True:
            while left:
                left += self.keep(*left.pop())
            left = [found for key in list(self.kept) for found in self.needs(*key)
                    if found not in self.kept]
            if not left:
                break

    def module(self, name):
        if name not in self.modules:
            self.modules[name] = Module(name)
        return self.modules[name]

    def keep(self, module, name):
        """Take in a definition; returns what it needs."""
        if (module, name) in self.kept:
            return []
        self.kept[module, name] = self.module(module).definitions[name]
        return self.needs(module, name)

    def needs(self, module, name):
        """The (module, name) of npdl's that a kept definition reads."""
        source, found = self.module(module), []
        for node in self.living(source, source.definitions[name]):
            if isinstance(node, ast.Attribute):
                self.attributes.add(node.attr)
            if not isinstance(node, ast.Name) or node.id in IN_NUMPY:
                continue
            if node.id in source.definitions:
                found.append((module, node.id))
            elif node.id in source.imported:
                found.append(source.imported[node.id])
            elif node.id in source.libraries:
                self.libraries[node.id] = source.libraries[node.id]
        return [key for key in found if key not in self.kept]

    def living(self, source, node):
        """The nodes of a definition that stay, without its checks and methods nobody calls."""
        if self.dropped(source, node):
            return
        inner = self.instead_of(source, node)
        if inner is not None:
            yield from self.living(source, inner)
            return
        yield node
        for child in self.children(source, node):
            yield from self.living(source, child)

    def children(self, source, node):
        on_numpy = isinstance(node, ast.If) and constant(node.test)
        for name, value in ast.iter_fields(node):
            if name in ("returns", "annotation") or on_numpy and name in ("test", "orelse"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield child

    def dropped(self, source, node):
        """Whether a statement or a method stays behind."""
        if isinstance(node, ast.If) and constant(node.test) and node.orelse:
            return False
        if isinstance(node, ast.FunctionDef) and self.is_method(source, node):
            return node.name in APART or not (node.name.startswith("__")
                                              or node.name in self.attributes)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return self.is_check(source, node.value.func)
        if isinstance(node, ast.Raise):
            return self.is_check(source, getattr(node.exc, "func", node.exc))
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            inner = self.instead_of(source, node.value)
            return isinstance(inner, ast.Name) and inner.id == node.targets[0].id
        if isinstance(node, ast.If):
            test = constant(node.test)
            body = node.body if test is not False else []
            return not node.orelse and all(self.dropped(source, each) for each in body)
        if isinstance(node, (ast.For, ast.With)):
            return all(self.dropped(source, each) for each in node.body)
        return False

    @staticmethod
    def is_method(source, node):
        return node.col_offset > 0 and any(
            isinstance(each, ast.ClassDef) and node in each.body for each in source.tree.body)

    @staticmethod
    def is_check(source, func):
        name = getattr(func, "id", None)
        return source.imported.get(name, ("",))[0] in ERRORS or (
            source.name in CHECKS and name in source.definitions)

    def instead_of(self, source, node):
        """What stands in an expression's place: of a check that returns what it is given, that."""
        if not (isinstance(node, ast.Call) and self.is_check(source, node.func) and node.args):
            return None
        name = source.imported.get(node.func.id, ("", node.func.id))[1]
        return node.args[0 if name != "checked_params" else 1] if name in SAME else None

    # --- the text --------------------------------------------------------------------------------
    def imports(self):
        found = sorted({line for name, line in self.libraries.items() if name != "np"})
        return "\n".join([*found, "", self.libraries["np"], ""] if found else
                         [self.libraries["np"], ""])

    def text(self):
        """The definitions, a module after those that it needs, each as it stands in its module."""
        parts = []
        for name in self.order():
            source = self.module(name)
            own = {id(node): node for (module, _), node in self.kept.items() if module == name}
            own = sorted(own.values(), key=lambda node: node.lineno)
            texts = [self.written(source, node) for node in own]
            title = ast.get_docstring(source.tree).splitlines()[0].rstrip(".")
            parts.append("\n".join(["", "", f"# {title}"[:98], f"# {'-' * min(len(title), 96)}"]))
            near = True                         # a heading, or another value, stands above
            for node, text in zip(own, texts, strict=True):
                value = isinstance(node, ast.Assign)
                parts.append(("" if value and near else "\n\n") + text.rstrip())
                near = value
        return "\n".join(parts).lstrip("\n") + "\n"

    def order(self):
        """The names of the modules, each after those that its definitions need."""
        names, found = sorted({module for module, _ in self.kept}), []

        def visit(name):
            if name in names and name not in found:
                for other, _ in self.module(name).imported.values():
                    visit(other)
                found.append(name)

        for name in names:
            visit(name)
        return found

    def written(self, source, node):
        return tidy(self.edited(source, node, *source.commented(node)).decode())

    def edited(self, source, node, start, end):
        """The bytes from start to end of the source, around a node, with the node's edits."""
        text = source.source[start:end]
        for first, last, new in sorted(self.edits(source, node), reverse=True):
            text = text[: first - start] + new + text[last - start :]
        return text

    def edits(self, source, node):
        """(first byte, behind the last, what stands there instead)."""
        if self.dropped(source, node):
            yield (*source.lines(node), b"")
            return
        inner = self.instead_of(source, node)
        if inner is not None:
            yield (*source.span(node), self.edited(source, inner, *source.span(inner)))
            return
        if isinstance(node, ast.Name) and node.id in IN_NUMPY:
            yield (*source.span(node), IN_NUMPY[node.id].encode())
        if isinstance(node, ast.If) and constant(node.test) and node.orelse:    # an elif
            start, _ = source.span(node)
            yield start, source.source.index(b":", source.span(node.test)[1]), b"else"
            yield source.lines(node.body[-1])[1], source.lines(node.orelse[-1])[1], b""
        for child in self.children(source, node):
            yield from self.edits(source, child)


def constant(test):
    """True or False for a test of the backend, None for any other: the file runs on NumPy."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = constant(test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.Call) and getattr(test.func, "id", "") == "is_host":
        return True
    return None


def tidy(text):
    """Without what only checks are spoken of for, and no more than two blank lines."""
    text = re.sub(r"\s*Raises\s+(InputError|CheckpointError)[^.]*?\.(?=\s)", "", text)
    return re.sub(r"\n{3,}", "\n\n", text)

