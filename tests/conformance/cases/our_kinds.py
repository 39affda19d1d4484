"""Our kinds: good and bad objects by every way of writing them, and what may not change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from dynamo_operator.api.v1beta2 import (
    DynamoGraphDeploymentCandidate,
    DynamoGraphDeploymentRequest,
    DynamoGraphDeploymentRun,
)
from informers.objects import ResourceType
from tests.builders import MODEL
from tests.conformance.requests import JSON_PATCH, Json
from tests.conformance.steps import About, Step, apply, cases, patch, post, put, renewed
from tests.dynamo_operator.generate.test_crds import (
    BAD,
    CANDIDATE_CHANGES,
    CANDIDATE_SPEC,
    GOOD,
    RUN_CHANGES,
    RUN_SPEC,
)

REQUESTS = DynamoGraphDeploymentRequest.resource_type
RUNS = DynamoGraphDeploymentRun.resource_type
CANDIDATES = DynamoGraphDeploymentCandidate.resource_type

PLAIN = {"spec": {"model": {"name": MODEL}}}


def specs() -> Iterator[tuple[str, About]]:
    """Every good and bad spec, by each way of writing it."""
    tables: dict[str, dict[str, Json]] = {"good": GOOD, "bad": {k: v for k, (v, _) in BAD.items()}}
    for verdict, table in tables.items():
        for name, spec in table.items():
            body: Json = {"spec": spec}
            ways: dict[str, list[Step]] = {
                "create": [post(body, fieldValidation="Strict")],
                "replace": [post(PLAIN), put(renewed(spec=spec))],
                "apply": [apply(body, "kubectl")],
                "merge patch": [post(PLAIN), patch(body)],
                "JSON patch": [
                    post(PLAIN),
                    patch([{"op": "replace", "path": "/spec", "value": spec}], JSON_PATCH),
                ],
            }
            for way, steps in ways.items():
                yield f"{verdict}: {name}, by {way}", About(REQUESTS, steps)


def immutability() -> Iterator[tuple[str, About]]:
    """Every change of what may not change, and one that may."""
    tables: list[tuple[Any, Json, dict[str, Json]]] = [
        (RUNS, RUN_SPEC, RUN_CHANGES),
        (CANDIDATES, CANDIDATE_SPEC, CANDIDATE_CHANGES),
    ]
    for resource_type, before, changes in tables:
        made = post({"spec": before})
        for name, after in changes.items():
            ways: dict[str, Step] = {
                "replace": put(renewed(spec=after)),
                "apply": apply({"spec": after}, "someone-else", force=True),
                "merge patch": patch({"spec": after}),
                "JSON patch": patch(
                    [{"op": "replace", "path": "/spec", "value": after}], JSON_PATCH
                ),
            }
            for way, step in ways.items():
                yield f"{resource_type.kind}: {name}, by {way}", About(resource_type, [made, step])
        labelled = patch({"metadata": {"labels": {"a": "b"}}})
        same = put(renewed(spec=before))
        yield f"{resource_type.kind}: the same again", About(resource_type, [made, labelled, same])


def free_form() -> Iterator[tuple[str, About]]:
    """Nulls and numbers where the schema does not say what there may be."""
    overrides = {"a": None, "b": {"c": None, "d": [1, None, {"e": None}]}, "n": 10.0, "big": 2**53}
    spec = {**PLAIN["spec"], "aisimulate": {"inputOverrides": overrides}}
    body: Json = {"spec": spec}
    yield "nulls by create", About(REQUESTS, [post(body)])
    yield "nulls by replace", About(REQUESTS, [post(PLAIN), put(renewed(spec=spec))])
    yield "nulls by apply", About(REQUESTS, [apply(body, "kubectl"), apply(body, "kubectl")])
    yield "nulls by merge patch", About(REQUESTS, [post(body), patch(body)])
    yield (
        "a null takes away by merge patch",
        About(REQUESTS, [post(body), patch({"spec": {"aisimulate": None}})]),
    )
    yield (
        "an override taken back by apply",
        About(
            REQUESTS,
            [
                apply(body, "kubectl"),
                apply({"spec": {**spec, "aisimulate": {"inputOverrides": {"b": {}}}}}, "kubectl"),
            ],
        ),
    )
    yield (
        "an explicit null in a typed field",
        About(REQUESTS, [post({"spec": {**PLAIN["spec"], "rerun": None, "backends": None}})]),
    )
    parameters = {"parameters": {"unset": None, "deep": {"unset": None, "list": [None]}}}
    yield (
        "a Candidate's nulls",
        About(CANDIDATES, [post({"spec": {**CANDIDATE_SPEC, **parameters}})]),
    )


def integral_floats() -> Iterator[tuple[str, About]]:
    """8.0 where an integer belongs, which YAML does not tell from 8."""
    gpus: Json = {"gpu": {"budget": 8.0, "sku": "h200_sxm"}}
    load: Json = {"static": {"load": {"concurrency": 8.0}}}
    specs_of: dict[str, tuple[ResourceType, Json]] = {
        "an integer": (REQUESTS, {**PLAIN["spec"], "hardware": gpus}),
        "an integer below a rule": (REQUESTS, {**PLAIN["spec"], "workload": load}),
        "a Run's integer": (RUNS, {**RUN_SPEC, "hardware": gpus}),
        "a Run's override": (RUNS, {**RUN_SPEC, "aisimulate": {"inputOverrides": {"n": 1.0}}}),
    }
    for name, (resource_type, spec) in specs_of.items():
        applied = apply({"spec": spec}, "kubectl")
        yield f"{name} by apply", About(resource_type, [applied, applied])
        whole = json.loads(json.dumps(spec).replace(".0", ""))
        made = post({"spec": whole})
        yield f"{name} becomes a float by apply", About(resource_type, [made, applied])
    yield (
        "an integer by create",
        About(REQUESTS, [post({"spec": {**PLAIN["spec"], "hardware": gpus}})]),
    )


def fields_unknown() -> Iterator[tuple[str, About]]:
    """Misspelt fields, by each level of validation."""
    spec = {"model": {"name": "m", "nmae": 1}, "backend": "vllm", "sla": {"ttft": 200}}
    for level in ("Strict", "Warn", "Ignore"):
        made = post({"spec": spec, "extra": 1}, fieldValidation=level)
        yield f"unknown fields, {level}", About(REQUESTS, [made])
        patched = patch({"spec": spec}, fieldValidation=level)
        yield f"unknown fields by merge patch, {level}", About(REQUESTS, [post(PLAIN), patched])


CASES = cases(specs(), immutability(), free_form(), integral_floats(), fields_unknown())
