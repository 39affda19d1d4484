"""Requests that the embedded server does not answer as the real one does, and why.

`known_differences.json` has them by domain and case: the number of the request, and the reason.
Whatever is listed must differ, so that the list only ever shrinks.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

_PATH = Path(__file__).with_name("known_differences.json")

Reasons = dict[str, dict[str, str]]


@cache
def known_differences() -> dict[str, Reasons]:
    """Return the reasons by domain, case and number of the request (from 1, as text)."""
    known: dict[str, Reasons] = json.loads(_PATH.read_text(encoding="utf-8"))
    return known
