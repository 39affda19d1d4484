"""Whether our kinds are served, as this release defines them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from dynamo_operator.api.v1alpha1 import DynamoPoolRelay
from dynamo_operator.cli.crds import foreign_definition, served_versions, versions
from dynamo_operator.cli.diagnosis.findings import Finding, Severity, Subject
from dynamo_operator.generate.crds import KINDS, custom_resource_definition
from dynamo_operator.runtime.builtin_kinds import CustomResourceDefinition
from dynamo_operator.runtime.client.discovery import Discovery
from dynamo_operator.runtime.client.errors import ForbiddenError
from dynamo_operator.runtime.models import KubeModel

_CHECK: Final = "kinds"
_APPLY: Final = "dynamo-operator crds apply"
_COMPARED: Final = ("schema", "subresources", "additionalPrinterColumns")


async def check_kinds(subject: Subject) -> AsyncIterator[Finding]:
    """Each CRD that is needed: there, serving our version, and of this release."""
    kinds = KINDS if subject.searches else (DynamoPoolRelay,)
    problems = 0
    for kind in kinds:
        try:
            finding = await _judge(subject, kind)
        except ForbiddenError:
            finding = await _judge_by_discovery(subject, kind)
        if finding is not None:
            problems += 1
            yield finding
    if not problems:
        yield Finding(_CHECK, Severity.OK, f"{len(kinds)} CRDs are served as this release has them")


async def _judge(subject: Subject, kind: type[KubeModel]) -> Finding | None:
    ours = CustomResourceDefinition.model_validate(custom_resource_definition(kind))
    name = ours.key.name
    theirs = await subject.client.find(CustomResourceDefinition, ours.key)
    if theirs is None:
        return Finding(_CHECK, Severity.PROBLEM, f"CRD {name} is missing", _APPLY)
    if not versions(ours) <= served_versions(theirs):
        told, ways_out = foreign_definition(ours, theirs)
        return Finding(_CHECK, Severity.PROBLEM, told, ways_out)
    conditions = {c["type"]: c["status"] for c in theirs.status.get("conditions") or []}
    if theirs.is_deleting:
        return Finding(_CHECK, Severity.PROBLEM, f"CRD {name} is being deleted", _APPLY)
    if conditions.get("Established") != "True":
        told = f"CRD {name} is not served: {_why(theirs)}"
        return Finding(_CHECK, Severity.PROBLEM, told, "mend what its conditions name")
    difference = first_difference(_of_version(ours), _of_version(theirs, of=ours))
    if not difference:
        return None
    if versions(theirs) > versions(ours):
        told = f"CRD {name} is somebody else's and used as it is; it differs from ours in"
        return Finding(_CHECK, Severity.WARNING, f"{told} {difference}")
    told = f"CRD {name} is of another release: {difference} differs"
    return Finding(_CHECK, Severity.PROBLEM, told, _APPLY)


async def _judge_by_discovery(subject: Subject, kind: type[KubeModel]) -> Finding | None:
    resource = kind.resource_type
    if await Discovery(subject.client).supports(kind):
        told = f"{resource.kind} is served; whether as this release has it, you may not see"
        return Finding(_CHECK, Severity.UNKNOWN, told)
    told = f"{resource.api_version} {resource.kind} is not served"
    return Finding(_CHECK, Severity.PROBLEM, told, _APPLY)


def first_difference(ours: Any, theirs: Any, path: str = "") -> str:
    """Return where the second document has not what the first has; "" where it has everything.

    What the server adds does not count, but for fields: another field is another schema.
    """
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        if path.endswith("properties") and (more := theirs.keys() - ours.keys()):
            return f"{path}.{min(more)}"
        for key, value in ours.items():
            here = f"{path}.{key}" if path else str(key)
            if key not in theirs:
                return here
            if found := first_difference(value, theirs[key], here):
                return found
        return ""
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        inside = (first_difference(*pair, f"{path}[{index}]") for index, pair in pairs)
        return next(filter(None, inside), "")
    return "" if ours == theirs else path


def _of_version(
    definition: CustomResourceDefinition, of: CustomResourceDefinition | None = None
) -> dict[str, Any]:
    (wanted,) = versions(of or definition)
    found = next(each for each in definition.spec["versions"] if each["name"] == wanted)
    return {name: found[name] for name in _COMPARED if name in found}


def _why(definition: CustomResourceDefinition) -> str:
    conditions = definition.status.get("conditions") or []
    told = [c.get("message", "") for c in conditions if c.get("status") == "False"]
    return "; ".join(filter(None, told)) or "its conditions do not say why"
