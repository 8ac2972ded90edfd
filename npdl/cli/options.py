"""Settings and their command-line options.

A *settings class* is a dataclass whose fields are made by `setting`, with a default, the allowed
values, and the option on the command line. The settings classes of a run are Config and Adapters
(npdl.train.config). Other commands have a small settings class in their module. `check_settings`
checks the values of an instance, and `add_setting_options` adds the options of a class to a parser.
Options that are not given are absent from the parsed options.
"""

import argparse
import dataclasses
import functools
import sys
import typing
from collections.abc import Callable

from npdl.cli.console import checked_path_text
from npdl.errors import InputError
from npdl.files import LARGEST_NUMBER


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers for which holds(number) is true; `words` describe them in messages."""

    holds: Callable
    words: str


COUNT = Range(lambda n: 1 <= n < LARGEST_NUMBER, "an integer, 1 or more")
NATURAL = Range(lambda n: 0 <= n < LARGEST_NUMBER, "an integer, 0 or more")
NOT_NEGATIVE = Range(lambda x: x >= 0, "a finite number, 0 or more")
POSITIVE = Range(lambda x: x > 0, "a finite number above 0")
SHARE = Range(lambda x: 0 < x <= 1, "a number in (0, 1]")
SECONDS = Range(lambda s: 0 < s < 1e6, "a number of seconds, above 0 and below a million")
BELOW_1 = Range(lambda x: 0 <= x < 1, "at least 0 and below 1")


def integers_up_to(largest):
    """Return the Range of the integers from 1 to `largest`."""
    return Range(lambda n: 1 <= n <= largest, f"an integer from 1 to {largest}")


def setting(group, default, help=None, metavar=None, allowed=None, only=None, rare=False):
    """Return a field of a settings class.

    group    the heading of the option in the help, or "" for no heading; None if the setting has no
             option
    allowed  a tuple of words, or a Range of numbers; None if the value is checked elsewhere
    only     the name of the only command that has the option; None: every command with this group
    rare     True if the option is shown only by --help-all
    """
    return dataclasses.field(default=default, metadata={
        "group": group, "help": help, "metavar": metavar, "allowed": allowed, "only": only,
        "rare": rare})


def option_name(name):
    """Return the command-line option of a setting: --weight-decay for weight_decay."""
    return f"--{name.replace('_', '-')}"


types_of = functools.cache(typing.get_type_hints)


def check_settings(settings):
    """Raise InputError unless each setting has the type of its field, and an allowed value.

    The values come from options, from an untrusted config.json, or from a call.
    """
    for field in dataclasses.fields(settings):
        value, allowed = getattr(settings, field.name), field.metadata["allowed"]
        kind, option = types_of(type(settings))[field.name], option_name(field.name)
        if isinstance(allowed, tuple) and value not in allowed and not callable(value):
            raise InputError(f"{option} {value!r:.40}: choose one of "
                             f"{', '.join(map(str, allowed))}")
        holds = allowed.holds if isinstance(allowed, Range) else lambda value: True
        if not _has_type(value, kind) or not (value is None or holds(value)):
            wanted = getattr(allowed, "words", f"of type {getattr(kind, '__name__', kind)}")
            raise InputError(f"{option} {value!r:.40} must be {wanted}")


def _has_type(value, annotation):
    """Return True if a value has the type of an annotation. An integer is also a float."""
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is tuple:
        return (isinstance(value, tuple) and (parts[-1] is ... or len(value) == len(parts))
                and all(_has_type(item, parts[0]) for item in value))
    if parts:                               # one of several types
        return any(_has_type(value, part) for part in parts)
    if annotation is Callable:
        return callable(value)
    if annotation is float:
        return (isinstance(value, (int, float)) and not isinstance(value, bool)
                and abs(value) <= sys.float_info.max)
    return type(value) is annotation


def add_setting_options(parser, command, groups, defaults, left_out=(), default_text=None):
    """Add options for the settings of `defaults`, an instance of a settings class, to a parser.

    command       the name of the command to which the parser belongs
    groups        the groups of `setting` whose options are added
    left_out      names of settings for which this command has no option
    default_text  a text that the help shows as the default, instead of the value in `defaults`
    """
    kinds = types_of(type(defaults))
    for group in groups:
        added = parser.add_argument_group(group) if group else parser
        for field in dataclasses.fields(defaults):
            metadata = field.metadata
            if (metadata["group"] == group and metadata["only"] in (None, command)
                    and field.name not in left_out):
                default = default_text or _format_default(getattr(defaults, field.name))
                _add_option(added, field, kinds[field.name], default).rare = metadata["rare"]


def _add_option(group, field, annotation, default):
    metadata, shown = field.metadata, f"{field.metadata['help']} (default: {default})"
    option = functools.partial(group.add_argument, default=argparse.SUPPRESS)
    if annotation is bool and field.default:
        return option(f"--no-{field.name.replace('_', '-')}", dest=field.name,
                      action="store_false", help=metadata["help"])
    if annotation is bool:
        return option(option_name(field.name), action="store_true", help=metadata["help"])
    if isinstance(metadata["allowed"], tuple):
        return option(option_name(field.name), choices=metadata["allowed"], help=shown)
    return option(option_name(field.name), help=shown, metavar=metadata["metavar"],
                  **_make_argparse_arguments(annotation))


def _make_argparse_arguments(annotation):
    """Return the arguments of add_argument with which argparse reads a value of this type."""
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is tuple:
        if parts[-1] is not ...:
            return {"type": parts[0], "nargs": len(parts), "action": _Tuple}
        return {"type": _set_name(lambda text: tuple(parts[0](part) for part in text.split(",")),
                                  f"comma-separated list of {parts[0].__name__}")}
    if type(None) in parts:
        [inner] = (part for part in parts if part is not type(None))
        read = _make_argparse_arguments(inner)["type"]
        return {"type": checked_path_text if inner is str else _set_name(
            lambda text: None if text == "none" else read(text), f"{read.__name__} or none")}
    return {"type": annotation}


class _Tuple(argparse.Action):
    def __call__(self, parser, namespace, values, option=None):
        setattr(namespace, self.dest, tuple(values))


def _set_name(function, name):
    """Set the name of a function, which argparse prints for invalid values. Return the function."""
    function.__name__ = name
    return function


def _format_default(value):
    if isinstance(value, tuple):
        return (" " if isinstance(value[0], float) else ",").join(map(str, value))
    return "none" if value is None else value
