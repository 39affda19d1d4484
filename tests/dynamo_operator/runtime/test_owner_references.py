from typing import Any

import pytest

from dynamo_operator.runtime.builtin_kinds import ClusterRole, ConfigMap, Job
from dynamo_operator.runtime.owner_references import (
    OwnershipError,
    add_controller_reference,
    is_controlled_by,
    is_owned_by,
    owner_reference,
)

OWNER = Job.model_validate({"metadata": {"name": "j", "namespace": "lab", "uid": "ju"}})
REFERENCE = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "j",
    "uid": "ju",
    "controller": True,
    "blockOwnerDeletion": True,
}


def owned(references, owner=OWNER, *, namespaced=True, namespace="lab"):
    body: dict[str, Any] = {"metadata": {"ownerReferences": references}}
    add_controller_reference(body, owner, namespaced=namespaced, namespace=namespace)
    return body["metadata"]["ownerReferences"]


def test_the_owner_becomes_the_controller_beside_other_owners():
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "cu"}

    assert owned([other]) == [other, REFERENCE]


def test_the_owners_own_older_reference_is_replaced():
    assert owned([{**REFERENCE, "controller": False}]) == [REFERENCE]
    assert owned(None) == [REFERENCE]


def test_a_second_controller_is_refused():
    with pytest.raises(OwnershipError, match="has a controller already: Job other"):
        owned([{**REFERENCE, "uid": "x", "name": "other"}])


def test_an_owner_of_another_namespace_is_refused():
    with pytest.raises(OwnershipError, match=r"lab/j cannot own an object in namespace 'b'"):
        owned([], namespace="b")


def test_a_namespaced_owner_of_a_cluster_scoped_object_is_refused():
    with pytest.raises(OwnershipError, match="cannot own a cluster-scoped object"):
        owned([], namespaced=False, namespace="")


def test_a_cluster_scoped_owner_may_own_anything():
    owner = ClusterRole.model_validate({"metadata": {"name": "r", "uid": "ru"}})

    assert owned([], owner)[0]["uid"] == "ru"


def test_an_owner_that_is_not_stored_is_refused():
    with pytest.raises(OwnershipError, match="has no UID"):
        owned([], Job.new("j", namespace="lab"))


def test_control_is_by_that_very_instance():
    child = ConfigMap.model_validate({"metadata": {"name": "c", "ownerReferences": [REFERENCE]}})
    namesake = Job.model_validate({"metadata": {"name": "j", "namespace": "lab", "uid": "new"}})

    assert is_controlled_by(child, OWNER)
    assert not is_controlled_by(child, namesake)
    assert not is_controlled_by(ConfigMap.new("c"), OWNER)


def test_one_owner_of_several_is_no_controller():
    config_map = ConfigMap.model_validate(
        {"metadata": {"name": "a", "namespace": "lab", "ownerReferences": [owner_reference(OWNER)]}}
    )
    successor = OWNER.model_copy(update={"metadata": OWNER.metadata.model_copy()})
    successor.metadata.uid = "another"

    assert "controller" not in owner_reference(OWNER)
    assert is_owned_by(config_map, OWNER)
    assert not is_controlled_by(config_map, OWNER)
    assert not is_owned_by(config_map, successor)
