import pytest

from dynamo_operator.apiserver.formats import check_string, parse_date_time, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("1h30m", 5400.0),
        ("-1.5s", -1.5),
        ("+2ms", 0.002),
        (".5m", 30.0),
        ("1us", 1e-6),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "1", "h", "1h 2m", "1h-2m", "--1s", "1d"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_a_date_time_may_be_finer_than_microseconds():
    assert parse_date_time("2026-01-01T00:00:00.123456789Z").microsecond == 123456
    assert parse_date_time("2026-01-01t01:00:00+01:00") == parse_date_time("2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2026-01-01T00:00:00Z", "2026-01-01"),
        ("date", "2026-01-01", "2026-13-01"),
        ("byte", "YQ==", "YQ="),
        ("ipv4", "10.0.0.1", "10.0.0"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("mac", "00:11:22:33:44:55", "00:11"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("hostname", "a.lab.test", "a b"),
        ("email", "a@lab.test", "a"),
        ("uri", "https://lab.test/x", "lab"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "A"),
    ],
)
def test_string_formats(name, good, bad):
    check = check_string(name)

    assert check is not None
    assert check(good)
    assert not check(bad)


def test_an_unknown_format_is_not_checked():
    assert check_string("color") is None
