"""An embedded Kubernetes API server: real semantics, one process, no thread, no wall clock.

What belongs: everything a client can observe of kube-apiserver. What does not: controllers (those
are the package `local_cluster`) and anything of the client side: each is the other's oracle.

How a request runs: `api_server` parses (`routes`), authenticates, authorizes (`rbac`) and hands
over to a handler (`reads`, `writes`, `deletion`, `subresources`, `reviews`); those ask the
resource's `Strategy` (`resources`) about its kind, and commit to `storage`. The purely functional
half has no I/O and knows no request:

- `crds.served_resources(crd) -> list[Resource]`: what a CustomResourceDefinition serves, each with
  its `CustomResourceStrategy`; `crds.with_accepted_names(crd, now) -> crd`: the object with the
  status that the naming and establishing controllers would write (conditions NamesAccepted,
  Established, acceptedNames, storedVersions).
- `builtin_validation.builtin_strategy(group, kind) -> Strategy` for every built-in kind
  (CustomResourceDefinition included).
- `apply.apply(live, applied, schema, writer, force=)` and `apply.record_update(live, new, schema,
  writer)`: the object with its managedFields after a server-side apply, or after another write.
- `patches.json_patch`, `patches.merge_patch`, `strategic_merge.strategic_merge_patch`.

`schema` is `Strategy.schema`. Objects are plain JSON values, never changed in place by any of
these: structure may be shared.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamo_operator.apiserver.api_server import ApiServer
    from dynamo_operator.apiserver.audit import AuditEntry, AuditLog
    from dynamo_operator.apiserver.kubelet import KubeletAddress, KubeletClient
    from dynamo_operator.apiserver.messages import (
        ADMIN,
        ANONYMOUS,
        ByteStream,
        Request,
        Response,
        UserInfo,
    )
    from dynamo_operator.apiserver.server import HttpsServer

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "ApiServer",
    "AuditEntry",
    "AuditLog",
    "ByteStream",
    "HttpsServer",
    "KubeletAddress",
    "KubeletClient",
    "Request",
    "Response",
    "UserInfo",
]

_HOMES = {
    "ADMIN": "messages",
    "ANONYMOUS": "messages",
    "ApiServer": "api_server",
    "AuditEntry": "audit",
    "AuditLog": "audit",
    "ByteStream": "messages",
    "HttpsServer": "server",
    "KubeletAddress": "kubelet",
    "KubeletClient": "kubelet",
    "Request": "messages",
    "Response": "messages",
    "UserInfo": "messages",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
