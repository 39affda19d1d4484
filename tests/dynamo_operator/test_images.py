import pytest

from dynamo_operator.images import (
    BUNDLED_DYNAMO_VERSION,
    PUBLIC_PLANNER_IMAGE,
    ImageReference,
    ImageSettings,
    checked_version,
    resolve_image_settings,
    sibling_image,
    tagged_version,
)

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("reference", "backend", "expected"),
    [
        (
            "nvcr.io/nvidia/ai-dynamo/dynamo-planner:1.4.0",
            "vllm",
            "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.4.0",
        ),
        ("localhost:5000/ns/dynamo-planner", "sglang", "localhost:5000/ns/sglang-runtime"),
        (f"reg/dynamo-planner:abc1234@{DIGEST}", "trtllm", "reg/tensorrtllm-runtime:abc1234"),
        (f"reg/vllm-runtime:1.0@{DIGEST}", "vllm", f"reg/vllm-runtime:1.0@{DIGEST}"),
        (f"reg/vllm-runtime@{DIGEST}", "vllm", f"reg/vllm-runtime@{DIGEST}"),
        ("dynamo-planner:1.4.0", "vllm", "vllm-runtime:1.4.0"),
        (
            "RegistryELB-99.eu.lab.test:5000/team/dynamo-planner",
            "vllm",
            "RegistryELB-99.eu.lab.test:5000/team/vllm-runtime",
        ),
        ("[fd00::1]:5000/dynamo-planner:1.4.0", "vllm", "[fd00::1]:5000/vllm-runtime:1.4.0"),
        ("localhost/dynamo-planner:1.4.0", "vllm", "localhost/vllm-runtime:1.4.0"),
        (
            "r.lab:443/a/b/c/d/dynamo-planner:1.4.0-rc1",
            "vllm",
            "r.lab:443/a/b/c/d/vllm-runtime:1.4.0-rc1",
        ),
    ],
)
def test_a_sibling_keeps_registry_and_tag_and_drops_a_foreign_digest(reference, backend, expected):
    assert sibling_image(reference, backend) == expected


@pytest.mark.parametrize(
    ("reference", "backend", "message"),
    [
        (f"reg/dynamo-planner@{DIGEST}", "vllm", "add the release's tag"),
        ("reg/dynamo-planner:1.4.0", "vLLM", "use one of vllm, sglang, trtllm"),
        ("", "vllm", "is no image reference"),
        ("reg/", "vllm", "is no image reference"),
        (" reg/dynamo-planner", "vllm", "is no image reference"),
    ],
)
def test_a_sibling_that_cannot_be_derived_is_refused(reference, backend, message):
    with pytest.raises(ValueError, match=message):
        sibling_image(reference, backend)


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("1.3.0", "1.3.0"),
        ("v1.2.3", "1.2.3"),
        ("V1.2.3", "1.2.3"),
        ("1.3.0-rc1", "1.3.0"),
        ("1.4.0+build.7", "1.4.0"),
        ("v0.5.1-trtllm", "0.5.1"),
        ("1.2.0rc3.post1", None),
        ("latest", None),
        ("5060547", None),
        ("01.2.3", None),
        ("12345.0.0", None),
        ("1.2", None),
    ],
)
def test_a_tag_tells_the_version_only_when_it_is_a_release(tag, version):
    assert tagged_version(f"localhost:5000/dynamo-planner:{tag}") == version


def test_a_port_or_a_digest_tells_no_version():
    assert tagged_version("localhost:5000/dynamo-planner") is None
    assert tagged_version(f"reg/dynamo-planner@{DIGEST}") is None


def test_a_reference_is_put_together_as_it_was_taken_apart():
    reference = f"r.lab:443/team/dynamo-planner:1.4.0@{DIGEST}"

    assert str(ImageReference.parse(reference)) == reference


@pytest.mark.parametrize("text", ["1.2", "v1.2.3", "1.2.3-rc1", "1.2.3.4", "", "01.0.0"])
def test_a_configured_version_has_three_numbers(text):
    with pytest.raises(ValueError, match=r"MAJOR\.MINOR\.PATCH"):
        checked_version(text)


def test_the_planner_image_is_the_source_when_its_tag_is_a_release():
    assert resolve_image_settings("reg/dynamo-planner:1.4.0") == ImageSettings(
        "reg/dynamo-planner:1.4.0", "reg/dynamo-planner:1.4.0", "1.4.0"
    )


def test_a_release_that_is_pinned_by_its_digest_stays_pinned_and_tells_its_version():
    pinned = f"reg:5000/dynamo-planner:v1.4.0@{DIGEST}"

    assert resolve_image_settings(pinned) == ImageSettings(pinned, pinned, "1.4.0")
    assert sibling_image(pinned, "sglang") == "reg:5000/sglang-runtime:v1.4.0"


@pytest.mark.parametrize("tag", ["", ":0f1e2d3"])
def test_a_planner_image_that_only_its_digest_names_runs_and_siblings_are_the_public_ones(tag):
    pinned = f"reg/planner{tag}@{DIGEST}"

    assert resolve_image_settings(pinned) == ImageSettings(
        pinned, PUBLIC_PLANNER_IMAGE, BUNDLED_DYNAMO_VERSION
    )


def test_the_public_image_is_the_source_when_the_planner_tag_is_opaque():
    settings = resolve_image_settings("reg/planner:0f1e2d3")

    assert settings.runtime_image_source == PUBLIC_PLANNER_IMAGE
    assert settings.dynamo_version == BUNDLED_DYNAMO_VERSION


def test_an_opaque_tag_of_the_source_needs_a_configured_version():
    with pytest.raises(ValueError, match="set --dynamo-version"):
        resolve_image_settings("reg/p:1", runtime_image_source="reg/dynamo-planner:0f1e2d3")

    settings = resolve_image_settings(
        "reg/p:1", runtime_image_source="reg/dynamo-planner:0f1e2d3", dynamo_version=" 1.5.2 "
    )
    assert settings.dynamo_version == "1.5.2"


def test_a_source_without_a_tag_is_of_the_bundled_release():
    settings = resolve_image_settings("reg/p:1", runtime_image_source="reg:5000/dynamo-planner")

    assert settings.dynamo_version == BUNDLED_DYNAMO_VERSION


def test_a_source_with_only_a_digest_is_refused_at_once():
    with pytest.raises(ValueError, match="add the release's tag"):
        resolve_image_settings("reg/p:1", runtime_image_source=f"reg/dynamo-planner@{DIGEST}")
