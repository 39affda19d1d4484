"""The small layer: our output adapter as a distribution on top of upstream's packages."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import dynamo_operator

# All that the adapter imports of ours.
_FILES: Final = (
    "__init__.py",
    "aisimulate/__init__.py",
    "aisimulate/evaluated_points.py",
    "aisimulate/output_adapter.py",
    "aisimulate/search_report.py",
    "aisimulate/snapshot.py",
    "images.py",
)
_ENTRY_POINTS: Final = """\
[aisimulate.output_adapters]
dgdr_run = dynamo_operator.aisimulate.output_adapter:ADAPTER
"""
_DISTRIBUTION: Final = "dynamo-operator"


@cache
def adapter_digest() -> str:
    """Return a hash of the adapter's code as it is now."""
    digest = hashlib.sha256(_ENTRY_POINTS.encode())
    for name in _FILES:
        digest.update(name.encode())
        digest.update((_source() / name).read_bytes())
    return digest.hexdigest()[:12]


def install_adapter(site_packages: Path) -> None:
    """Put the adapter and its entry point into a site-packages directory.

    The running package is the source: that needs no build tool and no network, takes no time, and
    is the same for a checkout and an installed wheel.
    """
    for name in _FILES:
        target = site_packages / "dynamo_operator" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((_source() / name).read_bytes())
    info = site_packages / f"dynamo_operator-{_version()}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {_DISTRIBUTION}\nVersion: {_version()}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    (info / "entry_points.txt").write_text(_ENTRY_POINTS, encoding="utf-8")


def _source() -> Path:
    return Path(dynamo_operator.__file__).parent


def _version() -> str:
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return "0"
