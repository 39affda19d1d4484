import re
from typing import Any

import pytest

from dynamo_operator.admission.defaulting import complete
from dynamo_operator.admission.validation import EffectiveInputPolicy, validate
from dynamo_operator.api.v1beta2 import SearchSpec
from tests.dynamo_operator.aisimulate.lowering_cases import CASES

PREFIX = "spec.aisimulate.inputOverrides"
HINT = (
    "plain kubectl apply drops nulls: use kubectl apply --server-side, create or replace, "
    "or dynamo-operator request submit"
)


def spec(**sections):
    return complete(SearchSpec.model_validate({**CASES["model-only"], **sections}))


def overridden(patch, **sections):
    return spec(aisimulate={"inputOverrides": patch}, **sections)


def denials(patch, **sections):
    return validate(overridden(patch, **sections)).denials


@pytest.mark.parametrize("name", CASES.keys() - {"override-mode-keeps-callers-workers"})
def test_a_spec_that_can_be_searched_is_not_denied(name):
    findings = validate(complete(SearchSpec.model_validate(CASES[name])))

    assert (findings.denials, findings.warnings) == ([], [])


def test_what_cannot_be_lowered_is_denied_with_its_field():
    assert denials({"dgdr_run": {"name": "mine"}}) == [
        f"{PREFIX}.dgdr_run.name: is set by the operator: remove it"
    ]


def test_a_violation_names_path_origin_value_and_what_would_be_accepted():
    assert denials({"optimizer": {"max_trials": "many"}}) == [
        f"effective input optimizer.max_trials (override, {PREFIX}.optimizer.max_trials): "
        "must be an integer above 0, not 'many'"
    ]


def test_a_violation_of_a_typed_value_names_the_typed_field():
    (denial,) = denials({"optimization": {"constraints": {"min_candidate_gpus": 9}}})

    assert denial == (
        "effective input optimization.constraints.min_candidate_gpus "
        f"(override, {PREFIX}.optimization.constraints.min_candidate_gpus): "
        "must be at most max_candidate_gpus"
    )


def test_a_leftover_stop_names_the_key_to_null_and_how_to_keep_it():
    assert denials({"traffic": {"stop": {"requests_per_load_unit": 10}}}) == [
        "effective input traffic.stop: must have exactly one of requests and "
        f"requests_per_load_unit; set {PREFIX}.traffic.stop.requests to null ({HINT})"
    ]


def test_a_leftover_load_names_the_key_to_null_and_how_to_keep_it():
    assert denials({"traffic": {"load": {"type": "poisson", "requests_per_second": 3}}}) == [
        "effective input traffic.load.concurrency "
        "(typed, spec.workload.static.load.concurrency): does not go with load type poisson, "
        "which takes requests_per_second, seed, sessions_per_second; "
        f"set {PREFIX}.traffic.load.concurrency to null ({HINT})"
    ]


def test_a_worker_of_a_mode_not_chosen_is_to_be_removed_by_who_wrote_it():
    assert denials({"engine": {"mode": "aggregated", "workers": {"prefill": {}}}}) == [
        f"effective input engine.workers.prefill (override, {PREFIX}.engine.workers.prefill): "
        f"does not go with mode aggregated; remove {PREFIX}.engine.workers.prefill"
    ]


def test_two_stops_of_the_caller_are_the_callers_to_choose_from():
    stop = {"requests": 5, "requests_per_load_unit": 10}

    (denial,) = denials({"traffic": {"stop": stop}})

    assert denial.endswith(
        f"; remove {PREFIX}.traffic.stop.requests or {PREFIX}.traffic.stop.requests_per_load_unit"
    )


def test_the_documented_override_is_fine_and_without_its_null_it_is_not():
    with_null = {"traffic": {"stop": {"requests": None, "requests_per_load_unit": 10}}}
    as_kubectl_apply_sends_it = {"traffic": {"stop": {"requests_per_load_unit": 10}}}

    assert denials(with_null) == []
    assert len(denials(as_kubectl_apply_sends_it)) == 1


def test_several_faults_are_all_named():
    found = denials({"optimizer": {"max_trials": 0, "foo": 1}, "nonsense": {}})

    assert [line.split(" (")[0] for line in found] == [
        "effective input nonsense",
        "effective input optimizer.foo",
        "effective input optimizer.max_trials",
    ]


FAULT = {"optimizer": {"max_trials": 0}}


@pytest.mark.parametrize(
    ("policy", "denied", "warned"),
    [
        (EffectiveInputPolicy.DENY, 1, 0),
        (EffectiveInputPolicy.WARN, 0, 1),
        (EffectiveInputPolicy.OFF, 0, 0),
    ],
)
def test_the_policy_says_what_becomes_of_a_violation(policy, denied, warned):
    findings = validate(overridden(FAULT), policy=policy)

    assert (len(findings.denials), len(findings.warnings)) == (denied, warned)


def test_a_violation_that_was_there_before_only_warns_and_a_new_one_is_denied():
    before = overridden(FAULT)
    after = overridden({"optimizer": {"max_trials": 0, "parallelism": 0}})

    findings = validate(after, previous=before)

    assert [line.split(" (")[0] for line in findings.denials] == [
        "effective input optimizer.parallelism"
    ]
    assert [line.split(" (")[0] for line in findings.warnings] == [
        "effective input optimizer.max_trials"
    ]


def test_a_spec_whose_run_could_not_be_stored_is_denied_with_size_and_limit():
    model = "x" * 780_000

    (denial,) = denials({"engine": {"backend_version": model}})

    assert denial.startswith("spec: its Run would take 16")
    assert "more than the 1572864 that an object may have" in denial


def test_a_spec_whose_config_map_could_not_be_stored_is_denied_with_size_and_limit():
    deep: dict[str, Any] = {"leaf": [1] * 10_000}
    for _ in range(60):
        deep = {"k": deep}

    found = denials({"engine": {"estimator_config": deep}})

    assert any("more than the 1048576 that a ConfigMap may have" in line for line in found)


def test_a_large_spec_that_can_be_stored_is_not_denied():
    assert denials({"engine": {"backend_version": "x" * 500_000}}) == []


def test_the_denials_become_one_line():
    refusal = validate(overridden({"optimizer": {"max_trials": 0, "foo": 1}})).refusal

    assert re.search(r"optimizer\.foo.*; effective input optimizer\.max_trials", refusal)
    assert validate(spec()).refusal == ""


def test_of_many_denials_the_first_are_told_and_how_many_more_there_are():
    found = denials({"optimizer": {f"key-{number}": number for number in range(5000)}})

    assert len(found) == 21
    assert found[-1] == "effective input: 4980 more of this kind"


def test_what_was_never_completed_ratchets_all_the_same():
    before = SearchSpec.model_validate(
        {"model": {"name": "m"}, "aisimulate": {"inputOverrides": FAULT}}
    )

    findings = validate(overridden(FAULT), previous=before)

    assert (len(findings.denials), len(findings.warnings)) == (0, 1)


def test_overrides_of_a_hostile_depth_are_denied():
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]

    (denial,) = denials({"router": {"a": deep}})

    assert denial == f"{PREFIX}: is nested deeper than 64 levels"
