"""python -m docs.book: build the book as a static site.

    python -m docs.book                         # the whole site, into build/book
    python -m docs.book --only 6 --out draft    # one chapter, quickly
    python -m docs.book --check                 # only run the checks of every equation
    python -m docs.book --train [MODEL ...]     # train the tiny models of the pages again (minutes)
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from npdl.cli.console import OneLineParser, prepare_script, run_guarded
from npdl.cli.folders import create_folder_atomically
from npdl.errors import InputError


def main():
    from docs.book import chapter, checks, trained

    parser = OneLineParser(prog="python -m docs.book", description="Build the book as a website, "
                           "which needs no server: open index.html in its folder.")
    parser.add_argument("--out", default="build/book", metavar="DIR",
                        help="the site's folder (default: build/book); its files are replaced")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", default=[],
                        choices=[int(path.name[:2]) for path in chapter.list_chapters()],
                        help="only these chapters, as a draft")
    parser.add_argument("--check", action="store_true",
                        help="run the checks of all equations (or of --only) and list them")
    parser.add_argument("--train", nargs="*", metavar="MODEL", choices=trained.MODELS,
                        help="train the pages' tiny models (or these) again, and keep what the "
                             "pages show of them in docs/book/data")
    options = parser.parse_args()
    if options.train is not None:
        for name in options.train or trained.MODELS:
            print(trained.write_record(name), flush=True)
        return 0
    if not options.check:
        return build_site(options)
    for one in map(chapter.read_chapter, chapter.list_chapters()):
        if not options.only or one.number in options.only:
            for label, close in checks.run_checks(one)[0].items():
                print(f"{label:<20} {close.count:>3} comparisons   worst {close.worst:.1e}")
    return 0


def build_site(options):
    """Build the site and return the exit status: 1 if Sphinx reports an error or a warning."""
    out = Path(options.out)
    if out.exists() and not (out.is_dir() and (not any(out.iterdir())
                                               or (out / "objects.inv").exists())):
        raise InputError(f"--out {out}: the folder doesn't hold a site; give another folder")
    try:
        from sphinx.application import Sphinx

        from docs.book.site import BOOK, Site
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is needed: pip install -e '.[book]'") from error
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder, extra, made = (Path(temporary, name) for name in ("pages", "extra", "site"))
        folder.mkdir(), extra.mkdir()
        Site(folder, extra, options.only).write()
        app = Sphinx(folder, BOOK, made, Path(temporary, "trees"), "html", warningiserror=True,
                     status=None, confoverrides={"html_extra_path": [str(extra)]})
        app.build()
        if app.statuscode:
            return app.statuscode
        shutil.rmtree(out, ignore_errors=True)
        with create_folder_atomically(out) as whole:
            shutil.copytree(made, whole, dirs_exist_ok=True)
    size = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    print(f"{out / 'index.html'}: {len(list(out.rglob('*.html')))} pages, {size / 1e6:.1f} MB, "
          f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    prepare_script()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run_guarded("python -m docs.book", main))
