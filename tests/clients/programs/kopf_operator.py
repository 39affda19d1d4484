"""An operator on kopf: handlers, finalizer, timer, daemon, index, events; and who plays with it.

Toys get a ConfigMap as a child; the child carries an owner reference.
"""

import asyncio
import os
import threading

import kopf
from kubernetes_asyncio import client, config, dynamic

NAMESPACE = os.environ["NAMESPACE"]
GROUP = "clients.example.com"
lines = []
ticked = threading.Event()


@kopf.on.startup()
async def start(settings, **_):
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.posting.level = 20


@kopf.index("toys", labels={"app": "kopf"})
async def by_size(spec, name, **_):
    return {spec["size"]: name}


@kopf.on.create("toys", labels={"app": "kopf"})
async def created(body, name, spec, patch, **_):
    child = {"metadata": {"name": f"of-{name}"}, "data": {"size": str(spec["size"])}}
    kopf.adopt(child, owner=body)
    async with client.ApiClient() as api:
        await client.CoreV1Api(api).create_namespaced_config_map(NAMESPACE, child)
    patch.status["size"] = spec["size"]
    kopf.info(body, reason="Made", message="a child")
    lines.append(f"created {name}")


@kopf.on.update("toys", field="spec.size", labels={"app": "kopf"})
async def changed(name, old, new, patch, by_size, **_):
    patch.status["size"] = new
    lines.append(f"changed {name} {old} to {new}; indexed {[*by_size[new]]}")


@kopf.on.delete("toys", labels={"app": "kopf"})
async def deleted(name, **_):
    lines.append(f"deleted {name}")


@kopf.timer("toys", interval=0.2, labels={"app": "kopf"})
async def tick(**_):
    ticked.set()


async def play(stop):
    async with client.ApiClient() as api:
        resources = await dynamic.DynamicClient(api)
        toys = await resources.resources.get(api_version=f"{GROUP}/v1", kind="Toy")
        metadata = {"name": "bear", "labels": {"app": "kopf"}}
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": metadata}
        await toys.create(body={**body, "spec": {"size": 1}}, namespace=NAMESPACE)

        async def status(size):
            toy = await toys.get(name="bear", namespace=NAMESPACE)
            return (toy.status or {}).get("size") == size

        await until(lambda: status(1))
        toy = await toys.get(name="bear", namespace=NAMESPACE)
        print("finalizers", toy.metadata.finalizers)
        core = client.CoreV1Api(api)
        child = await core.read_namespaced_config_map("of-bear", NAMESPACE)
        print("owner", child.metadata.owner_references[0].kind)
        await toys.patch(
            name="bear",
            namespace=NAMESPACE,
            body={"spec": {"size": 2}},
            content_type="application/merge-patch+json",
        )
        await until(lambda: status(2))
        await until(lambda: asyncio.sleep(0, ticked.is_set()))

        async def posted():
            events = await core.list_namespaced_event(NAMESPACE)
            return any(event.reason == "Made" for event in events.items)

        await until(posted)
        await toys.delete(name="bear", namespace=NAMESPACE)

        async def gone():
            listed = await toys.get(namespace=NAMESPACE, label_selector="app=kopf")
            return not listed.items

        await until(gone)
    stop.set()


async def until(holds):
    async with asyncio.timeout(20):
        while not await holds():
            await asyncio.sleep(0.02)


async def main():
    await config.load_kube_config()
    stop, ready = asyncio.Event(), asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(namespaces=[NAMESPACE], standalone=True, stop_flag=stop, ready_flag=ready)
    )
    await ready.wait()
    await play(stop)
    await operator
    print("\n".join(lines))


if __name__ == "__main__":
    asyncio.run(main())
