"""The fixed keys of log lines, bound for the length of one reconcile; never configures logging."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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


@contextmanager
def reconcile_log_context(
    *, controller: str, kind: str, key: ObjectKey, reconcile_id: str, trigger: str, attempt: int
) -> Iterator[None]:
    """Bind the keys of one reconcile attempt to every log line written inside.

    A cluster is bound only where the key names one.
    """
    cluster = {"cluster": key.cluster} if key.cluster else {}
    tokens = bind_contextvars(
        controller=controller,
        kind=kind,
        namespace=key.namespace,
        name=key.name,
        reconcile_id=reconcile_id,
        trigger=trigger,
        attempt=attempt,
        **cluster,
    )
    token = _reconcile_id.set(reconcile_id)
    try:
        yield
    finally:
        _reconcile_id.reset(token)
        reset_contextvars(**tokens)
