import re

import pytest

from dynamo_operator.api.names import (
    candidate_name,
    graph_name,
    input_config_map_name,
    job_name,
    publisher_name,
    run_name,
)

UID = "8f2a0ab8-1111-4222-8333-123456789abc"
OTHER = "8f2a0ab8-1111-4222-8333-123456789abd"
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def test_a_run_is_named_after_request_generation_and_uid():
    assert run_name("llama", UID, 12) == "llama-g12-8f2a0a"


@pytest.mark.parametrize("name", ["a" * 253, "a." * 126 + "a", "a-" * 126 + "a"])
def test_long_names_are_cut_to_valid_ones(name):
    run = run_name(name, UID, 3)

    assert len(run) <= 253
    assert SUBDOMAIN.fullmatch(run)
    for child in (job_name(run, UID), input_config_map_name(run, UID)):
        assert len(child) <= 63
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", child)


def test_children_of_two_incarnations_have_different_names():
    names = {job_name("run", UID), job_name("run", OTHER), input_config_map_name("run", UID)}

    assert len(names) == 3


def test_the_publishers_name_holds_the_whole_uid_and_the_graphs_is_short():
    assert publisher_name(UID) == f"dgdr-publisher-{UID}"
    assert graph_name(UID) == "r8f2a0a"


def test_a_candidate_is_named_after_run_and_id():
    assert candidate_name("llama-g1-8f2a0a", "evaluated-point-0123456789ab") == (
        "llama-g1-8f2a0a-evaluated-point-0123456789ab"
    )


def test_a_candidate_of_a_long_run_name_keeps_its_id_and_stays_apart():
    id_ = "evaluated-point-0123456789ab"
    names = {candidate_name("a" * 250 + tail, id_) for tail in ("x", "y", "z")}

    assert len(names) == 3
    assert all(len(name) <= 253 and name.endswith(id_) for name in names)
