from fractions import Fraction

import pytest

from dynamo_operator.apiserver.quantities import (
    NoQuantityError,
    canonical_quantity,
    is_quantity,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("500m", Fraction(1, 2)),
        ("0.5", Fraction(1, 2)),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("1e3", 1000),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("-2", -2),
        (".5", Fraction(1, 2)),
        ("100n", Fraction(1, 10**7)),
    ],
)
def test_a_quantity_is_an_exact_number(text, number):
    assert parse_quantity(text) == number


@pytest.mark.parametrize("text", ["", "a", "1GGi", "1 Gi", "1K", "--1", "1.2.3", "800ms"])
def test_what_is_no_quantity(text):
    assert not is_quantity(text)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (2, "2"),
        (0.5, "500m"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000M", "1G"),
        ("100Ki", "100Ki"),
        ("0.1Ki", "102400m"),
        ("0", "0"),
        ("1e3", "1e3"),
        ("1e19", "10e18"),
        ("1e5", "100e3"),
        ("1.5e3", "1500"),
        ("1.25e2", "1.25e2"),
        ("1000e3", "1e6"),
        ("1500e-3", "1500e-3"),
        ("0.0001e3", "100e-3"),
        ("1.0e3", "1e3"),
        ("-5e4", "-50e3"),
        ("0e5", "0"),
        ("1e-10", "1e-9"),
        ("-1e-10", "-1e-9"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("16Ei", "9223372036854775807"),
        ("1e1000", "10e999"),
    ],
)
def test_a_quantity_is_kept_in_its_shortest_form(given, kept):
    assert canonical_quantity(given) == kept


@pytest.mark.parametrize(
    ("text", "bound"),
    [("1e999999999", "1e1000"), ("-1e999999999", "-1e1000"), ("1e-999999999", "1e-1000")],
)
def test_an_exponent_beyond_any_use_costs_nothing(text, bound):
    assert parse_quantity(text) == parse_quantity(bound)
    assert canonical_quantity(text) == canonical_quantity(bound)


@pytest.mark.parametrize("text", ["1e99999999999999999999", "1e" + "9" * 5000, "9" * 300_000])
def test_what_no_number_can_be_is_no_quantity(text):
    assert not is_quantity(text)


@pytest.mark.parametrize("given", ["nonsense", True, {}, None])
def test_no_text_is_kept_for_what_is_no_quantity(given):
    with pytest.raises(NoQuantityError, match="quantities must match"):
        canonical_quantity(given)
