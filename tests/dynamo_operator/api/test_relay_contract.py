"""The source document that relays read."""

from __future__ import annotations

import json

import pytest

from dynamo_operator.api.relay_contract import SOURCES_LIMIT, SourceDocument, watchable


@pytest.mark.parametrize(
    ("document", "revision"),
    [
        (
            SourceDocument("", ()),
            "b6e0bb87bd5035885d74e6e0a9345b7baad41e7ecfd1a03f366f11483213bd6e",
        ),
        (
            SourceDocument("connection", ("a", "b")),
            "d793bc7776b7e52603aba31342748306200023f865cac23f3d3dd83be7d9f565",
        ),
        (
            SourceDocument("abc", ("default-llama-1a2b3c4d",)),
            "fac1558b34f4fb5f78c529f738e6cfa44056d1f90b3be3bc7caf38676d73ae79",
        ),
    ],
)
def test_the_revision_is_the_one_that_relays_compute(document, revision):
    assert document.revision == revision


def test_text_is_escaped_as_relays_do_before_hashing():
    document = SourceDocument("<a&b>\u2028", ())

    assert r"\u003ca\u0026b\u003e\u2028" in document.to_json()
    assert json.loads(document.to_json())["connectionRevision"] == "<a&b>\u2028"


def test_namespaces_that_would_spoil_the_document_are_left_out():
    good, bad = watchable(["b", "a", "a", "has.dot", "", "x" * 513, "ümlaut"])

    assert good == ["a", "b"]
    assert bad == ["", "has.dot", "x" * 513, "ümlaut"]


def test_no_more_namespaces_are_named_than_a_relay_takes():
    good, bad = watchable(f"n{number:05}" for number in range(SOURCES_LIMIT + 2))

    assert len(good) == SOURCES_LIMIT
    assert bad == [f"n{SOURCES_LIMIT:05}", f"n{SOURCES_LIMIT + 1:05}"]
