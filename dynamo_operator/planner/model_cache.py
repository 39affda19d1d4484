"""A Hugging Face hub cache made of the model configurations that AISimulate ships."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

_SUFFIX = "_config.json"
_QUANTIZATION_SUFFIX = "_hf_quant_config.json"


def seed_model_cache(configurations: Path, hf_home: Path) -> list[str]:
    """Lay out `ORG--NAME_config.json` files as a hub cache does; return the models' names.

    A revision there is 40 hexadecimal digits; ours is the hash of the configuration.
    """
    models = []
    for file in sorted(configurations.glob(f"*--*{_SUFFIX}")):
        if file.name.endswith(_QUANTIZATION_SUFFIX):
            continue
        stem = file.name.removesuffix(_SUFFIX)
        content = file.read_bytes()
        revision = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        model = hf_home / "hub" / f"models--{stem}"
        snapshot = model / "snapshots" / revision
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_bytes(content)
        quantization = configurations / f"{stem}{_QUANTIZATION_SUFFIX}"
        if quantization.is_file():
            (snapshot / "hf_quant_config.json").write_bytes(quantization.read_bytes())
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text(revision, encoding="ascii")
        models.append(stem.replace("--", "/", 1))
    return models


def is_hub_reachable(environ: Mapping[str, str], *, timeout_seconds: float = 3.0) -> bool:
    """Return whether the Hugging Face hub answers."""
    url = environ.get("HF_ENDPOINT") or "https://huggingface.co"
    if not url.startswith(("http://", "https://")):
        return False
    request = urllib.request.Request(  # noqa: S310 # its scheme is looked at
        f"{url.rstrip('/')}/api/models?limit=1"
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as response:  # noqa: S310
            return bool(response.status == 200)
    except (OSError, ValueError, urllib.error.URLError):
        return False
