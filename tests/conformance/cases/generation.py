"""Generation: what raises it and what does not, and dry runs of every verb, which keep nothing."""

from __future__ import annotations

from collections.abc import Iterator

_TEMPLATE = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: 'i:1'}]}}"
_SPECS = {
    "deployments": (f"selector: {{matchLabels: {{a: b}}}}, {_TEMPLATE}", "{replicas: 2}"),
    "replicasets": (f"selector: {{matchLabels: {{a: b}}}}, {_TEMPLATE}", "{replicas: 2}"),
    "statefulsets": (
        f"selector: {{matchLabels: {{a: b}}}}, serviceName: s, {_TEMPLATE}",
        "{replicas: 2}",
    ),
    "daemonsets": (f"selector: {{matchLabels: {{a: b}}}}, {_TEMPLATE}", "{minReadySeconds: 2}"),
    "replicationcontrollers": (f"selector: {{a: b}}, {_TEMPLATE}", "{replicas: 2}"),
    "jobs": (
        "template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'i:1'}]}}",
        "{suspend: true}",
    ),
    "cronjobs": (
        "schedule: '@daily', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'i:1'}]}}}}",
        "{suspend: true}",
    ),
    "poddisruptionbudgets": ("minAvailable: 1, selector: {}", "{minAvailable: 2}"),
    "networkpolicies": ("podSelector: {}", "{podSelector: {matchLabels: {a: b}}}"),
    "pods": ("containers: [{name: c, image: 'i:1'}]", "{activeDeadlineSeconds: 5}"),
    "services": ("ports: [{port: 80}]", "{selector: {a: b}}"),
    "dgdrs": ("model: {name: Org/M-8B}", "{backends: [vllm]}"),
}


def _cases() -> Iterator[str]:
    for plural, (spec, change) in _SPECS.items():
        yield f"generation of {plural}"
        yield f"  POST {plural} {{metadata: {{name: a, generation: 5}}, spec: {{{spec}}}}}"
        yield f"  MERGE {plural}/a {{metadata: {{labels: {{x: y}}, annotations: {{x: y}}}}}}"
        yield f"  MERGE {plural}/a {{metadata: {{generation: 9}}}}"
        yield f"  MERGE {plural}/a {{spec: {change}}}"
        yield f"  MERGE {plural}/a {{spec: {change}}}"
        yield f"  PUT {plural}/a +{{}}"
        yield f"  MERGE {plural}/a/status {{metadata: {{labels: {{z: z}}}}}}"
        yield f"  DELETE {plural}/a?dryRun=All"
        yield f"  MERGE {plural}/a {{metadata: {{finalizers: [lab.example/f]}}}}"
        yield f"  DELETE {plural}/a"
        yield f"  GET {plural}/a"
    for plural, (spec, change) in _SPECS.items():
        yield f"dry runs of {plural}"
        yield f"  POST {plural}?dryRun=All {{metadata: {{name: a}}, spec: {{{spec}}}}}"
        yield f"  GET {plural}/a"
        yield f"  POST {plural} {{metadata: {{name: a}}, spec: {{{spec}}}}}"
        yield f"  POST {plural}?dryRun=All {{metadata: {{name: a}}, spec: {{{spec}}}}}"
        yield f"  PUT {plural}/a?dryRun=All +{{metadata: {{labels: {{x: y}}}}}}"
        yield f"  MERGE {plural}/a?dryRun=All {{spec: {change}}}"
        yield f"  APPLY {plural}/a?dryRun=All&fieldManager=m {{metadata: {{labels: {{x: y}}}}}}"
        yield f"  DELETE {plural}/a?dryRun=All"
        yield f"  DELETE {plural}?dryRun=All"
        yield f"  GET {plural}/a"


CASES = "\n".join(_cases())
