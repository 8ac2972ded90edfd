"""Where the source and the site are: Source and Site in pyproject.toml's [project.urls].

Each may be missing: then nothing leads there, and nothing breaks.
"""

import tomllib
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]


def urls():
    """Return {"Source": .., "Site": ..}: the known addresses, without a final slash."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    given = tomllib.loads(text)["project"].get("urls", {})
    return {name: url.rstrip("/") for name, url in given.items() if url}


def at_source(path, line=None):
    """Return a link to a file of the repository, or to a line of it; "" without an address."""
    source, place = urls().get("Source"), f"#L{line}" if line else ""
    return (f' <a href="{source}/blob/main/{path}{place}">in the repository</a>'
            if source else "")


def in_colab(name):
    """Return a link that opens a notebook of the published site in Colab, or "" without one."""
    source = urlsplit(urls().get("Source", ""))
    return (f' <a href="https://colab.research.google.com/github{source.path}/blob/gh-pages/'
            f'notebooks/{name}.ipynb">Open it in Colab</a>.'
            ) if source.hostname == "github.com" else ""


def wheel(name):
    """Return the requirement that a notebook without a wheel next to it gives to pip, or None."""
    site = urls().get("Site")
    return site and f"npdl-textbook[train] @ {site}/notebooks/{name}"
