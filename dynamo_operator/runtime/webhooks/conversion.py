"""Conversion between the versions of a kind, as a CRD's conversion webhook is asked for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.models import KubeModel
from dynamo_operator.runtime.webhooks.admission import Json, MalformedReviewError, parse_review
from informers.objects import ResourceType

REVIEW_VERSIONS: Final = ("apiextensions.k8s.io/v1",)

_OWN_METADATA: Final = ("labels", "annotations")
"""What a conversion may change in metadata; the API server refuses anything else."""


class ConversionError(Exception):
    """An object cannot be converted; the text reaches whoever asked the API server."""


class Converter(Protocol):
    """Converts one kind's objects."""

    @property
    def group(self) -> str:
        """The API group."""

    @property
    def kind(self) -> str:
        """The kind."""

    def convert(self, obj: Json, api_version: str) -> Json:
        """Return the object in that version.

        Raises:
            ConversionError: there is no such version, or this object has no form in it.
        """


@dataclass(frozen=True)
class Spoke:
    """A version of a kind, and the way to the hub and back. Both ways lose nothing.

    Args:
        kind: the version; its objects are models, or dicts where it is a ResourceType.
        to_hub: returns the object in the hub's version.
        from_hub: the other way.
    """

    kind: type[KubeModel] | ResourceType
    to_hub: Callable[[Any], KubeModel | Json]
    from_hub: Callable[[Any], KubeModel | Json]


class HubConversion:
    """Converts through one version of the kind, the hub, that every other has a way to.

    A conversion is about spec, status and the like. Identity is none of its business: apiVersion,
    kind and metadata are carried over, labels and annotations unless the function sets them, if
    only to nothing: `new.metadata.annotations = {}`.

    Args:
        hub: usually the version that is stored.
        spokes: all other versions.

    Raises:
        ValueError: a spoke is of another kind, or a version occurs twice.

    Example:
        >>> v1 = ResourceType("lab.test", "v1", "Widget", "widgets")
        >>> v2 = ResourceType("lab.test", "v2", "Widget", "widgets")
        >>> conversion = HubConversion(
        ...     v2,
        ...     [Spoke(v1, to_hub=lambda w: {"spec": {"size": w["size"]}},
        ...            from_hub=lambda w: {"size": w["spec"]["size"]})],
        ... )
        >>> widget = {"apiVersion": "lab.test/v1", "kind": "Widget", "size": 1}
        >>> conversion.convert(widget, "lab.test/v2")
        {'apiVersion': 'lab.test/v2', 'kind': 'Widget', 'spec': {'size': 1}}
    """

    def __init__(self, hub: type[KubeModel] | ResourceType, spokes: Sequence[Spoke]) -> None:
        self._hub = hub
        self._type = codec.resource_type_of(hub)
        self._spokes: dict[str, Spoke] = {}
        for spoke in spokes:
            mine = codec.resource_type_of(spoke.kind)
            if (mine.group, mine.kind) != (self.group, self.kind):
                raise ValueError(f"spoke {mine.title}: must be a version of {self._type.title}")
            if mine.api_version in (*self._spokes, self._type.api_version):
                raise ValueError(f"spoke {mine.title}: there is one already")
            self._spokes[mine.api_version] = spoke

    @property
    def group(self) -> str:
        """The API group."""
        return self._type.group

    @property
    def kind(self) -> str:
        """The kind."""
        return self._type.kind

    def convert(self, obj: Json, api_version: str) -> Json:
        """Return the object in that version."""
        given = str(obj.get("apiVersion"))
        source, target = self._spoke(given), self._spoke(api_version)
        result: KubeModel | Json = obj
        if source is not None:
            result = source.to_hub(codec.decode(source.kind, codec.encode(obj)))
        if target is not None:
            hub = _carried(obj, _plain(result), self._type.api_version)
            result = target.from_hub(codec.decode(self._hub, codec.encode(hub)))
        return _carried(obj, _plain(result), api_version)

    def _spoke(self, api_version: str) -> Spoke | None:
        """Return what that version needs to get to the hub: None for the hub itself."""
        if api_version == self._type.api_version:
            return None
        spoke = self._spokes.get(api_version)
        if spoke is None:
            known = ", ".join([self._type.api_version, *self._spokes])
            raise ConversionError(f"{self.kind} in {api_version}: there are only {known}")
        return spoke


@dataclass(frozen=True)
class FunctionConversion:
    """Converts by one function, for kinds that have no hub.

    Args:
        group: the API group.
        kind: the kind.
        function: gets an object and the wanted apiVersion, and returns the object in it. Identity
            is carried over as in a HubConversion.
    """

    group: str
    kind: str
    function: Callable[[Json, str], Json]

    def convert(self, obj: Json, api_version: str) -> Json:
        """Return the object in that version."""
        own = codec.decode_json(codec.encode(obj))
        return _carried(obj, self.function(own, api_version), api_version)


@dataclass(frozen=True, slots=True)
class ConversionReview:
    """One review: objects, and the version that is wanted of them."""

    api_version: str
    uid: str
    desired: str
    objects: tuple[Json, ...]

    @classmethod
    def parse(cls, body: bytes) -> ConversionReview:
        """Read a review.

        Raises:
            MalformedReviewError: it is none.
        """
        document = parse_review(body, "ConversionReview", REVIEW_VERSIONS)
        request = document["request"]
        desired, objects = request.get("desiredAPIVersion"), request.get("objects") or []
        if not isinstance(desired, str) or not desired:
            raise MalformedReviewError("ConversionReview: request.desiredAPIVersion is missing")
        if not isinstance(objects, list) or not all(isinstance(obj, dict) for obj in objects):
            raise MalformedReviewError("ConversionReview: request.objects must be objects")
        return cls(document["apiVersion"], request["uid"], desired, tuple(objects))

    def answer(self, converted: Sequence[Json]) -> bytes:
        """Return the body that carries the converted objects."""
        return self._response({"status": "Success"}, converted)

    def failure(self, message: str) -> bytes:
        """Return the body that says why there are none."""
        return self._response({"status": "Failure", "message": message}, ())

    def _response(self, result: Mapping[str, str], converted: Sequence[Json]) -> bytes:
        response = {"uid": self.uid, "result": result, "convertedObjects": list(converted)}
        return codec.encode(
            {"apiVersion": self.api_version, "kind": "ConversionReview", "response": response}
        )


class Conversions:
    """Converters by group and kind.

    Raises:
        ValueError: two are of one kind.
    """

    def __init__(self, converters: Sequence[Converter]) -> None:
        self._converters: dict[tuple[str, str], Converter] = {}
        for converter in converters:
            what = (converter.group, converter.kind)
            if what in self._converters:
                raise ValueError(
                    f"conversion of {converter.kind}.{converter.group}: declared twice"
                )
            self._converters[what] = converter

    def convert(self, review: ConversionReview) -> list[Json]:
        """Return what the review asks for.

        Raises:
            ConversionError: an object is of no kind we convert, or is in that version already.
        """
        return [self._convert(obj, review.desired) for obj in review.objects]

    def _convert(self, obj: Json, desired: str) -> Json:
        given, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
        group = given.rpartition("/")[0]
        converter = self._converters.get((group, kind))
        if converter is None:
            raise ConversionError(f"{kind} in {given}: nothing here converts that kind")
        if desired.rpartition("/")[0] != group:
            raise ConversionError(f"{kind} in {given}: {desired} is another API group")
        if given == desired:
            raise ConversionError(f"{kind} in {given}: is in that version already")
        return converter.convert(obj, desired)


def _plain(result: KubeModel | Json) -> Json:
    return result if isinstance(result, dict) else result.to_dict()


def _carried(source: Json, result: Json, api_version: str) -> Json:
    """Return the result with the source's identity."""
    identity: Json = {"apiVersion": api_version, "kind": source["kind"]}
    if "metadata" in source:
        own = result.get("metadata") or {}
        metadata = {**source["metadata"], **{n: own[n] for n in _OWN_METADATA if n in own}}
        identity["metadata"] = {n: v for n, v in metadata.items() if n not in own or v != {}}
    return {**identity, **{k: v for k, v in result.items() if k not in ("metadata", *identity)}}
