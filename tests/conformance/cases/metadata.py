"""Names, generated names, labels, annotations and owner references."""

from __future__ import annotations

from collections.abc import Iterator

_NAMES = (
    "a", "A", "a.b", "a-b", "a_b", "-a", "a-", "a..b", "'.'", "'..'", "a/b", "a%b", "a b", "'1'", "1a", "'a:b'", "é",
    "a" * 63, "a" * 64, "a" * 253, "a" * 254, "''", "system:a",
)  # fmt: skip
_NAMED = {
    "configmaps": "",
    "secrets": "",
    "services": ", spec: {ports: [{port: 80}]}",
    "serviceaccounts": "",
    "roles": "",
    "leases": "",
    "jobs": ", spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}",
    "cronjobs": ", spec: {schedule: '@daily', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}",
    "dgdrs": ", spec: {model: {name: Org/M-8B}}",
}
_LABEL_KEYS = (
    "a", "A", "a.b", "a_b", "a-b", "-a", "a-", "a b", "''", "a/b", "lab.example/a", "Lab.Example/a", "a/b/c", "/a", "a/",
    "k" * 63, "k" * 64, f"{'p' * 253}/a", f"{'p' * 254}/a", "é",
)  # fmt: skip
_LABEL_VALUES = ("''", "a", "A-b_c.d", "-a", "a-", "a b", "a/b", "v" * 63, "v" * 64, "é")
_OWNERS = {
    "a good one": "[{apiVersion: v1, kind: ConfigMap, name: o, uid: u}]",
    "a controller": "[{apiVersion: v1, kind: ConfigMap, name: o, uid: u, controller: true, blockOwnerDeletion: true}]",
    "two controllers": "[{apiVersion: v1, kind: ConfigMap, name: o, uid: u, controller: true}, {apiVersion: v1, kind: ConfigMap, name: p, uid: w, controller: true}]",
    "the same twice": "[{apiVersion: v1, kind: ConfigMap, name: o, uid: u}, {apiVersion: v1, kind: ConfigMap, name: o, uid: u}]",
    "one uid twice": "[{apiVersion: v1, kind: ConfigMap, name: o, uid: u}, {apiVersion: v1, kind: Secret, name: p, uid: u}]",
    "no apiVersion": "[{kind: ConfigMap, name: o, uid: u}]",
    "no kind": "[{apiVersion: v1, name: o, uid: u}]",
    "no name": "[{apiVersion: v1, kind: ConfigMap, uid: u}]",
    "no uid": "[{apiVersion: v1, kind: ConfigMap, name: o}]",
    "a bad apiVersion": "[{apiVersion: a/b/c, kind: ConfigMap, name: o, uid: u}]",
    "an Event": "[{apiVersion: v1, kind: Event, name: o, uid: u}]",
    "nothing": "[{}]",
    "none": "[]",
    "an unknown field": "[{apiVersion: v1, kind: ConfigMap, name: o, uid: u, other: 1}]",
    "a controller that is text": "[{apiVersion: v1, kind: ConfigMap, name: o, uid: u, controller: 'true'}]",
}


def _cases() -> Iterator[str]:
    for plural, more in _NAMED.items():
        yield f"names of {plural}"
        for name in _NAMES:
            yield f"  POST {plural}?dryRun=All {{metadata: {{name: {name}}}{more}}}"
    yield "keys of labels"
    for key in _LABEL_KEYS:
        yield f"  POST configmaps?dryRun=All {{metadata: {{name: a, labels: {{{key}: v}}}}}}"
    yield "values of labels"
    for value in _LABEL_VALUES:
        yield f"  POST configmaps?dryRun=All {{metadata: {{name: a, labels: {{k: {value}}}}}}}"
    yield "keys of annotations"
    for key in _LABEL_KEYS:
        yield f"  POST configmaps?dryRun=All {{metadata: {{name: a, annotations: {{{key}: v}}}}}}"
    for name, owners in _OWNERS.items():
        yield f"owners: {name}"
        yield f"  POST configmaps {{metadata: {{name: a, ownerReferences: {owners}}}}}"
        yield "  POST configmaps {metadata: {name: b}}"
        yield f"  MERGE configmaps/b {{metadata: {{ownerReferences: {owners}}}}}"
        yield f"  POST dgdrs {{metadata: {{name: a, ownerReferences: {owners}}}, spec: {{model: {{name: Org/M-8B}}}}}}"


CASES = (
    "\n".join(_cases())
    + f"""
generated names
  POST configmaps {{metadata: {{generateName: a-}}}}
  POST configmaps {{metadata: {{generateName: A-}}}}
  POST configmaps {{metadata: {{generateName: ''}}}}
  POST configmaps {{metadata: {{}}}}
  POST configmaps {{}}
  POST configmaps {{metadata: {{generateName: a-, name: b}}}}
  POST configmaps {{metadata: {{generateName: {"g" * 70}}}}}
  POST configmaps {{metadata: {{generateName: {"g" * 260}}}}}
  POST configmaps {{metadata: {{generateName: a_}}}}
  POST configmaps?dryRun=All {{metadata: {{generateName: a-}}}}
  POST dgdrs {{metadata: {{generateName: a-}}, spec: {{model: {{name: Org/M-8B}}}}}}
  POST dgdrs {{metadata: {{}}, spec: {{model: {{name: Org/M-8B}}}}}}
  POST dgdrs {{spec: {{model: {{name: Org/M-8B}}}}}}
  POST jobs {{metadata: {{generateName: {"g" * 70}}}, spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}
  POST services {{metadata: {{generateName: 1-}}, spec: {{ports: [{{port: 80}}]}}}}
  POST pods {{metadata: {{generateName: a.}}, spec: {{containers: [{{name: c, image: i}}]}}}}
annotations together
  POST configmaps {{metadata: {{name: a, annotations: {{k: {"v" * 200}}}}}}}
  MERGE configmaps/a {{metadata: {{annotations: {{k: ''}}}}}}
  MERGE configmaps/a {{metadata: {{annotations: {{K: upper, k: lower}}}}}}
  MERGE configmaps/a {{metadata: {{annotations: {{}}}}}}
  MERGE configmaps/a {{metadata: {{annotations: null}}}}
what may not change
  POST configmaps {{metadata: {{name: a, labels: {{x: y}}}}}}
  PUT configmaps/a +{{metadata: {{generateName: b-}}}}
  PUT configmaps/a +{{metadata: {{uid: null, creationTimestamp: null}}}}
  PUT configmaps/a +{{metadata: {{labels: null, annotations: {{}}}}}}
  PUT configmaps/a +{{metadata: {{labels: {{}}}}}}
  GET configmaps/a
names of namespaces
  POST namespaces?dryRun=All {{metadata: {{name: A}}}}
  POST namespaces?dryRun=All {{metadata: {{name: a.b}}}}
  POST namespaces?dryRun=All {{metadata: {{name: {"n" * 64}}}}}
  POST namespaces?dryRun=All {{metadata: {{generateName: $ns-}}}}
  POST namespaces?dryRun=All {{metadata: {{name: $ns-q, namespace: x}}}}
  POST namespaces?dryRun=All {{metadata: {{name: $ns-q}}, spec: {{finalizers: [lab.example/f]}}}}
  POST namespaces?dryRun=All {{metadata: {{name: $ns-q}}, spec: {{finalizers: [bad]}}}}
  MERGE namespaces/$ns {{metadata: {{labels: {{kubernetes.io/metadata.name: other}}}}}}
  MERGE namespaces/$ns {{metadata: {{labels: {{kubernetes.io/metadata.name: null}}}}}}
"""
)
