import json

import pytest

from dynamo_operator.api.publisher_contract import (
    TERMINATION_MESSAGE_LIMIT,
    PublisherExit,
    PublisherOutcome,
    TerminationMessage,
    publisher_role_rules,
)


def test_last_words_come_back_as_they_were_said():
    said = TerminationMessage(
        PublisherOutcome.RUN_FAILED, "NoFeasibleCandidate", "none of 320 fits"
    )

    assert TerminationMessage.parse(said.to_json()) == said
    assert said.outcome.exit_code is PublisherExit.RUN_FAILED


@pytest.mark.parametrize("message", ["x" * 10_000, "ü" * 10_000, '"\\\n' * 5_000, "\x00" * 9_000])
def test_last_words_are_one_line_within_the_limit(message):
    text = TerminationMessage(
        PublisherOutcome.RECONCILE_FAILED, "PublisherFailed", message
    ).to_json()

    assert len(text.encode()) <= TERMINATION_MESSAGE_LIMIT
    assert "\n" not in text
    assert json.loads(text)["message"].startswith(message[:100])


def test_last_words_hold_no_half_characters():
    said = TerminationMessage(PublisherOutcome.RECONCILE_FAILED, "PublisherFailed", "a\ud800b")

    assert json.loads(said.to_json().encode())["message"] == "a?b"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Traceback (most recent call last):",
        "[]",
        "{}",
        '{"outcome":"RunFailed"}',
        '{"outcome":"RunFailed","reason":"MadeUp"}',
        '{"outcome":"?","reason":"Failed"}',
        "[" * 4096,
    ],
)
def test_anything_else_is_no_last_word(text):
    assert TerminationMessage.parse(text) is None


def test_the_publisher_may_touch_only_its_own_run():
    rules = publisher_role_rules("llama-g1-8f2a0a")

    on_runs = [rule for rule in rules if "runs" in rule["resources"][0]]
    assert all(rule["resourceNames"] == ["llama-g1-8f2a0a"] for rule in on_runs)
    assert {verb for rule in on_runs for verb in rule["verbs"]} == {"get", "patch"}
