"""lightkube: models, every patch, server-side apply, selectors, watches, custom and status."""

import os

from lightkube import ApiError, Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.batch_v1 import JobSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import ConfigMap, Secret
from lightkube.types import CascadeType, PatchType

NAMESPACE = os.environ["NAMESPACE"]


def objects(client):
    made = client.create(
        ConfigMap(metadata=ObjectMeta(name="l", labels={"t": "1"}), data={"a": "1"})
    )
    print("created", made.metadata.name, made.data)
    made = client.patch(ConfigMap, "l", {"data": {"b": "2"}})
    made = client.patch(ConfigMap, "l", {"data": {"a": None}}, patch_type=PatchType.MERGE)
    operations = [{"op": "add", "path": "/data/c", "value": "3"}]
    made = client.patch(ConfigMap, "l", operations, patch_type=PatchType.JSON)
    print("patched", sorted(made.data.items()))
    made.data = {"d": "4"}
    print("replaced", client.replace(made).data)
    print("selected", [o.metadata.name for o in client.list(ConfigMap, labels={"t": ["1", "2"]})])
    print(
        "fields", [o.metadata.name for o in client.list(ConfigMap, fields={"metadata.name": "l"})]
    )
    print("pages", len(list(client.list(ConfigMap, chunk_size=1))))


def apply(client):
    wanted = Secret(metadata=ObjectMeta(name="s"), stringData={"a": "1"})
    client.apply(wanted, field_manager="one")
    try:
        wanted.stringData = {"a": "2"}
        client.apply(wanted, field_manager="two")
    except ApiError as error:
        print("conflict", error.status.code, error.status.reason)
    forced = client.apply(wanted, field_manager="two", force=True)
    print("applied", forced.data, [m.manager for m in forced.metadata.managedFields])


def watching(client):
    version = client.get(ConfigMap, "l").metadata.resourceVersion
    client.patch(ConfigMap, "l", {"data": {"e": "5"}})
    client.delete(ConfigMap, "l")
    for kind, one in client.watch(ConfigMap, resource_version=version):
        print("event", kind, one.metadata.name)
        if kind == "DELETED":
            break


def custom(client):
    Toy = create_namespaced_resource("clients.example.com", "v1", "Toy", "toys")
    client.create(Toy({"metadata": {"name": "yoyo"}, "spec": {"size": 7}}))
    status = client.patch(Toy.Status, "yoyo", {"status": {"size": 7}}, patch_type=PatchType.MERGE)
    print("status", status.status["size"])
    crd = client.get(CustomResourceDefinition, "toys.clients.example.com")
    print("crd", crd.spec.names.kind, [c.type for c in crd.status.conditions])
    client.wait(
        CustomResourceDefinition, "toys.clients.example.com", for_conditions=["Established"]
    )
    client.delete(Toy, "yoyo")


def jobs(client):
    template = PodTemplateSpec(
        spec=PodSpec(
            containers=[Container(name="main", image="busybox")],
            restartPolicy="Never",
            nodeSelector={"none": "such"},
        )
    )
    job = client.create(
        Job(metadata=ObjectMeta(name="j"), spec=JobSpec(template=template, suspend=True))
    )
    client.delete(Job, "j", cascade=CascadeType.FOREGROUND)
    version, finalizers = job.metadata.resourceVersion, set()
    for kind, one in client.watch(
        Job, fields={"metadata.name": "j"}, resource_version=version, server_timeout=20
    ):
        if kind == "DELETED":
            break
        finalizers.update(one.metadata.finalizers or [])
    print("deleted behind", finalizers)
    try:
        client.get(Job, "j")
    except ApiError as error:
        print("gone", error.status.code)


if __name__ == "__main__":
    lightkube = Client(namespace=NAMESPACE, field_manager="lightkube")
    objects(lightkube)
    apply(lightkube)
    watching(lightkube)
    custom(lightkube)
    jobs(lightkube)
