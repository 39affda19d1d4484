"""hack/image: what it builds, and that its checks notice what does not hold."""

from __future__ import annotations

import json
import tarfile

import pytest

from hack.clusters import image_checks, operator_image
from hack.clusters.buildah import Buildah
from hack.clusters.errors import ClusterError
from hack.clusters.images import make_image
from hack.go_programs import cache_directory

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def operator():
    try:
        return make_image("operator")
    except ClusterError as error:
        if "needs Linux and root" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="module")
def buildah(operator):
    return Buildah(cache_directory("images") / "store")


def test_the_operator_image_holds_everything_that_is_checked(operator):
    assert operator.note.startswith(f"{operator.reference}: ")
    assert " MB beyond its base, on " in operator.note


def test_its_archive_has_the_image_by_its_name(operator):
    with tarfile.open(operator.archive) as archive:
        file = archive.extractfile("index.json")
        assert file is not None
        index = json.load(file)

    (manifest,) = index["manifests"]
    names = manifest["annotations"]["org.opencontainers.image.ref.name"]
    assert names == operator.reference


def test_it_says_what_it_is(operator, buildah):
    configuration = buildah.inspect(operator.reference)["config"]

    labels = configuration["Labels"]
    assert labels["org.opencontainers.image.title"] == "dynamo-operator"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert len(labels["org.opencontainers.image.revision"]) == 40
    assert configuration["Entrypoint"] == ["/manager"]


def test_it_lists_its_packages_and_the_systems(operator, buildah):
    with buildah.mounted(operator.reference) as root:
        listed = json.loads((root / "opt/dynamo-operator/sbom.cdx.json").read_text())
        installed = {
            path.name.split("-")[0].lower().replace("_", "-")
            for path in root.glob("opt/dynamo-operator/lib/*/site-packages/*.dist-info")
        }

    packages = {each["purl"].partition("@")[0] for each in listed["components"]}
    assert {f"pkg:pypi/{name}" for name in installed} <= packages
    assert "pkg:deb/debian/libc6" in packages
    assert "pkg:pypi/pip" not in packages


def test_a_program_that_writes_to_its_root_is_noticed(operator, buildah):
    write = ["/opt/dynamo-operator/bin/python3", "-c", "open('/tmp/a', 'w')"]

    with pytest.raises(ClusterError, match="Read-only file system: '/tmp/a'"):
        image_checks.check_command(buildah, operator.reference, write)


def test_its_programs_are_of_the_user_that_it_names(operator, buildah):
    who = "import os; print(os.getuid(), os.getgid(), os.getgroups())"
    command = ["/opt/dynamo-operator/bin/python3", "-c", who]

    assert image_checks.check_command(buildah, operator.reference, command) == "65532 65532 []\n"


def test_another_user_and_a_large_image_are_noticed(operator, buildah):
    base = operator.note.rpartition(", on ")[2]

    with pytest.raises(ClusterError, match=f"its user is {operator_image.USER}, not 0:0"):
        image_checks.check_user(buildah, operator.reference, "0:0")
    with pytest.raises(ClusterError, match=r"bytes; 20 MB are allowed"):
        image_checks.check_size(buildah, operator.reference, base, 20)
