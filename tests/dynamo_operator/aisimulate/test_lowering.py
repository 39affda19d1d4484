import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.aisimulate.document import canonical, dump_document
from dynamo_operator.aisimulate.input import violations
from dynamo_operator.aisimulate.lowering import duration_seconds, lower
from dynamo_operator.aisimulate.overrides import PROTECTED_KEYS, LoweringError, OriginKind
from dynamo_operator.api.v1beta2 import SearchSpec
from tests.dynamo_operator.aisimulate.lowering_cases import CASES, EXECUTION, GOLDEN, lowered

MODEL_ONLY = CASES["model-only"]
PVC = {"claimName": "c", "path": "p"}
UPSIDE_DOWN = {"min": 2, "max": 1}


def completed(**sections):
    return complete(SearchSpec.model_validate({**MODEL_ONLY, **sections}))


def with_overrides(patch, **sections):
    return completed(aisimulate={"inputOverrides": patch}, **sections)


@pytest.mark.parametrize("name", CASES)
def test_a_spec_becomes_the_input_of_its_golden_file(name):
    assert dump_document(lowered(name).document) == (GOLDEN / f"{name}.yaml").read_text("utf-8")


def test_every_golden_file_belongs_to_a_case():
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == set(CASES)


@pytest.mark.parametrize("name", CASES.keys() - {"override-mode-keeps-callers-workers"})
def test_aisimulate_would_take_every_golden_input(name):
    assert [str(violation) for violation in violations(lowered(name).document)] == []


def test_the_traffic_of_the_model_only_form_is_the_documented_one():
    assert lower(completed()).document["traffic"] == {
        "source": {"type": "synthetic", "input_tokens": 1024, "output_tokens": 128},
        "load": {"type": "concurrency", "concurrency": 10},
        "stop": {"requests": 1000},
    }


def test_the_operators_values_come_last_and_are_left_out_without_a_run():
    without = lower(completed()).document
    section = lower(completed(), EXECUTION).document["dgdr_run"]

    assert without["dgdr_run"] == {"max_candidates": 5}
    assert section == {
        "name": "r8f2a0a",
        "namespace": "lab",
        "snapshot_dir": "/var/run/aisimulate/snapshot",
        "runtime_image": "registry.lab:5000/dynamo-planner:1.6.0",
        "runtime_version_override": "1.6.0",
        "num_gpus_per_node": 8,
        "max_candidates": 5,
        "derive_runtime_images": True,
    }


@pytest.mark.parametrize("value", ["x", 1, None, {}, []], ids=repr)
@pytest.mark.parametrize("key", PROTECTED_KEYS)
def test_what_the_operator_owns_cannot_be_overridden_not_even_by_null(key, value):
    with pytest.raises(LoweringError) as error:
        lower(with_overrides({"dgdr_run": {"snapshot_interval_seconds": 1, key: value}}), EXECUTION)

    assert error.value.path == f"spec.aisimulate.inputOverrides.dgdr_run.{key}"


@pytest.mark.parametrize("value", [None, "x", 1, True, []], ids=repr)
def test_the_operators_section_stays_an_object(value):
    with pytest.raises(LoweringError, match=r"inputOverrides\.dgdr_run: must be an object, not"):
        lower(with_overrides({"dgdr_run": value}))


@pytest.mark.parametrize(
    ("sections", "path"),
    [
        ({"hardware": {}}, "spec.hardware.gpu.sku"),
        ({"hardware": {"gpu": {"budget": 8}}}, "spec.hardware.gpu.sku"),
        ({"hardware": {"gpu": {"sku": "l4"}}}, "spec.hardware.gpu.budget"),
        ({"backends": []}, "spec.backends"),
        ({"backends": ["vllm", "onnx"]}, "spec.backends[1]"),
        ({"workload": {"static": {}, "trace": {"source": {"pvc": PVC}}}}, "spec.workload"),
        ({"workload": {"static": {"load": {}}}}, "spec.workload.static.load"),
        ({"workload": {"static": {"load": {"concurrency": 1, "requestsPerSecond": 1}}}},
         "spec.workload.static.load"),
        ({"workload": {"static": {"load": {"kvCapacityFraction": {}}}}},
         "spec.workload.static.load.kvCapacityFraction"),
        ({"workload": {"static": {"load": {"kvCapacityFraction": {"range": UPSIDE_DOWN}}}}},
         "spec.workload.static.load.kvCapacityFraction.range.max"),
        ({"workload": {"trace": {"source": {"pvc": {"claimName": "c", "path": "/etc/passwd"}}}}},
         "spec.workload.trace.source.pvc.path"),
        ({"workload": {"trace": {"source": {"pvc": {"claimName": "c", "path": "a/../b"}}}}},
         "spec.workload.trace.source.pvc.path"),
        ({"search": {"budget": {"maxEvaluationDuration": "soon"}}},
         "spec.search.budget.maxEvaluationDuration"),
        ({"objective": {"metric": "goodput"}}, "spec.objective.sla"),
        ({"aisimulate": {"inputOverrides": {"a": float("inf")}}}, "spec.aisimulate.inputOverrides"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_what_cannot_be_lowered_names_the_field(sections, path):
    with pytest.raises(LoweringError) as error:
        lower(completed(**sections))

    assert error.value.path == path
    assert str(error.value).startswith(f"{path}: ")


def test_a_spec_that_nobody_completed_names_what_is_missing():
    spec = SearchSpec.model_validate({**MODEL_ONLY, "backends": ["vllm"]})

    with pytest.raises(LoweringError, match=r"spec\.workload: is missing"):
        lower(spec)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25), ("1us", 1e-6), ("0.1h", 360)],
)
def test_a_duration_is_its_seconds(text, seconds):
    assert duration_seconds(text, "f") == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "s", "1 h", "-1s", "0s", "0.0h", "1d", "1h xs", "1h-", "9" * 400 + "h"]
)
def test_a_duration_that_is_none_says_what_one_looks_like(text):
    with pytest.raises(LoweringError, match=r"f: .*e\.g\. 90s or 10m"):
        duration_seconds(text, "f")


@pytest.mark.parametrize(
    ("path", "kind", "field"),
    [
        (("engine", "hardware"), OriginKind.TYPED, "spec.hardware.gpu.sku"),
        (("engine", "mode", "choices"), OriginKind.UNDERLAY, ""),
        (("traffic", "stop", "requests"), OriginKind.DERIVED, ""),
        (("optimization", "strict_sla"), OriginKind.DERIVED, ""),
        (("evaluation", "sla", "ttft_ms"), OriginKind.TYPED, "spec.objective.sla.ttftMs"),
        (
            ("optimizer", "max_trials"),
            OriginKind.OVERRIDE,
            "spec.aisimulate.inputOverrides.optimizer.max_trials",
        ),
        (("dgdr_run", "name"), OriginKind.OPERATOR, ""),
    ],
)
def test_every_value_remembers_where_it_comes_from(path, kind, field):
    spec = with_overrides({"optimizer": {"max_trials": 3}}, objective={"sla": {"ttftMs": 1}})

    origin = lower(spec, EXECUTION).origin_of(path)

    assert origin is not None
    assert (origin.kind, origin.field) == (kind, field)


KEYS = st.sampled_from(["engine", "traffic", "stop", "load", "mode", "requests", "optimizer", "x"])
PATCHES = st.dictionaries(
    KEYS,
    st.recursive(
        st.none() | st.integers() | st.booleans() | st.text(max_size=3) | st.lists(st.integers()),
        lambda inner: st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)
fast = settings(max_examples=50, deadline=None)


def merged(target, patch):
    """RFC 7386, written down once more."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


@fast
@given(PATCHES)
def test_an_override_is_a_merge_patch_over_everything_but_the_operators_values(patch):
    base = lower(completed()).document
    roles = base["engine"].pop("workers")

    document = lower(with_overrides(patch)).document

    expected = canonical(merged({**base, "engine": {**base["engine"], "workers": roles}}, patch))
    expected["dgdr_run"] = base["dgdr_run"]
    fixed = patch.get("engine") if isinstance(patch.get("engine"), dict) else {}
    if (fixed or {}).get("mode") is not None:
        document.get("engine", {}).pop("workers", None)
        expected.get("engine", {}).pop("workers", None)
    assert document == expected


@fast
@given(PATCHES)
def test_lowering_is_deterministic_and_leaves_its_argument_alone(patch):
    spec = with_overrides(patch)
    before = copy.deepcopy(spec.to_dict())

    first, second = lower(spec, EXECUTION), lower(spec, EXECUTION)

    assert dump_document(first.document) == dump_document(second.document)
    assert spec.to_dict() == before


@fast
@given(PATCHES)
def test_the_operators_values_survive_every_override(patch):
    section = lower(with_overrides(patch), EXECUTION).document["dgdr_run"]

    assert section == lower(completed(), EXECUTION).document["dgdr_run"]


def paths_in(document, prefix=()):
    for key, value in document.items():
        yield (*prefix, key)
        if isinstance(value, dict):
            yield from paths_in(value, (*prefix, key))


def nested(path, value):
    for key in reversed(path):
        value = {key: value}
    return value


def without(document, path):
    rest = copy.deepcopy(document)
    node = rest
    for key in path[:-1]:
        node = node[key]
    del node[path[-1]]
    return rest


TAKEN = lower(completed(), EXECUTION).document
DELETABLE = [p for p in paths_in(TAKEN) if p[0] != "dgdr_run" and p[:2] != ("engine", "workers")]


@pytest.mark.parametrize("path", DELETABLE, ids=".".join)
def test_a_null_deletes_and_leaves_the_rest_alone(path):
    patch = nested(path, None)

    assert lower(with_overrides(patch), EXECUTION).document == without(TAKEN, path)


def leaves_of(document):
    return [p for p in paths_in(document) if not isinstance(value_at(document, p), dict)]


def value_at(document, path):
    for key in path:
        document = document[key]
    return document


HOSTILE = st.sampled_from(
    [None, -1, 0, 1, 1.5, 1e308, 2**70, "", "nine", "\u2028", True, [], [1], {}, {"x": 1}]
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([p for p in DELETABLE if p in leaves_of(TAKEN)]), HOSTILE)
def test_what_overrides_make_of_an_input_is_accepted_or_refused_with_its_path(path, value):
    patch = nested(path, value)

    document = lower(with_overrides(patch), EXECUTION).document

    found = violations(document)
    assert all(violation.path and "\n" not in str(violation) for violation in found)
    if not found:
        assert document == canonical(merged(TAKEN, patch))


def test_the_callers_snapshot_interval_reaches_the_input():
    spec = with_overrides({"dgdr_run": {"snapshot_interval_seconds": 5}})

    assert lower(spec, EXECUTION).document["dgdr_run"]["snapshot_interval_seconds"] == 5
