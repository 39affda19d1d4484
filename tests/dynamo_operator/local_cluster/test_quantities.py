from decimal import Decimal

import pytest

from dynamo_operator.local_cluster.quantities import parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (None, "0"),
        (2, "2"),
        ("100m", "0.1"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("1Ki", "1024"),
        ("2Gi", "2147483648"),
        ("1Ei", "1152921504606846976"),
        ("1E", "1e18"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("500n", "5e-7"),
        ("-1k", "-1000"),
        ("1e999999999", "1e1000"),
        ("-1e99999999999999999999", "-1e1000"),
        ("1e-999999999", "1e-1000"),
    ],
)
def test_a_quantity_is_read_with_its_suffix(text, value):
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "abc", "1KiB", "1 Gi", "1..2"])
def test_what_is_no_quantity_is_refused(text):
    with pytest.raises(ValueError, match="expected a number"):
        parse_quantity(text)
