"""Kubeconfig files: read in any encoding they come in, merged and checked as kubectl does it."""

from __future__ import annotations

import base64
import binascii
import codecs
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynamo_operator.runtime.client.errors import ConfigError

_LISTS = {"clusters": "cluster", "contexts": "context", "users": "user"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A named cluster, context or user, and the file that it stands in."""

    name: str
    section: str
    fields: Mapping[str, Any] = field(repr=False)
    file: Path

    @property
    def where(self) -> str:
        """File and entry, for errors."""
        return f"{self.file}: {self.section} {self.name!r}"

    def text(self, name: str) -> str:
        """Return a text field, "" where it is absent."""
        value = self.fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"{self.where}: {name}: must be text; quote it")
        return value

    def flag(self, name: str) -> bool:
        """Return a boolean field, False where it is absent."""
        value = self.fields.get(name)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(f"{self.where}: {name}: must be true or false")
        return bool(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, empty where it is absent."""
        value = self.fields.get(name) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{self.where}: {name}: must be a list of texts")
        return tuple(value)

    def path(self, name: str) -> Path | None:
        """Return a path field, relative ones resolved against the file that holds them."""
        text = self.text(name)
        return self.file.parent / text if text else None

    def data(self, name: str) -> bytes | None:
        """Return a base64 field, decoded."""
        text = self.text(name)
        if not text:
            return None
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except binascii.Error:
            raise ConfigError(f"{self.where}: {name}: not base64") from None

    def content(self, name: str) -> bytes | None:
        """Return what `name`-data holds, or the file that `name` names; not both."""
        data, path = self.data(f"{name}-data"), self.path(name)
        if data is not None and path is not None:
            raise ConfigError(f"{self.where}: {name} and {name}-data are both given: leave one out")
        if path is None:
            return data
        try:
            return path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{self.where}: {name} {path}: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class Selection:
    """What a context stands for."""

    context: str
    namespace: str
    cluster: Entry
    user: Entry | None


def paths_in(environ: Mapping[str, str]) -> list[Path]:
    """Return the files that $KUBECONFIG lists."""
    return [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]


def select(paths: Iterable[Path], context: str | None) -> Selection:
    """Merge the files and return what the context, or else the current one, stands for.

    Files that do not exist count as empty. The first file that sets a value or holds an entry of a
    name wins, entries are never mixed.

    Raises:
        ConfigError: a file, or what the context needs of it, cannot be used.
    """
    paths = list(paths)
    if not any(path.exists() for path in paths):
        tried = f"{', '.join(map(str, paths))} does not exist" if paths else "nowhere to look"
        raise ConfigError(f"no kubeconfig: {tried}; give a file or set KUBECONFIG")
    current = ""
    entries: dict[str, dict[str, Entry]] = {section: {} for section in _LISTS}
    for path in paths:
        document = _read(path)
        current = current or _text(document, "current-context", path)
        for section, key in _LISTS.items():
            for name, entry in _entries(document, section, key, path).items():
                entries[section].setdefault(name, entry)
    files = ", ".join(map(str, paths))
    name = context or current
    if not name:
        choice = ", ".join(sorted(entries["contexts"])) or "there is none"
        raise ConfigError(f"{files}: no current-context is set; contexts: {choice}")
    chosen = entries["contexts"].get(name)
    if chosen is None:
        choice = ", ".join(sorted(entries["contexts"])) or "there is none"
        raise ConfigError(f"{files}: no context {name!r}; contexts: {choice}")
    return Selection(
        context=name,
        namespace=chosen.text("namespace"),
        cluster=_referenced(chosen, "cluster", entries["clusters"], required=True),
        user=_referenced(chosen, "user", entries["users"], required=False)
        if chosen.text("user")
        else None,
    )


def store_provider_config(file: Path, user: str, values: Mapping[str, str]) -> None:
    """Write values into the `auth-provider.config` of a user, as kubectl does; the rest stays.

    Raises:
        OSError: the file cannot be written, or somebody else is writing it.
    """
    from ruamel.yaml import YAML

    path = file.resolve()
    lock = path.with_name(f"{path.name}.lock")  # kubectl's own
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        yaml = YAML()
        yaml.preserve_quotes = True
        yaml.width = 2**20
        document = yaml.load(_decoded(path.read_bytes(), path))
        for entry in document["users"]:
            if entry["name"] == user:
                entry["user"]["auth-provider"]["config"].update(values)
        descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as new:
            yaml.dump(document, new)
        shutil.copymode(path, name)
        Path(name).replace(path)
    finally:
        lock.unlink()


def _referenced(context: Entry, key: str, entries: Mapping[str, Entry], *, required: bool) -> Entry:
    name = context.text(key)
    if not name and required:
        raise ConfigError(f"{context.where}: names no {key}")
    entry = entries.get(name)
    if entry is None:
        raise ConfigError(f"{context.where}: {key} {name!r} does not exist")
    return entry


def _entries(document: Mapping[str, Any], section: str, key: str, path: Path) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    items = document.get(section) or []
    if not isinstance(items, list):
        raise ConfigError(f"{path}: {section}: must be a list")
    for index, item in enumerate(items):
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{path}: {section}[{index}]: has no name")
        if name in found:
            raise ConfigError(f"{path}: {section}: duplicate name {name!r}")
        fields = item.get(key) or {}
        if not isinstance(fields, Mapping):
            raise ConfigError(f"{path}: {section}[{index}].{key}: must be an object")
        found[name] = Entry(name, key, fields, path)
    return found


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    return _parse(_decoded(content, path), path)


def _decoded(content: bytes, path: Path) -> str:
    """Text in UTF-8, with or without a byte order mark, or in UTF-16 with one."""
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if is_utf16 else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        skipped = len(content) - len(content.removeprefix(codecs.BOM_UTF8))
        offset = error.start + skipped
        raise ConfigError(f"{path}: byte {offset} is not {encoding.removesuffix('-sig')}") from None


def _parse(text: str, path: Path) -> Mapping[str, Any]:
    # Imported here: in a cluster there is no kubeconfig to parse.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        document = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        # The parser's own text quotes the lines around the place: they may hold a secret.
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError(f"{path}: {place}{error.problem or 'not YAML'}") from None
    except YAMLError:
        raise ConfigError(f"{path}: not YAML") from None
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise ConfigError(f"{path}: not a kubeconfig: an object is expected")
    kind = document.get("kind")
    if kind not in (None, "", "Config"):
        raise ConfigError(f"{path}: not a kubeconfig: its kind is {kind!r}")
    return document


def _text(document: Mapping[str, Any], name: str, path: Path) -> str:
    value = document.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigError(f"{path}: {name}: must be text; quote it")
    return value
