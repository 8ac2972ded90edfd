"""What a number of a document or of a question is, said where a reader first meets it."""

import re

import pytest

pytest.importorskip("pygments")

from docs.book import api
from docs.book.solved import DOCUMENT, QUESTION, named


@pytest.mark.slow
def test_a_page_of_the_reference_says_what_a_document_is():
    met = 0
    for text in api.pages().values():
        for number in set(DOCUMENT.findall(text)):
            met += 1
            assert re.search(rf"[Dd]ocument {number}('s)? \(a course's ", text)
    assert met > 10


def test_it_is_said_once():
    told = set()
    assert named("See (002.2b), and 002.2c; 0.002 and 1.002.3 are none.", told) == (
        "See (002.2b of a course's exercise sheet), and 002.2c; 0.002 and 1.002.3 are none.")
    assert told == {"002"} and QUESTION.findall("003.5") == ["003"]
    assert named("Document 004's GPT", set(), DOCUMENT) == (
        "Document 004's (a course's programming homework) GPT")
