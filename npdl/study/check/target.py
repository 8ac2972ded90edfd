"""Find the layer and the inputs that a command line names.

    LSTM    package.module:Class    file.py:Class    file.py:f (for f_forward and f_backward)
"""

import difflib
import functools
import importlib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path

import numpy as np

from npdl.backend import stream
from npdl.errors import InputError, NpdlError
from npdl.study.check.adapters import as_layer, forward_of, functions, is_layer_class
from npdl.study.check.samples import layer_classes, sample
from npdl.study.containment import is_npdls, message


def find_class(name):
    """Return the class that `name` stands for; raise InputError if there is none.

    It has a forward and a backward. One is made for two functions f_forward and f_backward.
    """
    if ":" not in name:
        classes = {known.lower(): cls for known, cls in layer_classes().items()}
        if name.lower() not in classes:
            raise InputError(_unknown_layer(name, classes))
        return classes[name.lower()]
    where, attribute = name.rsplit(":", 1)
    module = _load_file(where) if where.endswith(".py") else _load_module(where)
    cls = getattr(module, attribute, None)
    stem = attribute.removesuffix("_backward").removesuffix("_forward")
    pair = [getattr(module, f"{stem}_{way}", None) for way in ("forward", "backward")]
    if not inspect.isclass(cls) and all(map(inspect.isfunction, pair)):
        return functions(stem, *pair, getattr(module, f"{stem}_sample", None))
    if not inspect.isclass(cls):
        half = f"function {stem}_backward" if inspect.isfunction(pair[0]) else f"class {attribute}"
        raise InputError(f"{where} has no {half}; it has: {_layers_in(module)}")
    if not is_layer_class(cls):
        raise InputError(f"{attribute} in {where} has no forward and backward; write both methods")
    return cls


def _unknown_layer(name, classes):
    if name.endswith(".py"):
        own = _layers_in(_load_file(name))
        return f"layer {name!r}: which of its classes? Give {name}:Class; it has: {own}"
    near = [classes[n].__name__ for n in difflib.get_close_matches(name.lower(), classes, 2)]
    shown = ", ".join(cls.__name__ for cls in classes.values())
    meant = f"did you mean {' or '.join(near)}? Give" if near else "give"
    return f"layer {name!r} is unknown; {meant} file.py:Class, module:Class, or one of: {shown}"


def _layers_in(module):
    """Return the names of the layers that a module defines, in one line."""
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
           and (inspect.isclass(v) and is_layer_class(v)
                or n.endswith("_backward") and hasattr(module, n[:-8] + "forward"))]
    return ", ".join(own) or "none; write a class with forward and backward"


def _load_module(name):
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise InputError(f"module {name!r} can't be imported ({described(error)}); for a file give "
                         "path/to/file.py:Class") from error
    finally:
        sys.path.remove("")


def _load_file(where):
    path = Path(where).resolve()
    if not path.is_file():
        raise InputError(f"there is no file {where}; give path/to/file.py:Class")
    inside, parts = path.parent, [path.stem]
    while (inside / "__init__.py").exists():            # a file of a package: import it as such
        parts.insert(0, inside.name)
        inside = inside.parent
    sys.path.insert(0, str(inside))
    try:
        return importlib.import_module(".".join(parts)) if len(parts) > 1 else _execute(
            path, path.stat().st_mtime_ns)
    except (Exception, SystemExit) as error:
        raise InputError(f"{where} can't be imported: {described(error, path)}; fix that line "
                         "first") from error
    finally:
        sys.path.remove(str(inside))


@functools.cache
def _execute(path, changed):
    """Import a file, again if it was changed, under a name that no other module has."""
    name = path.stem
    while name in sys.modules:
        name += "_"
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def described(error, path=None):
    """Return an exception in one line, with the last line of the file `path` that it came from."""
    text = message(error)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if path is not None and frame.filename == str(path)]
    return f"{text} (line {lines[-1]})" if lines and "line" not in text else text


def build(name, inputs=(), settings=(), seed=0):
    """Return (layer, inputs, options) for a command line.

    inputs    "x=2,3,4" for each array that forward takes; without them, the class's sample
    settings  "d_model=4" for each argument of the constructor, "W=4,5" for a random array
    Raises InputError for what can't be read, and for what the class's own code raises.
    """
    cls = find_class(name)
    shapes = dict(_pair(text, "--input", _shape) for text in inputs)
    rng = stream(seed, 11)
    arguments = dict(_pair(text, "--set", _value) for text in settings)
    arguments = {name: rng.standard_normal(value) if isinstance(value, tuple) else value
                 for name, value in arguments.items()}
    _refuse_unknown(arguments, _arguments(cls.__init__), f"{cls.__name__} takes no argument")
    if shapes:
        return _from_shapes(cls, shapes, arguments, rng)
    if settings and not is_npdls(cls):
        raise InputError(f"--set {settings[0]} needs --input too, for example --input x=2,3,4")
    return _made(cls, lambda: sample(cls, seed, **arguments),
                 f"{cls.__name__}({_shown(arguments)})" if settings else "its sample")


def _from_shapes(cls, shapes, arguments, rng):
    """Return (layer, inputs, {}) with random inputs of these shapes."""
    named = [name for name, _ in _arguments(forward_of(cls))]
    _refuse_unknown(shapes, _arguments(forward_of(cls)),
                    f"{cls.__name__}.forward has no argument")
    missing = [name for name, p in _arguments(cls.__init__) if p.default is p.empty
               and p.kind is p.POSITIONAL_OR_KEYWORD and name not in arguments]
    if missing:
        raise InputError(f"{cls.__name__} needs {', '.join(missing)}: give "
                         f"{'it' if len(missing) == 1 else 'them'} with --set ({missing[0]}=4 for "
                         f"a number, {missing[0]}=4,5 for an array), or write a classmethod "
                         "sample()")
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    layer = _made(cls, lambda: as_layer(cls(**arguments)), f"{cls.__name__}({_shown(arguments)})")
    return layer, tuple(arrays[name] for name in named if name in arrays), {}


def _arguments(method):
    """Return [(name, Parameter)] of the arguments of a method, without its first one, self."""
    return list(inspect.signature(method).parameters.items())[1:]


def _refuse_unknown(given, known, text):
    names = [name for name, _ in known]
    for name in given:
        if name not in names:
            raise InputError(f"{text} {name!r}; it takes {', '.join(names)}")


def _shown(arguments):
    return ", ".join(f"{name}=array{value.shape}" if isinstance(value, np.ndarray) else
                     f"{name}={value!r}" for name, value in arguments.items())


def _made(cls, make, what):
    """Return what the class's own code makes; raise its exceptions as an InputError."""
    try:
        return make()
    except NpdlError as error:
        raise InputError(f"{cls.__name__} can't be made: {error}") from error
    except Exception as error:
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        raise InputError(f"{cls.__name__} can't be made: {what} raised {described(error, file)}; "
                         "fix it, or give other --input and --set") from error


def _pair(text, option, read):
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"{option} {text!r}: write name=value, for example "
                         f"{option} {'x=2,3,4' if option == '--input' else 'd_model=4'}")
    return name, read(text, value)


def _shape(text, value):
    try:
        shape = tuple(int(part) for part in value.split(",") if part)
    except ValueError:
        shape = None
    if shape is None or min(shape, default=1) < 1:
        raise InputError(f"--input {text!r}: a shape is lengths of at least 1, for example x=2,3,4")
    return shape


def _value(text, value):
    """Return a number, a shape as a tuple, True, False, None, or the text itself."""
    if "," in value:
        return _shape(text, value)
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return {"True": True, "False": False, "None": None}.get(value, value)
