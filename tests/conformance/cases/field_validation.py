"""Unknown and duplicate fields, by each level of validation, verb and encoding."""

from __future__ import annotations

from collections.abc import Iterator

_BODIES = {
    "an unknown field": "{metadata: {name: a}, other: 1}",
    "two unknown fields": "{metadata: {name: a}, other: 1, another: {deep: er}}",
    "an unknown field of metadata": "{metadata: {name: a, other: 1}}",
    "an unknown field in an owner": "{metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: K, name: o, uid: u, other: 1}]}}",
    "a field of another case": "{metadata: {name: a}, Data: {k: v}}",
    "known fields": "{metadata: {name: a}, data: {k: v}}",
    "duplicate fields": '"{\\"apiVersion\\": \\"v1\\", \\"kind\\": \\"ConfigMap\\", \\"metadata\\": {\\"name\\": \\"a\\"}, \\"data\\": {\\"k\\": \\"v\\", \\"k\\": \\"w\\"}}"',
    "duplicate maps": '"{\\"apiVersion\\": \\"v1\\", \\"kind\\": \\"ConfigMap\\", \\"metadata\\": {\\"name\\": \\"a\\"}, \\"data\\": {\\"k\\": \\"v\\"}, \\"data\\": {\\"l\\": \\"w\\"}}"',
    "duplicate names": '"{\\"apiVersion\\": \\"v1\\", \\"kind\\": \\"ConfigMap\\", \\"metadata\\": {\\"name\\": \\"b\\", \\"name\\": \\"a\\"}}"',
    "duplicate and unknown": '"{\\"apiVersion\\": \\"v1\\", \\"kind\\": \\"ConfigMap\\", \\"metadata\\": {\\"name\\": \\"a\\"}, \\"other\\": 1, \\"other\\": 2}"',
}
_PODS = {
    "an unknown field of a spec": "{metadata: {name: a}, spec: {other: 1, containers: [{name: c, image: i}]}}",
    "an unknown field of a container": "{metadata: {name: a}, spec: {containers: [{name: c, image: i, other: 1}, {name: d, image: i, imagePullpolicy: Always}]}}",
    "an unknown field of a probe": "{metadata: {name: a}, spec: {containers: [{name: c, image: i, livenessProbe: {httpget: {}, exec: {command: [x]}}}]}}",
    "an unknown field of status": "{metadata: {name: a}, spec: {containers: [{name: c, image: i}]}, status: {other: 1}}",
}
_OURS = {
    "an unknown field": "{metadata: {name: a}, spec: {model: {name: Org/M-8B}, other: 1}}",
    "an unknown root field": "{metadata: {name: a}, spec: {model: {name: Org/M-8B}}, other: 1}",
    "an unknown field of metadata": "{metadata: {name: a, other: 1}, spec: {model: {name: Org/M-8B}}}",
    "an unknown field at depth": "{metadata: {name: a}, spec: {model: {name: Org/M-8B, other: 1}, hardware: {other: {}}}}",
}
_LEVELS = ("", "Strict", "Warn", "Ignore")


def _cases() -> Iterator[str]:
    for plural, bodies in (("configmaps", _BODIES), ("pods", _PODS), ("dgdrs", _OURS)):
        for name, body in bodies.items():
            yield f"{plural}: {name}"
            for level in _LEVELS:
                query = f"&fieldValidation={level}" if level else ""
                yield f"  POST {plural}?dryRun=All{query} {body}"
            yield f"  POST {plural}?dryRun=All&fieldValidation=Strict Content-Type=application/yaml {body}"
            yield f"  POST {plural}?dryRun=All Content-Type=application/yaml {body}"
            if name != "two unknown fields":  # of which an apply names either
                yield f"  APPLY {plural}/a?fieldManager=m&dryRun=All&fieldValidation=Strict {body}"
                yield f"  APPLY {plural}/a?fieldManager=m&dryRun=All {body}"


def _changes() -> Iterator[str]:
    yield "changes of what is there"
    yield "  POST configmaps {metadata: {name: a}, data: {k: v}}"
    yield "  POST deployments {metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}"
    for level in _LEVELS:
        query = f"?fieldValidation={level}" if level else ""
        yield f"  PUT configmaps/a{query} {{metadata: {{name: a}}, data: {{k: v}}, other: 1}}"
        yield f"  MERGE configmaps/a{query} {{other: 1}}"
        yield f"  JSONPATCH configmaps/a{query} [{{op: add, path: /other, value: 1}}]"
        yield f"  STRATEGIC configmaps/a{query} {{other: 1}}"
        yield f'  MERGE configmaps/a{query} "{{\\"data\\": {{\\"k\\": \\"x\\", \\"k\\": \\"y\\"}}}}"'
        yield f'  STRATEGIC configmaps/a{query} "{{\\"data\\": {{\\"k\\": \\"x\\", \\"k\\": \\"z\\"}}}}"'
        yield f'  JSONPATCH configmaps/a{query} "[{{\\"op\\": \\"add\\", \\"path\\": \\"/data/k\\", \\"path\\": \\"/data/l\\", \\"value\\": \\"z\\"}}]"'
        yield f"  JSONPATCH configmaps/a{query} [{{op: add, path: /data/k, value: z, other: 1}}]"
        yield f"  MERGE deployments/a{query} {{spec: {{other: 1, template: {{spec: {{another: 1}}}}}}}}"
        yield f"  MERGE deployments/a/status{query} {{status: {{other: 1}}}}"
        yield f"  MERGE deployments/a/scale{query} {{spec: {{other: 1}}}}"


CASES = "\n".join([*_cases(), *_changes()])
