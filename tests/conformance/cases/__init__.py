"""The cases, one module per domain; a module in here with CASES is one."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from tests.conformance.requests import Case, cases_in

DOMAINS = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache
def cases_of(domain: str) -> tuple[Case, ...]:
    """Return the cases of a domain."""
    return cases_in(import_module(f"{__name__}.{domain}").CASES)


def at_once(domain: str) -> int:
    """Return how many cases of the domain may be played at the same time."""
    return int(getattr(import_module(f"{__name__}.{domain}"), "AT_ONCE", 1))


def count_requests() -> int:
    """Return how many requests all domains have."""
    return sum(len(case.requests) for domain in DOMAINS for case in cases_of(domain))
