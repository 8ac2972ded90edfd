"""The folder that Sphinx reads: chapters, guides, the other pages of docs, API, sources.

Links are written as they stand in the repository. What they name is a page of the site, a source
file (shown on a page of its own), or a file that is copied; a link to what is not there ends the
build.
"""

import posixpath
import re
import shutil
import sys
from html import escape
from pathlib import Path

from docs.book import address, api, font, front, notebooks
from docs.book.chapter import BookError, complete, every_equation, paths, read
from docs.book.frame import step_page
from docs.book.markup import coloured, raw
from docs.book.notebooks import WHEEL
from docs.book.render import HEADER, Page
from docs.book.sources import ROOT

BOOK = ROOT / "docs" / "book"
CODE = r"`[^`\n]*`"
LINK = re.compile(rf"{CODE}|(!?)\[((?:{CODE}|[^\[\]`]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
REPORTS = {"experiments/REPORT.md": "report/REPORT.md"}
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md")


def pages():
    """Return {path in the repository: path in the site, without ending}, except for chapters."""
    found = {f"docs/{p.relative_to(ROOT / 'docs')}": p.relative_to(ROOT)
             for p in sorted((ROOT / "docs").glob("**/*.md")) if BOOK not in p.parents}
    found |= {f"docs/book/pages/{p.name}": Path("guide", p.name)
              for p in sorted((BOOK / "pages").glob("*.md")) if p.stem != "index"}
    found |= REPORTS | {name: f"project/{name}" for name in PROJECT if (ROOT / name).is_file()}
    found["docs/book/pages/index.md"] = found["README.md"] = "index.md"
    return {key: str(value) for key, value in found.items()}


class Site:
    """Fills `folder` (what Sphinx reads) and `extra` (what is copied as it is).

    `only` are the numbers of the chapters to make; a `draft` may have equations that nothing
    cites, and lack sections and pages that are linked to.
    """

    def __init__(self, folder, extra, only=(), draft=False):
        self.folder, self.extra = Path(folder), Path(extra)
        self.chapters = [read(path) for path in paths()]
        self.draft = draft or bool(only)
        self.known = self._loose() if self.draft else every_equation(self.chapters)
        self.chosen = [c for c in self.chapters if not only or c.number in only]
        self.only, self.sources, self.steps = only, {}, []
        self.pages = {} if only else pages()
        self.pages |= {f"docs/book/chapters/{c.path.name}": f"chapters/{c.path.name}"
                       for c in self.chosen}
        if only:
            self.pages |= {key: "index.md" for key in pages()}

    def _loose(self):
        """Return {label: chapter}, cited or not, for a chapter that is being written."""
        return {label: c for c in self.chapters for label in c.equations}

    def write(self, log=print):
        """Make every page."""
        font.write(self.extra / "_static" / "math.woff")
        shutil.copy(ROOT / address.CARD, self.extra / "_static" / "card.png")
        shutil.copy(ROOT / "docs/gallery/grokking.webp", self.extra / "_static")
        for chapter in self.chosen:
            log(chapter.name)
            if not self.draft:
                complete(chapter)
            page = Page(chapter, self.known)
            self._put(f"chapters/{chapter.path.name}", page.text(),
                      f"docs/book/chapters/{chapter.path.name}")
            self.steps += page.steps
        for name in dict.fromkeys(self.steps):
            log(f"step {name}")
            self._keep(f"steps/{name}.html", step_page(name))
        self.notebooks = notebooks.scripts(self.chosen, self.known)
        for name, script in self.notebooks.items():
            self._keep(f"notebooks/{name}.ipynb", notebooks.notebook(script))
        self.wheel = notebooks.write_wheel(self.extra / "notebooks")
        if self.only:
            self._put("index.md", "# The book\n\n" + self._toctree())
            return
        for origin, place in self.pages.items():
            if not origin.startswith("docs/book/chapters/") and origin != "README.md":
                text = _titled((ROOT / origin).read_text(encoding="utf-8"), Path(place).stem)
                self._put(place, self._filled(text, origin), origin)
        for name, text in api.pages().items():
            self._put(f"api/{name}.md", self._api(text))
        for name, module in api.modules().items():
            self.sources[name] = Path(module.__file__)
        for name, file in sorted(self.sources.items()):
            self._put(f"source/{name}.md", _listing(file) + address.at_source(
                file.relative_to(ROOT).as_posix()))

    def _filled(self, text, origin):
        """Fill the lists of pages and notebooks and the link to the wheel into a page."""
        folder = posixpath.relpath("notebooks", posixpath.dirname(self.pages[origin]) or ".")
        if origin.startswith("docs/book/pages/"):
            text = HEADER + text
        if origin.endswith("pages/index.md"):
            text = front.filled(text) + "\n\n" + self._toctree()
        text = text.replace("<!-- notebooks -->", "\n".join(
            f'- <a href="{folder}/{name}.ipynb" download>{notebooks.title(script)}</a>'
            for name, script in self.notebooks.items()))
        wheel = f'<a href="{folder}/{WHEEL}" download>{WHEEL}</a>' if self.wheel else (
            f"`{WHEEL}` (in the folder of npdl's source, `pip wheel --no-deps .` makes it)")
        return text.replace("<!-- wheel -->", wheel).replace(
            "npdl_textbook-VERSION-py3-none-any.whl", WHEEL)

    def _toctree(self):
        groups = {"The book": [f"chapters/{c.name}" for c in self.chosen]}
        if not self.only:
            places = [p.removesuffix(".md") for p in self.pages.values()]
            groups |= {
                "Guides": self._guides(),
                "Reference": ["api/index"],
                "Proofs and figures": [p for p in places if p.startswith("docs/")
                                       and not re.match("docs/bench/", p)] + [
                                           p.removesuffix(".md") for p in REPORTS.values()],
                "Project": [p for p in places if p.startswith("project/")],
            }
        return "\n\n".join(
            f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(entries) + "\n```"
            for caption, entries in groups.items() if entries)

    def _guides(self):
        """Return the guides in the order in which the first page links to them."""
        first = (BOOK / "pages" / "index.md").read_text(encoding="utf-8")
        names = [p.stem for p in (BOOK / "pages").glob("*.md") if p.stem != "index"]
        for name in names:
            if f"({name}.md)" not in first:
                raise BookError(BOOK / "pages" / "index.md", 1, f"does not link to {name}.md")
        return [f"guide/{n}" for n in sorted(names, key=lambda n: first.index(f"({n}.md)"))]

    def _api(self, text):
        """Link an API page to the source of its module, and to the lines of its members."""
        def link(match):
            shown, name, line = match.groups()
            if not line:
                return f'<a href="../source/{name}.html">{shown}</a>'
            file = Path(sys.modules[name].__file__).relative_to(ROOT).as_posix()
            return (f'<a href="../source/{name}.html#line-{line}">{shown}</a>'
                    + address.at_line(file, line))
        return re.sub(r"\[(Source|Line \d+)\]\(source:([\w.]+):?(\d*)\)", link, text)

    def _put(self, place, text, origin=None):
        """Write one page, its links turned to the site's if it has an origin in the repository."""
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if re.search("/bench/", place) or place.startswith(("source/", "api/npdl")):
            text = "---\norphan: true\n---\n" + text
        if origin:
            text = self._relinked(text, origin, place) + address.at_source(origin)
        path.write_text(text, encoding="utf-8")

    def _keep(self, place, text):
        path = self.extra / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _relinked(self, text, origin, place):
        """Replace every link of a text, except for those in code."""
        kept = re.split(r"(?ms)(^(`{3,}).*?^\2[ \t]*$)", text)
        pieces = [piece for i, piece in enumerate(kept) if i % 3 != 2]
        for i in range(0, len(pieces), 2):
            pieces[i] = LINK.sub(lambda m: self._link(m, origin, place), pieces[i])
        return "".join(pieces)

    def _link(self, match, origin, place):
        if match[3] is None:
            return match[0]
        shown, (target, _, anchor) = match[2], match[3].partition("#")
        if "://" in target or target.startswith("mailto:") or not target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        here = posixpath.dirname(place) or "."
        anchor = "#" + anchor if anchor else ""
        if path in self.pages:
            return f"[{shown}]({posixpath.relpath(self.pages[path], here)}{anchor})"
        file = ROOT / path
        if self.draft and not file.exists():
            return shown
        if path.startswith("..") or not file.exists():
            raise BookError(origin, 1, f"the link to {match[3]} leads nowhere")
        if match[1]:
            copy = self.folder / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
            return f"![{shown}]({posixpath.relpath(path, here)})"
        return f'<a href="{posixpath.relpath(self._kept(path, file), here)}{anchor}">{shown}</a>'

    def _kept(self, path, file):
        """Return the address of a file that is not a page: of its listing, or of a copy."""
        if file.is_dir():
            return "api/index.html"
        if file.suffix == ".html":
            self._keep(path, file.read_text(encoding="utf-8"))
            return path
        name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        self.sources[name] = file
        return f"source/{name}.html"


def _titled(text, name):
    """Put a title above a page that begins with a table or a smaller heading.

    Tables that a measurement wrote begin in this way.
    """
    if re.search("^# ", text, re.M):
        return text
    return f"# Measured: {name.replace('-', ' ')}\n\n" + re.sub("^###", "##", text, flags=re.M)


def _listing(file):
    """Return a source file as a page with line numbers."""
    text = file.read_text(encoding="utf-8")
    kind = "python" if file.suffix == ".py" else "text"
    lines = coloured(text.rstrip("\n"), kind).split("\n")
    rows = "\n".join(f'<span id="line-{n}" data-n="{n}">{line}</span>'
                     for n, line in enumerate(lines, 1))
    name = file.relative_to(ROOT).as_posix()
    return f"# {name}\n" + raw(
        f'<div class="listing highlight" role="group" aria-label="{escape(name)}">'
        f"<pre>{rows}</pre></div>")
