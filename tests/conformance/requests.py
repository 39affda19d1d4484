"""Requests as one line of text each, and cases of several of them.

A case is a name at the margin and, indented, its requests:

    a label can be changed
      POST configmaps {metadata: {name: a}}
      MERGE configmaps/a {metadata: {labels: {x: y}}}
      GET configmaps?labelSelector=x%3Dy Accept=application/yaml

A request is a verb, a path, and where needed headers (`Name=value`) and a body (YAML in flow
style). The path begins with a built-in resource's plural name (or one of `ALIASES`) in the case's
own namespace, or with a slash for a path as it stands. The verbs are those of HTTP and

    MERGE STRATEGIC JSONPATCH APPLY    PATCH with that content type
    WATCH                              GET with watch=true; the header Events=N ends it after N,
                                       otherwise the server does, as timeoutSeconds says

The header Accept may be one of `table`, `metadata`, `metadata-list`, `yaml` and `protobuf`; who
asks is said by Impersonate-User and Impersonate-Group.

What takes effect a moment later is sent again until the answer's code is that of the header Until;
Keep names the top-level fields of an answer without error that are compared, a comma between them,
and in brackets, with blanks between them, the fields of a list's items.

A body `{...}` gets apiVersion and kind, and that of an APPLY the name in the path, which `={...}`
(the body as it stands) does not;
`+{...}` is the object that the case's latest answer held, changed by this merge patch, and
`"..."` is text as it stands. `$ns` is the case's namespace, `$2.metadata.uid` a value out of the
second answer, `$.metadata.uid` one out of the latest object. `# ...` is a comment.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote_plus

from ruamel.yaml import YAML

from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from dynamo_operator.apiserver.builtin_resources import builtin_resources

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
JSON = "application/json"

ALIASES = {
    "dgdrs": DynamoGraphDeploymentRequest.resource_type,
    "runs": DynamoGraphDeploymentRun.resource_type,
    "candidates": DynamoGraphDeploymentCandidate.resource_type,
}
_VERBS: Mapping[str, tuple[str, str]] = {
    "MERGE": ("PATCH", MERGE),
    "STRATEGIC": ("PATCH", STRATEGIC),
    "JSONPATCH": ("PATCH", JSON_PATCH),
    "APPLY": ("PATCH", APPLY),
    "WATCH": ("GET", ""),
}
_OF_SUBRESOURCES: Mapping[str, dict[str, str]] = {
    "binding": {"apiVersion": "v1", "kind": "Binding"},
    "eviction": {"apiVersion": "policy/v1", "kind": "Eviction"},
    "scale": {"apiVersion": "autoscaling/v1", "kind": "Scale"},
    "token": {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"},
}
_REPRESENTATIONS: Mapping[str, str] = {
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "metadata-list": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "yaml": "application/yaml",
    "protobuf": "application/vnd.kubernetes.protobuf",
}
_REQUEST = re.compile(r"([A-Z]+) (\S+)((?: [A-Z][A-Za-z-]*=\S+)*)(?: (.*))?")
_REFERENCE = re.compile(r"\$(ns|\d*)((?:\.[A-Za-z0-9_-]+)*)")

Json = Any
Body = Any
"""JSON, text as it stands, or a function that makes JSON from the latest object."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Args:
        method: of HTTP.
        path: without the query; `$` references are not yet replaced.
        query: pairs in order, not encoded.
        headers: besides what every request has.
        body: JSON, text as it stands, a function of the latest object, or None.
        change: the body is a merge patch of the latest object.
        events: of a watch: after how many it is left; 0: the server ends it. None: no watch.
        line: how it was written, for reports.
        until: the request is sent again until this is the answer's code: what takes effect later.
        keep: of a body without error only these top-level fields are compared; () for all.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body = None
    change: bool = False
    events: int | None = None
    line: str = ""
    until: int = 0
    keep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """Requests in order, in a namespace of their own that has these labels."""

    name: str
    requests: tuple[Request, ...]
    labels: tuple[tuple[str, str], ...] = ()


def parse(text: str) -> Iterator[Case]:
    """Read cases; see the module."""
    name, requests = "", list[Request]()
    for line in text.splitlines():
        if not line.strip() or line.strip().startswith("#"):
            continue
        if line.startswith(" "):
            requests.append(request(line.strip()))
            continue
        if name:
            yield Case(name, tuple(requests))
        name, requests = line.strip(), []
    if name:
        yield Case(name, tuple(requests))


def request(line: str) -> Request:
    """Read one request."""
    matched = _REQUEST.fullmatch(line)
    if matched is None:
        raise ValueError(f"{line!r}: expected VERB PATH [Header=value ...] [BODY]")
    verb, target, header_text, body_text = matched.groups()
    method, content_type = _VERBS.get(verb, (verb, JSON))
    short, _, query_text = target.partition("?")
    path, identity = full_path(short)
    headers = dict(each.split("=", 1) for each in header_text.split())
    if accept := headers.get("Accept"):
        headers["Accept"] = _REPRESENTATIONS.get(accept, accept)
    events = int(headers.pop("Events", 0)) if verb == "WATCH" else None
    until = int(headers.pop("Until", 0))
    keep = tuple(headers.pop("Keep").split(",")) if "Keep" in headers else ()
    name = short.split("/")[1] if "/" in short[1:] else ""
    body, change = _body(body_text or "", method, content_type, identity, name)
    if body is not None and content_type:
        headers = {"Content-Type": content_type, **headers}
    query = [_pair(each) for each in query_text.split("&") if each]
    if verb == "WATCH":
        query.insert(0, ("watch", "true"))
    return Request(method, path, tuple(query), headers, body, change, events, line, until, keep)


def full_path(short: str) -> tuple[str, dict[str, str]]:
    """Return the path, and apiVersion and kind of what it holds if that is known."""
    if short.startswith("/"):
        return short, _identity_at(short)
    plural, slash, rest = short.partition("/")
    root, namespaced, identity = _resources()[plural]
    inside = "/namespaces/$ns" if namespaced else ""
    subresource = rest.rpartition("/")[2] if "/" in rest else ""
    identity = _OF_SUBRESOURCES.get(subresource, identity)
    return f"{root}{inside}/{plural_of(plural)}{slash}{rest}", identity


def plural_of(word: str) -> str:
    """Return the plural that an alias stands for."""
    alias = ALIASES.get(word)
    return alias.plural if alias else word.partition(".")[0]


def resolved(value: Json, namespace: str, answers: list[Json], latest: Json) -> Json:
    """Return the value with every `$` reference replaced."""
    if isinstance(value, dict):
        return {
            resolved(key, namespace, answers, latest): resolved(item, namespace, answers, latest)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [resolved(item, namespace, answers, latest) for item in value]
    if not isinstance(value, str) or "$" not in value:
        return value

    def found(match: re.Match[str]) -> Json:
        which, path = match.groups()
        if which == "ns":
            return namespace + path
        if not which and not path:
            return match.group()
        held = answers[int(which) - 1] if which else latest
        for step in path.split(".")[1:]:
            held = held[int(step)] if isinstance(held, list) else (held or {}).get(step)
        return held

    whole = _REFERENCE.fullmatch(value)
    if whole:
        return found(whole)
    return _REFERENCE.sub(lambda match: str(found(match)), value)


def merged(target: Json, change: Json) -> Json:
    """Return the target changed by a merge patch."""
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return unquote_plus(key), unquote_plus(value)


def _body(
    text: str, method: str, content_type: str, identity: dict[str, str], name: str
) -> tuple[Json, bool]:
    if not text:
        return None, False
    if text[0] == "+":
        return _yaml(text[1:]), True
    if text[0] == "=":
        return _yaml(text[1:]), False
    body = _yaml(text)
    if isinstance(body, dict):
        if method == "DELETE":
            body = {"apiVersion": "v1", "kind": "DeleteOptions", **body}
        elif content_type in {JSON, APPLY}:
            body = {**identity, **body}
        metadata = body.get("metadata", {})
        if content_type == APPLY and isinstance(metadata, dict):
            body["metadata"] = {"name": name, **metadata}
    return body, False


def _yaml(text: str) -> Json:
    reader = YAML(typ="safe")
    reader.version = (1, 2)  # where yes and no are text
    return reader.load(io.StringIO(text))


@cache
def _resources() -> dict[str, tuple[str, bool, dict[str, str]]]:
    """What is known of each plural name; `plural.group` where two groups have it."""
    known: dict[str, tuple[str, bool, dict[str, str]]] = {}
    for each in builtin_resources():
        root = f"/apis/{each.group}/{each.version}" if each.group else f"/api/{each.version}"
        identity = {"apiVersion": each.api_version, "kind": each.kind}
        entry = (root, each.namespaced, identity)
        known.setdefault(each.plural, entry)
        known[f"{each.plural}.{each.group}"] = entry
    for alias, kind in ALIASES.items():
        identity = {"apiVersion": kind.api_version, "kind": kind.kind}
        known[alias] = (f"/apis/{kind.api_version}", kind.namespaced, identity)
    return known


def _identity_at(path: str) -> dict[str, str]:
    """Return apiVersion and kind of a built-in resource's whole path."""
    parts = path.partition("?")[0].split("/")[1:]
    if len(parts) < 3:
        return {}
    version, rest = (
        (parts[1], parts[2:]) if parts[0] == "api" else ("/".join(parts[1:3]), parts[3:])
    )
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    for _, _, identity in (v for k, v in _resources().items() if k.partition(".")[0] in rest[:1]):
        if identity["apiVersion"] == version:
            return identity
    return {}


def cases_in(source: str | Iterable[Case]) -> tuple[Case, ...]:
    """Return a module's cases, each name once."""
    cases = tuple(parse(source) if isinstance(source, str) else source)
    names = [case.name for case in cases]
    twice = (
        {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else ()
    )
    if twice:
        raise ValueError(f"cases of the same name: {', '.join(sorted(twice))}")
    return cases
