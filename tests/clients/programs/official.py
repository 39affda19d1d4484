"""The official client: typed and dynamic API, every patch, watches, YAML, leader election."""

import os
import sys
import tempfile
import threading
from pathlib import Path

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

NAMESPACE = os.environ["NAMESPACE"]
APPLY = "application/apply-patch+yaml"


def typed():
    core = client.CoreV1Api()
    made = core.create_namespaced_config_map(
        NAMESPACE,
        client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"), data={"k": "1"}),
        field_manager="official",
    )
    print("created", made.metadata.name, made.data)
    for content, body in (
        ("application/merge-patch+json", {"data": {"k": "2"}}),
        ("application/strategic-merge-patch+json", {"data": {"l": "3"}}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/m", "value": "4"}]),
    ):
        made = core.patch_namespaced_config_map("a", NAMESPACE, body, _content_type=content)
        print("patched", sorted(made.data.items()))
    made.data = {"k": "5"}
    made = core.replace_namespaced_config_map("a", NAMESPACE, made)
    print("replaced", made.data)
    made.metadata.resource_version = "1"
    refused(lambda: core.replace_namespaced_config_map("a", NAMESPACE, made))
    refused(lambda: core.read_namespaced_config_map("none", NAMESPACE))
    refused(lambda: core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "A_"}}))
    page = core.list_namespaced_config_map(NAMESPACE, limit=1)
    rest = core.list_namespaced_config_map(NAMESPACE, limit=5, _continue=page.metadata._continue)
    print("pages", len(page.items), len(rest.items))
    print("may", may(client.AuthorizationV1Api()))
    print("version", client.VersionApi().get_code().major)


def may(api):
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(verb="create", resource="pods")
        )
    )
    return api.create_self_subject_access_review(review).status.allowed


def refused(call):
    try:
        call()
    except ApiException as error:
        print("refused", error.status, error.reason)


def watching():
    core = client.CoreV1Api()
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "w"}})
    core.delete_namespaced_config_map("w", NAMESPACE)
    stream = watch.Watch()
    events = stream.stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=version, timeout_seconds=20
    )
    for event in events:
        print("event", event["type"], event["object"].metadata.name)
        if event["type"] == "DELETED":
            stream.stop()


def by_dynamic():
    api = dynamic.DynamicClient(client.ApiClient())
    toys = api.resources.get(api_version="clients.example.com/v1", kind="Toy")
    toy = {
        "apiVersion": "clients.example.com/v1",
        "kind": "Toy",
        "metadata": {"name": "kite"},
        "spec": {"size": 2},
    }
    applied = toys.server_side_apply(toy, namespace=NAMESPACE, field_manager="official")
    print("applied", applied.kind, applied.spec.size, applied.metadata.generation)
    try:
        toy["spec"]["size"] = 3
        toys.server_side_apply(toy, namespace=NAMESPACE, field_manager="other")
    except dynamic.exceptions.ConflictError as error:
        print("conflict", error.status)
    toys.status.patch(
        name="kite",
        namespace=NAMESPACE,
        body={"status": {"size": 2}},
        content_type="application/merge-patch+json",
    )
    print("status", toys.get(name="kite", namespace=NAMESPACE).status.size)
    print("listed", [item.metadata.name for item in toys.get(namespace=NAMESPACE).items])
    toys.delete(name="kite", namespace=NAMESPACE)


def from_yaml():
    text = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: job}\nspec:\n  suspend: true\n"
    text += "  template:\n    spec:\n      restartPolicy: Never\n"
    text += "      containers: [{name: main, image: busybox}]\n"
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "job.yaml")
        path.write_text(text)
        utils.create_from_yaml(client.ApiClient(), str(path), namespace=NAMESPACE)
    batch = client.BatchV1Api()
    job = batch.read_namespaced_job("job", NAMESPACE)
    print("job", job.spec.suspend, job.spec.backoff_limit)
    batch.delete_namespaced_job("job", NAMESPACE, propagation_policy="Background")


def electing():
    leading = threading.Event()

    def lead():
        print("leads")
        leading.set()

    settings = electionconfig.Config(
        LeaseLock("official", NAMESPACE, "one"),
        lease_duration=5,
        renew_deadline=3,
        retry_period=1,
        onstarted_leading=lead,
        onstopped_leading=None,
    )
    threading.Thread(target=leaderelection.LeaderElection(settings).run, daemon=True).start()
    print("elected", leading.wait(20))
    lease = client.CoordinationV1Api().read_namespaced_lease("official", NAMESPACE)
    print("holder", lease.spec.holder_identity)


if __name__ == "__main__":
    config.load_kube_config()
    typed()
    watching()
    by_dynamic()
    from_yaml()
    electing()
    # The election has no end of its own and prints as it goes on: an interpreter that shuts
    # down beside it may abort.
    sys.stdout.flush()
    os._exit(0)
