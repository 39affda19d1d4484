"""Which form of answer the Accept header asks for.

Built-in resources are looked at twice, as by the real server: its router knows only whole media
types (`check_acceptable`), what answers knows ranges and parameters, too (`negotiate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.messages import JSON_TYPE

_YAML_TYPE = "application/yaml"
_OFFERED = (JSON_TYPE, _YAML_TYPE)
_STREAMED = (f"{JSON_TYPE};stream=watch;stream=watch",)
_META_GROUP = "meta.k8s.io"
_CONVERTS = frozenset({"as", "g", "v"})


class Form(Enum):
    """What shape objects take in the answer."""

    OBJECT = auto()
    TABLE = auto()
    METADATA = auto()
    METADATA_LIST = auto()


@dataclass(frozen=True, slots=True)
class Clause:
    """One media range of an Accept header."""

    media_type: str
    parameters: dict[str, str]
    quality: float


@lru_cache(maxsize=256)
def parse_accept(header: str) -> tuple[Clause, ...]:
    """Return the clauses, most wanted first; an empty header accepts anything."""
    clauses = []
    for part in (header or "*/*").split(","):
        media_type, *parameters = (piece.strip() for piece in part.split(";"))
        pairs = dict(p.split("=", 1) for p in parameters if "=" in p)
        try:
            quality = float(pairs.pop("q", "1"))
        except ValueError:
            quality = 0.0
        if media_type and quality > 0:
            clauses.append(Clause(media_type, pairs, quality))
    return tuple(sorted(clauses, key=lambda clause: -clause.quality))


@dataclass(frozen=True, slots=True)
class Representation:
    """What the answer to a resource request looks like.

    `meta_version` is the version of meta.k8s.io in which Tables and metadata are.
    """

    form: Form = Form.OBJECT
    yaml: bool = False
    meta_version: str = f"{_META_GROUP}/v1"


def negotiate(header: str, *, streaming: bool = False) -> Representation:
    """Pick the representation of an object, a list or a watch.

    Args:
        header: the Accept header.
        streaming: whether this is a watch, which YAML cannot carry.

    Raises:
        StatusError: 406.
    """
    for clause in parse_accept(header):
        for offered in _OFFERED[: 1 if streaming else 2]:
            form = _form(clause.parameters)
            if form is not None and clause.media_type in {offered, "application/*", "*/*", "*"}:
                version = clause.parameters.get("v", "v1")
                is_yaml = offered == _YAML_TYPE
                return Representation(form, is_yaml, f"{_META_GROUP}/{version}")
    is_yaml = any(clause.media_type == _YAML_TYPE for clause in parse_accept(header))
    raise status.not_acceptable(_STREAMED if streaming and is_yaml else _OFFERED)


def prefers_yaml(header: str) -> bool:
    """Whether an error is to be told in YAML."""
    for clause in parse_accept(header):
        if not _CONVERTS & clause.parameters.keys():
            if clause.media_type == _YAML_TYPE:
                return True
            if clause.media_type in {JSON_TYPE, "application/*", "*/*", "*"}:
                return False
    return False


def check_acceptable(header: str, offered: tuple[str, ...] = _OFFERED) -> None:
    """Refuse what no whole media type answers, as the router of built-in resources does.

    Raises:
        StatusError: 406.
    """
    if not any(clause.media_type in {*offered, "*/*"} for clause in parse_accept(header)):
        raise status.unroutable(406, offered)


def negotiate_media_type(header: str, offered: tuple[str, ...]) -> str:
    """Pick one of several whole media types (parameters included) that a document is offered in.

    Raises:
        StatusError: 406.
    """
    for clause in parse_accept(header):
        for media_type in offered:
            base, *parameters = media_type.split(";")
            wanted = dict(p.split("=", 1) for p in parameters)
            if clause.media_type == base and clause.parameters == wanted:
                return media_type
            if clause.media_type in {"*/*", "application/*"} and not wanted:
                return media_type
        if (
            clause.media_type == JSON_TYPE
            and "as" not in clause.parameters
            and JSON_TYPE in offered
        ):
            return JSON_TYPE
    raise status.not_acceptable(offered)


def _form(parameters: dict[str, str]) -> Form | None:
    if not _CONVERTS & parameters.keys():
        return Form.OBJECT
    if parameters.get("g") != _META_GROUP or parameters.get("v") not in {"v1", "v1beta1"}:
        return None
    match parameters.get("as"):
        case "Table":
            return Form.TABLE
        case "PartialObjectMetadata":
            return Form.METADATA
        case "PartialObjectMetadataList":
            return Form.METADATA_LIST
    return None
