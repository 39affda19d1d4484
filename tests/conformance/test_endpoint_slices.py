"""EndpointSlices of Services, on every control plane; Pods' statuses are the test's words."""

from uuid import uuid4

import pytest
import pytest_asyncio

from dynamo_operator.runtime.builtin_kinds import EndpointSlice, Namespace, Node, Pod, Service
from dynamo_operator.runtime.client.errors import InvalidError
from informers.objects import ObjectKey
from tests.conformance.own_clusters import OWN_MODES, own_cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")

NODE = "endpoint-node"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=OWN_MODES)
async def cluster(request):
    async with own_cluster(request.param, "endpoint_slices", "gc") as cluster:
        labels = {"topology.kubernetes.io/zone": "z1"}
        await cluster.client.create(Node.new(NODE, labels=labels))
        yield cluster


@pytest_asyncio.fixture(loop_scope="module")
async def namespace(cluster):
    name = f"slices-{uuid4().hex[:8]}"
    await cluster.client.create(Namespace.new(name))
    return name


async def service(cluster, namespace, *, labels=None, **spec):
    ports = [{"name": "grpc", "port": 5561, "targetPort": "grpc"}]
    spec = {"selector": {"app": "web"}, "ports": ports, **spec}
    made = Service.new("web", namespace=namespace, labels=labels, spec=spec)
    return await cluster.client.create(made)


async def pod(cluster, namespace, name, address, *, port=5561, ready=True, **spec):
    ports = [{"name": "grpc", "containerPort": port}]
    containers = [{"name": "main", "image": "lab:1", "ports": ports}]
    spec = {"containers": containers, "nodeName": NODE, **spec}
    made = Pod.new(name, namespace=namespace, labels={"app": "web"}, spec=spec)
    made = await cluster.client.create(made)
    await set_status(cluster, made, address, ready=ready)
    return made


async def set_status(cluster, pod, address, *, ready=True, phase="Running"):
    status = {
        "phase": phase,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    await cluster.client.patch(Pod, pod.key, {"status": status}, subresource="status")


async def slices(cluster, namespace):
    labels = {"kubernetes.io/service-name": "web"}
    return await cluster.client.list(EndpointSlice, namespace=namespace, labels=labels)


async def conditions(cluster, namespace):
    """Ready, serving and terminating of every endpoint, by address."""
    found = {}
    for each in await slices(cluster, namespace):
        for endpoint in each.endpoints:
            says = endpoint["conditions"]
            (address,) = endpoint["addresses"]
            found[address] = (says["ready"], says["serving"], says["terminating"])
    return found


async def until(cluster, namespace, wanted):
    await cluster.eventually(lambda: conditions(cluster, namespace), lambda found: found == wanted)


async def test_a_slice_lists_the_pods_of_its_service(cluster, namespace):
    made = await service(cluster, namespace, labels={"team": "a"})
    first = await pod(cluster, namespace, "a", "10.1.0.1")
    await pod(cluster, namespace, "b", "10.1.0.2", ready=False)
    await until(
        cluster, namespace, {"10.1.0.1": (True, True, False), "10.1.0.2": (False, False, False)}
    )

    (found,) = await slices(cluster, namespace)

    assert found.key.name.startswith("web-")
    assert found.address_type == "IPv4"
    assert found.labels == {
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": "web",
        "team": "a",
    }
    owner = found.owner_references[0]
    assert (owner.kind, owner.uid, owner.controller, owner.block_owner_deletion) == (
        "Service",
        made.uid,
        True,
        True,
    )
    assert found.ports == [{"name": "grpc", "port": 5561, "protocol": "TCP"}]
    (endpoint,) = [e for e in found.endpoints if e["addresses"] == ["10.1.0.1"]]
    assert endpoint == {
        "addresses": ["10.1.0.1"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": NODE,
        "targetRef": {"kind": "Pod", "name": "a", "namespace": namespace, "uid": first.uid},
        "zone": "z1",
    }


async def test_readiness_and_the_end_of_pods_are_followed(cluster, namespace):
    await service(cluster, namespace)
    first = await pod(cluster, namespace, "a", "10.1.0.1")
    held = {"metadata": {"finalizers": ["lab.test/hold"]}}
    await cluster.client.patch(Pod, first.key, held)
    await until(cluster, namespace, {"10.1.0.1": (True, True, False)})

    await set_status(cluster, first, "10.1.0.1", ready=False)
    await until(cluster, namespace, {"10.1.0.1": (False, False, False)})
    await set_status(cluster, first, "10.1.0.1")
    await until(cluster, namespace, {"10.1.0.1": (True, True, False)})
    await cluster.client.delete(Pod, first.key)
    await until(cluster, namespace, {"10.1.0.1": (False, True, True)})
    await set_status(cluster, first, "10.1.0.1", phase="Failed", ready=False)
    await until(cluster, namespace, {})

    (left,) = await slices(cluster, namespace)
    assert left.endpoints == []
    await cluster.client.patch(Pod, first.key, {"metadata": {"finalizers": None}})


async def test_addresses_may_be_published_before_they_are_ready(cluster, namespace):
    await service(cluster, namespace, publishNotReadyAddresses=True)

    await pod(cluster, namespace, "a", "10.1.0.1", ready=False)

    await until(cluster, namespace, {"10.1.0.1": (True, False, False)})


async def test_pods_that_name_another_port_have_a_slice_of_their_own(cluster, namespace):
    await service(cluster, namespace)
    await pod(cluster, namespace, "a", "10.1.0.1")
    await pod(cluster, namespace, "b", "10.1.0.2", port=6000)

    found = await cluster.eventually(
        lambda: slices(cluster, namespace), lambda each: len(each) == 2
    )

    assert {(s.endpoints[0]["addresses"][0], s.ports[0]["port"]) for s in found if s.endpoints} == {
        ("10.1.0.1", 5561),
        ("10.1.0.2", 6000),
    }


async def test_a_service_without_pods_has_one_empty_slice(cluster, namespace):
    await service(cluster, namespace, clusterIP="None")

    (found,) = await cluster.eventually(lambda: slices(cluster, namespace))

    assert (found.endpoints, found.ports) == ([], [])
    assert found.labels["service.kubernetes.io/headless"] == ""


async def test_slices_go_with_their_service_and_come_again_when_deleted(cluster, namespace):
    made = await service(cluster, namespace)
    await pod(cluster, namespace, "a", "10.1.0.1")
    await until(cluster, namespace, {"10.1.0.1": (True, True, False)})
    (first,) = await slices(cluster, namespace)

    await cluster.client.delete(EndpointSlice, first.key)
    await cluster.eventually(
        lambda: slices(cluster, namespace), lambda found: found and found[0].uid != first.uid
    )
    await cluster.client.delete(Service, made.key)

    await cluster.eventually(lambda: slices(cluster, namespace), lambda found: found == [])


@pytest.mark.parametrize(
    ("family", "address", "problem"),
    [
        ("IPv4", "127.0.0.5", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("IPv4", "0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("IPv4", "169.254.1.1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("IPv4", "somewhere", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ("IPv4", "2001:db8::1", "must be an IPv4 address"),
        ("IPv6", "10.1.1.1", "must be an IPv6 address"),
        ("IPv6", "::1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
    ],
)
async def test_addresses_that_no_endpoint_can_have_are_refused(
    cluster, namespace, family, address, problem
):
    made = EndpointSlice.new(
        "s", namespace=namespace, addressType=family, endpoints=[{"addresses": [address]}]
    )

    with pytest.raises(InvalidError) as refused:
        await cluster.client.create(made)

    (cause,) = refused.value.details["causes"]
    assert problem in cause["message"]
    assert cause["field"].startswith("endpoints[0].addresses")


async def test_a_changed_service_changes_its_slices(cluster, namespace):
    await service(cluster, namespace)
    await pod(cluster, namespace, "a", "10.1.0.1")
    await until(cluster, namespace, {"10.1.0.1": (True, True, False)})
    key = ObjectKey(namespace, "web")
    ports = [{"name": "http", "port": 80, "targetPort": 8080, "appProtocol": "http"}]

    changed = {"metadata": {"labels": {"team": "b"}}, "spec": {"ports": ports}}
    await cluster.client.patch(Service, key, changed)
    (found,) = await cluster.eventually(
        lambda: slices(cluster, namespace),
        lambda found: len(found) == 1 and found[0].labels.get("team") == "b",
    )

    assert found.ports == [{"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "http"}]
    await cluster.client.patch(Service, key, {"spec": {"selector": {"app": "other"}}})
    await until(cluster, namespace, {})
