"""JSON, merge and strategic merge patches, the directives of the last, and what is refused."""

_POD = "POST pods {metadata: {name: a, labels: {x: y}}, spec: {containers: [{name: c, image: 'i:1', env: [{name: A, value: '1'}], ports: [{containerPort: 80}]}], tolerations: [{key: t}]}}"
_DEPLOYMENT = (
    "POST deployments {metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}},"
    " spec: {containers: [{name: c, image: 'i:1', command: [x, y], env: [{name: A, value: '1'}, {name: B, value: '2'}],"
    " ports: [{containerPort: 80, name: web}], volumeMounts: [{name: v, mountPath: /v}]}, {name: d, image: 'j:1'}],"
    " volumes: [{name: v, emptyDir: {}}], imagePullSecrets: [{name: s}]}}}}"
)
_CONFIG = "POST configmaps {metadata: {name: a, labels: {x: y}, annotations: {n: o}, finalizers: [lab.example/f]}, data: {k: v, l: w}}"


def _each(setup: str, target: str, verb: str, bodies: dict[str, str]) -> str:
    lines = []
    for name, body in bodies.items():
        lines += [f"{verb.lower()} {target}: {name}", f"  {setup}", f"  {verb} {target} {body}"]
    return "\n".join(lines) + "\n"


_JSON_PATCHES = {
    "add a key": "[{op: add, path: /data/m, value: x}]",
    "add over a key": "[{op: add, path: /data/k, value: x}]",
    "add where no parent is": "[{op: add, path: /metadata/deep/er, value: x}]",
    "add a map": "[{op: add, path: /binaryData, value: {b: dg==}}]",
    "add at the end of a list": "[{op: add, path: /metadata/finalizers/-, value: lab.example/g}]",
    "add within a list": "[{op: add, path: /metadata/finalizers/0, value: lab.example/g}]",
    "add beyond a list": "[{op: add, path: /metadata/finalizers/5, value: lab.example/g}]",
    "add at a negative index": "[{op: add, path: /metadata/finalizers/-1, value: lab.example/g}]",
    "replace a key": "[{op: replace, path: /data/k, value: x}]",
    "replace what is not there": "[{op: replace, path: /data/none, value: x}]",
    "replace a map": "[{op: replace, path: /data, value: {z: z}}]",
    "replace the whole": "[{op: replace, path: '', value: {}}]",
    "remove a key": "[{op: remove, path: /data/k}]",
    "remove what is not there": "[{op: remove, path: /data/none}]",
    "remove a list item": "[{op: remove, path: /metadata/finalizers/0}]",
    "remove a map": "[{op: remove, path: /data}]",
    "move": "[{op: move, from: /data/k, path: /data/m}]",
    "move what is not there": "[{op: move, from: /data/none, path: /data/m}]",
    "copy": "[{op: copy, from: /data/k, path: /data/m}]",
    "copy what is not there": "[{op: copy, from: /data/none, path: /data/m}]",
    "test that holds": "[{op: test, path: /data/k, value: v}, {op: remove, path: /data/l}]",
    "test that fails": "[{op: test, path: /data/k, value: no}, {op: remove, path: /data/l}]",
    "test of what is not there": "[{op: test, path: /data/none, value: x}]",
    "test for null of what is not there": "[{op: test, path: /data/none, value: null}]",
    "escaped": "[{op: add, path: /metadata/annotations/lab.example~1a, value: x}]",
    "escaped tilde": "[{op: add, path: /metadata/annotations/a~0b, value: x}]",
    "no operations": "[]",
    "an unknown operation": "[{op: change, path: /data/k, value: x}]",
    "no operation": "[{path: /data/k, value: x}]",
    "no path": "[{op: add, value: x}]",
    "no value": "[{op: add, path: /data/m}]",
    "a path without slash": "[{op: add, path: data/m, value: x}]",
    "an object": "{op: add, path: /data/m, value: x}",
    "text": '"not a patch"',
    "a number in text": "[{op: replace, path: /data/k, value: 5}]",
    "a name": "[{op: replace, path: /metadata/name, value: b}]",
    "a namespace": "[{op: replace, path: /metadata/namespace, value: b}]",
    "a kind": "[{op: replace, path: /kind, value: Secret}]",
    "a uid": "[{op: replace, path: /metadata/uid, value: 4f1c2a00-0000-4000-8000-000000000001}]",
    "an old version": "[{op: replace, path: /metadata/resourceVersion, value: '1'}]",
    "a creation time": "[{op: replace, path: /metadata/creationTimestamp, value: '2020-01-01T00:00:00Z'}]",
    "a deletion time": "[{op: add, path: /metadata/deletionTimestamp, value: '2020-01-01T00:00:00Z'}]",
    "a generation": "[{op: add, path: /metadata/generation, value: 7}]",
    "managedFields away": "[{op: replace, path: /metadata/managedFields, value: [{}]}]",
    "managedFields emptied": "[{op: replace, path: /metadata/managedFields, value: []}]",
    "managedFields removed": "[{op: remove, path: /metadata/managedFields}]",
    "an unknown field": "[{op: add, path: /other, value: x}]",
    "two of one": "[{op: add, path: /data/m, value: x}, {op: add, path: /data/m, value: y}]",
}
_MERGE_PATCHES = {
    "a key": "{data: {k: x}}",
    "a key away": "{data: {k: null}}",
    "a map away": "{data: null}",
    "an absent key away": "{data: {none: null}}",
    "nothing": "{}",
    "the same": "{data: {k: v}}",
    "a number in text": "{data: {k: 5}}",
    "a list for a map": "{data: [k]}",
    "finalizers": "{metadata: {finalizers: [lab.example/g]}}",
    "finalizers away": "{metadata: {finalizers: null}}",
    "a finalizer's bad name": "{metadata: {finalizers: ['bad name']}}",
    "labels": "{metadata: {labels: {x: null, z: '1'}}}",
    "a bad label": "{metadata: {labels: {'a b': c}}}",
    "a label that is a number": "{metadata: {labels: {x: 1}}}",
    "another name": "{metadata: {name: b}}",
    "another namespace": "{metadata: {namespace: b}}",
    "another kind": "{kind: Secret}",
    "another apiVersion": "{apiVersion: v2}",
    "a uid": "{metadata: {uid: 4f1c2a00-0000-4000-8000-000000000001}}",
    "an old version": "{metadata: {resourceVersion: '1'}, data: {k: x}}",
    "a version that is none": "{metadata: {resourceVersion: abc}, data: {k: x}}",
    "an unknown field": "{other: x}",
    "an unknown field of metadata": "{metadata: {other: x}}",
    "a list": "[{data: {k: x}}]",
    "no JSON": '"{data"',
    "null": '"null"',
    "nothing at all": '""',
    "YAML": '"data: {k: x}"',
    "managedFields away": "{metadata: {managedFields: [{}]}}",
    "deep nulls": "{metadata: {annotations: {n: null, o: null}}, data: {k: null, l: null}}",
}
_STRATEGIC_PATCHES = {
    "an image by name": "{spec: {template: {spec: {containers: [{name: c, image: 'i:2'}]}}}}",
    "a new container": "{spec: {template: {spec: {containers: [{name: e, image: 'k:1'}]}}}}",
    "a container without its key": "{spec: {template: {spec: {containers: [{image: 'k:1'}]}}}}",
    "a container away": "{spec: {template: {spec: {containers: [{name: d, $patch: delete}]}}}}",
    "a container that is not there away": "{spec: {template: {spec: {containers: [{name: z, $patch: delete}]}}}}",
    "containers replaced": "{spec: {template: {spec: {containers: [{name: e, image: 'k:1'}, {$patch: replace}]}}}}",
    "containers ordered": "{spec: {template: {spec: {$setElementOrder/containers: [{name: d}, {name: c}]}}}}",
    "containers ordered and changed": "{spec: {template: {spec: {$setElementOrder/containers: [{name: d}, {name: c}], containers: [{name: d, image: 'j:2'}]}}}}",
    "env merged": "{spec: {template: {spec: {containers: [{name: c, env: [{name: B, value: '3'}, {name: C, value: '4'}]}]}}}}",
    "env away": "{spec: {template: {spec: {containers: [{name: c, env: [{name: A, $patch: delete}]}]}}}}",
    "env replaced": "{spec: {template: {spec: {containers: [{name: c, env: [{name: Z, value: z}, {$patch: replace}]}]}}}}",
    "ports merged": "{spec: {template: {spec: {containers: [{name: c, ports: [{containerPort: 81}]}]}}}}",
    "a port renamed": "{spec: {template: {spec: {containers: [{name: c, ports: [{containerPort: 80, name: http}]}]}}}}",
    "mounts merged by path": "{spec: {template: {spec: {containers: [{name: c, volumeMounts: [{name: v, mountPath: /w}]}]}}}}",
    "a volume's kind changed": "{spec: {template: {spec: {volumes: [{name: v, configMap: {name: m}}]}}}}",
    "a volume's keys retained": "{spec: {template: {spec: {volumes: [{name: v, $retainKeys: [name, configMap], configMap: {name: m}}]}}}}",
    "a volume away": "{spec: {template: {spec: {volumes: [{name: v, $patch: delete}], containers: [{name: c, volumeMounts: [{mountPath: /v, $patch: delete}]}]}}}}",
    "a command, atomic": "{spec: {template: {spec: {containers: [{name: c, command: [z]}]}}}}",
    "a strategy's keys retained": "{spec: {strategy: {$retainKeys: [type], type: Recreate}}}",
    "a strategy without retaining": "{spec: {strategy: {type: Recreate}}}",
    "tolerations, atomic": "{spec: {template: {spec: {tolerations: [{key: u}]}}}}",
    "pull secrets merged": "{spec: {template: {spec: {imagePullSecrets: [{name: t}]}}}}",
    "a map replaced": "{metadata: {labels: {$patch: replace, z: z}}}",
    "a map deleted": "{spec: {template: {spec: {nodeSelector: {$patch: delete}}}}}",
    "null away": "{spec: {template: {spec: {containers: [{name: c, command: null}]}}}}",
    "an unknown directive": "{spec: {$patch: change}}",
    "an unknown field": "{spec: {other: 1}}",
    "a list of values away": "{metadata: {$deleteFromPrimitiveList/finalizers: [lab.example/f]}}",
    "finalizers merged": "{metadata: {finalizers: [lab.example/g]}}",
    "owners merged": "{metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: o, uid: u1}]}}",
    "a list for a map": "{spec: [1]}",
    "a map for a list": "{spec: {template: {spec: {containers: {name: c}}}}}",
    "text for a number": "{spec: {replicas: many}}",
    "nothing": "{}",
    "a list": "[1]",
}

CASES = (
    _each(_CONFIG, "configmaps/a", "JSONPATCH", _JSON_PATCHES)
    + _each(_CONFIG, "configmaps/a", "MERGE", _MERGE_PATCHES)
    + _each(_DEPLOYMENT, "deployments/a", "STRATEGIC", _STRATEGIC_PATCHES)
    + f"""
strategic patch of a Pod's environment
  {_POD}
  STRATEGIC pods/a {{spec: {{containers: [{{name: c, env: [{{name: A, value: '2'}}]}}]}}}}
strategic patch of a Pod's image
  {_POD}
  STRATEGIC pods/a {{spec: {{containers: [{{name: c, image: 'i:2'}}]}}}}
strategic patch of a Pod's tolerations
  {_POD}
  STRATEGIC pods/a {{spec: {{tolerations: [{{key: t}}, {{key: u}}]}}}}
strategic patch of a Service's ports
  POST services {{metadata: {{name: a}}, spec: {{ports: [{{port: 80, name: web}}]}}}}
  STRATEGIC services/a {{spec: {{ports: [{{port: 81, name: other}}]}}}}
  STRATEGIC services/a {{spec: {{ports: [{{port: 81, $patch: delete}}]}}}}
strategic patch of a ServiceAccount's secrets
  POST serviceaccounts {{metadata: {{name: a}}, secrets: [{{name: s}}], imagePullSecrets: [{{name: p}}]}}
  STRATEGIC serviceaccounts/a {{secrets: [{{name: t}}], imagePullSecrets: [{{name: q}}]}}
strategic patch of a node's status
  POST nodes {{metadata: {{name: $ns-a}}}}
  STRATEGIC nodes/$ns-a/status {{status: {{conditions: [{{type: Ready, status: 'True'}}], addresses: [{{type: Hostname, address: h}}]}}}}
  STRATEGIC nodes/$ns-a/status {{status: {{conditions: [{{type: DiskPressure, status: 'False'}}], addresses: [{{type: InternalIP, address: 10.0.0.1}}]}}}}
  STRATEGIC nodes/$ns-a/status {{status: {{conditions: [{{type: Ready, $patch: delete}}]}}}}
  STRATEGIC nodes/$ns-a {{spec: {{taints: [{{key: k, effect: NoSchedule}}]}}}}
  STRATEGIC nodes/$ns-a {{spec: {{taints: [{{key: l, effect: NoSchedule}}]}}}}
  DELETE nodes/$ns-a
strategic patch of our kind
  POST dgdrs {{metadata: {{name: a}}, spec: {{model: {{name: Org/M-8B}}}}}}
  STRATEGIC dgdrs/a {{spec: {{model: {{name: Org/N-8B}}}}}}
patches of unknown types
  {_CONFIG}
  PATCH configmaps/a Content-Type=application/json {{data: {{k: x}}}}
  PATCH configmaps/a Content-Type=text/plain {{data: {{k: x}}}}
  PATCH configmaps/a Content-Type=application/apply-patch+json {{data: {{k: x}}}}
  PATCH configmaps/a Content-Type=application/merge-patch+json;charset=utf-8 {{data: {{k: x}}}}
  PATCH configmaps/a Content-Type=application/merge-patch+yaml {{data: {{k: x}}}}
patches of what is not there
  JSONPATCH configmaps/a [{{op: add, path: /data, value: {{}}}}]
  MERGE configmaps/a {{data: {{k: x}}}}
  STRATEGIC configmaps/a {{data: {{k: x}}}}
  MERGE configmaps {{data: {{k: x}}}}
patches with options
  {_CONFIG}
  MERGE configmaps/a?force=true {{data: {{k: x}}}}
  MERGE configmaps/a?fieldManager=m {{data: {{k: x}}}}
  MERGE configmaps/a?fieldManager=bad%00name {{data: {{k: x}}}}
  MERGE configmaps/a?dryRun=All {{data: {{k: dry}}}}
  MERGE configmaps/a?dryRun=Some {{data: {{k: dry}}}}
  MERGE configmaps/a?fieldValidation=Strict {{other: 1}}
  MERGE configmaps/a?fieldValidation=Warn {{other: 1}}
  MERGE configmaps/a?fieldValidation=Ignore {{other: 1}}
  MERGE configmaps/a?fieldValidation=Maybe {{other: 1}}
  JSONPATCH configmaps/a?fieldValidation=Strict [{{op: add, path: /other, value: 1}}]
  STRATEGIC configmaps/a?fieldValidation=Strict {{other: 1}}
  GET configmaps/a
"""
)
