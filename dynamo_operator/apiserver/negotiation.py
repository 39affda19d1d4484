"""Which form of answer the Accept header asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.messages import JSON_TYPE

_OFFERED = (JSON_TYPE, "application/yaml")
_META_GROUP = "meta.k8s.io"


class Form(Enum):
    """What shape objects take in the answer."""

    OBJECT = auto()
    TABLE = auto()
    METADATA = auto()


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
            clauses.append(Clause(media_type.lower(), pairs, quality))
    return tuple(sorted(clauses, key=lambda clause: -clause.quality))


@dataclass(frozen=True, slots=True)
class Representation:
    """What the answer to a resource request looks like."""

    form: Form = Form.OBJECT
    yaml: bool = False


def negotiate(header: str, *, convertible: bool = True, streaming: bool = False) -> Representation:
    """Pick the representation of an object, a list or a watch.

    Args:
        header: the Accept header.
        convertible: whether Tables and metadata are offered (not for writes' odd answers).
        streaming: whether this is a watch, which YAML cannot carry.

    Raises:
        StatusError: 406.
    """
    for clause in parse_accept(header):
        yaml = clause.media_type == "application/yaml" and not streaming
        if not yaml and clause.media_type not in {JSON_TYPE, "application/*", "*/*"}:
            continue
        form = _form(clause.parameters)
        if form is Form.OBJECT or (form is not None and convertible):
            return Representation(form, yaml)
    raise status.not_acceptable(
        (*_OFFERED, f"{JSON_TYPE};as=Table;g={_META_GROUP};v=v1") if convertible else _OFFERED
    )


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
    wanted = parameters.get("as")
    if wanted is None:
        return Form.OBJECT
    if parameters.get("g") != _META_GROUP or parameters.get("v") not in {"v1", "v1beta1"}:
        return None
    match wanted:
        case "Table":
            return Form.TABLE
        case "PartialObjectMetadata" | "PartialObjectMetadataList":
            return Form.METADATA
    return None
