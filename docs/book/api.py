"""The API reference: one page for each module of npdl, out of its docstrings."""

import importlib
import inspect
import pkgutil
import re

import npdl
from docs.book.markup import plain
from docs.book.solved import DOCUMENT, named

COLUMNS = re.compile(r"\S {2,}\S")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def modules():
    """Return {name: module} of npdl; of the study tools, those that npdl has names from."""
    names = {"npdl", *(m.name for m in pkgutil.walk_packages(npdl.__path__, "npdl.")
                       if not m.name.startswith("npdl.study")),
             *(getattr(npdl, name).__module__ for name in npdl.__all__)}
    return {name: importlib.import_module(name) for name in sorted(names)
            if not name.rpartition(".")[2].startswith("_")}


def pages():
    """Return {name: Markdown} of every module with public members, and of "index"."""
    found = {name: text for name, module in modules().items() if (text := _page(module))}
    return found | {"index": _index(found)}


def members(module):
    """Return {name: class or function} of the public ones that a module defines."""
    return {name: value for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
            and (inspect.isclass(value) or inspect.isfunction(value))}


def _page(module):
    own = members(module)
    if not own:
        return ""
    name = module.__name__
    made = [f"# {name}", documented(module), f"[Source](source:{name})"]
    for key, value in own.items():
        made += [f"({_target(value)})=", f"## {plain(key)}", _signature(value, key),
                 documented(value), _line(value)]
        if inspect.isclass(value):
            made += _class(value)
    return named("\n\n".join(part for part in made if part) + "\n", set(), DOCUMENT)


def _line(value):
    """Return a link to the source, "source:module:line", or "" for a namedtuple made by a call."""
    try:
        line = inspect.getsourcelines(value)[1]
    except OSError:
        return ""
    return f"[Line {line}](source:{value.__module__}:{line})"


def _class(cls):
    """Yield the bases of a class, and its public methods with their docstrings."""
    bases = [base for base in cls.__bases__ if base is not object]
    if bases:
        yield "Built on " + ", ".join(_linked(base) for base in bases) + "."
    for name, value in vars(cls).items():
        function = inspect.unwrap(getattr(value, "__func__", value))
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        yield _signature(function, f"{cls.__name__}.{name}")
        if function.__doc__:
            yield documented(function)


def _linked(cls):
    if cls.__module__ in modules():
        return f"[{plain(cls.__name__)}](#{_target(cls)})"
    return f"`{cls.__name__}`"


def _target(value):
    """Return the anchor of a class or function: type-npdl.core.Layer.

    The type keeps `claim` and `Claim` apart where upper and lower case are the same.
    """
    return f"{type(value).__name__}-{value.__module__}.{value.__name__}"


def _signature(value, name):
    try:
        given = ADDRESS.sub("", str(inspect.signature(value)))
    except (TypeError, ValueError):
        given = "(...)"
    language = "text" if "<" in given else "python"     # a default that is no literal
    return f"```{language}\n{'class ' * inspect.isclass(value)}{name}{given}\n```"


def documented(value):
    """Return a docstring as Markdown, in which indented lines and columns are code blocks."""
    if inspect.isclass(value) and value.__doc__ in [b.__doc__ for b in value.__mro__[1:]]:
        return ""
    made = []
    for block in re.split(r"\n\s*\n", inspect.getdoc(value) or ""):
        lines = block.split("\n")
        mostly = sum(map(_is_fixed, lines)) * 2 > len(lines)
        while lines:
            fixed = mostly or _is_fixed(lines[0])
            end = len(lines) if mostly else next(
                (i for i, line in enumerate(lines) if _is_fixed(line) != fixed), len(lines))
            made.append("\n".join(["````text", *lines[:end], "````"]) if fixed
                        else _paragraph(lines[:end]))
            lines = lines[end:]
    return "\n\n".join(made)


def _is_fixed(line):
    return line.startswith("  ") or bool(COLUMNS.search(line))


def _paragraph(lines):
    pieces = re.split(r"(`[^`]+`)", "\n".join(lines))
    text = "".join(p if p.startswith("`") else plain(p) for p in pieces)
    return re.sub(r"(?m)^(\s*)([-+]|\d+\.)(?=\s)", r"\1\\\2", text)


def _index(found):
    """Return the index: the modules by package, each with the first sentence of its docstring."""
    made = ["# API reference", "Every module, class and function of npdl, from its own docstrings. "
            "What most programs need is imported from `npdl` itself: "
            + ", ".join(f"[{n}](#{_target(getattr(npdl, n))})"
                        for n in npdl.__all__) + "."]
    groups = {}
    for name in found:
        package = ".".join(name.split(".")[:2]) if name.count(".") > 1 else "npdl"
        groups.setdefault(package, []).append(name)
    for package in ["npdl", *sorted(set(groups) - {"npdl"})]:
        made += [f"## {package}", "\n".join(
            f"- [{name}]({name}.md): {_first(name)}" for name in groups[package])]
    return named("\n\n".join(made) + "\n", set(), DOCUMENT)


def _first(name):
    said = (inspect.getdoc(importlib.import_module(name)) or "").split("\n\n")[0]
    return _paragraph([" ".join(said.split())])
