"""Addresses of this machine for the Pods of a node, one for each, so that each has all ports.

An address with a network mask on the loopback interface makes all of that network this machine's
own: every program here can listen on any of it and connect to it, and nothing of it is seen from
elsewhere. A node takes one network of 254 addresses out of 198.18.0.0/15 (RFC 2544, for tests of
network equipment: routed nowhere). Loopback addresses would need no privilege, but API servers
take none in an EndpointSlice; they are what a node falls back to that may not configure interfaces.

A network is taken by a lock that ends with its process. What a killed agent left of its network is
taken over by the next that has it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from dynamo_operator.local_cluster.pod_status import HOST_IP
from dynamo_operator.runtime.builtin_kinds import Pod

_NETWORKS: Final = ipaddress.IPv4Network("198.18.0.0/15")
_FALLBACK: Final = ipaddress.IPv4Network("127.64.0.0/15")
_PREFIX: Final = 24
_LOCK = "\0pod-network-of-a-node-agent-{}"  # in no file system: it cannot be left behind
_LABEL = "lo:pods-{}"
# linux/sockios.h and linux/if.h
_SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C

_log = structlog.get_logger(__name__)


class NoPodNetworkError(Exception):
    """Every network for Pods is taken by another node agent on this machine."""


class PodAddresses:
    """Gives addresses to the Pods of one node.

    Args:
        network: what they are taken from; its first address is the node's.
    """

    def __init__(self, network: ipaddress.IPv4Network) -> None:
        self._network = network
        self._by_uid: dict[str, str] = {}
        self._last = 1

    def assign(self, pod: Pod) -> str:
        """Return the Pod's address: the node's own for one in its network, else one for itself.

        A Pod keeps the address that its status says it had under an earlier agent, if it is free.

        Raises:
            NoPodNetworkError: there are more Pods than addresses.
        """
        if pod.spec.get("hostNetwork"):
            return HOST_IP
        taken = set(self._by_uid.values())
        known = str(pod.status.get("podIP", ""))
        if self._has(known) and known not in taken:
            self._by_uid[pod.uid] = known
            return known
        for _ in range(self._network.num_addresses - 3):
            # In turn, so that what still connects to a Pod that is gone finds no other.
            self._last = 2 if self._last >= self._network.num_addresses - 2 else self._last + 1
            address = str(self._network[self._last])
            if address not in taken:
                self._by_uid[pod.uid] = address
                return address
        raise NoPodNetworkError(f"pod network {self._network}: no address is free")

    def release(self, uid: str) -> None:
        """Take back the address of a Pod that is gone."""
        self._by_uid.pop(uid, None)

    def _has(self, text: str) -> bool:
        try:
            return ipaddress.ip_address(text) in self._network
        except ValueError:
            return False


@contextmanager
def pod_network() -> Iterator[ipaddress.IPv4Network]:
    """Have a network of this machine for the length of the block.

    Raises:
        NoPodNetworkError: none is left.
    """
    networks = _NETWORKS.subnets(new_prefix=_PREFIX)
    fallbacks = _FALLBACK.subnets(new_prefix=_PREFIX)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        for number, (network, fallback) in enumerate(zip(networks, fallbacks, strict=True)):
            if not _take(lock, number):
                continue
            try:
                _add(number, network)
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EACCES):
                    raise
                _log.warning(
                    "pods have loopback addresses: no right to configure interfaces; "
                    "no EndpointSlice can hold them",
                    network=str(fallback),
                )
                yield fallback
                return
            try:
                yield network
            finally:
                _remove(number)
            return
    raise NoPodNetworkError(f"pod network: all of {_NETWORKS} is taken by other node agents")


def _take(lock: socket.socket, number: int) -> bool:
    try:
        lock.bind(_LOCK.format(number))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def _add(number: int, network: ipaddress.IPv4Network) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for request, value in (
            (_SIOCSIFADDR, network[1]),
            (_SIOCSIFNETMASK, network.netmask),
        ):
            fields = (_LABEL.format(number).encode(), socket.AF_INET, value.packed)
            fcntl.ioctl(control, request, struct.pack("16sH2x4s16x", *fields))


def _remove(number: int) -> None:
    label = _LABEL.format(number).encode()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control,
        contextlib.suppress(OSError),  # somebody removed it already
    ):
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", label, 0))
