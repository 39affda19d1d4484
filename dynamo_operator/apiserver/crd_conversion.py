"""Conversion of custom resources between versions by the webhook that their definition names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dynamo_operator.apiserver import status
from dynamo_operator.apiserver.messages import to_json
from dynamo_operator.apiserver.object_metadata import validate_labels
from dynamo_operator.apiserver.remote import Unanswered
from dynamo_operator.apiserver.resources import Object
from dynamo_operator.apiserver.webhook_client import (
    CallFailedError,
    InvalidAnswerError,
    Webhooks,
)

_TIMEOUT_SECONDS: Final = 30.0
_REMEMBERED: Final = 10_000
_OWN_METADATA: Final = ("labels", "annotations")
"""What a conversion may change in metadata."""
_IDENTITY: Final = {"name": "name", "namespace": "namespace", "uid": "UID"}


class WebhookConversion:
    """Converts the objects of one definition; remembers what it was told, as it cannot change.

    Args:
        definition: the CustomResourceDefinition.
        webhooks: calls the webhook.
        decoders: prune and default an object, by the apiVersion that it is in.
        remembered: how many objects it remembers, or twice the largest list if that is more.
    """

    def __init__(
        self,
        definition: Object,
        webhooks: Webhooks,
        decoders: Mapping[str, Callable[[Object], Object]],
        *,
        remembered: int = _REMEMBERED,
    ) -> None:
        spec = definition["spec"]
        webhook = spec["conversion"]["webhook"]
        self._group, self._kind = spec["group"], spec["names"]["kind"]
        self._config: Mapping[str, Any] = webhook.get("clientConfig") or {}
        self._versions = webhook.get("conversionReviewVersions") or ["v1"]
        self._webhooks = webhooks
        self._decoders = decoders
        self._remembered = remembered
        self._known: OrderedDict[tuple[str, bytes], Object] = OrderedDict()

    def convert(self, obj: Object, api_version: str) -> Object:
        """Return the object in that version.

        Raises:
            Unanswered: the webhook has to be asked first.
        """
        if obj["apiVersion"] == api_version:
            return obj
        known = self._known.get((api_version, to_json(obj)))
        if known is None:
            self.prefetch([obj], api_version)
            raise AssertionError("prefetch asks for what is not known")
        return known

    def prefetch(self, objects: Sequence[Object], api_version: str) -> None:
        """Ask about all objects at once that have yet to be converted.

        Raises:
            Unanswered: there are such objects.
        """
        others = [obj for obj in objects if obj["apiVersion"] != api_version]
        self._remembered = max(self._remembered, 2 * len(others))
        unknown = [obj for obj in others if (api_version, to_json(obj)) not in self._known]
        if not unknown:
            return

        async def ask() -> None:
            converted = await self._ask(unknown, api_version)
            for obj, result in zip(unknown, converted, strict=True):
                self._known[api_version, to_json(obj)] = result
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)

        raise Unanswered([ask])

    async def _ask(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{self._versions[0]}",
            "request": {"desiredAPIVersion": api_version, "objects": list(objects)},
        }
        try:
            response = await self._webhooks.review(
                self._config, review, timeout_seconds=_TIMEOUT_SECONDS, timed=True
            )
        except InvalidAnswerError as error:
            raise self._failure(objects[0], f"failed: {error.what}") from None
        except CallFailedError as error:
            raise self._failure(objects[0], f"failed: {error}") from None
        result, converted = response.get("result") or {}, response.get("convertedObjects") or []
        if result.get("status") != "Success":
            given = result.get("status", "")
            text = result.get("message") or (f"response.result.status was '{given}', not 'Success'")
            raise self._failure(objects[0], f"failed: {text}")
        if len(converted) != len(objects):
            text = f"returned {len(converted)} objects, expected {len(objects)}"
            raise self._failure(objects[0], text)
        decode = self._decoders.get(api_version, _as_it_is)
        return [
            decode(self._checked(position, obj, result, api_version))
            for position, (obj, result) in enumerate(zip(objects, converted, strict=True))
        ]

    def _checked(self, position: int, source: Object, result: Any, api_version: str) -> Object:
        """Return the converted object, which must still be the same one."""
        result = result if isinstance(result, dict) else {}
        wrong = (
            ("groupVersion", api_version, result.get("apiVersion", "")),
            ("kind", source["kind"], result.get("kind", "")),
        )
        for what, wanted, given in wrong:
            if given != wanted:
                text = f"invalid {what} (expected {wanted}, received {given})"
                at = f"returned invalid object at index {position}"
                raise self._failure(source, f"{at}: {text}")
        before, after = source["metadata"], result.get("metadata") or {}
        for field, shown in _IDENTITY.items():
            was, becomes = before.get(field, ""), after.get(field, "")
            if was != becomes:
                text = f"must have the same {shown}: {was} != {becomes}"
                raise self._failure(source, f"returned invalid object: {text}")
        for error in validate_labels(after.get("labels") or {}, "metadata.labels"):
            raise self._failure(source, f"returned invalid metadata: {error}")
        own = {name: after[name] for name in _OWN_METADATA if after.get(name)}
        kept = {name: v for name, v in before.items() if name not in _OWN_METADATA}
        rest = {k: v for k, v in result.items() if k not in ("apiVersion", "kind", "metadata")}
        return {
            "apiVersion": api_version,
            "kind": source["kind"],
            "metadata": {**kept, **own},
            **rest,
        }

    def _failure(self, source: Object, text: str) -> status.StatusError:
        what = f"{source['apiVersion']}, Kind={self._kind}"
        return status.StatusError(500, "", f"conversion webhook for {what} {text}")


def _as_it_is(obj: Object) -> Object:
    return obj
