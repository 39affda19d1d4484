"""What a test of a controller needs: a cluster without a cluster, and virtual time.

Names are exported lazily: `virtual_time` alone loads no API server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamo_operator.testing.cluster import Cluster
    from dynamo_operator.testing.endpoints import Endpoint, ready_endpoints
    from dynamo_operator.testing.faults import Answer, Cut, HalfAnswer, Hang, Pause, Point, delay
    from dynamo_operator.testing.fixtures import cluster_fixture
    from dynamo_operator.testing.in_process_transport import InProcessTransport
    from dynamo_operator.testing.in_process_webhooks import NoCertificate
    from dynamo_operator.testing.interceptor import Interceptor
    from dynamo_operator.testing.polling import eventually

__all__ = [
    "Answer",
    "Cluster",
    "Cut",
    "Endpoint",
    "HalfAnswer",
    "Hang",
    "InProcessTransport",
    "Interceptor",
    "NoCertificate",
    "Pause",
    "Point",
    "cluster_fixture",
    "delay",
    "eventually",
    "ready_endpoints",
]

_MODULES = {
    "cluster": "Cluster",
    "endpoints": "Endpoint ready_endpoints",
    "faults": "Answer Cut HalfAnswer Hang Pause Point delay",
    "fixtures": "cluster_fixture",
    "in_process_transport": "InProcessTransport",
    "in_process_webhooks": "NoCertificate",
    "interceptor": "Interceptor",
    "polling": "eventually",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{name} needs {error.name}: pip install 'dynamo-operator[testing]'", name=error.name
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
