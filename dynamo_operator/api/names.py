"""Names of everything we create: pure functions of the owner, so that create is the lock."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final

OBJECT_NAME_LIMIT: Final = 253
LABEL_LIMIT: Final = 63
PUBLISHER_SERVICE_ACCOUNT_PREFIX: Final = "dgdr-publisher-"
_CANDIDATE_HASH_DIGITS: Final = 12
_CHILD_HASH_DIGITS: Final = 10


class ChildRole(StrEnum):
    """What a Run's child is for; part of its name."""

    JOB = "search"
    INPUT = "input"


def uid_digits(uid: str, count: int = 6) -> str:
    """Return the first hexadecimal digits of a UID."""
    return uid.replace("-", "").lower()[:count]


def run_name(request_name: str, request_uid: str, generation: int) -> str:
    """Return the name of the Run of one generation: `<request cut>-g<generation>-<6 hex>`."""
    suffix = f"-g{generation}-{uid_digits(request_uid)}"
    return f"{_cut(request_name, OBJECT_NAME_LIMIT - len(suffix))}{suffix}"


def child_name(run_name: str, run_uid: str, role: ChildRole) -> str:
    """Return the name of a Run's child; it fits a label value, as Pods of a Job need it."""
    suffix = f"-{role}-{_digest(run_uid, _CHILD_HASH_DIGITS)}"
    readable = run_name.replace(".", "-")
    return f"{_cut(readable, LABEL_LIMIT - len(suffix))}{suffix}"


def job_name(run_name: str, run_uid: str) -> str:
    """Return the name of the Run's Job."""
    return child_name(run_name, run_uid, ChildRole.JOB)


def input_config_map_name(run_name: str, run_uid: str) -> str:
    """Return the name of the Run's frozen ConfigMap."""
    return child_name(run_name, run_uid, ChildRole.INPUT)


def publisher_name(run_uid: str) -> str:
    """Return the name of the publisher's ServiceAccount, Role and RoleBinding.

    It is the whole UID, because an admission policy has to derive it and cannot hash.
    """
    return f"{PUBLISHER_SERVICE_ACCOUNT_PREFIX}{run_uid}"


def graph_name(run_uid: str) -> str:
    """Return `dgdr_run.name`, the stem of the graph names: `r` and 6 hex.

    It is short because a graph's name and a component's together must fit into a Pod's.
    """
    return f"r{uid_digits(run_uid)}"


def candidate_name(run_name: str, candidate_id: str) -> str:
    """Return the name of a Candidate: `<run>-<id>`, the run part cut and hashed when too long."""
    name = f"{run_name}-{candidate_id}"
    if len(name) <= OBJECT_NAME_LIMIT:
        return name
    suffix = f"-{_digest(run_name, _CANDIDATE_HASH_DIGITS)}-{candidate_id}"
    return f"{_cut(run_name, OBJECT_NAME_LIMIT - len(suffix))}{suffix}"


def pool_relay_name(graph_name: str) -> str:
    """Return the name of the Service of a graph's relays, and of what is behind it."""
    return f"{graph_name}-pool-relay"


def pool_relay_sources_name(graph_name: str) -> str:
    """Return the name of the ConfigMap that tells the relays what to watch."""
    return f"{pool_relay_name(graph_name)}-sources"


def _cut(name: str, length: int) -> str:
    return name[:length].rstrip("-.")


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
