"""What a real API server serves and this one does not: it answers 501 NotImplemented there.

docs/testing.md shows the same lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dynamo_operator.apiserver.routes import RequestInfo

RESOURCES: Final[Mapping[str, str]] = {
    "v1": "componentstatuses",
    "admissionregistration.k8s.io/v1": "mutatingadmissionpolicies mutatingadmissionpolicybindings",
    "apiregistration.k8s.io/v1": "apiservices",
    "autoscaling/v1": "horizontalpodautoscalers",
    "autoscaling/v2": "horizontalpodautoscalers",
    "certificates.k8s.io/v1": "certificatesigningrequests clustertrustbundles "
    "podcertificaterequests",
    "flowcontrol.apiserver.k8s.io/v1": "flowschemas prioritylevelconfigurations",
    "networking.k8s.io/v1": "ingressclasses ingresses ipaddresses servicecidrs",
    "node.k8s.io/v1": "runtimeclasses",
    "resource.k8s.io/v1": "deviceclasses devicetaintrules resourceclaims resourceclaimtemplates "
    "resourceslices",
    "storage.k8s.io/v1": "csidrivers csinodes csistoragecapacities volumeattachments "
    "volumeattributesclasses",
    "storagemigration.k8s.io/v1": "storageversionmigrations",
}
"""Resources by their group and version, of Kubernetes 1.37's stable API."""
PARTS: Final[Mapping[str, str]] = {
    "nodes": "proxy",
    "pods": "attach exec portforward proxy resize",
    "services": "proxy",
}
"""Subresources by their resource."""


def unserved(info: RequestInfo) -> str:
    """Return what a request is about and this server lacks; "" for nothing."""
    api_version = f"{info.group}/{info.version}" if info.group else info.version
    if info.plural in RESOURCES.get(api_version, "").split():
        return f"{info.plural}.{info.group}" if info.group else info.plural
    if not info.group and info.subresource in PARTS.get(info.plural, "").split():
        return f"{info.plural}/{info.subresource}"
    return ""
