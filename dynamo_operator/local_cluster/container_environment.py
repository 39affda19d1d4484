"""The environment variables of a container, and `$(VAR)` in its command and args."""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from dynamo_operator.local_cluster.quantities import parse_quantity

# Reads the `data` of a ConfigMap or Secret of the Pod's namespace, decoded; None when absent.
ReadData = Callable[[str, str], Awaitable[Mapping[str, bytes] | None]]

_REFERENCE = re.compile(r"\$\$|\$\(([^()\s]*)\)")


class ContainerConfigError(Exception):
    """A container cannot be configured as its Pod asks (reason CreateContainerConfigError)."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value; unknown names stay, `$$` is a dollar sign."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


async def resolve_variables(
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    *,
    base: Mapping[str, str],
    read: ReadData,
    allocatable: Mapping[str, str],
) -> dict[str, str]:
    """Compute what a container's `env` and `envFrom` say, on top of `base`.

    Raises:
        ContainerConfigError: a ConfigMap, Secret, key or field that is not optional is missing.
    """
    variables = dict(base)
    for source in container.get("envFrom") or ():
        variables.update(await _variables_from(source, read))
    for entry in container.get("env") or ():
        if "valueFrom" not in entry:
            variables[entry["name"]] = expand(entry.get("value", ""), variables)
            continue
        value = await _value_from(entry, pod, container, read, allocatable)
        if value is not None:
            variables[entry["name"]] = value
    return variables


async def _variables_from(source: Mapping[str, Any], read: ReadData) -> dict[str, str]:
    for kind, reference in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
        wanted = source.get(reference)
        if wanted is None:
            continue
        data = await read(kind, wanted["name"])
        if data is None:
            if wanted.get("optional"):
                return {}
            raise ContainerConfigError(f'{kind.lower()} "{wanted["name"]}" not found')
        prefix = source.get("prefix", "")
        return {prefix + name: value.decode(errors="replace") for name, value in data.items()}
    return {}


async def _value_from(
    entry: Mapping[str, Any],
    pod: Mapping[str, Any],
    container: Mapping[str, Any],
    read: ReadData,
    allocatable: Mapping[str, str],
) -> str | None:
    source = entry["valueFrom"]
    if "fieldRef" in source:
        return pod_field(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return resource_field(pod, source["resourceFieldRef"], container, allocatable)
    for kind, reference in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        if reference in source:
            return await _key_of(kind, source[reference], read)
    raise ContainerConfigError(f"env {entry['name']}: unsupported valueFrom {sorted(source)}")


async def _key_of(kind: str, reference: Mapping[str, Any], read: ReadData) -> str | None:
    name, key, optional = reference["name"], reference["key"], reference.get("optional", False)
    data = await read(kind, name)
    if data is None:
        if optional:
            return None
        raise ContainerConfigError(f'{kind.lower()} "{name}" not found')
    if key not in data:
        if optional:
            return None
        raise ContainerConfigError(f"couldn't find key {key} in {kind} {name}")
    return data[key].decode(errors="replace")


_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


def pod_field(pod: Mapping[str, Any], path: str) -> str:
    """Return a Pod's field as the downward API shows it.

    Raises:
        ContainerConfigError: the field is not one that the downward API has.
    """
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    if match := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        values = metadata.get(path.removeprefix("metadata.")) or {}
        return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(values.items()))
    simple = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": status.get("hostIP", "127.0.0.1"),
        "status.hostIPs": status.get("hostIP", "127.0.0.1"),
        "status.podIP": status.get("podIP", "127.0.0.1"),
        "status.podIPs": status.get("podIP", "127.0.0.1"),
    }
    if path not in simple:
        raise ContainerConfigError(f"unsupported fieldPath: {path}")
    return str(simple[path] or "")


def resource_field(
    pod: Mapping[str, Any],
    reference: Mapping[str, Any],
    container: Mapping[str, Any] | None,
    allocatable: Mapping[str, str],
) -> str:
    """Return a container's `limits.X` or `requests.X`, divided and rounded up.

    A limit that is not set is what the node has.
    """
    if name := reference.get("containerName"):
        container = _named(pod["spec"].get("containers") or (), name)
    if container is None:
        raise ContainerConfigError(f"resourceFieldRef {reference.get('resource')}: no container")
    bound, _, resource = reference["resource"].partition(".")
    resources = (container.get("resources") or {}).get(bound) or {}
    fallback = allocatable.get(resource) if bound == "limits" else None
    value = parse_quantity(resources.get(resource, fallback))
    divisor = parse_quantity(reference.get("divisor") or "1") or Decimal(1)
    return str((value / divisor).to_integral_value(ROUND_CEILING))


def _named(containers: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((c for c in containers if c["name"] == name), None)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def decoded_data(kind: str, obj: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the data of a ConfigMap or Secret as bytes."""
    encoded = obj.get("data") if kind == "Secret" else obj.get("binaryData")
    data = {name: base64.b64decode(value or "") for name, value in (encoded or {}).items()}
    if kind == "ConfigMap":
        data |= {name: value.encode() for name, value in (obj.get("data") or {}).items()}
    return data
