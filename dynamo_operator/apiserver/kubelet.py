"""The port to nodes: where container logs come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.messages import Response
from dynamo_operator.apiserver.reads import find
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.status import FieldError, FieldErrorKind

_LOG_PARAMETERS = (
    "follow",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "timestamps",
    "tailLines",
    "limitBytes",
)


@dataclass(frozen=True, slots=True)
class KubeletAddress:
    """Where a node's kubelet listens."""

    host: str
    port: int


class KubeletClient(Protocol):
    """Asks a node's kubelet."""

    async def get(
        self, address: KubeletAddress, path: str, query: Sequence[tuple[str, str]]
    ) -> Response:
        """Return the kubelet's answer as it comes; raise OSError when there is none."""


async def container_log(call: Call, kubelet: KubeletClient | None) -> Response:
    """Answer `pods/NAME/log` with what the Pod's node says."""
    if kubelet is None:
        raise status.not_implemented("pods/log without a connection to nodes")
    pod = find(call).value
    _check_log_options(call)
    container = _container(call, pod)
    node_name = pod.get("spec", {}).get("nodeName", "")
    if not node_name:
        # Nothing has run yet, so nothing was written.
        return Response(204, {}, b"")
    node = call.world.storage.get(("", "nodes"), "", node_name)
    if node is None:
        raise status.not_found("", "pods", node_name)  # as the real server names it
    address = kubelet_address(node.value)
    path = f"/containerLogs/{call.namespace}/{call.info.name}/{container}"
    query = [(name, call.query.text(name)) for name in _LOG_PARAMETERS if call.query.text(name)]
    try:
        answer = await kubelet.get(address, path, query)
    except OSError as error:
        raise status.internal_error(
            f'Get "https://{address.host}:{address.port}{path}": {error}'
        ) from None
    if answer.status == 200:
        return answer
    raise await _refusal(answer)


def kubelet_address(node: Object) -> KubeletAddress:
    """Return the address that a Node's status declares.

    Raises:
        StatusError: 500 when it declares none.
    """
    node_status = node.get("status", {})
    endpoint = node_status.get("daemonEndpoints", {}).get("kubeletEndpoint", {})
    addresses: Mapping[str, str] = {
        entry.get("type", ""): entry.get("address", "")
        for entry in node_status.get("addresses", ())
    }
    for kind in ("InternalIP", "Hostname", "ExternalIP"):
        if addresses.get(kind):
            return KubeletAddress(addresses[kind], int(endpoint.get("Port") or 10250))
    name = node["metadata"]["name"]
    raise status.internal_error(f"no preferred addresses found for node {name}")


def _check_log_options(call: Call) -> None:
    """Refuse numbers that are none, or too small.

    Raises:
        StatusError: 400 or 422.
    """
    errors = []
    for name, least in (("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)):
        value = call.query.integer(name)
        if value is not None and value < least:
            words = "greater than 0" if least else "greater than or equal to 0"
            errors.append(FieldError(name, FieldErrorKind.INVALID, f"must be {words}", value))
        if name == "limitBytes" and call.query.text("sinceTime"):
            detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            if call.query.text("sinceSeconds"):
                errors.append(FieldError("[]", FieldErrorKind.FORBIDDEN, detail))
    if errors:
        raise status.invalid("", "PodLogOptions", call.info.name, errors)


def _container(call: Call, pod: Object) -> str:
    spec = pod.get("spec", {})
    names = [c["name"] for c in spec.get("containers", ())]
    init_names = [c["name"] for c in spec.get("initContainers", ())]
    wanted = call.query.text("container")
    pod_name = pod["metadata"]["name"]
    if wanted:
        if wanted not in names and wanted not in init_names:
            raise status.bad_request(f"container {wanted} is not valid for pod {pod_name}")
        return wanted
    if len(names) == 1:
        return str(names[0])
    listed = " ".join(names)
    text = f"a container name must be specified for pod {pod_name}, choose one of: [{listed}]"
    if init_names:
        text += f" or one of the init containers: [{' '.join(init_names)}]"
    raise status.bad_request(text)


async def _refusal(answer: Response) -> status.StatusError:
    body = answer.body
    if not isinstance(body, bytes):
        chunks = [chunk async for chunk in body]
        await body.aclose()
        body = b"".join(chunks)
    text = body.decode("utf-8", "replace").strip()
    reason = {400: "BadRequest", 404: "NotFound"}.get(answer.status, "InternalError")
    return status.StatusError(answer.status, reason, text)
