"""Which types a server streams from the beginning: learned by one informer, known to all."""

from __future__ import annotations

from informers.objects import ResourceType


class WatchListSupport:
    """What is known of one server's WatchList; share one among the informers of a server.

    Every type is believed to have it until an informer had to list instead, because the server
    refused, or never ended the initial events. That is not tried again for the type.
    """

    def __init__(self) -> None:
        self._missing: set[ResourceType] = set()

    def __contains__(self, resource_type: ResourceType) -> bool:
        """Whether to begin with WatchList."""
        return resource_type not in self._missing

    def note_missing(self, resource_type: ResourceType) -> None:
        """Remember that the type has to be listed."""
        self._missing.add(resource_type)
