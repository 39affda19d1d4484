"""What the pages of docs/ show works as it is shown."""

import argparse
import asyncio
import os
import re
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest
from ruamel.yaml import YAML

from dynamo_operator import simulation
from dynamo_operator.api.v1beta2.request import DynamoGraphDeploymentRequest
from dynamo_operator.api.v1beta2.run import DynamoGraphDeploymentRun
from dynamo_operator.cli.settings import add_settings_flags, load_settings
from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.runtime import (
    Controller,
    Manager,
    Result,
    is_controlled_by,
    object_reconciler,
)
from dynamo_operator.runtime.builtin_kinds import ConfigMap, Namespace, Secret
from dynamo_operator.runtime.client.errors import NotFoundError
from dynamo_operator.testing import cluster_fixture
from informers.objects import ObjectKey
from tests.docs.pages import BLOCK, DOCS, commands_of, definition, files_of, module_of

KEY = ObjectKey("default", "a")
PAGES = {
    "concepts",
    "configuration",
    "embedding",
    "migrating_from_go",
    "migrating_from_kopf",
    "production_checklist",
    "quick_start",
    "simulation",
    "testing",
}

cluster = cluster_fixture(crds=lambda: [definition()], controllers=["gc"])
over_https = cluster_fixture(modes=["http", "real"])


@pytest.fixture(autouse=True)
def widgets(monkeypatch):
    return module_of("quick_start", monkeypatch, "widgets.py")


def config_map(cluster, key=KEY):
    return lambda: cluster.client.get(ConfigMap, key)


def test_every_page_with_code_has_its_test():
    with_code = {path.stem for path in DOCS.glob("*.md") if files_of(path.stem)}

    assert with_code - {"design"} == PAGES


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.stem)
def test_every_link_of_a_page_leads_somewhere(path):
    prose = re.sub(r"`[^`]*`", "", BLOCK.sub("", path.read_text()))
    targets = re.findall(r"\]\(([^)#:]+)\)", prose)

    assert [target for target in targets if not (path.parent / target).exists()] == []


def environment(tmp_path, **more):
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return {"PATH": path, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", **more}


def write_files(directory, page):
    for name, text in files_of(page).items():
        (directory / name).write_text(text)


async def test_the_quick_start_works_as_written(over_https, tmp_path):
    """From the kind on: installing, and starting a cluster, are the fixture's here."""
    write_files(tmp_path, "quick_start")
    install, start, *steps = commands_of("quick_start")
    assert "pip install" in install
    assert start == "dynamo-operator cluster --no-crds\n"
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "admin.kubeconfig").write_bytes(over_https.kubeconfig().read_bytes())

    shell = await asyncio.create_subprocess_exec(
        *("bash", "-euc", "".join(steps)),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    async with asyncio.timeout(60):
        output, _ = await shell.communicate()

    assert shell.returncode == 0, output.decode()
    assert b"\n3\n" in output
    assert b"1 passed" in output


@pytest.mark.virtual_time
async def test_the_controller_of_the_concepts_waits_writes_and_cleans_up(cluster, monkeypatch):
    page = module_of("concepts", monkeypatch)
    async with cluster.manager(page.controller()) as manager:
        await cluster.client.create(page.Widget.new("a", namespace="default", spec={"size": 2}))
        await cluster.client.create(page.Widget.new("b", namespace="default", spec={"size": 0}))
        await cluster.eventually(
            lambda: manager.metrics.render().decode(),
            lambda text: 'terminal_reconcile_errors_total{controller="widget"} 1.0' in text,
        )
        await cluster.client.create(Secret.new("s", namespace="default", labels={"widget": "a"}))
        made = await cluster.eventually(config_map(cluster))
        await cluster.client.delete(page.Widget, KEY)
        await cluster.eventually(lambda: page.released)

    assert made.data == {"size": "2", "secret": "s"}
    assert page.released == ["a"]


@pytest.mark.virtual_time
async def test_a_lifespan_runs_a_manager_while_the_application_runs(cluster, monkeypatch):
    page = module_of("embedding", monkeypatch)

    @asynccontextmanager
    async def connect():
        yield cluster.client

    await cluster.client.create(page.Widget.new("a", namespace="default", spec={"size": 7}))
    async with page.lifespan_of(connect)(None) as state:
        assert await page.size_of(state["manager"], "a") == 7
        await cluster.eventually(config_map(cluster))
        await page.with_another_controller(state["manager"], another(page))
    with pytest.raises(RuntimeError, match="stop"):
        state["manager"].add(page.controller())


def another(page):
    async def nothing(widget, reader, client):
        return Result.done()

    return Controller(
        page.Widget, name="another", reconciler=object_reconciler(page.Widget, nothing)
    )


@pytest.mark.virtual_time
async def test_managers_side_by_side_serve_each_its_namespace(cluster, monkeypatch):
    page = module_of("embedding", monkeypatch)
    for namespace in ("one", "two", "three"):
        await cluster.client.create(Namespace.new(namespace))
        await cluster.client.create(page.Widget.new("a", namespace=namespace))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(page.run_for({"one": cluster.client, "two": cluster.client}))
        for namespace in ("one", "two"):
            await cluster.eventually(config_map(cluster, ObjectKey(namespace, "a")))
        running.cancel()

    with pytest.raises(NotFoundError):
        await cluster.client.get(ConfigMap, ObjectKey("three", "a"))


@pytest.mark.virtual_time
async def test_our_reconcilers_run_in_another_manager(cluster, monkeypatch):
    page = module_of("embedding", monkeypatch)
    for crd in custom_resource_definitions():
        await cluster.install(crd)
    manager = Manager(cluster.client, clock=cluster.clock, random=cluster.random)
    page.add_deployment_search(manager, "operator:1")
    sample = YAML(typ="safe").load(DOCS.parent / "manifests" / "samples" / "explicit_hardware.yaml")
    request = DynamoGraphDeploymentRequest.model_validate(sample)
    async with manager.running():
        key = (await cluster.client.create(request)).key
        runs = await cluster.eventually(
            lambda: cluster.client.list(DynamoGraphDeploymentRun, namespace=key.namespace)
        )

    owner = await cluster.client.get(DynamoGraphDeploymentRequest, key)
    assert [is_controlled_by(run, owner) for run in runs] == [True]


async def test_the_production_program_works_and_ends_on_sigterm(over_https, widgets, tmp_path):
    write_files(tmp_path, "quick_start")
    write_files(tmp_path, "production_checklist")
    await over_https.install(definition())
    program = (tmp_path / "production_checklist.py").read_text()
    # The ports of the page may be taken where tests run.
    (tmp_path / "production_checklist.py").write_text(
        program.replace('":8081"', '"127.0.0.1:0"').replace('":8080"', '"127.0.0.1:0"')
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "production_checklist.py"),
        cwd=tmp_path,
        env=environment(tmp_path, KUBECONFIG=str(over_https.kubeconfig())),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    await over_https.client.create(widgets.Widget.new("a", namespace="default"))
    await over_https.eventually(config_map(over_https), timeout=30)
    process.terminate()
    async with asyncio.timeout(30):
        output, _ = await process.communicate()

    assert process.returncode == 0, output.decode()
    assert all(line.startswith("{") for line in output.decode().splitlines())


@pytest.mark.virtual_time
async def test_the_metrics_of_the_checklist_exist(cluster, widgets):
    async with cluster.manager(widgets.controller()) as manager:
        served = manager.metrics.render().decode()
    page = (DOCS / "production_checklist.md").read_text()
    named = re.findall(r"`((?:controller_runtime|workqueue)_\w+)`", page)

    assert len(named) == 4
    assert [name for name in named if f"# TYPE {name.removesuffix('_total')}" not in served] == []


@pytest.mark.virtual_time
async def test_what_was_kopfs_works_and_is_rid_of_its_finalizer(cluster, monkeypatch):
    page = module_of("migrating_from_kopf", monkeypatch)
    held = page.Widget.new("a", namespace="default", spec={"size": 3})
    held.metadata.finalizers = [page.KOPF, "lab.test/other"]
    await cluster.client.create(held)
    await page.forget_kopf(cluster.client)
    async with cluster.manager(page.controller()):
        made = await cluster.eventually(config_map(cluster))

    assert made.data == {"size": "3"}
    widget = await cluster.client.get(page.Widget, KEY)
    assert widget.metadata.finalizers == ["lab.test/other"]


@pytest.mark.virtual_time
async def test_what_was_gos_works(cluster, monkeypatch):
    page = module_of("migrating_from_go", monkeypatch)
    async with cluster.manager(page.controller()):
        await cluster.client.create(page.Widget.new("a", namespace="default", spec={"size": 3}))
        made = await cluster.eventually(config_map(cluster))

    assert made.data == {"size": "3"}


def run_the_testing_page(tmp_path, *arguments, **environ):
    write_files(tmp_path, "quick_start")
    (tmp_path / "test_widgets.py").unlink()
    write_files(tmp_path, "testing")
    with (tmp_path / "widgets.py").open("a") as module:
        module.write(f"\nDEFINITION = {definition()!r}\n")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-rs", "-m", *arguments],
        cwd=tmp_path,
        env=environment(tmp_path, **environ),
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_the_suites_of_the_testing_page_pass(tmp_path):
    assert "8 passed, 2 deselected" in run_the_testing_page(tmp_path, "not real")


@pytest.mark.real
def test_the_suites_of_the_testing_page_pass_on_a_real_control_plane(tmp_path):
    known = {n: os.environ[n] for n in ("KUBEBUILDER_ASSETS", "XDG_CACHE_HOME") if n in os.environ}
    output = run_the_testing_page(tmp_path, "real", **known)

    if "no real control plane" in output:
        pytest.skip(output)
    assert "2 passed, 8 deselected" in output


def test_the_simulated_widgets_survive_what_the_page_does_to_them(widgets, monkeypatch):
    monkeypatch.setattr(widgets, "DEFINITION", definition(), raising=False)
    page = module_of("simulation", monkeypatch)
    blocks = BLOCK.findall((DOCS / "simulation.md").read_text())
    plan = next(text for language, _, text in blocks if language == "json")

    assert simulation.run(page.WIDGETS, plan=simulation.Plan.model_validate_json(plan)).passed
    crashes = simulation.enumerate_faults(page.WIDGETS, classes=["crash"], workers=1)
    assert crashes.crash_points >= 12
    assert crashes.failures == [], crashes.told()
    swarmed = simulation.swarm(page.WIDGETS, seeds=range(4), workers=1)
    assert swarmed.failures == [], swarmed.told()


def test_the_configuration_page_shows_a_file_that_is_one(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(files_of("configuration")["config.yaml"])
    parser = argparse.ArgumentParser()
    add_settings_flags(parser)

    found = load_settings(parser.parse_args([f"--config={file}"]), {})

    assert found.image_pull_secrets == ("registry-key",)
    assert found.server.health_probe.address == ":8081"
