"""Admission: what a namespace's ResourceQuotas leave room for.

Counted are objects (`count/<plural>.<group>`, and the core kinds by their names) and what Pods that
have not ended request and may take. Unlike a real server's, usage is counted at each request and
not kept in the quota's status, for which no controller is needed. Quotas with scopes are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.quantities import canonical_quantity, is_quantity, parse_quantity
from dynamo_operator.apiserver.resources import Object

Usage = dict[str, Fraction]

_QUOTAS = ("", "resourcequotas")
_COUNTED = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


class QuotaAdmission:
    """Refuses new objects that a quota of their namespace has no room for."""

    def validate(self, call: Call, new: Object, old: Object | None) -> None:
        """Check a new object against every quota.

        Raises:
            StatusError: 403 for what is too much, 501 for a quota with scopes.
        """
        if call.resource.storage_key == _QUOTAS and _scoped(new):
            raise status.not_implemented("scopes of ResourceQuotas")
        if old is not None or not call.namespace or call.info.subresource:
            return
        quotas = call.world.storage.objects(_QUOTAS, call.namespace)
        if not quotas:
            return
        wanted = _usage(call, new)
        present = None
        for stored in quotas:
            hard = _hard(stored.value)
            limited = sorted(hard.keys() & wanted.keys())
            _require_amounts(call, new, stored.name, hard)
            if not limited:
                continue
            present = _present(call) if present is None else present
            over = [n for n in limited if present.get(n, Fraction(0)) + wanted[n] > hard[n]]
            if over:
                raise _exceeded(call, new, stored.name, over, wanted, present, hard)


def _scoped(quota: Object) -> bool:
    spec = _mapping(quota.get("spec"))
    return bool(spec.get("scopes") or spec.get("scopeSelector"))


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return what a kind of free form should have as a map."""
    return value if isinstance(value, dict) else {}


def _hard(quota: Object) -> Usage:
    given = _mapping(_mapping(quota.get("spec")).get("hard"))
    return {name: _amount(value) for name, value in given.items() if is_quantity(str(value))}


def _present(call: Call) -> Usage:
    """Return what the namespace's objects of the call's kind use together."""
    total: Usage = {}
    for stored in call.world.storage.objects(call.resource.storage_key, call.namespace):
        for name, amount in _usage(call, stored.value).items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


def _usage(call: Call, obj: Object) -> Usage:
    group, plural = call.resource.group, call.resource.plural
    usage = {f"count/{plural}.{group}" if group else f"count/{plural}": Fraction(1)}
    if (group, plural) == ("", "pods"):
        if (obj.get("status") or {}).get("phase") in {"Failed", "Succeeded"}:
            return usage
        usage |= _pod_usage(obj.get("spec") or {})
    if not group and plural in _COUNTED:
        usage[plural] = Fraction(1)
    return usage


def _pod_usage(spec: Mapping[str, Any]) -> Usage:
    usage: Usage = {}
    for resource in _COMPUTE:
        for kind in ("requests", "limits"):
            running = sum(_amounts(spec.get("containers"), kind, resource), Fraction(0))
            starting = max(
                _amounts(spec.get("initContainers"), kind, resource), default=Fraction(0)
            )
            usage[f"{kind}.{resource}"] = max(running, starting)
        usage[resource] = usage[f"requests.{resource}"]
    return usage


def _amounts(containers: Any, kind: str, resource: str) -> Iterable[Fraction]:
    for container in containers or ():
        value = ((container.get("resources") or {}).get(kind) or {}).get(resource)
        if value is not None:
            yield _amount(value)


def _require_amounts(call: Call, pod: Object, quota: str, hard: Usage) -> None:
    """Refuse a Pod that does not say what a quota limits."""
    if call.resource.storage_key != ("", "pods"):
        return
    missing: dict[str, list[str]] = {}
    for container in (pod.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        for name in sorted(hard):
            kind, _, resource = name.rpartition(".")
            if resource in _COMPUTE and resource not in (resources.get(kind or "requests") or {}):
                missing.setdefault(name, []).append(container["name"])
    if missing:
        words = "; ".join(f"{name} for: {','.join(names)}" for name, names in missing.items())
        raise _refused(call, pod, f"failed quota: {quota}: must specify {words}")


def _exceeded(
    call: Call, obj: Object, quota: str, over: list[str], wanted: Usage, used: Usage, hard: Usage
) -> status.StatusError:
    def listed(usage: Usage) -> str:
        return ",".join(f"{name}={_text(usage.get(name, Fraction(0)))}" for name in over)

    return _refused(
        call,
        obj,
        f"exceeded quota: {quota}, requested: {listed(wanted)}, used: {listed(used)}, "
        f"limited: {listed(hard)}",
    )


def _refused(call: Call, obj: Object, detail: str) -> status.StatusError:
    resource = call.resource
    return status.forbidden(resource.group, resource.plural, obj["metadata"]["name"], detail)


def _amount(value: Any) -> Fraction:
    return parse_quantity(str(value))


def _text(amount: Fraction) -> str:
    whole = amount.denominator == 1
    return str(canonical_quantity(str(amount) if whole else f"{float(amount * 1000):g}m"))
