"""This module applies JSON patches (RFC 6902) and JSON merge patches (RFC 7386)."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, Final

from dynamo_operator.apiserver.codec import check_depth
from dynamo_operator.apiserver.status import StatusError, bad_request

_MAX_OPERATIONS: Final = 10_000
_MAX_COPIED: Final = 3 * 1024 * 1024
_NEEDS_VALUE: Final = frozenset({"add", "replace", "test"})
_NEEDS_FROM: Final = frozenset({"move", "copy"})
_OPERATIONS: Final = _NEEDS_VALUE | _NEEDS_FROM | {"remove"}
_DEEPENING: Final = _OPERATIONS - {"test", "remove"}


class PatchRejectedError(StatusError):
    """A patch that does not apply; `str()` says why, its Status does not."""

    def __init__(self, detail: str) -> None:
        message = "the server rejected our request due to an error in our request"
        super().__init__(422, "Invalid", message, details={})
        self.args = (detail,)


def merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` merged with an RFC 7386 patch; neither argument is changed.

    Beyond the RFC, as the API server's library does it: a null in an object within a list is no
    value either, and goes.
    """
    if not isinstance(patch, dict):
        return _without_null_fields(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def _without_null_fields(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_null_fields(item) for item in value]
    if isinstance(value, dict):
        return {k: _without_null_fields(v) for k, v in value.items() if v is not None}
    return value


def json_patch(document: Any, operations: Any) -> Any:
    """Return `document` with an RFC 6902 patch applied; the document is not changed.

    Raises:
        StatusError: 400 when the patch is malformed or nests too deeply, 413 when it is too long,
            422 when it does not apply.
    """
    copied = 0
    for operation in _checked(operations):
        if operation["op"] == "copy":
            copied += len(_canonical(_get(document, operation["from"], "copy")))
            if copied > _MAX_COPIED:
                raise patch_rejected(f"copies amount to more than {_MAX_COPIED} bytes")
        document = _apply(document, operation)
        if operation["op"] in _DEEPENING:
            check_depth(document)
    return document


def patch_rejected(detail: str) -> StatusError:
    """Return the 422 of a patch that does not apply; like the real server's it does not say why."""
    return PatchRejectedError(detail)


def _checked(operations: Any) -> list[Mapping[str, Any]]:
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > _MAX_OPERATIONS:
        detail = f"maximum is {_MAX_OPERATIONS}, got {len(operations)}"
        message = f"The allowed maximum operations in a JSON patch is exceeded: {detail}"
        raise StatusError(413, "RequestEntityTooLarge", message)
    for position, operation in enumerate(operations):
        if not isinstance(operation, dict):
            raise bad_request(f"error decoding patch: operation {position} is not an object")
        problem = _malformed(operation)
        if problem:
            raise patch_rejected(f"operation {position}: {problem}")
    return operations


def _malformed(operation: Mapping[str, Any]) -> str:
    kind = operation.get("op")
    if not isinstance(kind, str) or kind not in _OPERATIONS:
        return f"op is {json.dumps(kind)}, one of {', '.join(sorted(_OPERATIONS))} is expected"
    for name in ("path", "from") if kind in _NEEDS_FROM else ("path",):
        pointer = operation.get(name)
        if not isinstance(pointer, str):
            return f"{kind} needs {name}, a JSON pointer, not {json.dumps(pointer)}"
    return ""


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    kind, path = operation["op"], operation["path"]
    if kind == "test":
        wanted = operation.get("value")
        if wanted is None and not _is_there(document, path):
            return document  # what is not there is null, too
        if _canonical(_get(document, path, kind)) != _canonical(wanted):
            raise patch_rejected(f"testing value {path} failed: test failed")
        return document
    if kind in ("add", "replace"):
        return _put(document, path, copy.deepcopy(operation.get("value")), kind)
    if kind == "remove":
        return _remove(document, path, kind)
    source = operation["from"]
    value = _get(document, source, kind)
    if kind == "copy":
        return _put(document, path, copy.deepcopy(value), "add")
    if path.startswith(f"{source}/"):
        raise patch_rejected(f"move operation does not apply: {source} cannot move into itself")
    return _put(_remove(document, source, kind), path, value, "add")


def _is_there(document: Any, pointer: str) -> bool:
    try:
        _get(document, pointer, "test")
    except StatusError:
        return False
    return True


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _tokens(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _missing(kind: str, pointer: str) -> StatusError:
    detail = f"doc is missing path: {json.dumps(pointer)}: missing value"
    return patch_rejected(f"{kind} operation does not apply: {detail}")


def _get(document: Any, pointer: str, kind: str) -> Any:
    for token in _tokens(pointer):
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list):
            document = document[_position(token, len(document) - 1, pointer, kind)]
        else:
            raise _missing(kind, pointer)
    return document


def _position(token: str, last: int, pointer: str, kind: str) -> int:
    negative = token.startswith("-")
    digits = token.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and (digits == "0" or not digits.startswith("0"))
    if plain and negative and 0 < int(digits) <= last + 1:  # from the end
        return last + 1 - int(digits)
    if not plain or negative or int(token) > last:
        detail = f"{json.dumps(pointer)}: invalid index {token}"
        raise patch_rejected(f"{kind} operation does not apply: {detail}")
    return int(token)


def _put(document: Any, pointer: str, value: Any, kind: str) -> Any:
    """A copy, sharing what does not change, with `value` at the pointer."""
    tokens = _tokens(pointer)
    if not tokens:
        return value

    def put(node: Any, depth: int) -> Any:
        token, last = tokens[depth], depth == len(tokens) - 1
        if isinstance(node, dict):
            if not last and token not in node:
                raise _missing(kind, pointer)
            return {**node, token: value if last else put(node[token], depth + 1)}
        if not isinstance(node, list):
            raise _missing(kind, pointer)
        if not last:
            index = _position(token, len(node) - 1, pointer, kind)
            return [*node[:index], put(node[index], depth + 1), *node[index + 1 :]]
        if kind == "add":
            index = len(node) if token == "-" else _position(token, len(node), pointer, kind)
            return [*node[:index], value, *node[index:]]
        index = _position(token, len(node) - 1, pointer, kind)
        return [*node[:index], value, *node[index + 1 :]]

    return put(document, 0)


def _remove(document: Any, pointer: str, kind: str) -> Any:
    tokens = _tokens(pointer)
    if not tokens:
        return None

    def remove(node: Any, depth: int) -> Any:
        token, last = tokens[depth], depth == len(tokens) - 1
        if isinstance(node, dict) and token in node:
            if last:
                return {name: child for name, child in node.items() if name != token}
            return {**node, token: remove(node[token], depth + 1)}
        if isinstance(node, list):
            index = _position(token, len(node) - 1, pointer, kind)
            kept = [] if last else [remove(node[index], depth + 1)]
            return [*node[:index], *kept, *node[index + 1 :]]
        raise _missing(kind, pointer)

    return remove(document, 0)
