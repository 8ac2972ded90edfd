"""What a student handed in: the file of a name in a folder or a zip, and what else could be meant.

Nothing is unpacked, no link is followed, what tools put there is passed over, and all is read
within bounds.
"""

import io
import itertools
import os
import re
import stat
import unicodedata
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

MOST_BYTES = 1 << 20            # of a student's file
MOST_FILES, MOST_DEPTH = 20_000, 12
MOST_OF_A_ZIP, MOST_OF_A_LIST = 256 << 20, 4 << 20      # bytes: of the file, of its list of files
MADE_BY_TOOLS = {"site-packages", "node_modules", "__pycache__", "__MACOSX"}    # and .git, .venv
# What marks a virtual environment, and npdl's own source (by a file that no student calls so): the
# folders beside it are no student's.
MARKS = {"pyvenv.cfg", "safetensors.py"}
LINK = "a link, which is not followed: hand in the file itself"


class NotOwn(Exception):
    """What was handed in is not the student's own work, or not there, or no Python."""


class NotGraded(Exception):
    """What the grader failed at, or the teacher is to decide; it costs nobody a point."""


@dataclass
class File:
    """A file of a submission: its path there, how it is read, or why it is not."""

    path: PurePosixPath
    read: object = None
    odd: str = ""


def find_file(every, name, alike=False):
    """(bytes, path, others) of the shallowest file of this name among those that are `listed`, and
    the paths of others of that name; with `alike`, of a name that is much like it, where there is
    none. Raises NotOwn when it is not there, NotGraded when two are equally near."""
    near = [file for file in every if _plain(file.path.name) == _plain(name)]
    named = [file for file in near if file.path.name == name] or (near if alike else [])
    if not (found := [file for file in named if not file.odd]):
        raise NotOwn(_why_not(name, named, near, every))
    first, *others = found
    text = first.read()
    for other in others[:9]:
        if len(other.path.parts) == len(first.path.parts) and other.read() != text:
            raise NotGraded(f"{name} is there {len(found)} times, {first.path} and {other.path}: "
                            "leave one")
    return text, str(first.path), [str(other.path) for other in others[:9]]


def _why_not(name, named, near, every):
    if named:
        return f"{named[0].path} is {named[0].odd}"
    if near:
        return f"{name} is not there; did you mean {near[0].path.name!r}? Name it {name}"
    inside = {_top(file.path): "" for file in every if not file.odd} | {
        str(file.path): f" ({file.odd})" for file in every if file.odd}
    there = ", ".join([f"{path}{odd}" for path, odd in inside.items()][:9])
    return f"{name} is not there; there is {there or 'nothing'}"


def _top(path):
    """A path up to its first part that is no zip."""
    zips = [*itertools.takewhile(lambda part: part.lower().endswith(".zip"), path.parts[:-1])]
    return "/".join(path.parts[:len(zips) + 1]) + "/" * (len(zips) + 1 < len(path.parts))


def _plain(name):
    """layernorm of "layer_norm.py", "Layer Norm.py", "layer_norm (1).py", "layer-norm-2.py" and
    "layer_norm - Copy.py"; of another name, that name."""
    stem, dot, rest = unicodedata.normalize("NFKC", name).casefold().partition(".py")
    if not dot or name.startswith(".") or re.sub(r"\W", "", rest) not in ("", "txt", "py"):
        return name
    return re.sub(r"[\W_]", "", re.sub(r"(\s*\(\d+\)|-\d+|[\s-]*\bcopy( \d+)?)+$", "", stem))


def listed(place):
    """The Files of a submission, a folder or a zip, the shallowest first. Raises NotOwn where there
    are too many."""
    if place.is_symlink():
        raise NotOwn("it is a link, which is not followed: put the folder itself there")
    found = [] if place.is_dir() else [File(PurePosixPath(place.name), partial(_read, place))]
    waiting, files = [(place, ())] if place.is_dir() else [], []
    while waiting:
        folder, inside = waiting.pop()
        with os.scandir(folder) as entries:
            entries = [*itertools.islice(entries, MOST_FILES + 1)]
        is_marked = any(entry.name in MARKS for entry in entries)
        for entry in entries:
            path, is_folder = (*inside, entry.name), entry.is_dir(follow_symlinks=False)
            if is_folder and not (odd := _passed_over(path, is_marked)):
                waiting.append((entry.path, path))
            else:
                found.append(File(PurePosixPath(*path), odd=odd) if is_folder else
                             _file(entry, PurePosixPath(*path)))
        _count(len(found) + len(waiting))
    for file in found:
        is_zip = file.path.suffix.lower() == ".zip" and not file.odd
        files += _zipped(file, place / file.path if place.is_dir() else place) if is_zip else [file]
        _count(len(files))
    return sorted(files, key=lambda file: (len(file.path.parts), file.path))


def _count(files):
    if files > MOST_FILES:
        raise NotOwn(f"there are more than {MOST_FILES} files: hand in yours alone")


def _passed_over(path, is_marked):
    """Why a folder is: it can't be what its student wrote, or lies beside one of MARKS."""
    if path[-1].startswith(".") and path[-1] != ".." or path[-1] in MADE_BY_TOOLS or is_marked:
        return "made by tools, or npdl's, and passed over"
    return f"deeper than {MOST_DEPTH} folders" if len(path) >= MOST_DEPTH else ""


def _file(entry, path):
    mode = entry.stat(follow_symlinks=False).st_mode
    odd = LINK if stat.S_ISLNK(mode) else "" if stat.S_ISREG(mode) else "no file that can be read"
    return File(path, partial(_read, entry.path), odd)


def _read(path):
    """The bytes of a file, which is still none but that."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return _bounded(file, path)


def _bounded(file, path):
    text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise NotOwn(f"{PurePosixPath(path).name} has more than 1 MiB")
    return text


class _Archive(io.FileIO):
    """A zip whose reader can't be made to take more than MOST_OF_A_LIST at a time."""

    def read(self, size=-1):
        if size > MOST_OF_A_LIST:
            raise zipfile.BadZipFile("its list of files is too long")
        return super().read(size)


def _zipped(archive, place):
    """The Files in a zip, or the zip, which says why there are none."""
    try:
        if os.path.getsize(place) > MOST_OF_A_ZIP:
            raise zipfile.BadZipFile(f"it has more than {MOST_OF_A_ZIP >> 20} MiB")
        with _Archive(place) as raw, zipfile.ZipFile(raw) as opened:
            entries = [entry for entry in opened.infolist() if not entry.is_dir()]
    except Exception as error:          # zipfile raises what it likes at what is no zip
        archive.odd = f"no zip that can be read ({error})"
        return [archive]
    _count(len(entries))
    archive.odd = "" if entries else "an empty zip"
    inside = [(entry, PurePosixPath(entry.filename.replace("\\", "/"))) for entry in entries]
    marked = {path.parent for _, path in inside if path.name in MARKS}
    return [_entry(place, archive.path, entry, path, marked) for entry, path in inside] or [archive]


def _entry(place, archive, entry, path, marked):
    """The File of an entry, or of the folder of it that is passed over."""
    for folder in [*path.parents][-2::-1]:
        if odd := _passed_over(folder.parts, folder.parent in marked):
            return File(archive / folder, odd=odd)
    return File(archive / path, partial(_unzipped, place, entry), _odd(entry, path))


def _odd(entry, path):
    """Why an entry of a zip is not read."""
    if path.is_absolute() or ".." in path.parts:
        return "outside of its zip"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return LINK
    if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "locked, or packed in a way that is not read: make a plain zip"
    if path.suffix.lower() == ".zip":
        return "a zip in a zip, which is not read"
    return "more than 1 MiB" if entry.file_size > MOST_BYTES else ""


def _unzipped(place, entry):
    try:
        with (_Archive(place) as raw, zipfile.ZipFile(raw) as opened,
              opened.open(entry) as file):
            return _bounded(file, entry.filename)
    except NotOwn:
        raise
    except Exception as error:
        raise NotOwn(f"{entry.filename} in its zip can't be read ({error})") from error
