"""Where the source and the site are: Source, Site and DOI in pyproject.toml's [project.urls].

Each may be missing: then nothing leads there, and nothing breaks. With them every page names its
address, has a card and a link to its source, a notebook opens in Colab, the site has a map.

    python -m docs.book.address     writes them into CITATION.cff and the README's badges
"""

import posixpath
import re
import sys
import tomllib
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

from docs.book.markup import raw

ROOT = Path(__file__).resolve().parents[2]
SAYS = ("Layers for sequence models in NumPy: every backward pass written by hand, derived line by "
        "line, and checked as it is printed.")
CARD = "docs/gallery/lstm-cell.png"             # what others show beside a link to a page
LONGEST = 160                                   # characters of a description
BADGES = re.compile(r"(?<=<!-- badges -->\n).*?(?=<!-- /badges -->)", re.S)
MISSING = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>No such page: npdl</title>
<link rel="icon" href="{0}_static/favicon.svg">
<body style="font-family: sans-serif; margin: 4rem auto; max-width: 34rem">
<h1>There is no such page</h1><p>It may have moved: <a href="{0}index.html">the first page</a>
leads to all of them, <a href="{0}search.html">the search</a> finds a word.</p></body></html>
"""


def urls():
    """Return {"Source": .., "Site": .., "DOI": ..}: the known addresses, without a final slash."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    given = tomllib.loads(text)["project"].get("urls", {})
    return {name: url.rstrip("/") for name, url in given.items() if url}


def described(text):
    """Return a text as a page's description: one line, cut at a word."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[:LONGEST - 2].rpartition(" ")[0] + " …"


def tags(title, text, place):
    """Return the meta tags of a page: its title, its description and, if known, its address."""
    named = {"og:title": title, "og:description": described(text), "og:type": "article"}
    site, lines = urls().get("Site"), []
    if site:
        at = f"{site}/{place}"
        named |= {"og:url": at, "og:image": f"{site}/_static/card.png",
                  "twitter:card": "summary_large_image"}
        lines.append(f'<link rel="canonical" href="{escape(at)}">')
    lines += [f'<meta property="{name}" content="{escape(value)}">'
              for name, value in named.items()]
    return "\n".join([f'<meta name="description" content="{escape(described(text))}">', *lines])


def of_page(app, pagename, templatename, context, doctree):
    """Handle Sphinx's event html-page-context: add the meta tags of the page."""
    from docutils.nodes import paragraph

    said = next((node.astext() for node in doctree.findall(paragraph)), SAYS) if doctree else SAYS
    title = re.sub(r"<[^>]*>", "", context.get("title") or "npdl: the book")
    context["metatags"] = context.get("metatags", "") + tags(title, said, f"{pagename}.html")


def at_source(path):
    """Return a block that links a file of the repository, or "" without an address."""
    source = urls().get("Source")
    return raw(f'<p class="origin"><a href="{source}/blob/main/{path}">{path}</a> in the '
               "repository</p>") if source else ""


def at_line(path, line):
    """Return a link to a line of a file of the repository, or "" without an address."""
    source = urls().get("Source")
    return (f' <a href="{source}/blob/main/{path}#L{line}">in the repository</a>'
            if source else "")


def in_colab(name):
    """Return a link that opens a notebook of the published site in Colab, or "" without one."""
    source = urls().get("Source", "")
    repository = urlsplit(source).path if urlsplit(source).hostname == "github.com" else ""
    return (f' <a href="https://colab.research.google.com/github{repository}/blob/gh-pages/'
            f'notebooks/{name}.ipynb">Open it in Colab</a>.') if repository else ""


def wheel(name):
    """Return the requirement that a notebook without a wheel next to it gives to pip, or None."""
    site = urls().get("Site")
    return site and f"npdl-textbook[train] @ {site}/notebooks/{name}"


def finish(folder):
    """Write the files that a published folder needs besides its pages, such as its 404 page."""
    folder, site = Path(folder), urls().get("Site")
    (folder / ".nojekyll").touch()              # else a host may hide folders that begin with _
    (folder / "404.html").write_text(MISSING.format(f"{site}/" if site else ""), encoding="utf-8")
    lines = ["User-agent: *", "Allow: /"]
    if site:
        pages = sorted(posixpath.join(*p.relative_to(folder).parts)
                       for p in folder.rglob("*.html") if p.name != "404.html")
        entries = "\n".join(f"<url><loc>{escape(f'{site}/{page}')}</loc></url>" for page in pages)
        (folder / "sitemap.xml").write_text(
            '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns='
            f'"http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}\n</urlset>\n',
            encoding="utf-8")
        lines.append(f"Sitemap: {site}/sitemap.xml")
    (folder / "robots.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def badges():
    """Return the README's line of badges, or "" without an address."""
    found, known = urls(), []
    if "Source" in found:
        at = f"{found['Source']}/actions/workflows/tests.yml"
        known.append(f"[![tests]({at}/badge.svg)]({at})")
    if "Site" in found:
        known.append(f"[the book, online]({found['Site']}/)")
    if "DOI" in found:
        known.append(f"[{found['DOI'].removeprefix('https://doi.org/')}]({found['DOI']})")
    return " · ".join(known) + "\n" * bool(known)


def cited(text):
    """Return the text of CITATION.cff with the known addresses only."""
    found = urls()
    text = re.sub(r"^(repository-code|url|doi): .*\n", "", text, flags=re.M)
    lines = {"repository-code": found.get("Source"), "url": found.get("Site"),
             "doi": found.get("DOI", "").removeprefix("https://doi.org/")}
    return text.rstrip("\n") + "\n" + "".join(
        f'{key}: "{value}"\n' for key, value in lines.items() if value)


def written():
    """Return {path: text} of the handwritten files that contain an address."""
    readme, citation = ROOT / "README.md", ROOT / "CITATION.cff"
    return {readme: BADGES.sub(lambda _: badges(), readme.read_text(encoding="utf-8")),
            citation: cited(citation.read_text(encoding="utf-8"))}


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
    sys.exit(0)
