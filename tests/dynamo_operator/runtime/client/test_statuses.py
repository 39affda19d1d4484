from datetime import UTC, datetime

import pytest

from dynamo_operator.runtime.client import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    GoneError,
    HttpRequest,
    InvalidError,
    MethodNotAllowedError,
    NotFoundError,
    RequestTooLargeError,
    ServerError,
    ServerTimeoutError,
    TooManyRequestsError,
    UnauthorizedError,
)
from dynamo_operator.runtime.client.statuses import (
    error_of_response,
    is_expired,
    parse_retry_after,
)
from tests.dynamo_operator.runtime.client.scripted_transport import answer, refusal

NOW = datetime(2030, 1, 1, tzinfo=UTC)
REQUEST = HttpRequest("GET", "/api/v1/namespaces/default/pods/a")


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (400, "BadRequest", BadRequestError),
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (405, "MethodNotAllowed", MethodNotAllowedError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (409, "", ConflictError),
        (410, "Expired", GoneError),
        (410, "Gone", GoneError),
        (413, "RequestEntityTooLarge", RequestTooLargeError),
        (418, "", ApiError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", TooManyRequestsError),
        (500, "InternalError", ServerError),
        (500, "ServerTimeout", ServerTimeoutError),
        (501, "NotImplemented", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerTimeoutError),
    ],
)
def test_a_status_becomes_the_error_of_its_code_and_reason(code, reason, error):
    found = error_of_response(REQUEST, refusal(code, reason), now=NOW)

    assert type(found) is error
    assert (found.code, found.reason, found.message) == (code, reason, "no")
    assert str(found).startswith(f"GET /api/v1/namespaces/default/pods/a: {code}")


@pytest.mark.parametrize(
    ("code", "body", "message"),
    [
        (429, b"Too many requests, please try again later.\n", "Too many requests, please"),
        (500, b"<html>\n<h1>oops</h1></html>", "<html>"),
        (502, b"", "no message"),
        (503, b"\xff\xfe", "�"),
        (500, b'{"kind": "Status", "code": 5', '{"kind": "Status"'),
        (400, b"[1, 2]", "[1, 2]"),
        (500, b'{"kind": "Status", "code": "many"}', '"many"'),
    ],
)
def test_a_body_that_is_no_status_still_gives_a_typed_error_of_one_line(code, body, message):
    found = error_of_response(REQUEST, answer(code, body), now=NOW)

    assert found.code == code
    assert message in found.message
    assert "\n" not in str(found)


def test_a_status_full_of_nulls_is_read():
    body = b'{"kind":"Status","code":null,"reason":null,"message":null,"details":null}'

    found = error_of_response(REQUEST, answer(404, body), now=NOW)

    assert isinstance(found, NotFoundError)
    assert found.details == {}


def test_a_redirect_points_at_the_servers_url():
    found = error_of_response(REQUEST, answer(307, b"", location="https://elsewhere"), now=NOW)

    assert "check the server's URL" in str(found)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1", 1.0),
        (" 30 ", 30.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("3600", 300.0),
        ("Tue, 01 Jan 2030 00:00:10 GMT", 10.0),
        ("Tue, 01 Jan 2030 00:00:10 -0000", 10.0),
        ("Mon, 31 Dec 2029 00:00:00 GMT", 0.0),
        ("Tue, 01 Jan 2036 00:00:00 GMT", 300.0),
        ("-5", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_understood_in_every_form_it_comes_in(value, seconds):
    assert parse_retry_after(value, now=NOW) == seconds


def test_the_details_say_when_to_retry_where_the_header_does_not():
    found = error_of_response(REQUEST, refusal(429, details={"retryAfterSeconds": 7}), now=NOW)

    assert found.retry_after_seconds == 7


@pytest.mark.parametrize("value", [10**400, -1, True, None, "x", [7]])
def test_senseless_details_say_nothing(value):
    found = error_of_response(REQUEST, refusal(429, details={"retryAfterSeconds": value}), now=NOW)

    assert found.retry_after_seconds is None


@pytest.mark.parametrize(
    ("response", "expired"),
    [
        (refusal(410, "Gone"), True),
        (refusal(410, "Expired"), True),
        (refusal(504, "Timeout", {"causes": [{"reason": "ResourceVersionTooLarge"}]}), True),
        (refusal(504, "Timeout", {"causes": None}), False),
        (refusal(404, "NotFound"), False),
    ],
)
def test_expired_versions_are_told_from_other_refusals(response, expired):
    assert is_expired(error_of_response(REQUEST, response, now=NOW)) is expired
