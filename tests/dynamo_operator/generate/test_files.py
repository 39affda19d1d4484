from pathlib import Path

import pytest

from dynamo_operator.app import permissions
from dynamo_operator.generate.deployment import deployment, namespace
from dynamo_operator.generate.files import generated_files, stale_files, write_files
from dynamo_operator.generate.rbac import (
    gpu_discovery_role,
    leader_election_role,
    manager_role,
    role_rules,
)
from dynamo_operator.runtime.permissions import Permission

ROOT = Path(__file__).resolve().parents[3]


def granted(rules):
    return {
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_writing_makes_nothing_stale_and_the_second_time_writes_nothing(tmp_path):
    assert set(write_files(tmp_path)) == set(generated_files())

    assert stale_files(tmp_path) == []
    assert write_files(tmp_path) == []


def test_missing_changed_and_strange_files_are_named(tmp_path):
    write_files(tmp_path)
    (tmp_path / "docs/api.md").unlink()
    (tmp_path / "manifests/manager/deployment.yaml").write_text("kind: Pod\n")
    (tmp_path / "manifests/rbac/old_role.yaml").write_text("kind: Role\n")

    assert stale_files(tmp_path) == [
        "docs/api.md is missing",
        "manifests/manager/deployment.yaml differs from what the code says",
        "manifests/rbac/old_role.yaml is not generated: remove it",
    ]


def test_the_repository_holds_what_the_code_says():
    assert stale_files(ROOT) == []


def test_the_manager_role_grants_exactly_what_is_declared():
    declared = {
        (permission.group, resource, verb, tuple(sorted(permission.names)))
        for permission in permissions()
        for resource in permission.resources
        for verb in permission.verbs
    }

    assert granted(manager_role()["rules"]) == declared


def test_no_role_has_a_wildcard_or_a_verb_that_widens_itself():
    rules = [*manager_role()["rules"], *gpu_discovery_role()["rules"]]

    words = {part for rule in rules for key in rule.values() for part in key}
    assert not words & {"*", "escalate", "bind", "impersonate"}


def test_of_leases_the_operator_may_change_its_own_in_its_own_namespace_only():
    cluster_wide = [*manager_role()["rules"], *gpu_discovery_role()["rules"]]
    rules = leader_election_role()["rules"]
    named = [
        rule for rule in rules if rule["verbs"] != ["create"] and "leases" in rule["resources"]
    ]

    assert "leases" not in {name for rule in cluster_wide for name in rule["resources"]}
    assert leader_election_role()["metadata"]["namespace"] == namespace()["metadata"]["name"]
    assert [rule["resourceNames"] for rule in named] == [["dynamo-operator.nvidia.com"]]
    assert named[0]["verbs"] == ["get", "list", "watch", "update"]


def test_the_discovery_role_only_reads():
    verbs = {verb for rule in gpu_discovery_role()["rules"] for verb in rule["verbs"]}

    assert verbs <= {"get", "list", "watch"}


def test_rules_are_merged_without_granting_more():
    declared = [
        Permission("", ("pods",), ("list",)),
        Permission("", ("pods",), ("get",)),
        Permission("", ("configmaps",), ("get", "list")),
        Permission("", ("secrets",), ("get",), names=("b", "a")),
    ]

    assert role_rules(declared) == [
        {"apiGroups": [""], "resources": ["configmaps", "pods"], "verbs": ["get", "list"]},
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["a", "b"],
            "verbs": ["get"],
        },
    ]


def test_the_deployment_is_admitted_where_only_restricted_pods_are():
    pod = deployment()["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert namespace()["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(
    "line",
    [
        "| `spec.rerun.reason`* | string | "
        "Changing it makes a new Run of the same input. 1 to 256 characters. |",
        "- `spec`: spec is immutable",
    ],
)
def test_the_reference_says_types_bounds_and_rules(line):
    assert line in generated_files()["docs/api.md"].splitlines()


def test_the_reference_is_not_promised_defaults_by_the_schema():
    reference = generated_files()["docs/api.md"]

    assert "Defaults are filled in by the operator, not by the\nschema" in reference
    assert "but `{}` is left empty" in reference
