"""What a user may do by its roles, and what of it the audit log shows that it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dynamo_operator.apiserver.audit import AuditEntry
from dynamo_operator.runtime.builtin_kinds import (
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
)
from dynamo_operator.runtime.client import Client
from informers.objects import ObjectKey

EVERYWHERE = ""
ANY_NAME = ""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource; `resource` includes the subresource."""

    group: str
    resource: str
    verb: str
    namespace: str = EVERYWHERE
    name: str = ANY_NAME

    def __str__(self) -> str:
        named = f" {self.name}" if self.name else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}{named}{where}"

    def allows(self, entry: AuditEntry) -> bool:
        """Whether it covers what the entry shows."""
        return (
            (self.group, self.resource, self.verb) == _asked(entry)
            and self.namespace in (EVERYWHERE, entry.namespace)
            and self.name in (ANY_NAME, entry.name)
        )


async def granted_to(client: Client, user: str) -> set[Right]:
    """Everything that the bindings that name a ServiceAccount grant it, one right each."""
    rights: set[Right] = set()
    for binding in await client.list(ClusterRoleBinding):
        if _names(binding.subjects, user):
            role = await client.get(ClusterRole, ObjectKey("", binding.role_ref["name"]))
            rights.update(_expanded(role.rules, EVERYWHERE))
    for bound in await client.list(RoleBinding):
        if _names(bound.subjects, user):
            assert bound.role_ref["kind"] == "Role", bound.role_ref
            namespace = bound.key.namespace
            held = await client.get(Role, ObjectKey(namespace, bound.role_ref["name"]))
            rights.update(_expanded(held.rules, namespace))
    return rights


def asked_by(entries: Iterable[AuditEntry], user: str) -> list[AuditEntry]:
    """Every request for a resource by the user."""
    return [entry for entry in entries if entry.user.name == user and entry.resource]


def unused(granted: Iterable[Right], asked: Iterable[AuditEntry]) -> set[Right]:
    """The rights that no request made use of."""
    requests = list(asked)
    return {right for right in granted if not any(right.allows(entry) for entry in requests)}


def ungranted(granted: Iterable[Right], asked: Iterable[AuditEntry]) -> list[str]:
    """The requests that none of the rights covers, or that were refused for want of one."""
    rights = list(granted)
    return sorted(
        {
            f"{entry.code} {Right(*_asked(entry), entry.namespace, entry.name)}"
            for entry in asked
            if entry.code == 403 or not any(right.allows(entry) for right in rights)
        }
    )


def granting_rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """The rules of a role that grants these."""
    return [
        {
            "apiGroups": [right.group],
            "resources": [right.resource],
            "verbs": [right.verb],
            **({"resourceNames": [right.name]} if right.name else {}),
        }
        for right in sorted(rights)
    ]


def _asked(entry: AuditEntry) -> tuple[str, str, str]:
    below = f"/{entry.subresource}" if entry.subresource else ""
    return entry.group, entry.resource + below, entry.verb


def _names(subjects: Iterable[Mapping[str, str]], user: str) -> bool:
    return any(
        f"system:serviceaccount:{subject.get('namespace')}:{subject['name']}" == user
        for subject in subjects
        if subject["kind"] == "ServiceAccount"
    )


def _expanded(rules: Iterable[Mapping[str, Any]], namespace: str) -> Iterator[Right]:
    for rule in rules:
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or (ANY_NAME,):
                        yield Right(group, resource, verb, namespace, name)
