"""kr8s: objects, patches, labels, scaling, waiting, watching, other kinds, and its discovery."""

import asyncio
import os

import kr8s
from kr8s.asyncio.objects import ConfigMap, Deployment, new_class

NAMESPACE = os.environ["NAMESPACE"]


async def objects(api):
    made = await ConfigMap(
        {"metadata": {"name": "k", "namespace": NAMESPACE}, "data": {"a": "1"}}, api=api
    )
    await made.create()
    print("exists", await made.exists())
    await made.patch({"data": {"a": "2"}})
    await made.label(tier="back")
    await made.annotate({"note": "x"})
    await made.refresh()
    print(made.raw["data"].to_dict(), made.labels.to_dict(), made.annotations.to_dict())
    found = [
        one.name
        async for one in api.get("configmaps", namespace=NAMESPACE, label_selector="tier=back")
    ]
    print("selected", found)
    await made.delete()
    await made.wait("delete", timeout=20)
    print("exists", await made.exists())


async def scaling(api):
    template = {
        "metadata": {"labels": {"app": "kr8s"}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}], "nodeSelector": {"no": "ne"}},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "kr8s"}}, "template": template}
    made = await Deployment(
        {"metadata": {"name": "kr8s", "namespace": NAMESPACE}, "spec": spec}, api=api
    )
    await made.create()
    await made.patch({"spec": {"paused": True}})
    print("replicas", made.replicas, "paused", made.spec.paused)
    await made.delete()


async def custom(api):
    Toy = new_class("Toy", "clients.example.com/v1", namespaced=True, plural="toys")
    toy = await Toy(
        {"metadata": {"name": "top", "namespace": NAMESPACE}, "spec": {"size": 1}}, api=api
    )
    await toy.create()
    seen = []

    async def follow():
        async for kind, one in api.watch("toys.clients.example.com", namespace=NAMESPACE):
            seen.append(f"{kind} {one.name}")
            if kind == "DELETED":
                return

    following = asyncio.create_task(follow())
    while not seen:
        await asyncio.sleep(0.01)
    await toy.patch({"status": {"size": 1}}, subresource="status")
    print("status", toy.status.size)
    await toy.delete()
    await following
    print(seen)


async def errors(api):
    try:
        await ConfigMap.get("none", namespace=NAMESPACE, api=api)
    except kr8s.NotFoundError:
        print("not found")
    try:
        await (
            await ConfigMap({"metadata": {"name": "N_", "namespace": NAMESPACE}}, api=api)
        ).create()
    except kr8s.ServerError as error:
        print("refused", error.response.status_code)


async def main():
    api = await kr8s.asyncio.api(kubeconfig=os.environ["KUBECONFIG"])
    print("version", (await api.version())["major"])
    kinds = {resource["kind"] for resource in await api.api_resources()}
    print("kinds", {"Pod", "Deployment", "Toy", "Job", "Lease"} <= kinds)
    print("user", await api.whoami())
    await objects(api)
    await scaling(api)
    await custom(api)
    await errors(api)


if __name__ == "__main__":
    asyncio.run(main())
