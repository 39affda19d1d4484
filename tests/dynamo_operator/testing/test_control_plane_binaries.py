import re
from pathlib import Path

import pytest

from dynamo_operator.testing import control_plane_binaries
from dynamo_operator.testing.control_plane_binaries import (
    KUBERNETES_VERSION,
    ControlPlaneBinaries,
    ControlPlaneMissingError,
    uses_existing_cluster,
)

MODULE = Path(__file__).parents[3] / "hack" / "control_plane" / "go.mod"


def put(directory, *names):
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch()
    return directory


@pytest.fixture(autouse=True)
def no_system_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(control_plane_binaries, "SYSTEM_CACHE", tmp_path / "none")


def test_the_assets_directory_wins_over_what_was_built(tmp_path):
    assets = put(tmp_path / "assets", "etcd", "kube-apiserver")
    put(
        tmp_path / "cache/dynamo-operator/control-plane" / KUBERNETES_VERSION,
        "etcd",
        "kube-apiserver",
    )
    environ = {"KUBEBUILDER_ASSETS": str(assets), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    assert ControlPlaneBinaries.find(environ).etcd == assets / "etcd"


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_what_was_built_is_found_in_the_users_cache(tmp_path, variable):
    cache = tmp_path / (".cache" if variable == "HOME" else "")
    built = put(
        cache / "dynamo-operator/control-plane" / KUBERNETES_VERSION, "etcd", "kube-apiserver"
    )

    found = ControlPlaneBinaries.find({variable: str(tmp_path)})

    assert found.kube_apiserver == built / "kube-apiserver"


def test_half_a_control_plane_is_none_and_the_error_says_how_to_get_it(tmp_path):
    assets = put(tmp_path / "assets", "etcd")

    with pytest.raises(ControlPlaneMissingError) as error:
        ControlPlaneBinaries.find({"KUBEBUILDER_ASSETS": str(assets)})

    assert str(assets) in str(error.value)
    assert "hack/control_plane/build" in str(error.value)
    assert "KUBEBUILDER_ASSETS" in str(error.value)


def test_a_missing_controller_manager_is_named(tmp_path):
    assets = put(tmp_path / "assets", "etcd", "kube-apiserver")
    binaries = ControlPlaneBinaries.find({"KUBEBUILDER_ASSETS": str(assets)})

    with pytest.raises(ControlPlaneMissingError, match="no kube-controller-manager in "):
        binaries.optional("kube-controller-manager")


@pytest.mark.parametrize(("value", "used"), [("true", True), ("True", True), ("", False)])
def test_an_existing_cluster_is_used_when_asked_for(value, used):
    assert uses_existing_cluster({"USE_EXISTING_CLUSTER": value}) is used


def test_the_version_looked_for_is_the_one_that_is_built():
    (built,) = re.findall(r"^(?:require |\t)k8s.io/kubernetes (\S+)", MODULE.read_text(), re.M)

    assert built == KUBERNETES_VERSION
