"""Comparing resource versions.

Versions of one resource type grow, so two decimal ones compare as numbers (whoever has more digits
is newer). Anything else is opaque: only equality means something.
"""

from __future__ import annotations


def is_older(version: str, than: str) -> bool:
    """Whether `version` is known to be older than `than`."""
    if not (version.isdecimal() and than.isdecimal()):
        return False
    if len(version) != len(than):
        return len(version) < len(than)
    return version < than


def is_at_least(version: str, wanted: str) -> bool:
    """Whether `version` is known to be `wanted` or newer."""
    return version == wanted or is_older(wanted, version)
