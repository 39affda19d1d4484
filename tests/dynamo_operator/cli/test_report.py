"""`report`: one page that needs nothing else, whatever names and values say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dynamo_operator.generate.crds import custom_resource_definitions
from dynamo_operator.testing.cluster import Cluster
from tests.dynamo_operator.cli.calls import call_to
from tests.dynamo_operator.cli.planted import (
    end_run,
    plant_candidate,
    plant_candidates,
    plant_search,
    set_run,
)

HOSTILE = "</pre></style><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m&amp;"


class Page(HTMLParser):
    """What a browser makes of a page: its elements, and the text in each kind of them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "wbr"):
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster.start(mode="http", crds=custom_resource_definitions()) as started:
        yield started


async def page_of(cluster: Cluster, name: str = "llama") -> Page:
    answer = await call_to(cluster, "report", name, "--file", "-")
    assert answer.code == 0, answer
    return Page(answer.output)


async def test_a_search_becomes_a_page_with_all_that_it_found(cluster: Cluster):
    run = await plant_search(cluster.client)
    await plant_candidates(
        cluster.client, run, (3497.8, 8, 43.7), (2100.0, 4, 30.0), (1900.0, 4, 50.0)
    )
    await end_run(cluster.client, run)

    page = await page_of(cluster)

    assert page.texts["h1"] == [f"Search {run.key.name}"]
    assert page.texts["h2"] == ["Candidates", "Effective input", "Best deployment"]
    assert "Succeeded (Succeeded: because of Succeeded)" in page.texts["dd"]
    charts = [text for text in page.texts["text"] if text.startswith("Score against")]
    assert charts == [
        "Score against GPUs",
        "Score against mean time to first token",
        "Score against mean time between tokens",
    ]
    on_frontier = [cell for cell in page.texts["td"] if cell in ("GPUs, TTFT, ITL", "GPUs, TTFT")]
    assert on_frontier == ["GPUs, TTFT, ITL", "GPUs, TTFT"]
    assert "typed, spec.model.name" in page.texts["td"]
    manifest = YAML(typ="safe", pure=True).load(page.texts["pre"][0])
    assert manifest["kind"] == "DynamoGraphDeployment"
    assert "parameters" not in manifest["spec"]


async def test_the_page_loads_nothing_and_runs_nothing(cluster: Cluster):
    run = await plant_search(cluster.client)
    await plant_candidates(cluster.client, run, (3497.8, 8, 43.7))

    page = await page_of(cluster, run.key.name)

    policy = {attrs["http-equiv"]: attrs for _, attrs in page.elements if "http-equiv" in attrs}
    assert policy["Content-Security-Policy"]["content"] == (
        "default-src 'none'; style-src 'unsafe-inline'"
    )
    assert page.tags().isdisjoint({"script", "link", "img", "iframe", "object", "a", "base"})
    references = {"src", "href", "srcset", "data", "xlink:href"}
    assert not [attrs for _, attrs in page.elements if references & attrs.keys()]


async def test_hostile_names_and_values_are_shown_as_text(cluster: Cluster):
    overrides = {"router": {HOSTILE: HOSTILE}}
    run = await plant_search(
        cluster.client, model={"name": HOSTILE}, aisimulate={"inputOverrides": overrides}
    )
    made = await plant_candidate(
        cluster.client, run, 1, 5.0, 2, 10.0, backend=HOSTILE, deployment_mode=HOSTILE, tp=HOSTILE
    )
    await set_run(cluster.client, run, candidateRefs=[{"name": made.key.name}])

    page = await page_of(cluster)

    shown = HOSTILE.replace("\x1b", "\\x1b")
    assert page.tags().isdisjoint({"script", "img"})
    assert shown in page.texts["dd"]
    assert shown in page.texts["td"]
    assert not any("\x1b" in text for texts in page.texts.values() for text in texts)


async def test_a_search_without_candidates_says_so(cluster: Cluster):
    run = await plant_search(cluster.client)
    await end_run(cluster.client, run, "NoFeasibleCandidate")

    page = await page_of(cluster)

    assert "The search has kept none." in page.texts["p"]
    assert "svg" not in page.tags()
    assert "pre" not in page.tags()


async def test_the_page_is_written_where_it_is_asked_for(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = await plant_search(cluster.client)
    monkeypatch.chdir(tmp_path)

    unnamed = await call_to(cluster, "report", "llama")
    named = await call_to(cluster, "report", "llama", "--file", "here.html")
    nowhere = await call_to(cluster, "report", "llama", "--file", "none/here.html")

    assert unnamed.output == f"{run.key.name}.html\n"
    assert (tmp_path / unnamed.output.strip()).read_text().startswith("<!doctype html>")
    assert named.output == "here.html\n"
    assert nowhere.code == 1
    assert nowhere.errors == "dynamo-operator: none/here.html: No such file or directory\n"
