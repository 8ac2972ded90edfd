"""Which file of a submission is graded: the shallowest of the student's own, in a folder or zip."""

import os
import zipfile

import pytest

from npdl_study.homework import submissions
from npdl_study.homework.submissions import NotGraded, NotOwn

LINK = 0o120777 << 16


def find_file(place, name, alike=False):
    """(bytes, path, others) of a name in a submission."""
    return submissions.find_file(submissions.listed(place), name, alike)


def zipped(place, files, **options):
    """A zip of {name or ZipInfo: text}."""
    with zipfile.ZipFile(place, "w", **options) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return place


def laid(place, files):
    """A folder of {path: text}."""
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


TOOLS = [f"{folder}/{name}" for folder in (
    ".venv/lib/python3.11/site-packages/npdl/layers", "env/lib/site-packages/npdl", "node_modules",
    "__pycache__", ".git", "__MACOSX/week1", "npdl/npdl/layers", ".ipynb_checkpoints",
    "my env/deep/er") for name in ("linear.py",)]


@pytest.mark.parametrize("kind", ["folder", "zip", "zip in a folder"])
def test_what_tools_put_there_is_passed_over(tmp_path, kind):
    files = dict.fromkeys([*TOOLS, "my env/pyvenv.cfg", "npdl/npdl/safetensors.py", "notes.txt"],
                          "npdl's own")
    place = laid(tmp_path / "ada", files) if kind == "folder" else zipped(
        tmp_path / "ada.zip", files)
    if kind == "zip in a folder":
        (tmp_path / "ada").mkdir()
        place = place.rename(tmp_path / "ada" / "ada.zip").parent
    with pytest.raises(NotOwn, match="linear.py is not there; there is (notes|ada)"):
        find_file(place, "linear.py")
    files |= {"week/old/linear.py": "old", "week/linear.py": "mine"}
    place = laid(place, files) if place.is_dir() else zipped(place, files)
    text, path, others = find_file(place, "linear.py")
    start = "ada.zip/" if place.suffix else ""
    assert (text, path) == (b"mine", f"{start}week/linear.py")
    assert others == [f"{start}week/old/linear.py"]


def test_a_students_own_backend_hides_nothing(tmp_path):
    place = laid(tmp_path, {"backend.py": "theirs", "layers/linear.py": "mine"})
    assert find_file(place, "linear.py")[0] == b"mine"


@pytest.mark.parametrize("within", ["", "week/"])
@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_an_environment_made_around_the_work_hides_nothing_of_it(tmp_path, kind, within):
    """What `python -m venv .` puts beside a student's file is passed over; the file is not."""
    lay = laid if kind == "folder" else zipped
    files = {f"{within}pyvenv.cfg": "", f"{within}lib/python3/linear.py": "npdl's own",
             f"{within}src/npdl/linear.py": "npdl's own"}
    place = lay(tmp_path / "ada.zip", files)
    with pytest.raises(NotOwn, match=r"lib \(made by tools, or npdl's, and passed over\), "):
        find_file(place, "linear.py")
    place = lay(tmp_path / "ben.zip", files | {f"{within}linear.py": "mine"})
    assert find_file(place, "linear.py")[::2] == (b"mine", [])


def test_two_that_are_equally_near_are_for_the_teacher(tmp_path):
    laid(tmp_path, {"a/linear.py": "1", "b/linear.py": "1"})
    assert find_file(tmp_path, "linear.py")[1:] == ("a/linear.py", ["b/linear.py"])
    laid(tmp_path, {"b/linear.py": "2"})
    with pytest.raises(NotGraded, match="2 times, a/linear.py and b/linear.py: leave one"):
        find_file(tmp_path, "linear.py")


@pytest.mark.parametrize("name", [
    "layer norm.py", "layer_norm (1).py", "Layer_Norm.py", "LayerNorm.py", "layer-norm-2.py",
    "layer_norm - Copy.py", "layer_norm copy 2.py", "layer_norm.py.txt", "layer_norm (1) (2).py",
    "layer_norm.py ", " layer_norm.py\n", "layer_norm.py\u200b", "ｌayer_norm.py"])
def test_names_that_are_much_alike(tmp_path, name):
    laid(tmp_path, {name: "mine"})
    with pytest.raises(NotOwn, match="did you mean .*? Name it layer_norm.py"):
        find_file(tmp_path, "layer_norm.py")
    assert find_file(tmp_path, "layer_norm.py", alike=True)[:2] == (b"mine", name)
    laid(tmp_path, {"deep/layer_norm.py": "named"})
    assert find_file(tmp_path, "layer_norm.py", alike=True)[0] == b"named"


@pytest.mark.parametrize("name", ["layer_norms.py", "layer_norm.pyc", "norm.py", "layer_norm.txt",
                                  ".layer_norm.py", "._Layer_Norm.py"])
def test_names_that_are_not(tmp_path, name):
    laid(tmp_path, {name: "x"})
    with pytest.raises(NotOwn, match=f"not there; there is {name}"):
        find_file(tmp_path, "layer_norm.py", alike=True)


def test_links_and_pipes_have_a_reason(tmp_path):
    secret = laid(tmp_path / "ben", {"linear.py": "ben's"})
    for name in ("ada", "cyd", "dan", "eve"):
        (tmp_path / name).mkdir()
    (tmp_path / "ada" / "linear.py").symlink_to(secret / "linear.py")
    (tmp_path / "cyd" / "work").symlink_to(secret)
    os.mkfifo(tmp_path / "dan" / "linear.py")
    os.mkfifo(tmp_path / "eve" / "hw.zip")
    (tmp_path / "fay").symlink_to(secret)
    for name, words in {"ada": "linear.py is a link, which is not followed", "cyd": "work (a link",
                        "dan": "linear.py is no file that can be read", "fay": "it is a link",
                        "eve": "hw.zip (no file that can be read)"}.items():
        with pytest.raises(NotOwn) as said:
            find_file(tmp_path / name, "linear.py")
        assert words in str(said.value), name


def entry(name, **attributes):
    made = zipfile.ZipInfo(name)
    for key, value in attributes.items():
        setattr(made, key, value)
    return made


@pytest.mark.parametrize("files, words", [
    ({"../linear.py": "x"}, "outside of its zip"), ({"/etc/linear.py": "x"}, "outside of its zip"),
    ({"a\\..\\..\\linear.py": "x"}, "outside of its zip"),
    ({"a/" * 20 + "linear.py": "x"}, "a (deeper than 12 folders)"), ({}, "ada.zip (an empty zip)"),
    ({"linear.py/x": "x", "b/linear.zip": "PK"}, "there is ada.zip/linear.py/, ada.zip/b/linear.zip"
     " (a zip in a zip, which is not read)"),
    ({entry("linear.py", external_attr=LINK): "/etc/passwd"}, "is a link"),
    ({entry("linear.py", compress_type=zipfile.ZIP_BZIP2): "0" * (1 << 20)}, "make a plain zip"),
    ({entry("linear.py", compress_type=zipfile.ZIP_LZMA): "0" * (1 << 20)}, "make a plain zip"),
    ({entry("linear.py", compress_type=zipfile.ZIP_DEFLATED): "0" * (1 << 24)}, "more than 1 MiB"),
    ({"inner.zip": "PK", "x.txt": ""}, "linear.py is not there; there is ada.zip/x.txt"),
])
def test_hostile_zips(tmp_path, files, words):
    place = zipped(tmp_path / "ada.zip", files)
    before = sorted(tmp_path.parent.rglob("*"))
    with pytest.raises(NotOwn) as said:
        find_file(place, "linear.py")
    assert words in str(said.value) and sorted(tmp_path.parent.rglob("*")) == before


def test_zips_that_lie_or_are_too_large(tmp_path, monkeypatch):
    """A size that is not true, a locked file, a bad sum, a list without end, many files."""
    content = zipped(tmp_path / "a.zip", {"linear.py": "0" * 5000},
                     compression=zipfile.ZIP_DEFLATED).read_bytes()
    size = (5000).to_bytes(4, "little")
    lies = {"small": content.replace(size, (7).to_bytes(4, "little")),
            "cut": content[:-30], "no": b"PK\5\6", "sum": content.replace(
                content[content.index(b"PK\1\2") + 16 :][:4], b"\0\0\0\0"),
            "locked": content.replace(b"PK\1\2\x14\x03\x14\0\0\0", b"PK\1\2\x14\x03\x14\0\1\0")}
    for name, lie in lies.items():
        assert lie != content, name
        (tmp_path / "a.zip").write_bytes(lie)
        with pytest.raises(NotOwn, match="zip"):
            find_file(tmp_path / "a.zip", "linear.py")
    zipped(tmp_path / "a.zip", {"linear.py": "x", **{f"{i}": "" for i in range(50)}})
    assert find_file(tmp_path / "a.zip", "linear.py")[0] == b"x"
    for name, most in (("MOST_FILES", 40), ("MOST_OF_A_LIST", 1000), ("MOST_OF_A_ZIP", 1000)):
        with monkeypatch.context() as patch, pytest.raises(NotOwn, match="zip|list|than 40 files"):
            patch.setattr(submissions, name, most)
            find_file(tmp_path / "a.zip", "linear.py")
    laid(tmp_path / "ada", dict.fromkeys("abc", ""))
    for name in ("a", "b"):
        zipped(tmp_path / "ada" / f"{name}.zip", {f"{i}": "" for i in range(30)})
    monkeypatch.setattr(submissions, "MOST_FILES", 40)
    with pytest.raises(NotOwn, match="more than 40 files"):     # all in all
        find_file(tmp_path / "ada", "linear.py")


def test_folders_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(submissions, "MOST_FILES", 40)
    laid(tmp_path / "many", {f"{i}": "" for i in range(50)})
    with pytest.raises(NotOwn, match="more than 40 files"):
        find_file(tmp_path / "many", "linear.py")
    laid(tmp_path / "deep", {"a/" * 15 + "linear.py": "x"})
    with pytest.raises(NotOwn, match="there is a/.*a .deeper than 12 folders"):
        find_file(tmp_path / "deep", "linear.py")
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "linear.py").write_bytes(bytes(submissions.MOST_BYTES + 1))
    with pytest.raises(NotOwn, match="linear.py has more than 1 MiB"):
        find_file(tmp_path / "large", "linear.py")


def test_what_is_read_was_looked_at(tmp_path):
    """A file that is replaced by a link or a pipe after it was listed is not read."""
    laid(tmp_path, {"linear.py": "x"})
    found, = submissions.listed(tmp_path)
    (tmp_path / "linear.py").unlink()
    (tmp_path / "linear.py").symlink_to("/etc/passwd")
    with pytest.raises(OSError):
        found.read()
