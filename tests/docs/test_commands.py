"""Commands and flags that README and docs/ name are there."""

import argparse
import re

import pytest

from dynamo_operator.cli.commands import parser as parser_of
from tests.docs.pages import DOCS

PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]
CALL = re.compile(r"(?:^ *|`)dynamo-operator ((?:--?)?[a-z][a-z-]*(?: [^`\n|]*)?)", re.M)


def children(parser):
    """The commands below a parser, by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    return {}


def flags_of(parser):
    """All flags of a parser and of those below it."""
    own = {flag for action in parser._actions for flag in action.option_strings}
    return own.union(*(flags_of(child) for child in children(parser).values()))


def wrong_of(words):
    """The first word of a call that is no command or flag there, or nothing."""
    parser = parser_of(words)
    for word in words:
        below = children(parser)
        if word.startswith("--"):
            if word.partition("=")[0] not in flags_of(parser):
                return word
        elif below:
            if word not in below:
                return word
            parser = below[word]
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_call_of_a_page_can_be_made(page):
    calls = [call.partition("#")[0].split() for call in CALL.findall(page.read_text())]

    assert {" ".join(call): wrong for call in calls if (wrong := wrong_of(call))} == {}


def test_pages_are_full_of_calls():
    assert sum(len(CALL.findall(page.read_text())) for page in PAGES) > 20


def test_calls_that_cannot_be_made_are_noticed():
    assert wrong_of(["start", "--no-such-flag"]) == "--no-such-flag"
    assert wrong_of(["candidate", "eat", "x"]) == "eat"
    assert wrong_of(["candidate", "deploy", "x", "--from-context", "a"]) is None
