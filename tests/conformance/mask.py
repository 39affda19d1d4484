"""What of two answers may differ, and why; everything else is compared.

| masked | as | because |
| --- | --- | --- |
| the case's namespace | NAMESPACE | each play has its own |
| UIDs | UID-1, UID-2, ... in order of appearance | random; that two are equal is compared |
| resource versions of objects | version 1, 2, ... by order | only their order means something |
| resource versions of lists and bookmarks | at version N or later | others write, too |
| resource versions in messages | VERSION | as above |
| times within an hour of now | TIME, MICROTIME | clocks; their form is compared |
| continue tokens | CONTINUE and what they go on after | a server's own encoding |
| ages in Tables, in seconds | AGE | clocks |
| order of the managers that an apply conflicts with | sorted | random |
| suffixes of generated names | generateName and XXXXX | random |
| order of managedFields | sorted | depends on the second of the clock |
| the number in the name of an expression's own type | selfType | random |
| what follows a message's first line | ... | shows Go's own structures |
| addresses and ports the server chose | ALLOCATED | random |
| why a body could not be decoded | ... | shows Go's own types and parser |
| numbers of CEL's types of self | left out | random |
| protobuf among the media types offered | left out | the embedded server writes no protobuf |
| descriptions of a Table's columns | left out | documentation |
| headers but `HEADERS` | left out | connection, cache and audit details |
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard

HEADERS = (
    "accept-patch",
    "allow",
    "cache-control",
    "content-encoding",
    "content-type",
    "location",
    "retry-after",
    "vary",
    "warning",
)

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_OWN_TYPE = re.compile(r"\bselfType\d+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_VERSION_IN_TEXT = re.compile(r"(resource version: |\()\d+(\)|, current: \d+| ?\(\d+\))*")
_DECODING = re.compile(
    r"(cannot be handled as an? \w+: (?!strict decoding error)"
    r"|the object provided is unrecognized \(must be of type \w+\): "
    r"|couldn't get version/kind; json parse error: "
    r"|continue key is not valid: (?!encoded)"
    r"|error decoding patch: |: patch: Invalid value: |^Invalid value: \"\{(?=.*apiVersion)"
    r"|no kind \"\w+\" is registered ).*"
)
_SELF_TYPE = re.compile(r"selfType\d+")
_AGE = re.compile(r"\d+s")
_PROTOBUF = ", application/vnd.kubernetes.protobuf"
_NEAR = timedelta(hours=1)
_ALLOCATED = frozenset({"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})

Json = Any


class Mask:
    """Masks the answers of one case; what it has seen before it names as before."""

    def __init__(self, namespace: str, now: datetime) -> None:
        self._namespace = namespace
        self._now = now
        self._uids: dict[str, str] = {}

    def answer(self, status: int, headers: Mapping[str, str], body: Json, prefix: str = "") -> Json:
        """Return an answer's comparable part; resource versions are masked by `versions`."""
        kept = {name: headers[name] for name in HEADERS if headers.get(name)}
        text = self._text(json.dumps({"headers": kept, "body": body}))
        if prefix:  # a name was to be generated
            prefix = prefix[:58].replace(self._namespace, "NAMESPACE")
            text = re.sub(re.escape(prefix) + r"[a-z0-9]{5}(?=\W)", f"{prefix}XXXXX", text)
        masked = json.loads(text)
        return {"status": status, **masked["headers"], "body": self._value(masked["body"], "")}

    def _text(self, text: str) -> str:
        text = _OWN_TYPE.sub("selfType", text.replace(self._namespace, "NAMESPACE"))
        text = _UID.sub(lambda match: self._uid(match.group()), text)
        return _TIME.sub(lambda match: self._time(match.group()), text)

    def _uid(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"UID-{len(self._uids) + 1}")

    def _time(self, text: str) -> str:
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:  # what only looks like a time
            return text
        if abs(moment - self._now) > _NEAR:
            return text
        return "MICROTIME" if "." in text else "TIME"

    def _value(self, value: Json, key: str) -> Json:
        if isinstance(value, list):
            items = [self._value(item, key) for item in value]
            if key == "managedFields" or (key == "causes" and _are_conflicts(items)):
                items.sort(key=lambda item: json.dumps(item, sort_keys=True))
            return items
        if not isinstance(value, dict):
            return self._scalar(value, key)
        masked = {name: self._value(item, name) for name, item in value.items()}
        for column in masked.get("columnDefinitions") or ():
            column.pop("description", None)
        prefix = value.get("generateName")
        if isinstance(prefix, str) and str(value.get("name", "")).startswith(prefix):
            masked["name"] = f"{prefix}{'X' * (len(value['name']) - len(prefix))}"
        return masked

    def _scalar(self, value: Json, key: str) -> Json:
        if key == "continue" and value:
            return _continuation(value).replace(self._namespace, "NAMESPACE")
        if key == "message" and isinstance(value, str):
            first, _, more = value.partition("\n")
            first = _SELF_TYPE.sub("selfType", first)
            first = _DECODING.sub(r"\1...", first).replace(_PROTOBUF, "")
            first = _VERSION_IN_TEXT.sub(_without_versions, first)
            return f"{first}\n..." if more else first
        if key in _ALLOCATED and value and value != "None":
            return "ALLOCATED"
        if key == "cells" and isinstance(value, str) and _AGE.fullmatch(value):
            return "AGE"
        return value


def _are_conflicts(causes: list[Json]) -> bool:
    return all(cause.get("reason") == "FieldManagerConflict" for cause in causes)


def versions(answers: list[Json]) -> list[Json]:
    """Return a case's answers with resource versions as their order."""
    seen = sorted({int(version) for version in _object_versions(answers)})
    ranks = {version: rank for rank, version in enumerate(seen, 1)}

    def masked(value: Json) -> Json:
        if isinstance(value, list):
            return [masked(item) for item in value]
        if not isinstance(value, dict):
            return value
        result = {key: masked(item) for key, item in value.items()}
        version = result.get("resourceVersion")
        if _is_version(version):
            if "uid" in result or "name" in result:
                result["resourceVersion"] = f"version {ranks[int(version)]}"
            else:
                below = sum(each <= int(version) for each in seen)
                result["resourceVersion"] = f"at version {below} or later"
        return result

    return [masked(answer) for answer in answers]


def _object_versions(value: Json) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _object_versions(item)
    elif isinstance(value, dict):
        version = value.get("resourceVersion")
        if _is_version(version) and ("uid" in value or "name" in value):
            yield version
        for item in value.values():
            yield from _object_versions(item)


def _is_version(value: Json) -> TypeGuard[str]:
    return isinstance(value, str) and value.isdigit() and value != "0"


def _continuation(token: str) -> str:
    try:
        fields = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, binascii.Error):
        return token
    kind = "inconsistent" if fields.get("rv") == -1 else "consistent"
    return f"CONTINUE {kind} after {fields.get('start', '')!r}"


def _without_versions(match: re.Match[str]) -> str:
    text = match.group()
    return re.sub(r"\d+", "VERSION", text) if text[0] != "(" or text[-1] == ")" else text


def now() -> datetime:
    """Return the time that masked times are near to."""
    return datetime.now(UTC)
