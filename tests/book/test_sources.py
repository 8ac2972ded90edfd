"""The listings of the book are the library's own source."""

import ast
import inspect
import textwrap

import pytest

pytest.importorskip("docutils")
pytest.importorskip("pygments")

from docs.book import chapter as chapters
from docs.book import sources

TARGETS = sorted({part.given for path in chapters.list_chapters()
                  for part in chapters.read_chapter(path).directives("source")})


def tree(code):
    """Return the syntax tree of a function, without its docstring."""
    function = ast.parse(textwrap.dedent(code)).body[0]
    if ast.get_docstring(function):
        function.body = function.body[1:]
    function.decorator_list = []                # inspect.unwrap looks behind a decorator
    return ast.dump(function)


@pytest.mark.parametrize("target", TARGETS)
def test_a_listing_has_the_syntax_tree_of_its_source(target):
    source = inspect.getsource(inspect.unwrap(sources.find_object(target)))
    found = sources.make_listing(target)
    assert tree("\n".join([found.head, *(line.code for line in found.lines)])) == tree(source)
