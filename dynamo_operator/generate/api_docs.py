"""The API reference, from the CRDs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dynamo_operator.generate.crds import custom_resource_definitions

_HEAD: Final = """\
<!-- Made by hack/generate; edit the classes in dynamo_operator/api instead. -->

# API reference

Group `nvidia.com`. Fields marked * are required. Defaults are filled in by the operator, not by the
schema, so that an explicitly empty `static: {}` stays what it is.
"""
_COUNTED: Final = (("minLength", "maxLength", "characters"), ("minItems", "maxItems", "items"))
_NO_MAXIMUM: Final = 2**31 - 1

Node = Mapping[str, Any]


def api_reference() -> str:
    """Return the text of docs/api.md."""
    return "\n".join([_HEAD, *(_kind_section(each) for each in custom_resource_definitions())])


def _kind_section(definition: Node) -> str:
    spec = definition["spec"]
    version = spec["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    kind, short = spec["names"]["kind"], spec["names"]["shortNames"][0]
    lines = [
        f"## {kind}",
        "",
        f"{schema['description']} `{version['name']}`, short name `{short}`.",
        "",
        "| field | type | meaning |",
        "|---|---|---|",
    ]
    for name in ("spec", "status"):
        lines.extend(_rows(name, schema["properties"][name], required=name in schema["required"]))
    rules = [*_rules("", schema)]
    for name in ("spec", "status"):
        rules.extend(_rules(name, schema["properties"][name]))
    if rules:
        lines.extend(["", "Rules:", "", *rules])
    return "\n".join([*lines, ""])


def _rows(path: str, node: Node, *, required: bool) -> Iterator[str]:
    mark = "*" if required else ""
    yield f"| `{path}`{mark} | {_type(node)} | {_meaning(node)} |"
    child = node
    if node.get("type") == "array":
        path, child = f"{path}[]", node["items"]
    for name, item in child.get("properties", {}).items():
        yield from _rows(f"{path}.{name}", item, required=name in child.get("required", ()))


def _type(node: Node) -> str:
    if node.get("type") == "array":
        return f"list of {_type(node['items'])}"
    if "additionalProperties" in node:
        return "object of any content"
    return str(node.get("type", "any"))


def _meaning(node: Node) -> str:
    parts = [node["description"]] if "description" in node else []
    values = node.get("enum") or node.get("items", {}).get("enum")
    if values:
        parts.append(f"One of {', '.join(f'`{value}`' for value in values)}.")
    bounds = list(_bounds(node))
    if bounds:
        text = ", ".join(bounds)
        parts.append(f"{text[0].upper()}{text[1:]}.")
    return " ".join(parts).replace("|", "\\|")


def _bounds(node: Node) -> Iterator[str]:
    minimum, maximum = node.get("minimum"), node.get("maximum")
    if minimum is not None and maximum not in (None, _NO_MAXIMUM):
        yield f"{minimum} to {maximum}"
    elif minimum is not None:
        yield f"{'above' if node.get('exclusiveMinimum') else 'at least'} {minimum}"
    for least, most, unit in _COUNTED:
        if most in node:
            yield f"{node.get(least, 0)} to {node[most]} {unit}"
    if "pattern" in node:
        yield f"matching `{node['pattern']}`"


def _rules(path: str, node: Node) -> Iterator[str]:
    for rule in node.get("x-kubernetes-validations", ()):
        where = f"{path}{rule.get('fieldPath', '')}".lstrip(".")
        yield f"- `{where}`: {rule['message']}"
    child = node.get("items", node) if node.get("type") == "array" else node
    if path:
        for name, item in child.get("properties", {}).items():
            yield from _rules(f"{path}.{name}", item)
