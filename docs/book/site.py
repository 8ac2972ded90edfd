"""Write the folder that Sphinx reads: chapters, guides, the other pages of docs, the sources.

Links in the pages are written for the repository. Each is converted to a page of the site, a
copied picture, or the page of a source file. A link without a target ends the build.
"""

import ast
import posixpath
import re
import shutil
from html import escape
from pathlib import Path

import nbformat

from docs.book.chapter import BookError, list_chapters, read_chapter
from docs.book.layers import make_step_page
from docs.book.markup import colour_code, html_block, text_to_html
from docs.book.notebooks import WHEEL, build_wheel, make_notebooks
from docs.book.render import Page
from docs.book.sources import ROOT

BOOK = ROOT / "docs" / "book"
CODE = r"`[^`\n]*`"
LINK = re.compile(          # or code, which is left as it is
    r"(?ms)^(`{3,}).*?^\1[ \t]*$|"
    rf"{CODE}|(!?)\[((?:{CODE}|[^\[\]`]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
INDEX = "docs/book/pages/index.md"
WHEEL_IN_TEXT = "npdl_textbook-VERSION-py3-none-any.whl"
DRAFT = "# The book\n\n```{toctree}\n:glob:\n\nchapters/*\n```\n"       # the first page of a draft


def map_pages():
    """Return {path in the repository: path in the site} of all pages except for chapters."""
    found = {f"{folder}/{path.name}": f"{place}/{path.name}"
             for folder, place in (("docs", "docs"), ("docs/bench", "docs/bench"),
                                   ("docs/book/pages", "guide"))
             for path in sorted((ROOT / folder).glob("*.md"))}
    return found | {
        "experiments/REPORT.md": "report/REPORT.md", "CHANGELOG.md": "project/CHANGELOG.md",
        "CONTRIBUTING.md": "project/CONTRIBUTING.md", INDEX: "index.md", "README.md": "index.md"}


class Site:
    """A builder of two folders: `folder`, which Sphinx reads, and `extra`, copied unchanged.

    If `only` has chapter numbers, the site is a draft with these chapters and no other page.
    """

    def __init__(self, folder, extra, only=()):
        self.folder, self.extra, self.only = Path(folder), Path(extra), only
        self.chosen = [chapter for chapter in map(read_chapter, list_chapters())
                       if not only or chapter.number in only]
        self.pages = {key: "index.md" if only else place for key, place in map_pages().items()}
        self.pages |= {f"docs/book/chapters/{c.path.name}": f"chapters/{c.path.name}"
                       for c in self.chosen}
        self.sources = {} if only else {
            _module_name(file): file for file in (ROOT / "npdl").rglob("*.py")}

    def write(self):
        """Write all pages, step pages and notebooks."""
        steps = {}
        for chapter in self.chosen:
            print(chapter.name, flush=True)
            self._write_page(f"chapters/{chapter.path.name}", Page(chapter).format_page(),
                             f"docs/book/chapters/{chapter.path.name}")
            steps |= dict.fromkeys(chapter.layer_names)
        for name in steps:
            print(f"step {name}", flush=True)
            _write_file(self.extra / "steps" / f"{name}.html", make_step_page(name))
        for name, made in make_notebooks(self.chosen).items():
            _write_file(self.extra / "notebooks" / f"{name}.ipynb", nbformat.writes(made))
        build_wheel(self.extra / "notebooks")
        if self.only:
            self._write_page("index.md", DRAFT)
            return
        for origin in map_pages().keys() - {INDEX, "README.md"}:
            text = (ROOT / origin).read_text(encoding="utf-8")
            self._write_page(self.pages[origin], text, origin)
        self._write_page("index.md", Page(read_chapter(ROOT / INDEX)).format_page(), INDEX)
        self._write_page("api/index.md", make_reference_page())
        for name, file in sorted(self.sources.items()):
            self._write_page(f"source/{name}.md", _make_source_page(file))

    def _write_page(self, site_path, text, origin=None):
        """Write one page. If it has an `origin` in the repository, convert its links."""
        if origin:
            text = LINK.sub(lambda match: self._convert_link(match, origin, site_path), text)
        if self.only:                           # a draft has no sources and no other chapters
            own = "|".join(chapter.path.stem for chapter in self.chosen)
            text = re.sub(rf' href="(?:\.\./(?:source|api)/|(?!{own})\d\d-)[^"]*"', "", text)
        _write_file(self.folder / site_path, text.replace(WHEEL_IN_TEXT, WHEEL))

    def _convert_link(self, match, origin, site_path):
        """Return a link of the page `origin`, converted for the page `site_path`."""
        _, picture, shown, full = match.groups()
        target, _, anchor = (full or "").partition("#")
        if "://" in target or target.startswith("mailto:") or not target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        here = posixpath.dirname(site_path) or "."
        anchor = "#" + anchor if anchor else ""
        if path in self.pages:
            return f"[{shown}]({posixpath.relpath(self.pages[path], here)}{anchor})"
        file = ROOT / path
        if path.startswith("..") or not file.exists():
            raise BookError(origin, 1, f"the link to {full} has no target")
        if picture:
            copy = self.folder / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
            return f"![{shown}]({posixpath.relpath(path, here)})"
        listed = "api/index.html" if file.is_dir() else f"source/{_module_name(file)}.html"
        if file.is_file():
            self.sources[_module_name(file)] = file
        return f'<a href="{posixpath.relpath(listed, here)}{anchor}">{shown}</a>'


def _write_file(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def make_reference_page():
    """Return the page of npdl's modules: the first paragraph of each, and a link to its source."""
    made = ["# API reference", "Each module of npdl, with a link to its source, where the "
            "docstring of every class and function is. Most programs import what they need from "
            "`npdl`."]
    for folder in sorted(p.parent for p in (ROOT / "npdl").rglob("__init__.py")):
        rows = []
        for file in sorted(folder.glob("*.py")):
            said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            first = text_to_html(said.partition("\n\n")[0])
            name = _module_name(file)
            rows.append(f'<li><a href="../source/{name}.html">{name}</a>: {first}</li>')
        made += [f"## {_module_name(folder)}", html_block(f"<ul>{''.join(rows)}</ul>")]
    return "\n\n".join(made) + "\n"


def _module_name(file):
    """Return "a.b" for the file a/b.py; for another file its path, with dots for slashes."""
    name = file.relative_to(ROOT).as_posix()
    return name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _make_source_page(file):
    """Return the page of a source file, with line numbers."""
    text, name = file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix()
    lines = colour_code(text.rstrip("\n"), "python" if file.suffix == ".py" else "text").split("\n")
    rows = "\n".join(f'<span id="line-{n}" data-n="{n}">{line}</span>'
                     for n, line in enumerate(lines, 1))
    return f"# {name}\n" + html_block(
        f'<div class="listing highlight" role="group" aria-label="{escape(name)}">'
        f"<pre>{rows}</pre></div>")
