"""Find a student's file in a folder or a zip, within limits.

Nothing is unpacked and no link is followed. File names are limited as well as contents.
"""

import io
import os
import re
import stat
import zipfile
from pathlib import Path

from npdl.errors import InputError
from npdl.exceptions import printable
from npdl.study.homework.answers import Refused
from npdl.study.homework.sandbox import NotGraded

MOST_BYTES = 1 << 20                                    # of a student's file
MOST_FILES, MOST_DEPTH, MOST_NAME = 20_000, 12, 300     # MOST_NAME: characters of a path in a zip
MOST_ZIP, MOST_LIST = 256 << 20, 4 << 20                # bytes of a zip, and of its list of files
TOOLS = {"site-packages", "node_modules", "__pycache__", "__MACOSX"}    # and .git, .venv
# Canvas puts all files into one folder: doejane_LATE_12345_678901_linear-1.py
FLAT = re.compile(r"(?P<student>[^_]{1,80})(_LATE)?_\d{1,12}_\d{1,12}_(?P<file>.{1,100})")
ENDINGS = re.compile(r"( ?\(\d{1,3}\)|-\d{1,3}|[ -]{1,3}copy)$")       # of copies of a file


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
        if flat:
            found.setdefault(printable(flat["student"]), {})[flat["file"]] = place
        elif place.is_dir() or place.suffix.lower() == ".zip":
            found.setdefault(printable(place.name.removesuffix(".zip")), {})[place.name] = place
        else:
            others.append(printable(place.name))
    if not found:
        raise InputError(f"{folder}: has no submissions; give the folder that has one folder or "
                         "zip for each student")
    return found, others


def read_file(places, wanted):
    """Return (bytes, path, paths of others of that name) of a file of a submission.

    The shallowest file named `wanted` counts; if there is none, one with a similar name, such as
    "Linear (1).py". Raises Refused if it is missing, NotGraded if the teacher has to decide.
    """
    files = sorted(_list_files(places), key=lambda file: (file[0].count("/"), file[0]))
    found = [file for file in files if file[0].rpartition("/")[2] == wanted] or [
        file for file in files if _similar(file[0]) == _similar(wanted)]
    if not found:
        if notebooks := [path for path, _ in files if path.endswith(".ipynb")]:
            raise NotGraded(f"a notebook was handed in ({notebooks[0]}); ask for {wanted}")
        there = ", ".join(path for path, _ in files[:6]) or "no file"
        raise Refused(f"{wanted} is missing; there is {there}")
    (path, read), *rest = found
    text = read()
    for other, read_other in rest[:9]:
        if other.count("/") == path.count("/") and read_other() != text:
            raise NotGraded(f"{path} and {other} are different; remove one of them")
    return text, path, [other for other, _ in rest[:9]]


def _similar(path):
    """Return layernorm for "layer_norm.py", "Layer Norm (1).py" and "layer-norm-2.py"."""
    name, _, extension = path.rpartition("/")[2].casefold().rpartition(".")
    return re.sub(r"[\W_]", "", ENDINGS.sub("", name)) if extension == "py" else path


def _list_files(places):
    """Return [(path, function that reads it)] of the files that a student may have written."""
    files = []
    for name, place in places.items():
        if place.is_symlink():
            raise Refused(f"{printable(place.name)} is a link; hand in the folder itself")
        for path, file in _walk(place) if place.is_dir() else [(name, place)]:
            files += _list_zip(file, path) if path.lower().endswith(".zip") else [
                (printable(path), lambda file=file: _read(open(file, "rb"), file.name))]
            if len(files) > MOST_FILES:
                raise Refused(f"there are more than {MOST_FILES} files; hand in yours alone")
    return files


def _walk(place):
    """Yield (path, file) of the regular files of a folder, without those of tools."""
    for folder, names, files in os.walk(place):
        inside = Path(folder).relative_to(place).parts
        names[:] = [] if "pyvenv.cfg" in files or len(inside) >= MOST_DEPTH else filter(
            _is_student, names)
        if len(files) + len(names) > MOST_FILES:
            raise Refused(f"there are more than {MOST_FILES} files; hand in yours alone")
        for name in filter(_is_student, files):
            file = Path(folder, name)
            if stat.S_ISREG(file.lstat().st_mode):
                yield "/".join((*inside, name)), file


def _is_student(name):
    return name not in TOOLS and not name.startswith(".")


def _read(file, name):
    with file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise Refused(f"{printable(name)} has more than 1 MiB")
    return text


class _LimitedFile(io.FileIO):
    """A zip whose list of files can't be longer than MOST_LIST: it is read at once."""

    def read(self, size=-1):
        if size > MOST_LIST:
            raise zipfile.BadZipFile("its list of files is too long")
        return super().read(size)


def _list_zip(file, prefix):
    """Return [(path, function that reads it)] of the files in a zip."""
    found = []
    for entry in _use_zip(file, prefix, zipfile.ZipFile.infolist):
        parts = entry.filename[: MOST_NAME + 1].replace("\\", "/").split("/")
        if (len(entry.filename) <= MOST_NAME and len(parts) <= MOST_DEPTH and not entry.is_dir()
                and all(map(_is_student, parts))):
            found.append((printable("/".join((prefix, *parts))), lambda entry=entry: _use_zip(
                file, prefix, lambda archive: _read(archive.open(entry), entry.filename))))
    return found


def _use_zip(file, name, use):
    """Return use(archive). Raises Refused if the zip can't be read."""
    try:
        if file.stat().st_size > MOST_ZIP:
            raise zipfile.BadZipFile(f"it has more than {MOST_ZIP >> 20} MiB")
        with _LimitedFile(file) as raw, zipfile.ZipFile(raw) as archive:
            return use(archive)
    except Refused:
        raise
    except Exception as error:              # zipfile raises many types at an invalid zip
        raise Refused(f"{printable(name)} can't be read as a zip ({error})") from error
