"""Role-based access control: who may do what, and who may grant it.

The rules of kube-apiserver: permissions only add up; a Role may be written only by someone who
holds everything in it (or may `escalate` it), and bound only by someone who holds it (or may
`bind` it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.calls import Call
from dynamo_operator.apiserver.messages import UserInfo
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.routes import RequestInfo
from dynamo_operator.apiserver.storage import Storage

GROUP = "rbac.authorization.k8s.io"
SUPERUSERS = "system:masters"

Rule = Mapping[str, Any]
AllowedFor = Callable[[UserInfo, RequestInfo], bool]


class RbacAuthorizer:
    """Decides from the stored Roles and bindings."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def allowed(self, user: UserInfo, info: RequestInfo) -> bool:
        """Whether the user may do that."""
        if SUPERUSERS in user.groups:
            return True
        return any(rule_allows(rule, info) for rule in self.rules_for(user, info.namespace))

    def reason(self, user: UserInfo, info: RequestInfo) -> str:
        """Return what allows the user that; nothing for superusers, and where nothing does."""
        if SUPERUSERS in user.groups:
            return ""
        places = [
            ("ClusterRoleBinding", ""),
            *([("RoleBinding", info.namespace)] * bool(info.namespace)),
        ]
        for kind, namespace in places:
            for binding in self._storage.objects((GROUP, f"{kind.lower()}s"), namespace):
                subject = _subject(binding.value, user, namespace)
                ref = binding.value.get("roleRef", {})
                rules = self.role_rules(ref, namespace) if subject else ()
                if any(rule_allows(rule, info) for rule in rules):
                    where = f"{binding.name}/{namespace}" if namespace else binding.name
                    role = f'{ref.get("kind")} "{ref.get("name")}"'
                    return f'RBAC: allowed by {kind} "{where}" of {role} to {subject}'
        return ""

    def rules_for(self, user: UserInfo, namespace: str) -> Iterator[Rule]:
        """Yield the rules that a user holds cluster-wide and, if given, in a namespace."""
        if SUPERUSERS in user.groups:
            yield {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
            yield {"nonResourceURLs": ["*"], "verbs": ["*"]}
        for binding in self._storage.objects((GROUP, "clusterrolebindings")):
            if _binds(binding.value, user, ""):
                yield from self.role_rules(binding.value.get("roleRef", {}), "")
        if not namespace:
            return
        for binding in self._storage.objects((GROUP, "rolebindings"), namespace):
            if _binds(binding.value, user, namespace):
                yield from self.role_rules(binding.value.get("roleRef", {}), namespace)

    def role_rules(self, role_ref: Mapping[str, str], namespace: str) -> Sequence[Rule]:
        """Return the rules of the role that a binding names; none when it does not exist."""
        plural = "clusterroles" if role_ref.get("kind") == "ClusterRole" else "roles"
        where = "" if plural == "clusterroles" else namespace
        role = self._storage.get((GROUP, plural), where, role_ref.get("name", ""))
        return () if role is None else role.value.get("rules") or ()


def _concerns_collection_alone(new: Object, old: Object | None) -> bool:
    """Whether a change is of no more than what garbage collection writes."""
    if old is None:
        return False
    ignored = ("finalizers", "ownerReferences", "managedFields", "resourceVersion", "generation")

    def rest(obj: Object) -> Object:
        metadata = {k: v for k, v in obj["metadata"].items() if k not in ignored}
        return {**obj, "metadata": metadata}

    return rest(new) == rest(old)


def rule_allows(rule: Rule, info: RequestInfo) -> bool:
    """Whether one rule permits a request."""
    if not _has(rule.get("verbs"), info.verb):
        return False
    if not info.is_resource:
        return any(_path_matches(p, info.path) for p in rule.get("nonResourceURLs") or ())
    if not _has(rule.get("apiGroups"), info.group):
        return False
    resource = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
    resources = rule.get("resources") or ()
    if not _has(resources, resource) and not (
        info.subresource and f"*/{info.subresource}" in resources
    ):
        return False
    names = rule.get("resourceNames") or ()
    return not names or info.name in names


def forbidden(user: UserInfo, info: RequestInfo) -> status.StatusError:
    """Return the 403 that says what the user may not do."""
    if not info.is_resource:
        text = f'forbidden: User "{user.name}" cannot {info.verb} path "{info.path}"'
        return status.StatusError(403, "Forbidden", text, details={})
    resource = f"{info.plural}/{info.subresource}" if info.subresource else info.plural
    where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
    return status.forbidden(
        info.group,
        info.plural,
        info.name,
        f'User "{user.name}" cannot {info.verb} resource "{resource}" in API group "{info.group}" '
        f"{where}",
    )


class EscalationCheck:
    """Admission: nobody grants what he does not hold."""

    def __init__(self, authorizer: RbacAuthorizer) -> None:
        self._authorizer = authorizer

    def admit(self, call: Call, new: Object, old: Object | None) -> Object:
        """Check writes of roles and bindings."""
        if call.resource.group != GROUP or SUPERUSERS in call.user.groups:
            return new
        if call.resource.plural in {"roles", "clusterroles"}:
            self._check_role(call, new, old)
        else:
            self._check_binding(call, new, old)
        return new

    def _check_role(self, call: Call, new: Object, old: Object | None) -> None:
        if _concerns_collection_alone(new, old) or self._may(
            call, "escalate", call.resource.plural, {"name": call.info.name}
        ):
            return
        rules = list(new.get("rules") or ())
        if new.get("aggregationRule"):
            rules.append({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
        self._require(call, new, rules, call.namespace)

    def _check_binding(self, call: Call, new: Object, old: Object | None) -> None:
        role_ref = new.get("roleRef") or {}
        plural = "clusterroles" if role_ref.get("kind") == "ClusterRole" else "roles"
        if _concerns_collection_alone(new, old) or self._may(call, "bind", plural, role_ref):
            return
        rules = self._authorizer.role_rules(role_ref, call.namespace)
        where = "" if plural == "clusterroles" else call.namespace
        name = role_ref.get("name", "")
        if call.world.storage.get((GROUP, plural), where, name) is None:
            raise status.not_found(GROUP, call.resource.plural, name)
        self._require(call, new, rules, call.namespace)

    def _may(self, call: Call, verb: str, plural: str, named: Mapping[str, Any]) -> bool:
        return self._authorizer.allowed(
            call.user,
            RequestInfo(
                verb,
                "",
                is_resource=True,
                group=GROUP,
                version="v1",
                plural=plural,
                namespace=call.namespace,
                name=named.get("name", ""),
            ),
        )

    def _require(self, call: Call, new: Object, rules: Sequence[Rule], namespace: str) -> None:
        held = list(self._authorizer.rules_for(call.user, namespace))
        missing = [rule for rule in rules if not covers(held, rule)]
        if not missing:
            return
        groups = " ".join(f'"{group}"' for group in call.user.groups)
        listed = "\n".join(_rule_words(rule) for rule in missing)
        raise status.forbidden(
            GROUP,
            call.resource.plural,
            new["metadata"].get("name", ""),
            f'user "{call.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions '
            f"not currently held:\n{listed}",
        )


@dataclass(frozen=True, slots=True)
class _Atom:
    """The smallest permission: one verb on one resource of one group, or on one path."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    path: str = ""


def covers(held: Iterable[Rule], wanted: Rule) -> bool:
    """Whether rules together permit everything that another one does."""
    rules = list(held)
    return all(any(_permits(rule, atom) for rule in rules) for atom in _atoms(wanted))


def _atoms(rule: Rule) -> Iterator[_Atom]:
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield _Atom(verb, path=path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for name in rule.get("resourceNames") or ("",):
                    yield _Atom(verb, group, resource, name)


def _permits(rule: Rule, atom: _Atom) -> bool:
    if not _has(rule.get("verbs"), atom.verb):
        return False
    if atom.path:
        return any(_path_matches(p, atom.path) for p in rule.get("nonResourceURLs") or ())
    resources = rule.get("resources") or ()
    _, slash, subresource = atom.resource.partition("/")
    if not _has(resources, atom.resource) and not (slash and f"*/{subresource}" in resources):
        return False
    names = rule.get("resourceNames") or ()
    return _has(rule.get("apiGroups"), atom.group) and (not names or atom.name in names)


def _binds(binding: Object, user: UserInfo, namespace: str) -> bool:
    return bool(_subject(binding, user, namespace))


def _subject(binding: Object, user: UserInfo, namespace: str) -> str:
    """The subject of a binding that a user is, as reasons name it; nothing if there is none."""
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name")
        where = subject.get("namespace") or namespace
        match kind:
            case "User" if name == user.name:
                return f'User "{name}"'
            case "Group" if name in user.groups:
                return f'Group "{name}"'
            case "ServiceAccount" if user.name == f"system:serviceaccount:{where}:{name}":
                return f'ServiceAccount "{name}/{where}"'
    return ""


def _has(values: Sequence[str] | None, wanted: str) -> bool:
    return values is not None and ("*" in values or wanted in values)


def _path_matches(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return pattern == path


def _rule_words(rule: Rule) -> str:
    fields = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("ResourceNames", "resourceNames"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("Verbs", "verbs"),
    )
    words = []
    for label, field in fields:
        values = rule.get(field)
        if values:
            words.append(f"{label}:[{' '.join(_quoted(value) for value in values)}]")
    return "{" + ", ".join(words) + "}"


def _quoted(value: str) -> str:
    return f'"{value}"'
