"""What CuPy has, from its own namespace: `python -m tests.tools.cupy_namespace > tests/tools/cupy_names.json`.

Needs CuPy, but no GPU: an import looks for no driver. The stand-in (tests/tools/fakecupy.py) offers
the names in that file and nothing else, with no keyword that CuPy's function does not take.
"""

import inspect
import json
import re
import sys

# CuPy's ufuncs take these and no others (cupy.ufunc.__call__).
UFUNC_KEYWORDS = ("casting", "dtype", "out")


def public(owner):
    """The names that a module or a class offers."""
    return sorted(name for name in dir(owner) if not name.startswith("_"))


def signature_keywords(function):
    """Its parameters by name, or None where it does not say, or takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]


def documented_keywords(method):
    """The parameters in the signature that a compiled method's docstring begins with."""
    found = re.match(r"[\w.]+\(self(?:, )?(.*?)\)(?: ->|$)", (method.__doc__ or "").split("\n")[0])
    if found is None or "*" in found[1]:
        return None
    parts = [part.split("=")[0].split()[-1] for part in found[1].split(", ") if part]
    return parts


def namespace(cupy):
    """{version, functions, methods, operators, ufunc_methods, special, keywords,
    method_keywords}; `special` is cupyx.scipy.special."""
    from cupyx.scipy import special

    functions, methods = public(cupy), public(cupy.ndarray)
    keywords, method_keywords = {}, {}
    for name in functions:
        value = getattr(cupy, name)
        if isinstance(value, cupy.ufunc):
            keywords[name] = list(UFUNC_KEYWORDS)
        elif inspect.isfunction(value):
            keywords[name] = signature_keywords(value)
    for name in methods:
        method_keywords[name] = documented_keywords(getattr(cupy.ndarray, name))
    return {
        "version": cupy.__version__,
        "functions": functions,
        "methods": methods,
        "operators": sorted(n for n in dir(cupy.ndarray) if re.fullmatch(r"__\w+__", n)),
        "ufunc_methods": public(cupy.ufunc),
        "special": public(special),
        "keywords": {name: known for name, known in keywords.items() if known is not None},
        "method_keywords": {name: known for name, known in method_keywords.items()
                            if known is not None},
    }


def main():
    try:
        import cupy
    except ImportError as error:
        print(f"cupy_namespace: CuPy is needed, though no GPU is ({error})", file=sys.stderr)
        return 2
    parts = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}"
             for key, value in namespace(cupy).items()]
    print("{" + ",\n ".join(parts) + "}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
