"""Find the layer and the inputs that a command line names. It names a layer in one of these forms:

    LSTM    package.module:Class    file.py:Class    file.py:f (for f_forward and f_backward)
"""

import ast
import contextlib
import difflib
import importlib
import importlib.util
import inspect
import linecache
import sys
from pathlib import Path

from npdl.backend import make_rng
from npdl.errors import InputError, NpdlError
from npdl.study.check.adapters import (
    FunctionPair,
    as_layer,
    get_forward,
    is_layer_class,
    make_function_pair_class,
)
from npdl.study.check.samples import find_layer_classes, make_example_call
from npdl.study.containment import describe_exception, is_npdl_class


def find_class(name):
    """Return the class that a command line names; it has a forward and a backward.

    name  "LSTM", "package.module:Class", "file.py:Class" or "file.py:f"; in the last case, the
          class calls the functions f_forward and f_backward
    Raises InputError if there is no such class.
    """
    where, colon, attribute = name.rpartition(":")
    if not colon and not name.endswith(".py"):
        return find_npdl_class(name, " (for your own code, give file.py:Class)")
    module = _import_module(where or name)
    cls = getattr(module, attribute, None)
    stem = attribute.removesuffix("_backward").removesuffix("_forward")
    pair = [getattr(module, f"{stem}_{way}", None) for way in ("forward", "backward")]
    if not inspect.isclass(cls) and all(map(inspect.isfunction, pair)):
        return make_function_pair_class(stem, *pair, getattr(module, f"{stem}_sample", None))
    if inspect.isclass(cls) and is_layer_class(cls):
        return cls
    own = [n.removesuffix("_backward") for n, v in vars(module).items()
           if getattr(v, "__module__", "") == module.__name__
           and (inspect.isclass(v) and is_layer_class(v) or n.endswith("_backward"))]
    raise InputError(f"{name} is not a layer; give {where or name}:NAME. NAME is a class with "
                     "forward and backward, or stands for functions NAME_forward and "
                     f"NAME_backward. In this file: {', '.join(own) or 'no layer'}")


def find_npdl_class(name, hint=""):
    """Return the class of npdl with this name; upper and lower case don't matter.

    Raises InputError if npdl has no such class; `hint` is added to the message.
    """
    classes = {known.lower(): cls for known, cls in find_layer_classes().items()}
    if name.lower() not in classes:
        near = [classes[n].__name__ for n in difflib.get_close_matches(name.lower(), classes, 3, 0)]
        raise InputError(f"{name!r} is not a layer of npdl{hint}; did you mean "
                         f"{', '.join(near[:-1])} or {near[-1]}?")
    return classes[name.lower()]


def _import_module(where):
    """Import "file.py" or "package.module", and return the module."""
    path = Path(where).resolve() if where.endswith(".py") else None
    if path and not path.is_file():
        raise InputError(f"there is no file {where}; give path/to/file.py:Class")
    folder = str(path.parent) if path else ""
    sys.path.insert(0, folder)
    try:
        if not path:
            return importlib.import_module(where)
        linecache.checkcache(str(path))                 # the file may have been changed
        name = path.stem
        while name in sys.modules:                      # no other module has the final name
            name += "_"
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        raise InputError(f"{where} can't be imported: {describe_exception(error)}; fix it, or give "
                         "path/to/file.py:Class or package.module:Class") from error
    finally:
        sys.path.remove(folder)


def build_layer_and_inputs(name, inputs=(), settings=()):
    """Return (layer, inputs, options) for a command line.

    name      a name that `find_class` accepts
    inputs    texts such as "x=2,3,4", one for each array that forward takes; without any text,
              the sample of the class is used
    settings  texts such as "d_model=4", one for each argument of the constructor; "W=4,5" is a
              random array of this shape
    Raises InputError if a text can't be read, or if the code of the class raises an exception.
    """
    cls = find_class(name)
    arrays = _parse_settings(inputs, "--input", "x=2,3,4")
    arguments = _parse_settings(settings, "--set", "d_model=4")
    rng = make_rng(0, 11)
    arrays = {name: _draw_array(rng, name, shape) for name, shape in arrays.items()}
    arguments = {name: _draw_array(rng, name, value) if isinstance(value, tuple) else value
                 for name, value in arguments.items()}
    is_pair = issubclass(cls, FunctionPair)
    taken = inspect.signature(cls).parameters
    named = dict([*inspect.signature(get_forward(cls)).parameters.items()][not is_pair:])  # no self
    sampler = f"function {cls.__name__}_sample()" if is_pair else "classmethod sample()"
    for known, given, wrong, example in (
            (named, arrays, ".forward has no argument", "--input {0}=2,3"),
            (taken, arguments, " takes no argument", "--set {0}=4 for a number, {0}=4,5 for an "
             "array")):
        if unknown := [name for name in given if name not in known]:
            raise InputError(f"{cls.__name__}{wrong} {unknown[0]!r}; it takes "
                             f"{', '.join(known) or 'none'}")
        missing = [name for name, p in known.items() if arrays and p.default is p.empty
                   and p.kind is p.POSITIONAL_OR_KEYWORD and name not in given]
        if missing:
            raise InputError(f"{cls.__name__} needs {', '.join(missing)}: give "
                             f"{example.format(missing[0])}, or write a {sampler}")
    if settings and not arrays and not is_npdl_class(cls):
        raise InputError(f"--set {settings[0]} needs --input too, for example --input x=2,3,4")
    try:
        if not arrays:
            return make_example_call(cls, **arguments)
        return as_layer(cls(**arguments)), tuple(arrays[n] for n in named if n in arrays), {}
    except NpdlError as error:
        raise InputError(f"{cls.__name__} can't be run: {error}") from error
    except Exception as error:
        raise InputError(f"{cls.__name__} can't be run: {describe_exception(error)}; fix it, "
                         "or give other --input and --set") from error


def _parse_settings(texts, option, example):
    """Return {name: value} for texts "name=value".

    A value is a Python literal, such as 4, (4, 5) or None. Any other value stays a text.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{option} {text!r} is not of the form name=value; write for example "
                             f"{option} {example}")
        with contextlib.suppress(ValueError, SyntaxError):
            value = ast.literal_eval(value)
        found[name] = value
    return found


def _draw_array(rng, name, shape):
    """Draw a standard normal array. `shape` is a tuple or an integer. Messages quote `name`."""
    shape = shape if isinstance(shape, tuple) else (shape,)
    if not all(isinstance(n, int) and n > 0 for n in shape):
        raise InputError(f"{name}={','.join(map(str, shape))} is not a shape; give positive "
                         f"integers with commas between them, for example {name}=2,3,4")
    return rng.standard_normal(shape)
