"""Types of arguments that several commands take; each refuses in words that say what would do."""

from __future__ import annotations

import argparse

from dynamo_operator.api.schema import COUNT

_MOST_GPUS = COUNT["maximum"]


def model(text: str) -> str:
    """Return the name of a model."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; name a model as the Hugging Face hub does")
    return text


def gpus(text: str) -> int:
    """Return a number of GPUs."""
    if text.isdecimal() and 1 <= int(text) <= _MOST_GPUS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of GPUs from 1 to {_MOST_GPUS}")


def count(text: str) -> int:
    """Return a number of things of which there is at least one."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")


def seconds(text: str) -> float:
    """Return a time that is longer than none."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if 0 < number < float("inf"):
        return number
    raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds above zero")
