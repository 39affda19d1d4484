"""kubernetes_asyncio: typed API, watch, dynamic client, and several requests at once."""

import asyncio
import os

from kubernetes_asyncio import client, config, dynamic, watch
from kubernetes_asyncio.client.exceptions import ApiException

NAMESPACE = os.environ["NAMESPACE"]


async def typed(api):
    core = client.CoreV1Api(api)
    made = await asyncio.gather(
        *(
            core.create_namespaced_config_map(
                NAMESPACE, {"metadata": {"generateName": "many-", "labels": {"of": "many"}}}
            )
            for _ in range(20)
        )
    )
    print("created", len({one.metadata.name for one in made}))
    found = await core.list_namespaced_config_map(NAMESPACE, label_selector="of=many")
    print("selected", len(found.items))
    patched = await core.patch_namespaced_config_map(
        made[0].metadata.name,
        NAMESPACE,
        {"data": {"a": "1"}},
        _content_type="application/merge-patch+json",
    )
    print("patched", patched.data)
    await core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="of=many")
    found = await core.list_namespaced_config_map(NAMESPACE, label_selector="of=many")
    print("left", len(found.items))
    try:
        await core.read_namespaced_secret("none", NAMESPACE)
    except ApiException as error:
        print("refused", error.status, error.reason)


async def watching(api):
    core = client.CoreV1Api(api)
    seen = []

    async def follow():
        async with watch.Watch().stream(
            core.list_namespaced_secret, NAMESPACE, label_selector="of=watch", timeout_seconds=20
        ) as events:
            async for event in events:
                seen.append(f"{event['type']} {event['object'].metadata.name}")
                if event["type"] == "DELETED":
                    return

    await core.create_namespaced_secret(
        NAMESPACE, {"metadata": {"name": "s", "labels": {"of": "watch"}}}
    )
    following = asyncio.create_task(follow())
    while not seen:
        await asyncio.sleep(0.01)
    # Leaving the selection looks like a deletion.
    await core.patch_namespaced_secret(
        "s",
        NAMESPACE,
        {"metadata": {"labels": None}},
        _content_type="application/merge-patch+json",
    )
    await following
    print(seen)


async def by_dynamic(api):
    resources = await dynamic.DynamicClient(api)
    toys = await resources.resources.get(api_version="clients.example.com/v1", kind="Toy")
    body = {
        "apiVersion": "clients.example.com/v1",
        "kind": "Toy",
        "metadata": {"name": "drum"},
        "spec": {"size": 4},
    }
    made = await toys.create(body=body, namespace=NAMESPACE)
    print("made", made.spec.size, made.metadata.generation)
    try:
        await toys.create(body=body, namespace=NAMESPACE)
    except ApiException as error:
        print("refused", error.status)
    await toys.delete(name="drum", namespace=NAMESPACE)


async def main():
    await config.load_kube_config()
    async with client.ApiClient() as api:
        await typed(api)
        await watching(api)
        await by_dynamic(api)


if __name__ == "__main__":
    asyncio.run(main())
