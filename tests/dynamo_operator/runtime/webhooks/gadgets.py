"""A kind in two versions: v1alpha1 has a size in text, v1 a number and a unit."""

import re
from typing import Any

from dynamo_operator.runtime.models import KubeModel, KubeStruct
from dynamo_operator.runtime.webhooks.conversion import ConversionError, HubConversion, Spoke
from informers.objects import ResourceType

STASH = "lab.test/v1-only"


class Size(KubeStruct):
    number: int
    unit: str = "mm"


class GadgetSpec(KubeStruct):
    size: Size | None = None
    color: str = ""


class Gadget(KubeModel):
    """The hub, which is stored."""

    resource_type = ResourceType("lab.test", "v1", "Gadget", "gadgets")
    spec: GadgetSpec = GadgetSpec()
    status: dict[str, Any] = {}


class GadgetV1alpha1(KubeModel):
    """Knows no color: it keeps one in an annotation, so that nothing is lost on the way back."""

    resource_type = ResourceType("lab.test", "v1alpha1", "Gadget", "gadgets")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


def to_v1(old: GadgetV1alpha1) -> Gadget:
    spec = GadgetSpec()
    text = old.spec.get("size")
    if text is not None:
        parsed = re.fullmatch(r"(\d+)([a-z]+)", text)
        if parsed is None:
            raise ConversionError(f"spec.size: {text!r} must be a number and a unit, like 12mm")
        spec.size = Size(number=int(parsed[1]), unit=parsed[2])
    annotations = dict(old.annotations)
    if STASH in annotations:
        spec.color = annotations.pop(STASH)
    new = Gadget.new(old.metadata.name, spec=spec)
    new.metadata.annotations = annotations
    if old.status:
        new.status = old.status
    return new


def from_v1(new: Gadget) -> GadgetV1alpha1:
    size = new.spec.size
    annotations = dict(new.annotations)
    if new.spec.color:
        annotations[STASH] = new.spec.color
    spec = {} if size is None else {"size": f"{size.number}{size.unit}"}
    old = GadgetV1alpha1.new(new.metadata.name, spec=spec)
    old.metadata.annotations = annotations
    if new.status:
        old.status = new.status
    return old


CONVERSION = HubConversion(Gadget, [Spoke(GadgetV1alpha1, to_hub=to_v1, from_hub=from_v1)])

_OBJECT = {"type": "object"}
_STATUS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def gadget_crd(conversion: dict[str, Any], *, storage: str = "v1") -> dict[str, Any]:
    """Return the CRD of both versions."""
    size = {
        "v1": {
            "type": "object",
            "required": ["number"],
            "properties": {
                "number": {"type": "integer"},
                "unit": {"type": "string", "default": "mm"},
            },
        },
        "v1alpha1": {"type": "string"},
    }
    extra = {"v1": {"color": {"type": "string"}}, "v1alpha1": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.lab.test"},
        "spec": {
            "group": "lab.test",
            "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets"},
            "conversion": conversion,
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == storage,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            **_OBJECT,
                            "properties": {
                                "spec": {
                                    **_OBJECT,
                                    "properties": {"size": size[version], **extra[version]},
                                },
                                "status": _STATUS,
                            },
                        }
                    },
                }
                for version in ("v1", "v1alpha1")
            ],
        },
    }
