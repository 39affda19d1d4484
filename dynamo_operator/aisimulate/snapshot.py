"""The file in which a running search reports itself: format, strict reader, atomic writer.

The planner writes `dgdr_run_snapshot.yaml`, another user's process reads it. The reader therefore
trusts nothing: regular files only, bounded size, depth and count, no tags, and a scalar is a number
only where every YAML reader says so. The writer replaces the file as a whole or not at all.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

SNAPSHOT_FILE = "dgdr_run_snapshot.yaml"
# A hundred candidates take 300 kB and 20,000 values. The reader must get through the worst file
# within the seconds that its process has after SIGTERM.
MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_CANDIDATES = 1000


class SnapshotError(ValueError):
    """The text is not a snapshot, or not a document that can be read safely; one line says why."""


class Phase(StrEnum):
    """Where the search is."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Outcome(StrEnum):
    """What became of a candidate's manifest."""

    MATERIALIZED = "materialized"
    MATERIALIZATION_FAILED = "materialization_failed"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RunState(_Section):
    """The search as a whole; `reason` is NoFeasibleCandidate or Failed."""

    phase: Phase
    terminal: bool = Field(strict=True)
    message: str | None = None
    error: str | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _terminal_is_not_running(self) -> Self:
        if self.terminal is (self.phase is Phase.RUNNING):
            raise ValueError(f"terminal must not be {self.terminal} in phase {self.phase}")
        return self


class Progress(_Section):
    """How far the search has come."""

    round: int = Field(default=0, ge=0, strict=True)
    evaluated: int = Field(default=0, ge=0, strict=True)


class SnapshotCandidate(_Section):
    """One candidate; its id names objects and labels, so it is a DNS label's text."""

    id: str = Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)
    outcome: Outcome
    parameters: dict[str, JsonValue] = {}
    metrics: dict[str, JsonValue] = {}
    manifest: str | None = Field(default=None, min_length=1)
    error: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _outcome_has_its_text(self) -> Self:
        if self.outcome is Outcome.MATERIALIZED and self.manifest is None:
            raise ValueError("outcome materialized needs manifest")
        if self.outcome is Outcome.MATERIALIZATION_FAILED and self.error is None:
            raise ValueError("outcome materialization_failed needs error")
        return self


class Snapshot(_Section):
    """The whole file, candidates best first."""

    schema_version: int = Field(default=1, alias="schemaVersion", strict=True)
    timestamp: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
    run: RunState
    progress: Progress = Progress()
    candidates: tuple[SnapshotCandidate, ...] = Field(default=(), max_length=MAX_CANDIDATES)

    @field_validator("schema_version")
    @classmethod
    def _version_is_known(cls, version: int) -> int:
        if version != 1:
            raise ValueError(f"{version} is not known; must be 1")
        return version

    @field_validator("candidates")
    @classmethod
    def _ids_are_unique(
        cls, candidates: tuple[SnapshotCandidate, ...]
    ) -> tuple[SnapshotCandidate, ...]:
        seen: set[str] = set()
        for candidate in candidates:
            if candidate.id in seen:
                raise ValueError(f"id {candidate.id} occurs twice")
            seen.add(candidate.id)
        return candidates


def parse_snapshot(data: bytes) -> Snapshot:
    """Read a snapshot strictly.

    Raises:
        SnapshotError: anything that is not exactly a snapshot of schema version 1.
    """
    documents = load_documents(data)
    if len(documents) != 1:
        raise SnapshotError(f"{SNAPSHOT_FILE}: {len(documents)} documents; must be one")
    document = documents[0]
    if not isinstance(document, dict):
        raise SnapshotError(f"{SNAPSHOT_FILE}: must be an object")
    if "schemaVersion" not in document:
        raise SnapshotError(f"{SNAPSHOT_FILE}: schemaVersion is missing; must be 1")
    try:
        return Snapshot.model_validate(document)
    except ValidationError as error:
        raise SnapshotError(f"{SNAPSHOT_FILE}: {_first_problem(error)}") from None


def read_snapshot(directory: Path) -> bytes | None:
    """Return the file's bytes, or None while there is none.

    Raises:
        SnapshotError: it is not a regular file, or too large.
    """
    path = directory / SNAPSHOT_FILE
    try:
        # The other side owns the directory: never follow a link out of it, never block on a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror}; must be a regular file") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SnapshotError(f"{path}: must be a regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise SnapshotError(f"{path}: larger than {MAX_FILE_BYTES} bytes")
    return data


def write_snapshot(directory: Path, snapshot: Snapshot) -> Path:
    """Replace the file atomically and durably; readable by every user.

    Raises:
        OSError: it could not be written; the previous file is untouched.
        SnapshotError: it would be larger than a reader accepts.
    """
    data = dump_snapshot(snapshot)
    if len(data) > MAX_FILE_BYTES:
        raise SnapshotError(f"{SNAPSHOT_FILE}: {len(data)} bytes; at most {MAX_FILE_BYTES}")
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
    target = directory / SNAPSHOT_FILE
    descriptor, temporary = tempfile.mkstemp(prefix=f".{SNAPSHOT_FILE}.", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, 0o644)
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _fsync_directory(directory)
    return target


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """Return the file's text: the same snapshot gives the same bytes."""
    document = snapshot.model_dump(mode="json", by_alias=True, exclude_none=True)
    return "".join(f"{line}\n" for line in _lines(document)).encode()


def timestamp(now: datetime) -> str:
    """Return the form in which the file keeps a time."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_json(value: Any) -> JsonValue:
    """Return the JSON form of a value: non-finite numbers are null, keys are sorted text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return to_json(value.value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode()
    if isinstance(value, BaseModel):
        return to_json(value.model_dump(mode="python"))
    if isinstance(value, Mapping):
        items = sorted((str(key), item) for key, item in value.items())
        return {key: to_json(item) for key, item in items}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        return [to_json(item) for item in value]
    return str(value)


def load_documents(data: bytes) -> list[JsonValue]:
    """Read YAML written by a program that is not trusted.

    Only JSON's types come out. A plain scalar is a number in the one spelling that both YAML 1.1
    and 1.2 writers use for it; `1e3`, `0o14`, `2026-01-01` and `yes` stay text, as their writers
    meant. Anchors are expanded within the node limit.

    Raises:
        SnapshotError: not YAML, or beyond a limit; with line and column where there is one.
    """
    if len(data) > MAX_FILE_BYTES:
        raise SnapshotError(f"larger than {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SnapshotError(f"not UTF-8 at byte {error.start}") from None
    reader = _Reader(YAML(typ="safe", pure=True).parse(text))
    try:
        return list(reader.documents())
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise SnapshotError(f"not YAML: {where}{problem}") from None


_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]{1,3})?")
_CONSTANTS: dict[str, JsonValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_LONGEST_INTEGER = len(str(-(2**63)))
_SURROGATE = re.compile("[\ud800-\udfff]")
_NON_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)")


class _Reader:
    """Builds values from parser events; the only recursion is bounded by MAX_DEPTH."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._nodes = 0
        self._anchors: dict[str, tuple[JsonValue, int]] = {}

    def documents(self) -> Iterator[JsonValue]:
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                self._anchors.clear()
                yield self._value(next(self._events), 0)

    def _value(self, event: Event, depth: int) -> JsonValue:
        if depth > MAX_DEPTH:
            raise self._error(event, f"nested deeper than {MAX_DEPTH}")
        if isinstance(event, AliasEvent):
            return self._aliased(event)
        self._count(event, 1)
        tag = event.tag if isinstance(event, ScalarEvent | MappingStartEvent) else None
        if tag is not None and str(tag) not in ("!", "None"):
            raise self._error(event, f"tag {tag!s:.80} is not allowed")
        before = self._nodes
        value: JsonValue
        if isinstance(event, ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, MappingStartEvent):
            value = self._mapping(depth)
        elif isinstance(event, SequenceStartEvent):
            value = self._sequence(depth)
        else:
            raise self._error(event, "unexpected content")
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._nodes - before + 1)
        return value

    def _mapping(self, depth: int) -> JsonValue:
        result: dict[str, JsonValue] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._value(event, depth + 1)
            if not isinstance(key, str):
                raise self._error(event, f"key {key!r:.80} must be text")
            if key in result:
                raise self._error(event, f"key {key!r:.80} occurs twice")
            result[key] = self._value(next(self._events), depth + 1)
        return result

    def _sequence(self, depth: int) -> JsonValue:
        result: list[JsonValue] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            result.append(self._value(event, depth + 1))
        return result

    def _aliased(self, event: AliasEvent) -> JsonValue:
        if event.anchor not in self._anchors:
            raise self._error(event, f"alias *{event.anchor:.80} has no anchor")
        value, size = self._anchors[event.anchor]
        self._count(event, size)
        return value

    def _scalar(self, event: ScalarEvent) -> JsonValue:
        text: str = event.value
        if _SURROGATE.search(text):
            raise self._error(event, "half a surrogate pair is not text")
        if not event.implicit[0]:  # quoted, or a block
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if _INTEGER.fullmatch(text):
            number = int(text) if len(text) <= _LONGEST_INTEGER else 2**63
            if not -(2**63) <= number < 2**63:
                raise self._error(event, f"{text:.40} does not fit 64 bits")
            return number
        if _FLOAT.fullmatch(text) and math.isfinite(real := float(text)):
            return real
        if _NON_FINITE.fullmatch(text) or _FLOAT.fullmatch(text):
            raise self._error(event, f"{text:.40} is not a finite number")
        return text

    def _count(self, event: Event, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self._error(event, f"more than {MAX_NODES} values")

    @staticmethod
    def _error(event: Event, problem: str) -> SnapshotError:
        mark = event.start_mark
        return SnapshotError(f"line {mark.line + 1}, column {mark.column + 1}: {problem}")


# Text that is the same plain text to a YAML 1.1 and a YAML 1.2 reader.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
# Lines that a block shows as they are: the first not indented, one end of line or none at the end.
_BLOCK = re.compile(r"(?![ \t\n])[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff]+(?<!\n\n)")
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _lines(value: JsonValue) -> Iterator[str]:
    """Yield a value in YAML's block style; scalars take one line, long texts a block."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _labelled(f"{_text(key)}:", item)
    elif isinstance(value, list) and value:
        for item in value:
            first, *rest = _lines(item)
            yield f"- {first}"
            yield from (f"  {line}" if line else line for line in rest)
    elif isinstance(value, str) and "\n" in value and _BLOCK.fullmatch(value):
        yield "|" if value.endswith("\n") else "|-"
        yield from value.removesuffix("\n").split("\n")
    elif isinstance(value, str):
        yield _text(value)
    elif isinstance(value, float):
        number = repr(value)
        yield number if "." in number else number.replace("e", ".0e")
    else:
        yield json.dumps(value)


def _labelled(label: str, value: JsonValue) -> Iterator[str]:
    first, *rest = _lines(value)
    if isinstance(value, dict | list) and value:
        yield label
        rest = [first, *rest]
    else:
        yield f"{label} {first}"
    yield from (f"  {line}" if line else line for line in rest)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False)[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    return f"{path.lstrip('.')}: {message}" if path else message


def _fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
