"""Find a student's file in a folder or a zip, within limits.

Nothing is unpacked and no link is followed. File names are limited as well as contents.
"""

import functools
import io
import itertools
import os
import re
import zipfile
from pathlib import Path

from npdl.errors import InputError
from npdl.exceptions import printable
from npdl.study.homework.answers import Refused
from npdl.study.homework.sandbox import NotGraded

MOST_BYTES = 1 << 20                        # of a student's file
MOST_FILES, MOST_NAME = 20_000, 300         # MOST_NAME: characters of a path in a zip
MOST_LIST = 4 << 20                         # bytes of a zip's list of files
MOST_COMPARED = 10                          # files of the same name
TOOLS = {"site-packages", "node_modules", "__pycache__", "__MACOSX"}    # and .git, .venv
# Canvas puts all files into one folder: doejane_LATE_12345_678901_linear-1.py
FLAT = re.compile(r"(?P<student>[^_]{1,80})(_LATE)?_\d{1,12}_\d{1,12}_(?P<file>.{1,100})")
ENDINGS = re.compile(r"( ?\(\d{1,3}\)|-\d{1,3}|[ -]{1,3}copy)?\.py$")   # of copies of a file


def list_submissions(folder):
    """Return ({name: {file name, or "": path}}, names of other files) of a folder.

    A submission is a folder, a zip, or the files that Canvas names by student. Raises InputError
    if there are none.
    """
    found, others = {}, []
    try:
        places = sorted(Path(folder).iterdir())
    except OSError as error:
        raise InputError(f"{folder}: can't be read ({error.strerror}); give the folder that has "
                         "one folder or zip for each student") from error
    for place in places:
        flat = FLAT.fullmatch(place.name) if place.is_file() else None
        if place.is_symlink() or not (flat or place.is_dir() or _is_zip(place.name)):
            others.append(printable(place.name))
        elif flat:
            found.setdefault(printable(flat["student"]), {})[flat["file"]] = place
        else:
            found.setdefault(printable(place.name.removesuffix(".zip")), {})[place.name] = place
    if not found:
        raise InputError(f"{folder}: has no submissions; give the folder that has one folder or "
                         "zip for each student")
    return found, others


def read_file(places, wanted):
    """Return the content of a file of a submission, {file name: path of a file, zip or folder}.

    If no file is named `wanted`, one with a similar name counts, such as "Linear (1).py". Raises
    Refused if there is none, NotGraded if the teacher has to decide.
    """
    files = list(itertools.islice(_list_files(places), MOST_FILES + 1))
    if len(files) > MOST_FILES:
        raise Refused(f"there are more than {MOST_FILES} files; hand in yours alone")
    files.sort(key=lambda file: file[0])
    found = [file for file in files if file[0].rpartition("/")[2] == wanted] or [
        file for file in files if _simple(file[0]) == _simple(wanted)]
    if not found:
        if notebooks := [path for path, _ in files if path.endswith(".ipynb")]:
            raise NotGraded(f"a notebook was handed in ({notebooks[0]}); ask for {wanted}")
        there = ", ".join(path for path, _ in files[:6]) or "no file"
        raise Refused(f"{wanted} is missing; there is {there}")
    (path, read), *others = found[:MOST_COMPARED]
    text = _read(path, read)
    for other, read_other in others:
        if _read(other, read_other) != text:
            raise NotGraded(f"{path} and {other} are different; remove one of them")
    return text


def _simple(path):
    """Return layernorm.py for "layer_norm.py", "Layer Norm (1).py" and "layer-norm-2.py"."""
    name = path.rpartition("/")[2].casefold()
    return re.sub(r"[\W_]", "", ENDINGS.sub("", name)) + ".py" * name.endswith(".py")


def _is_zip(name):
    return name.lower().endswith(".zip")


def _list_files(places):
    """Yield (path, function that reads it) of the files that a student may have written."""
    for name, place in places.items():
        for path, file in _walk(place) if place.is_dir() else [(name, place)]:
            if _is_zip(path):
                yield from _list_zip(file, path)
            else:
                yield printable(path), functools.partial(_read_start, file)


def _walk(place):
    """Yield (path, file) of the regular files of a folder."""
    for folder, names, files in os.walk(place):
        names[:] = filter(_is_students, names)
        for file in map(Path(folder).joinpath, filter(_is_students, files)):
            if file.is_file() and not file.is_symlink():
                yield file.relative_to(place).as_posix(), file


def _is_students(name):
    return name not in TOOLS and not name.startswith(".")


class _LimitedFile(io.FileIO):
    """A zip whose list of files can't be longer than MOST_LIST: it is read at once."""

    def read(self, size=-1):
        if size > MOST_LIST:
            raise zipfile.BadZipFile("its list of files is too long")
        return super().read(size)


def _list_zip(file, prefix):
    """Yield (path, function that reads it) of the files in a zip."""
    try:
        with _LimitedFile(file) as raw:
            entries = zipfile.ZipFile(raw).infolist()
    except Exception as error:              # zipfile raises many types at an invalid zip
        raise Refused(f"{printable(prefix)} can't be read as a zip ({error})") from error
    for entry in entries:
        path = entry.filename[: MOST_NAME + 1].replace("\\", "/")
        if len(path) <= MOST_NAME and not entry.is_dir() and all(
                map(_is_students, path.split("/"))):
            yield printable(f"{prefix}/{path}"), functools.partial(_read_start, file, entry)


def _read_start(file, entry=None):
    """Return a file, or an entry of a zip, up to MOST_BYTES + 1."""
    if entry is None:
        with open(file, "rb") as opened:
            return opened.read(MOST_BYTES + 1)
    with zipfile.ZipFile(file) as archive, archive.open(entry) as opened:
        return opened.read(MOST_BYTES + 1)


def _read(path, read):
    """Return the content of a file. Raises Refused if it can't be read, or is too large."""
    try:
        text = read()
    except Exception as error:              # of a zip, too: encrypted, damaged, of another method
        raise Refused(f"{path} can't be read ({error})") from error
    if len(text) > MOST_BYTES:
        raise Refused(f"{path} has more than 1 MiB")
    return text
