import os
from datetime import timedelta

import pytest

from dynamo_operator.local_cluster.volumes import (
    PodVolumes,
    Token,
    VolumeError,
    VolumeFile,
    VolumeSources,
    remove_tree,
    write_atomically,
)
from informers.clock import SystemClock


class MovableClock(SystemClock):
    def __init__(self):
        self.ahead = timedelta()

    def now(self):
        return super().now() + self.ahead


class Sources:
    """The cluster that volumes are filled from."""

    def __init__(self, tmp_path):
        self.data = {}
        self.tokens = 0
        self.clock = MovableClock()
        self.volumes = PodVolumes(
            tmp_path / "volumes",
            VolumeSources(
                self.read,
                self.request_token,
                {"cpu": "4"},
                {"lab/models": tmp_path / "models"},
            ),
            self.clock,
        )

    async def read(self, kind, name):
        return self.data.get((kind, name))

    async def request_token(self, audience, seconds):
        self.tokens += 1
        expires = self.clock.now() + timedelta(seconds=seconds)
        return Token(f"{audience or 'server'}-{self.tokens}", expires)


@pytest.fixture
def sources(tmp_path):
    made = Sources(tmp_path)
    yield made
    made.volumes.remove()


def pod(*volumes, **spec):
    metadata = {"name": "a", "namespace": "lab", "uid": "u", "labels": {"x": "1"}}
    return {"metadata": metadata, "spec": {"volumes": list(volumes), "containers": [], **spec}}


def contents(directory):
    return {
        path.name: path.read_text()
        for path in directory.iterdir()
        if not path.name.startswith("..")
    }


async def test_a_config_map_becomes_files_and_follows_its_changes(sources):
    sources.data["ConfigMap", "c"] = {"one": b"1", "two": b"2"}
    mounted = pod({"name": "v", "configMap": {"name": "c"}})
    await sources.volumes.set_up(mounted)
    directory = sources.volumes.path(mounted, "v")

    assert contents(directory) == {"one": "1", "two": "2"}

    sources.data["ConfigMap", "c"] = {"one": b"new", "three": b"3"}
    await sources.volumes.refresh(mounted)

    assert contents(directory) == {"one": "new", "three": "3"}


async def test_items_choose_paths_and_modes(sources):
    sources.data["Secret", "s"] = {"key": b"k", "rest": b"r"}
    items = [{"key": "key", "path": "tls/key.pem", "mode": 0o400}]
    mounted = pod({"name": "v", "secret": {"secretName": "s", "items": items}})

    await sources.volumes.set_up(mounted)

    file = sources.volumes.path(mounted, "v") / "tls" / "key.pem"
    assert file.read_text() == "k"
    assert file.stat().st_mode & 0o777 == 0o400


async def test_a_projected_volume_holds_token_ca_and_namespace(sources):
    sources.data["ConfigMap", "kube-root-ca.crt"] = {"ca.crt": b"PEM"}
    mounted = pod(
        {
            "name": "v",
            "projected": {
                "defaultMode": 0o440,
                "sources": [
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                    {
                        "configMap": {
                            "name": "kube-root-ca.crt",
                            "items": [{"key": "ca.crt", "path": "ca.crt"}],
                        }
                    },
                    {
                        "downwardAPI": {
                            "items": [
                                {
                                    "path": "namespace",
                                    "fieldRef": {"fieldPath": "metadata.namespace"},
                                }
                            ]
                        }
                    },
                ],
            },
        }
    )

    await sources.volumes.set_up(mounted)

    directory = sources.volumes.path(mounted, "v")
    assert contents(directory) == {"token": "server-1", "ca.crt": "PEM", "namespace": "lab"}
    assert (directory / "token").stat().st_mode & 0o777 == 0o440


async def test_a_token_is_renewed_after_four_fifths_of_its_life(sources):
    source = {"serviceAccountToken": {"path": "token", "audience": "x", "expirationSeconds": 1000}}
    mounted = pod({"name": "v", "projected": {"sources": [source]}})
    await sources.volumes.set_up(mounted)
    token = sources.volumes.path(mounted, "v") / "token"

    sources.clock.ahead = timedelta(seconds=790)
    await sources.volumes.refresh(mounted)
    before = token.read_text()
    sources.clock.ahead = timedelta(seconds=810)
    await sources.volumes.refresh(mounted)

    assert (before, token.read_text()) == ("x-1", "x-2")


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        ({"configMap": {"name": "no"}}, 'volume "v": configmap "no" not found'),
        ({"secret": {"secretName": "no"}}, 'volume "v": secret "no" not found'),
        ({"persistentVolumeClaim": {"claimName": "no"}}, r'"no" is played by no.*lab/models'),
        ({"hostPath": {"path": "/no/such/place"}}, "hostPath /no/such/place: no such file"),
        ({"csi": {"driver": "x"}}, "volume type csi is not supported"),
    ],
    ids=["config map", "secret", "claim", "host path", "type"],
)
async def test_a_volume_that_cannot_be_made_says_why(sources, volume, text):
    with pytest.raises(VolumeError, match=text):
        await sources.volumes.set_up(pod({"name": "v", **volume}))


async def test_a_missing_optional_source_is_an_empty_volume(sources):
    mounted = pod({"name": "v", "configMap": {"name": "no", "optional": True}})

    await sources.volumes.set_up(mounted)

    assert contents(sources.volumes.path(mounted, "v")) == {}


async def test_a_claim_is_the_directory_that_plays_it(sources, tmp_path):
    (tmp_path / "models").mkdir()
    mounted = pod({"name": "v", "persistentVolumeClaim": {"claimName": "models"}})

    await sources.volumes.set_up(mounted)

    assert sources.volumes.path(mounted, "v") == tmp_path / "models"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
async def test_a_sized_empty_directory_cannot_be_overfilled_and_is_unmounted(sources, tmp_path):
    mounted = pod({"name": "v", "emptyDir": {"sizeLimit": "64Ki"}})
    await sources.volumes.set_up(mounted)
    await sources.volumes.set_up(mounted)
    directory = sources.volumes.path(mounted, "v")

    with pytest.raises(OSError, match="No space left"):
        (directory / "big").write_bytes(b"x" * 100_000)

    sources.volumes.remove()
    assert not (tmp_path / "volumes").exists()


async def test_an_empty_directory_can_be_written_by_any_user(sources):
    mounted = pod({"name": "v", "emptyDir": {}})

    await sources.volumes.set_up(mounted)

    assert sources.volumes.path(mounted, "v").stat().st_mode & 0o777 == 0o777


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_the_group_of_the_pod_may_read_every_file(sources):
    sources.data["Secret", "s"] = {"key": b"k"}
    volume = {"name": "v", "secret": {"secretName": "s", "defaultMode": 0o400}}
    mounted = pod(volume, securityContext={"fsGroup": 2000})

    await sources.volumes.set_up(mounted)
    directory = sources.volumes.path(mounted, "v")
    before = os.readlink(directory / "..data")
    await sources.volumes.refresh(mounted)

    found = (directory / "key").stat()
    assert (found.st_gid, found.st_mode & 0o777) == (2000, 0o440)
    assert os.readlink(directory / "..data") == before


@pytest.mark.parametrize(
    ("volume", "read_only"),
    [
        ({"configMap": {"name": "c"}}, True),
        ({"projected": {"sources": []}}, True),
        ({"emptyDir": {}}, False),
        ({"persistentVolumeClaim": {"claimName": "models"}}, False),
        ({"persistentVolumeClaim": {"claimName": "models", "readOnly": True}}, True),
    ],
)
def test_volumes_that_mirror_objects_are_read_only(sources, volume, read_only):
    assert sources.volumes.is_read_only(pod({"name": "v", **volume}), "v") is read_only


def test_readers_never_see_a_mixture(tmp_path):
    write_atomically(tmp_path, {"a": VolumeFile(b"1", 0o644), "b": VolumeFile(b"1", 0o644)})
    held = os.open(tmp_path / "..data", os.O_PATH | os.O_DIRECTORY)
    try:
        changed = write_atomically(tmp_path, {"a": VolumeFile(b"2", 0o644)})
    finally:
        os.close(held)

    assert changed
    assert sorted(os.listdir(tmp_path)) == ["..2", "..data", "a"]
    assert not write_atomically(tmp_path, {"a": VolumeFile(b"2", 0o644)})


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "..data/x"])
def test_a_path_that_leaves_the_volume_is_refused(tmp_path, path):
    with pytest.raises(ValueError, match="must stay inside the volume"):
        write_atomically(tmp_path, {path: VolumeFile(b"", 0o644)})


def test_removing_what_is_not_there_is_nothing(tmp_path):
    remove_tree(tmp_path / "absent")

    assert list(tmp_path.iterdir()) == []
