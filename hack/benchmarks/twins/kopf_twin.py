"""The controller on kopf, which brings no client of its own: children are made with aiohttp."""

# ruff: noqa: E402 - what is imported while nothing is collected comes after that is said
import gc

gc.disable()  # as in the other twin in Python

import base64
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import uvloop
from ruamel.yaml import YAML

_NAMESPACE = os.environ["BENCH_NAMESPACE"]
_WANTED = int(os.environ.get("BENCH_WIDGETS", "0"))
_CONFIG_MAPS = f"/api/v1/namespaces/{_NAMESPACE}/configmaps"
_settled: set[str] = set()


@kopf.on.startup()
async def start(memo: kopf.Memo, settings: kopf.OperatorSettings, **_: Any) -> None:
    gc.freeze()
    gc.enable()
    settings.posting.enabled = False
    server, context = _connection()
    memo.session = aiohttp.ClientSession(server, connector=aiohttp.TCPConnector(ssl=context))


def _connection() -> tuple[str, ssl.SSLContext]:
    config = YAML(typ="safe").load(Path(os.environ["KUBECONFIG"]))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile() as file:
        for name in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[name]))
        file.flush()
        context.load_cert_chain(file.name)
    return cluster["server"], context


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    await memo.session.close()


@kopf.on.create("bench.test", "v1", "widgets")
@kopf.on.update("bench.test", "v1", "widgets", field="spec")
@kopf.on.resume("bench.test", "v1", "widgets")
async def reconcile(
    name: str, spec: Any, status: Any, patch: kopf.Patch, body: Any, memo: kopf.Memo, **_: Any
) -> None:
    data = {"size": str(spec["size"])}
    if status.get("size") != spec["size"]:
        made = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": _NAMESPACE},
            "data": data,
        }
        kopf.adopt(made, owner=body)
        async with memo.session.post(_CONFIG_MAPS, json=made) as answer:
            if answer.status == 409:
                async with memo.session.patch(
                    f"{_CONFIG_MAPS}/{name}",
                    json={"data": data},
                    headers={"Content-Type": "application/merge-patch+json"},
                ) as patched:
                    patched.raise_for_status()
            else:
                answer.raise_for_status()
        patch.status["size"] = spec["size"]
    if len(_settled) < _WANTED:
        _settled.add(name)
        if len(_settled) == _WANTED:
            print("settled", flush=True)


if __name__ == "__main__":
    uvloop.run(kopf.operator(namespaces=[_NAMESPACE], standalone=True))
