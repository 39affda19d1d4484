import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamo_operator.aisimulate.document import canonical, dump_document, load_document

pyyaml = pytest.importorskip("yaml")
fast = settings(max_examples=40, deadline=None)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(
        ["on", "yes", "NO", "~", "null", "1e3", "0123", "1_000", "0x1f", "12:30", "="]
    )
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
DOCUMENTS = st.dictionaries(st.text(), VALUES, max_size=5)


@fast
@given(DOCUMENTS)
def test_the_dump_of_a_parsed_dump_is_the_same_text(document):
    text = dump_document(document)

    assert load_document(text) == canonical(document)
    assert dump_document(load_document(text)) == text


@fast
@given(DOCUMENTS)
def test_an_older_yaml_dialect_reads_the_same(document):
    assert pyyaml.safe_load(dump_document(document)) == canonical(document)


@fast
@given(DOCUMENTS)
def test_what_the_api_server_gives_back_dumps_to_the_same_text(document):
    stored = json.loads(json.dumps(canonical(document)))

    assert dump_document(stored) == dump_document(document)


def test_key_order_and_integral_floats_make_no_difference():
    assert dump_document({"b": 20.0, "a": [1.0, -0.0]}) == dump_document({"a": [1, 0], "b": 20})


def test_shared_parts_are_written_out_without_anchors():
    part = {"x": [1]}

    assert dump_document({"a": part, "b": part}) == "a:\n  x:\n  - 1\nb:\n  x:\n  - 1\n"


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_number_that_json_cannot_hold_is_refused(value):
    with pytest.raises(ValueError, match="not a finite number"):
        dump_document({"a": [value]})
