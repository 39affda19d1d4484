"""The client: live reads, writes, and the informers' lists and watches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dynamo_operator.runtime.client import codec
from dynamo_operator.runtime.client.config import ClientConfig
from dynamo_operator.runtime.client.http import Transport, WriteFence
from dynamo_operator.runtime.client.list_watch import ClientListWatch
from dynamo_operator.runtime.client.options import (
    DEFAULT_FIELD_MANAGER,
    ClientOptions,
    FieldValidation,
)
from dynamo_operator.runtime.client.paths import (
    Fields,
    Labels,
    resource_path,
    selector_query,
)
from dynamo_operator.runtime.client.reader import Kind, M
from dynamo_operator.runtime.client.rest import RequestObserver, RestClient, WarningObserver
from dynamo_operator.runtime.client.throttle import Throttle
from dynamo_operator.runtime.client.writer import Writer
from dynamo_operator.runtime.client.writes import WriteObserver
from informers.clock import Clock, Random, SystemClock
from informers.list_watch import ListWatch

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient


class Client(Writer):
    """Reads and writes objects of one cluster; also a `Reader`, whose reads are live.

    A kind is a model class or a ResourceType. Objects without a namespace go to, and are looked
    for in, `default_namespace`.

    Example:
        >>> async def scale(client: Client, key: ObjectKey) -> None:
        ...     await client.patch(Deployment, key, {"spec": {"replicas": 2}})
    """

    @classmethod
    def connect(
        cls,
        config: ClientConfig,
        *,
        field_manager: str = DEFAULT_FIELD_MANAGER,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> Client:
        """Make a client of the cluster that a configuration names; connects at the first call."""
        # Imported here: a client on another transport needs no HTTP library.
        from dynamo_operator.runtime.client.transport import HttpTransport

        clock = clock or SystemClock()
        rate, burst = config.requests_per_second, config.burst
        rest = RestClient(
            HttpTransport(config),
            credentials=config.credentials,
            host=config.host,
            clock=clock,
            random=random,
            throttle=Throttle(clock, per_second=rate, burst=burst) if rate else None,
        )
        return cls(rest, ClientOptions(field_manager, config.namespace))

    @classmethod
    def over(
        cls,
        transport: Transport,
        *,
        field_manager: str = DEFAULT_FIELD_MANAGER,
        default_namespace: str = "default",
        host: str = "",
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> Client:
        """Make a client on a transport that needs no credentials."""
        rest = RestClient(transport, host=host, clock=clock, random=random)
        return cls(rest, ClientOptions(field_manager, default_namespace))

    def with_field_manager(self, name: str) -> Client:
        """Return a client on the same transport that writes under another name."""
        return self._variant(field_manager=name)

    def with_field_validation(self, validation: FieldValidation) -> Client:
        """Return a client whose writes have the server `Warn` of unknown fields, or `Ignore` them.

        Otherwise it refuses them (`Strict`). What is applied is checked strictly always.
        """
        return self._variant(field_validation=validation)

    def with_dry_run(self) -> Client:
        """Return a client whose writes are checked and answered, and never stored."""
        return self._variant(dry_run=True)

    def in_namespace(self, namespace: str) -> Client:
        """Return a client for one namespace: objects and lists without one are in it.

        Naming another raises ValueError; kinds that are in no namespace are as they were.
        """
        return self._variant(namespace=namespace, confined=True)

    def with_write_observer(self, observer: WriteObserver) -> Client:
        """Return a client on the same transport whose writes `observer` is told of, too."""
        observers = (*self._options.write_observers, observer)
        return self._variant(write_observers=observers)

    def with_request_observer(self, observer: RequestObserver) -> Client:
        """Return a client on the same transport whose requests `observer` is told of, too."""
        return self._variant(rest=self._rest.with_observer(observer))

    def with_warning_observer(self, observer: WarningObserver) -> Client:
        """Return a client on the same transport; `observer` is told of the server's warnings."""
        return self._variant(rest=self._rest.with_warning_observer(observer))

    def with_fence(self, fence: WriteFence) -> Client:
        """Return a client on the same transport whose writes the fence may refuse.

        They fail with NotLeadingError, unsent, once the fence has no seconds left; reads go on.
        """
        return self._variant(rest=self._rest.with_fence(fence))

    def with_transport(self, around: Callable[[Transport], Transport]) -> Client:
        """Return a client whose requests go through what `around` makes of the transport.

        It is for whoever wants to see, delay or refuse requests as they go to the wire, each
        repetition on its own. Closing either client closes both.
        """
        return self._variant(rest=self._rest.with_transport(around))

    def with_own_connections(self, user_agent_suffix: str) -> Client:
        """Return a client of the same server whose requests wait for no others.

        Args:
            user_agent_suffix: by which the server can tell its requests apart.
        """
        return self._variant(rest=self._rest.with_own_connections(user_agent_suffix))

    def _variant(self, *, rest: RestClient | None = None, **changes: Any) -> Client:
        return Client(rest or self._rest, replace(self._options, **changes))

    def api_client(self) -> AbstractAsyncContextManager[ApiClient]:
        """Return a context that yields an ApiClient of kubernetes_asyncio for its API classes.

        Its requests go the way of this client's: connections, credentials, repetitions, deadlines
        and the fence are shared. A refusal raises kubernetes_asyncio's ApiException, any other
        fault an error of ours. What its watches and logs opened is closed with the context.

        Example:
            >>> async def names(client: Client) -> list[str]:
            ...     async with client.api_client() as api:
            ...         nodes = await CoreV1Api(api).list_node()
            ...     return [node.metadata.name for node in nodes.items]
        """
        from dynamo_operator.runtime.client.kubernetes_asyncio_bridge import api_client

        return api_client(self._rest)

    async def close(self) -> None:
        """Close the transport, for all clients that share it."""
        await self._rest.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def list_watch(
        self,
        kind: Kind[M],
        *,
        namespace: str = "",
        labels: Labels = None,
        fields: Fields = None,
        metadata_only: bool = False,
    ) -> ListWatch:
        """Return the informers' port to the objects of one type that match.

        Args:
            kind: the type.
            namespace: only there; empty for all.
            labels: a label selector.
            fields: a field selector; `=` and `!=` only, on fields that the server selects by.
            metadata_only: fetch and keep metadata only.
        """
        resource_type = codec.resource_type_of(kind)
        return ClientListWatch(
            self._rest,
            resource_type,
            resource_path(resource_type, self._scope(kind, namespace)),
            selector_query(labels, fields),
            metadata_only=metadata_only,
        )
