"""From what a user types to a layer with inputs: LSTM, package.module:Class, file.py:Class."""

import difflib
import importlib
import inspect
import sys
import traceback
from pathlib import Path

from npdl.backend import stream
from npdl.core import Layer
from npdl.errors import InputError, NpdlError
from npdl_study.check.adapters import (
    functions,
    in_self,
    keeps_cache_in_self,
    of_context,
    pulled,
)
from npdl_study.check.samples import layer_classes, sample
from npdl_study.containment import CodeLeft, called, message


def find_class(name, cache=None):
    """The Layer class that `name` stands for; one is made of a class that is no Layer, of two
    functions f_forward and f_backward, of an f_forward alone that returns its backward, or of a
    Layer whose backward takes no cache (`cache` "self" takes any Layer for such). Raises InputError
    when there is none.
    """
    if ":" not in name:
        classes = {known.lower(): cls for known, cls in layer_classes().items()}
        if name.lower() not in classes:
            raise InputError(_no_layer(name, classes))
        return classes[name.lower()]
    where, attribute = name.rsplit(":", 1)
    module = _load_file(where) if where.endswith(".py") else _load_module(where)
    cls = getattr(module, attribute, None)
    stem = attribute.removesuffix("_backward").removesuffix("_forward")
    pair = [getattr(module, f"{stem}_{way}", None) for way in ("forward", "backward")]
    if not inspect.isclass(cls) and inspect.isfunction(pair[0]):
        return functions(stem, pair[0], pair[1] or pulled, getattr(module, f"{stem}_sample", None))
    if not inspect.isclass(cls):
        raise InputError(f"{where} has no class {attribute!r}; it has: {_layers_in(module)}")
    if of_context(cls) is not None:
        return of_context(cls)
    if cache == "self" or keeps_cache_in_self(cls):
        return in_self(cls)
    if not issubclass(cls, Layer):
        raise InputError(f"{attribute} in {where} is not a Layer; write class {attribute}(Layer), "
                         "with Layer from npdl.core")
    return cls


def _no_layer(name, classes):
    if name.endswith(".py"):
        own = _layers_in(_load_file(name))
        return f"layer {name!r}: which of its classes? Give {name}:Class; it has: {own}"
    near = [classes[n].__name__ for n in difflib.get_close_matches(name.lower(), classes, 2)]
    shown = ", ".join(cls.__name__ for cls in classes.values())
    meant = f"did you mean {' or '.join(near)}? Give" if near else "give"
    return f"layer {name!r} is unknown; {meant} file.py:Class, module:Class, or one of: {shown}"


def _layers_in(module):
    """The names of what a module defines that can be checked, in one line."""
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
           and (inspect.isclass(v) and (issubclass(v, Layer) or keeps_cache_in_self(v))
                or n.endswith("_backward") and hasattr(module, n[:-8] + "forward")
                or n.endswith("_forward") and hasattr(module, n[:-7] + "sample")
                and not hasattr(module, n[:-7] + "backward"))]
    return ", ".join(own) or "none, a class such as class Mine(Layer) is needed"


def _load_module(name):
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise InputError(f"module {name!r} can't be imported ({said(error)}); for a file give "
                         "path/to/file.py:Class") from error
    finally:
        sys.path.remove("")


def _load_file(where):
    path = Path(where).resolve()
    if not path.is_file():
        raise InputError(f"there is no file {where}; give path/to/file.py:Class")
    inside = path.parent
    parts = [path.stem]
    while (inside / "__init__.py").exists():            # a file of a package: import it as such
        parts.insert(0, inside.name)
        inside = inside.parent
    name, stamp = ".".join(parts), path.stat().st_mtime_ns
    while len(parts) == 1 and (loaded := sys.modules.get(name)):
        if (getattr(loaded, "__file__", None) == str(path)
                and vars(loaded).get("__stamp__", stamp) == stamp):
            return loaded
        name += "_"                     # another module, or a file since written, has its name
    sys.path.insert(0, str(inside))
    try:
        if len(parts) > 1:
            return importlib.import_module(name)
        return _executed(name, path, stamp)
    except (Exception, SystemExit) as error:
        raise InputError(f"{where} can't be imported: {said(error, path)}; mend that line "
                         "first") from error
    finally:
        sys.path.remove(str(inside))


def _executed(name, path, stamp):
    import importlib.util  # here, as it needs threads from Python 3.12 on

    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name], module.__stamp__ = module, stamp
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def said(error, path=None):
    """An exception in one line, with the last line of the file `path` that it came through."""
    text = message(error)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if path is not None and frame.filename == str(path)]
    return f"{text} (line {lines[-1]})" if lines and "line" not in text else text


def build(name, inputs=(), settings=(), seed=0, cache=None):
    """(layer, inputs, options) for what a user typed; `cache` "self" as find_class has it.

    inputs    "x=2,3,4" for each array that forward takes; without them, the class's sample
    settings  "d_model=4" for each argument of the constructor; sizes that are not given are
              the last length of the first input
    Raises InputError for what can't be read, and for what the class's own code raises.
    """
    cls = find_class(name, cache)
    if not inputs and not settings:
        built = _made(cls, lambda: sample(cls, seed), "its sample")
        borrowed = not hasattr(cls, "sample") and not cls.__module__.startswith("npdl.")
        if borrowed and type(built[0]) is not cls:
            raise InputError(f"{cls.__name__} is no layer of its own; give a class of yours that "
                             "is built on it, or give it a classmethod sample()")
        return built
    shapes = dict(_pair(text, "--input", _shape) for text in inputs)
    arguments = dict(_pair(text, "--set", _value) for text in settings)
    rng = stream(seed, 11)
    if not shapes:
        raise InputError("--set needs --input too, say --input x=2,3,4")
    width = (next(iter(shapes.values())) or (1,))[-1]
    for parameter in list(inspect.signature(cls.__init__).parameters.values())[1:]:
        if parameter.default is parameter.empty and parameter.kind is \
                parameter.POSITIONAL_OR_KEYWORD:
            arguments.setdefault(parameter.name, width)
    unknown = set(shapes) - set(inspect.signature(cls.forward).parameters)
    if unknown:
        raise InputError(f"{cls.__name__}.forward has no argument {sorted(unknown)[0]!r}; it takes "
                         f"{', '.join(list(inspect.signature(cls.forward).parameters)[1:])}")
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    ordered = [n for n in inspect.signature(cls.forward).parameters if n in arrays]
    given = ", ".join(f"{n}={v!r}" for n, v in arguments.items())
    layer = _made(cls, lambda: cls(**arguments), f"{cls.__name__}({given})")
    return layer, tuple(arrays[n] for n in ordered), {}


def _made(cls, make, what):
    """What the class's own code makes; an exception of its is told in one line."""
    try:
        return called(make, what)
    except NpdlError:
        raise
    except CodeLeft as error:
        raise InputError(f"{cls.__name__} can't be made: {error}") from error
    except Exception as error:
        path = getattr(sys.modules.get(cls.__module__), "__file__", None)
        raise InputError(f"{cls.__name__} can't be made: {what} raised {said(error, path)}; mend "
                         "it, or give other --input and --set") from error


def _pair(text, option, read):
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"{option} {text!r}: write name=value, say "
                         f"{option} {'x=2,3,4' if option == '--input' else 'd_model=4'}")
    return name, read(text, value)


def _shape(text, value):
    try:
        shape = tuple(int(part) for part in value.split(",") if part)
    except ValueError:
        shape = None
    if shape is None or min(shape, default=1) < 1:
        raise InputError(f"--input {text!r}: a shape is lengths of at least 1, say x=2,3,4")
    return shape


def _value(text, value):
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return {"True": True, "False": False, "None": None}.get(value, value)
