"""The fixed keys of log lines, bound for the length of one reconcile; never configures logging."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import Any

from structlog.contextvars import bind_contextvars, reset_contextvars

from informers.objects import ObjectKey

LOG_KEYS = (
    "controller",
    "kind",
    "cluster",
    "namespace",
    "name",
    "reconcile_id",
    "trigger",
    "attempt",
    "duration_seconds",
)

_reconcile_id: ContextVar[str] = ContextVar("reconcile_id", default="")


def current_reconcile_id() -> str:
    """Return the identifier of the reconcile attempt that is running here, or ""."""
    return _reconcile_id.get()


class ReconcileLogContext:
    """Binds the keys of one reconcile attempt to every log line written inside.

    A cluster is bound only where the key names one.
    """

    __slots__ = ("_keys", "_reconcile_id", "_token", "_tokens")

    _token: Token[str]
    _tokens: Mapping[str, Token[Any]]

    def __init__(
        self,
        *,
        controller: str,
        kind: str,
        key: ObjectKey,
        reconcile_id: str,
        trigger: str,
        attempt: int,
    ) -> None:
        self._reconcile_id = reconcile_id
        self._keys: dict[str, Any] = {
            "controller": controller,
            "kind": kind,
            "namespace": key.namespace,
            "name": key.name,
            "reconcile_id": reconcile_id,
            "trigger": trigger,
            "attempt": attempt,
        }
        if key.cluster:
            self._keys["cluster"] = key.cluster

    def __enter__(self) -> None:
        self._tokens = bind_contextvars(**self._keys)
        self._token = _reconcile_id.set(self._reconcile_id)

    def __exit__(self, *error: object) -> None:
        _reconcile_id.reset(self._token)
        reset_contextvars(**self._tokens)
