"""Sibling images and the Dynamo version that an image reference tells."""

from __future__ import annotations

_RUNTIME_REPOSITORIES = {
    "vllm": "vllm-runtime",
    "sglang": "sglang-runtime",
    "trtllm": "tensorrtllm-runtime",
}


def sibling_image(reference: str, backend: str) -> str:
    """Return the runtime image of a backend that was released together with `reference`.

    The registry, path and tag stay; a digest belongs to one repository and stays only with it.

    Raises:
        ValueError: no such backend, or a digest-only reference of another repository.
    """
    repository = _RUNTIME_REPOSITORIES.get(backend)
    if repository is None:
        known = ", ".join(_RUNTIME_REPOSITORIES)
        raise ValueError(f"backend {backend!r}: must be one of {known}")
    path, slash, last = reference.rpartition("/")
    tagged, _, digest = last.partition("@")
    name, colon, tag = tagged.partition(":")
    if name == repository:
        return reference
    if digest and not tag:
        raise ValueError(f"image {reference!r}: must have a tag to derive {repository} from it")
    return f"{path}{slash}{repository}{colon}{tag}"
