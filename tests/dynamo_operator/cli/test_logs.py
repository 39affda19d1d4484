import io
import json

import pytest
import structlog

from dynamo_operator.cli.logs import configure_logs


@pytest.fixture
def written():
    """What was logged since the logs were configured by the arguments."""
    before = structlog.get_config()

    def configure(form, level="info"):
        stream = io.StringIO()
        configure_logs(level, form, stream)
        return stream

    yield configure
    structlog.configure(**before)


def fail_with(token):
    raise OSError("the server said no")


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_shows_no_value_of_a_variable(written, form):
    stream = written(form)

    try:
        fail_with("c4nary")
    except OSError:
        structlog.get_logger().exception("reconcile failed", attempt=1)

    assert "the server said no" in stream.getvalue()
    assert "fail_with" in stream.getvalue()
    assert "c4nary" not in stream.getvalue().replace('fail_with("c4nary")', "")


def test_json_is_one_line_whatever_a_value_holds(written):
    stream = written("json")

    structlog.get_logger().info("searched", message="one\ntwo\r\n\x1b[31mthree")

    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["message"] == "one\ntwo\r\n\x1b[31mthree"


def test_lines_below_the_level_are_left_out(written):
    stream = written("json", level="warning")

    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")

    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["loud"]
