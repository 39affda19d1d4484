from dynamo_operator.local_cluster.endpoint_slice_plan import (
    MANAGED_BY,
    MANAGER,
    SERVICE_NAME,
    plan_slices,
)
from dynamo_operator.runtime.builtin_kinds import EndpointSlice, Node, Pod, Service

NODES = {"n": Node.new("n")}


def service(uid="s", **spec):
    spec = {"clusterIP": "10.96.0.9", "selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
    made = Service.new("web", namespace="default", spec=spec)
    made.metadata.uid = uid
    return made


def pods(*numbers, node="n"):
    made = []
    for number in numbers:
        status = {"phase": "Running", "podIPs": [{"ip": f"10.1.{number // 250}.{number % 250}"}]}
        pod = Pod.new(f"p{number}", namespace="default", spec={"nodeName": node}, status=status)
        pod.metadata.uid = f"uid-{number}"
        made.append(pod)
    return made


def stored(bodies):
    found = []
    for number, body in enumerate(bodies):
        body["metadata"] |= {"name": f"web-{number}", "uid": f"slice-{number}"}
        found.append(EndpointSlice.model_validate(body))
    return found


def uids(each):
    endpoints = each["endpoints"] if isinstance(each, dict) else each.endpoints
    return [endpoint["targetRef"]["uid"] for endpoint in endpoints]


def test_more_than_a_hundred_endpoints_need_several_slices():
    plan = plan_slices(service(), pods(*range(250)), [], NODES)

    assert sorted(len(each["endpoints"]) for each in plan.create) == [50, 100, 100]
    assert len({uid for each in plan.create for uid in uids(each)}) == 250


def test_what_is_right_is_left_alone():
    present = stored(plan_slices(service(), pods(1, 2), [], NODES).create)

    plan = plan_slices(service(), pods(1, 2), present, NODES)

    assert (plan.create, plan.replace, plan.delete) == ([], [], [])


def test_a_change_touches_only_the_slice_that_it_concerns():
    present = stored(plan_slices(service(), pods(*range(200)), [], NODES).create)
    gone = uids(present[0])[0]
    left = [pod for pod in pods(*range(201)) if pod.uid != gone]

    plan = plan_slices(service(), left, present, NODES)

    (changed,) = plan.replace
    assert changed.uid == present[0].uid
    assert uids(changed) == [*uids(present[0])[1:], "uid-200"]
    assert (plan.create, plan.delete) == ([], [])


def test_a_slice_without_endpoints_goes_unless_it_is_the_last():
    present = stored(plan_slices(service(), pods(*range(101)), [], NODES).create)
    small = min(present, key=lambda each: len(each.endpoints))
    left = [pod for pod in pods(*range(101)) if pod.uid not in uids(small)]

    fewer = plan_slices(service(), left, present, NODES)
    none = plan_slices(service(), [], present, NODES)

    assert fewer.delete == [small]
    assert [each.endpoints for each in none.replace] == [[]]
    assert len(none.delete) == 1
    assert none.create == []


def test_slices_of_an_earlier_service_of_that_name_are_not_taken_over():
    present = stored(plan_slices(service(uid="old"), pods(1), [], NODES).create)

    plan = plan_slices(service(uid="new"), pods(1), present, NODES)

    assert plan.delete == present
    assert plan.create[0]["metadata"]["ownerReferences"][0]["uid"] == "new"


def test_a_pod_on_an_unknown_node_waits_for_it():
    plan = plan_slices(service(), pods(1, node="new"), [], NODES)
    published = plan_slices(service(publishNotReadyAddresses=True), pods(1, node="new"), [], NODES)

    assert [pod.uid for pod in plan.unplaced] == ["uid-1"]
    assert plan.create[0]["endpoints"] == []
    assert uids(published.create[0]) == ["uid-1"]


def test_the_labels_that_slices_are_found_by_cannot_be_given_by_a_service():
    named = service()
    named.metadata.labels = {"team": "a", SERVICE_NAME: "other", MANAGED_BY: "me"}

    (made,) = plan_slices(named, [], [], NODES).create

    assert made["metadata"]["labels"] == {
        "team": "a",
        SERVICE_NAME: "web",
        MANAGED_BY: MANAGER,
    }
