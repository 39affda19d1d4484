"""What a run came to, in a form in which two runs can be compared.

Names and values that hold a UID, a hash or a time differ from run to run without meaning anything;
so such texts are replaced before anything is compared.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynamo_operator.apiserver.storage import StorageKey
from dynamo_operator.simulation.deeds import TOUCHED_ANNOTATION
from dynamo_operator.simulation.history import EVENTS, LEASES, History

_PASSING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # a UID
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?"  # a time
    r"|(?<![0-9a-zA-Z])([0-9a-f]{10,}|(?=[0-9a-f]*\d)[0-9a-f]{8,})(?![0-9a-zA-Z])"  # a hash
)
_METADATA = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"}
)


@dataclass(frozen=True, slots=True)
class Mask:
    """What is left out when two end states are compared, beside UIDs, hashes and times.

    Args:
        resources: whole resources, as (group, plural).
        paths: fields, with dots and with `*` for any item of a list or key of a mapping, e.g.
            `status.conditions.*.message`.
        counts: resources whose creations and deletions are not counted either.
        texts: regular expressions of what passes within texts, e.g. names that were generated.
    """

    resources: frozenset[StorageKey] = frozenset({EVENTS, LEASES, ("", "events")})
    paths: Sequence[str] = ()
    counts: frozenset[StorageKey] = frozenset({EVENTS, LEASES, ("", "events")})
    texts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """What a run came to.

    Args:
        objects: each object that is left, as text, by resource.
        creations: how many objects of a resource operators created.
        deletions: how many they deleted.
        writes: how many changes they committed, by resource.
    """

    objects: dict[StorageKey, list[str]] = field(default_factory=dict)
    creations: Counter[StorageKey] = field(default_factory=Counter)
    deletions: Counter[StorageKey] = field(default_factory=Counter)
    writes: Counter[StorageKey] = field(default_factory=Counter)

    @classmethod
    def of(cls, history: History, mask: Mask = Mask()) -> Reference:
        """Take down what a run came to."""
        reference = cls()
        for resource in history.resources():
            if resource not in mask.resources:
                found = [_text(obj, mask) for obj in history.objects(resource).values()]
                reference.objects[resource] = sorted(found)
        for commit in history.commits:
            if commit.actor.startswith("operator") and commit.resource not in mask.counts:
                reference.writes[commit.resource] += 1
                if commit.verb == "create":
                    reference.creations[commit.resource] += 1
                elif _is_deletion(commit.before, commit.after):
                    reference.deletions[commit.resource] += 1
        return reference

    def differences(self, other: Reference) -> Iterator[str]:
        """Yield in words what another run left otherwise, each object once."""
        for resource in sorted({*self.objects, *other.objects}):
            mine = Counter(self.objects.get(resource, ()))
            others = Counter(other.objects.get(resource, ()))
            missing, more = list((mine - others).elements()), list((others - mine).elements())
            for wanted in missing:
                found = next((obj for obj in more if _name(obj) == _name(wanted)), None)
                if found is None:
                    yield f"{resource[1]} {_name(wanted)} is missing"
                    continue
                more.remove(found)
                where, was, now = _first_difference(json.loads(wanted), json.loads(found))
                yield f"{resource[1]} {_name(wanted)}: {where} is {now}, not {was}"
            for found in more:
                yield f"{resource[1]} {_name(found)} is left over"


def _is_deletion(before: Any, after: Any) -> bool:
    if after is None:
        return before is not None and "deletionTimestamp" not in before["metadata"]
    return (
        "deletionTimestamp" in after["metadata"] and "deletionTimestamp" not in before["metadata"]
    )


def _text(obj: Any, mask: Mask) -> str:
    metadata = {k: v for k, v in obj["metadata"].items() if k not in _METADATA}
    copy = json.loads(json.dumps({**obj, "metadata": metadata}))
    annotations = copy["metadata"].get("annotations", {})
    annotations.pop(TOUCHED_ANNOTATION, None)
    if not annotations:
        copy["metadata"].pop("annotations", None)
    for path in mask.paths:
        _drop(copy, path.split("."))
    text = _PASSING.sub("*", json.dumps(copy, sort_keys=True))
    for pattern in mask.texts:
        text = re.sub(pattern, "*", text)
    return text


def _drop(value: Any, path: Sequence[str]) -> None:
    head, *rest = path
    if isinstance(value, list):
        places: Iterable[Any] = range(len(value)) if head == "*" else ()
    elif isinstance(value, dict):
        places = list(value) if head == "*" else [head] if head in value else ()
    else:
        return
    for place in places:
        if rest:
            _drop(value[place], rest)
        elif isinstance(value, dict):
            value.pop(place)


def _name(text: str) -> str:
    metadata = json.loads(text)["metadata"]
    return "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)


def _first_difference(a: Any, b: Any, path: str = "") -> tuple[str, str, str]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            if a.get(key) != b.get(key):
                return _first_difference(a.get(key), b.get(key), f"{path}.{key}".lstrip("."))
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for position, (one, other) in enumerate(zip(a, b, strict=True)):
            if one != other:
                return _first_difference(one, other, f"{path}[{position}]")
    return path, _short(a), _short(b)


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 120 else f"{text[:117]}..."
