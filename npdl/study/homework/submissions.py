"""Find a student's file in a folder or a zip.

Zips are not unpacked, links are not followed, and sizes are limited.
"""

import functools
import itertools
import re
import zipfile
from pathlib import Path

from npdl.errors import InputError
from npdl.exceptions import to_printable
from npdl.study.homework.answers import InvalidFile
from npdl.study.homework.sandbox import NotGraded

MOST_BYTES = 100_000                        # the largest size of a student's file
MOST_ZIP = 20 << 20                         # the largest size of a zip, because zips need memory
MOST_FILES, MOST_SHOWN = 20_000, 300        # MOST_SHOWN: characters of a list of files in a message
TOOLS = {"site-packages", "node_modules", "__pycache__", "__MACOSX"}    # skipped, as is .git
# Canvas puts all files into one folder, with names such as doejane_LATE_12345_678901_linear-1.py.
# The first number is the student's, because two students may have the same name.
FLAT = re.compile(r"(?P<name>[^_]{1,80})(_LATE)?_(?P<id>\d{1,12})_\d{1,12}_(?P<file>.{1,100})")
UNREAD = ".ipynb", ".py.txt", ".rar", ".7z", ".tar", ".gz", ".xz"       # the work may be in them
ENDINGS = re.compile(r"( ?\(\d{1,3}\)|-\d{1,3}|[ -]{1,3}copy)?\.py$")   # of copies of a file


def find_submissions(folder):
    """Return the submissions in a folder, {student: {file name: path}}.

    A submission is a folder, a zip, or all files or folders of one student that Canvas or Moodle
    has put into the folder under its own names. Raises InputError if there is no submission.
    """
    found, folder = {}, Path(folder)
    for place in sorted(folder.iterdir()) if folder.is_dir() else ():
        flat = FLAT.fullmatch(place.name) if place.is_file() else None
        if place.is_symlink() or not (flat or place.is_dir() or place.suffix.lower() == ".zip"):
            print(f"{to_printable(place.name)} is skipped; it is not a folder, zip or Canvas file")
            continue
        name = f"{flat['name']}_{flat['id']}" if flat else (
            place.name.partition("_assignsubmission_")[0])
        files = found.setdefault(to_printable(name.removesuffix(".zip")), {})
        files[flat["file"] if flat else place.name] = place
    if not found:
        raise InputError(f"{folder} is not a folder with submissions; give the folder that has "
                         "one folder or zip for each student")
    return found


def read_submitted_file(submission, file_name):
    """Return the content of a file of a submission, as bytes.

    submission  {name: path} of the files, zips and folders of a student
    file_name   the name of the file; if it is missing, a similar name is used: "Linear (1).py"
    Raises InvalidFile if there is no such file, and NotGraded if the teacher has to decide.
    """
    files = dict(itertools.islice(_walk_files(submission), MOST_FILES))
    paths = sorted(files)
    found = [path for path in paths if path.rpartition("/")[2] == file_name] or [
        path for path in paths if _normalise_name(path) == _normalise_name(file_name)]
    if not found:
        if path := next((path for path in paths if path.lower().endswith(UNREAD)), ""):
            raise NotGraded(f"{file_name} is missing; {path} is not graded; ask for {file_name}")
        shown = ", ".join(paths[:6])[:MOST_SHOWN]
        raise InvalidFile(f"{file_name} is missing; the submission has {shown or 'no file'}")
    texts = {path: _read_limited(path, files[path]) for path in found[:10]}
    if others := [path for path, text in texts.items() if text != texts[found[0]]]:
        raise NotGraded(f"{found[0]} and {others[0]} are two versions of {file_name}; remove one")
    return texts[found[0]]


def _normalise_name(path):
    """Return "layernorm.py" for each of "layer_norm.py", "Layer Norm (1).py", "layer-norm-2.py"."""
    name = path.rpartition("/")[2].casefold()
    return re.sub(r"[\W_]", "", ENDINGS.sub("", name)) + ".py" * name.endswith(".py")


def _walk_files(submission):
    """Yield (path, function that opens the file) for the files that a student may have written."""
    for name, place in submission.items():
        for file in place.rglob("*") if place.is_dir() else [place]:
            path = file.relative_to(place).as_posix() if place.is_dir() else name
            if not _is_student_file(path) or not file.is_file() or file.is_symlink():
                continue
            if path.lower().endswith(".zip"):
                yield from _walk_zip_files(path, file)
            else:
                yield to_printable(path), functools.partial(open, file, "rb")


def _is_student_file(path):
    return all(part not in TOOLS and not part.startswith(".") for part in path.split("/"))


def _walk_zip_files(prefix, file):
    """Yield pairs as `_walk_files`, for a zip; raise NotGraded if it can't be read."""
    if file.stat().st_size > MOST_ZIP:
        raise NotGraded(f"{to_printable(prefix)} has more than {MOST_ZIP} bytes, the limit for a "
                        "zip; remove data from it")
    try:
        opened = zipfile.ZipFile(file)
    except Exception as error:              # zipfile raises many types of exceptions
        raise NotGraded(f"{to_printable(prefix)} can't be read as a zip ({error})") from error
    for entry in opened.infolist():
        path = entry.filename.replace("\\", "/")
        if not entry.is_dir() and _is_student_file(path):
            yield to_printable(f"{prefix}/{path}"), functools.partial(opened.open, entry)


def _read_limited(path, open_file):
    """Return the content of a file as bytes; raise an error if it is damaged or too large."""
    try:
        with open_file() as opened:
            text = opened.read(MOST_BYTES + 1)
    except Exception as error:              # a zip may be encrypted or damaged
        raise NotGraded(f"{path} can't be read ({error})") from error
    if len(text) > MOST_BYTES:
        raise InvalidFile(f"{path} has more than {MOST_BYTES} bytes; remove data from it")
    return text
