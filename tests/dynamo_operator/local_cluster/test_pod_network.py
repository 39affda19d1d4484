import errno
import ipaddress
import socket

import pytest

from dynamo_operator.local_cluster import pod_network as module
from dynamo_operator.local_cluster.pod_network import (
    NoPodNetworkError,
    PodAddresses,
    pod_network,
)
from dynamo_operator.runtime.builtin_kinds import Pod

NETWORK = ipaddress.IPv4Network("198.18.200.0/24")


def pod(uid, **status):
    made = Pod.new(uid, namespace="default", status=status)
    made.metadata.uid = uid
    return made


def test_every_pod_has_an_address_of_its_own_until_none_is_left():
    addresses = PodAddresses(NETWORK)

    given = [addresses.assign(pod(f"p{number}")) for number in range(253)]

    assert len(set(given)) == 253
    assert "198.18.200.1" not in given  # the node's
    with pytest.raises(NoPodNetworkError, match=r"198\.18\.200\.0/24: no address is free"):
        addresses.assign(pod("one more"))
    addresses.release("p7")
    assert addresses.assign(pod("again")) == given[7]


def test_an_address_is_not_given_again_at_once():
    addresses = PodAddresses(NETWORK)

    first = addresses.assign(pod("a"))
    addresses.release("a")

    assert addresses.assign(pod("b")) != first


def test_a_pod_keeps_the_address_that_it_had_unless_another_has_it():
    addresses = PodAddresses(NETWORK)

    assert addresses.assign(pod("a", podIP="198.18.200.9")) == "198.18.200.9"
    assert addresses.assign(pod("b", podIP="198.18.200.9")) != "198.18.200.9"
    assert addresses.assign(pod("c", podIP="10.1.1.1")).startswith("198.18.200.")


def test_a_pod_of_the_host_network_has_the_nodes_address():
    shared = pod("a")
    shared.spec = {"hostNetwork": True}

    assert PodAddresses(NETWORK).assign(shared) == "127.0.0.1"


def listens(address):
    with socket.socket() as server:
        server.bind((str(address), 0))
        server.listen()
        with socket.create_connection(server.getsockname(), timeout=5):
            return True


@pytest.mark.node
def test_two_nodes_have_networks_of_their_own_and_leave_nothing():
    with pod_network() as first:
        with pod_network() as second:
            assert not first.overlaps(second)
            assert listens(first[7])
            assert listens(second[200])
        assert listens(first[8])
    if not first.is_loopback:
        with pytest.raises(OSError, match="Cannot assign requested address"):
            listens(first[7])


def test_without_the_right_to_configure_interfaces_pods_have_loopback_addresses(monkeypatch):
    def refuse(number, network):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(module, "_add", refuse)
    with pod_network() as network:
        assert network.is_loopback
        assert listens(network[2])
