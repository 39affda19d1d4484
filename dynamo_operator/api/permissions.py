"""Permissions that a controller declares beside itself; the shipped roles are made from them."""

from __future__ import annotations

from dynamo_operator.runtime.permissions import Permission

__all__ = ["Permission"]
