"""Server-side apply: owners, conflicts, force, removal, lists and maps of each type, subresources."""

_TEMPLATE = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: 'i:1', env: [{name: A, value: '1'}]}]}}"
_SPEC = f"selector: {{matchLabels: {{a: b}}}}, {_TEMPLATE}"

CASES = f"""
create by apply, and again
  APPLY configmaps/a?fieldManager=one {{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{k: w}}}}
conflict and force
  APPLY configmaps/a?fieldManager=one {{data: {{k: v, l: v}}, metadata: {{labels: {{x: '1'}}}}}}
  APPLY configmaps/a?fieldManager=two {{data: {{k: w}}}}
  APPLY configmaps/a?fieldManager=two {{data: {{k: w, l: w}}}}
  APPLY configmaps/a?fieldManager=two&force=true {{data: {{k: w}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{k: v, l: v}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{l: v}}}}
conflict with several managers
  APPLY configmaps/a?fieldManager=one {{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=two {{data: {{l: v}}}}
  MERGE configmaps/a?fieldManager=three {{data: {{m: v}}}}
  APPLY configmaps/a?fieldManager=four {{data: {{k: w, l: w, m: w}}}}
  APPLY configmaps/a?fieldManager=four&force=true {{data: {{k: w, l: w, m: w}}}}
conflict with an update
  POST configmaps?fieldManager=one {{metadata: {{name: a}}, data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{k: w}}}}
  APPLY configmaps/a?fieldManager=one&force=true {{data: {{k: w}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{}}}}
shared fields stay
  APPLY configmaps/a?fieldManager=one {{data: {{k: v, l: v}}}}
  APPLY configmaps/a?fieldManager=two {{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{}}}}
  APPLY configmaps/a?fieldManager=two {{}}
an update takes over
  APPLY configmaps/a?fieldManager=one {{data: {{k: v, l: v}}}}
  MERGE configmaps/a?fieldManager=two {{data: {{k: w}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{k: v, l: v}}}}
  MERGE configmaps/a?fieldManager=two {{data: {{k: null}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{k: v, l: v}}}}
a replace takes over
  APPLY configmaps/a?fieldManager=one {{data: {{k: v, l: v}}}}
  PUT configmaps/a?fieldManager=two +{{data: {{k: w}}}}
  PUT configmaps/a?fieldManager=two {{metadata: {{name: a}}, data: {{m: x}}}}
upgrade from an update manager
  POST configmaps?fieldManager=kubectl-client-side-apply {{metadata: {{name: a, annotations: {{kubectl.kubernetes.io/last-applied-configuration: '{{"apiVersion":"v1","data":{{"k":"v","l":"v"}},"kind":"ConfigMap","metadata":{{"annotations":{{}},"name":"a"}}}}'}}}}, data: {{k: v, l: v}}}}
  APPLY configmaps/a?fieldManager=kubectl&force=true {{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=kubectl {{data: {{k: w}}}}
upgrade with the same name
  MERGE configmaps/a?fieldManager=kubectl {{data: {{k: v}}}}
  POST configmaps?fieldManager=kubectl {{metadata: {{name: a}}, data: {{k: v, l: v}}}}
  APPLY configmaps/a?fieldManager=kubectl {{data: {{k: w}}}}
last-applied is kept up
  APPLY configmaps/a?fieldManager=kubectl {{metadata: {{annotations: {{kubectl.kubernetes.io/last-applied-configuration: '{{}}'}}}}, data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=kubectl {{data: {{k: w}}}}
dry run
  APPLY configmaps/a?fieldManager=one&dryRun=All {{data: {{k: v}}}}
  GET configmaps/a
  APPLY configmaps/a?fieldManager=one {{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one&dryRun=All {{data: {{k: w}}}}
  GET configmaps/a
without a manager
  APPLY configmaps/a {{data: {{k: v}}}}
a manager's bad names
  APPLY configmaps/a?fieldManager=%00 {{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager={"m" * 129} {{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager={"m" * 128} {{data: {{k: v}}}}
  POST configmaps?fieldManager={"m" * 129} {{metadata: {{name: b}}}}
force that is no flag
  APPLY configmaps/a?fieldManager=one&force=maybe {{data: {{k: v}}}}
force with an update
  POST configmaps?fieldManager=one&force=true {{metadata: {{name: a}}}}
  PUT configmaps/a?force=true +{{data: {{k: v}}}}
bodies that are none
  APPLY configmaps/a?fieldManager=one "not: [closed"
  APPLY configmaps/a?fieldManager=one "- a list"
  APPLY configmaps/a?fieldManager=one ""
  APPLY configmaps/a?fieldManager=one "null"
  APPLY configmaps/a?fieldManager=one ={{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one ={{apiVersion: v1, data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one ={{apiVersion: v1, kind: Secret, data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one ={{apiVersion: v2, kind: ConfigMap, data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one ={{apiVersion: lab.example/v1, kind: ConfigMap}}
  APPLY configmaps/a?fieldManager=one ={{kind: ConfigMap, data: {{k: v}}}}
YAML with duplicate keys
  APPLY configmaps/a?fieldManager=one "{{apiVersion: v1, kind: ConfigMap, data: {{k: v, k: w}}}}"
  APPLY configmaps/a?fieldManager=one&fieldValidation=Strict "{{apiVersion: v1, kind: ConfigMap, data: {{k: v, k: w}}}}"
names that differ
  APPLY configmaps/a?fieldManager=one {{metadata: {{name: b}}}}
  APPLY configmaps/a?fieldManager=one {{metadata: {{namespace: other}}}}
  APPLY configmaps/a?fieldManager=one {{metadata: {{generateName: b-}}}}
to a collection
  APPLY configmaps?fieldManager=one {{metadata: {{name: b}}}}
of versions and uids
  APPLY configmaps/a?fieldManager=one {{metadata: {{resourceVersion: '1'}}, data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one {{metadata: {{resourceVersion: '1'}}, data: {{k: w}}}}
  APPLY configmaps/a?fieldManager=one {{metadata: {{resourceVersion: $.metadata.resourceVersion}}, data: {{k: w}}}}
  APPLY configmaps/a?fieldManager=one {{metadata: {{uid: $.metadata.uid}}, data: {{k: x}}}}
  APPLY configmaps/a?fieldManager=one {{metadata: {{uid: 4f1c2a00-0000-4000-8000-000000000001}}, data: {{k: y}}}}
managedFields sent
  APPLY configmaps/a?fieldManager=one {{metadata: {{managedFields: []}}, data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=one {{metadata: {{managedFields: [{{manager: x, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {{}}}}]}}, data: {{k: v}}}}
  PUT configmaps/a +{{metadata: {{managedFields: [{{manager: x, operation: Apply, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {{'f:data': {{'f:k': {{}}}}}}}}]}}}}
  PUT configmaps/a +{{metadata: {{managedFields: [{{manager: x, operation: Applied, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {{'f:data': {{'f:k': {{}}}}}}}}]}}}}
  PUT configmaps/a +{{metadata: {{managedFields: [{{manager: x, operation: Apply, apiVersion: v1, fieldsType: FieldsV2, fieldsV1: {{'f:data': {{'f:k': {{}}}}}}}}]}}}}
  PUT configmaps/a +{{metadata: {{managedFields: [{{}}]}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{k: v}}}}
metadata by several
  APPLY configmaps/a?fieldManager=one {{metadata: {{labels: {{a: '1'}}, annotations: {{a: '1'}}, finalizers: [lab.example/a]}}}}
  APPLY configmaps/a?fieldManager=two {{metadata: {{labels: {{b: '1'}}, annotations: {{b: '1'}}, finalizers: [lab.example/b]}}}}
  APPLY configmaps/a?fieldManager=one {{metadata: {{labels: {{c: '1'}}}}}}
  APPLY configmaps/a?fieldManager=two {{}}
owner references by several
  APPLY configmaps/a?fieldManager=one {{metadata: {{ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: o, uid: u1}}]}}}}
  APPLY configmaps/a?fieldManager=two {{metadata: {{ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: p, uid: u2}}]}}}}
  APPLY configmaps/a?fieldManager=two {{metadata: {{ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: o, uid: u1, controller: true}}]}}}}
  APPLY configmaps/a?fieldManager=one {{}}
containers, env and ports by several
  APPLY deployments/a?fieldManager=one {{spec: {{{_SPEC}}}}}
  APPLY deployments/a?fieldManager=two {{spec: {{template: {{spec: {{containers: [{{name: c, env: [{{name: B, value: '2'}}], ports: [{{containerPort: 80}}]}}]}}}}}}}}
  APPLY deployments/a?fieldManager=three {{spec: {{template: {{spec: {{containers: [{{name: d, image: 'j:1'}}]}}}}}}}}
  APPLY deployments/a?fieldManager=two {{spec: {{template: {{spec: {{containers: [{{name: c, image: 'i:2'}}]}}}}}}}}
  APPLY deployments/a?fieldManager=two&force=true {{spec: {{template: {{spec: {{containers: [{{name: c, image: 'i:2'}}]}}}}}}}}
  APPLY deployments/a?fieldManager=three {{}}
  APPLY deployments/a?fieldManager=one {{spec: {{{_SPEC}}}}}
ports without a protocol, and two of one
  APPLY deployments/a?fieldManager=one {{spec: {{{_SPEC}}}}}
  APPLY deployments/a?fieldManager=two {{spec: {{template: {{spec: {{containers: [{{name: c, ports: [{{containerPort: 80}}, {{containerPort: 80, protocol: UDP}}]}}]}}}}}}}}
  APPLY deployments/a?fieldManager=three {{spec: {{template: {{spec: {{containers: [{{name: c, ports: [{{containerPort: 81}}, {{containerPort: 81}}]}}]}}}}}}}}
a container without a name
  APPLY deployments/a?fieldManager=one {{spec: {{selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{image: i}}]}}}}}}}}
a container twice
  APPLY deployments/a?fieldManager=one {{spec: {{selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: i}}, {{name: c, image: j}}]}}}}}}}}
replicas given up to an autoscaler
  APPLY deployments/a?fieldManager=one {{spec: {{replicas: 2, {_SPEC}}}}}
  MERGE deployments/a/scale?fieldManager=hpa {{spec: {{replicas: 3}}}}
  GET deployments/a
  APPLY deployments/a?fieldManager=one {{spec: {{replicas: 2, {_SPEC}}}}}
  APPLY deployments/a?fieldManager=one {{spec: {{{_SPEC}}}}}
  APPLY deployments/a/scale?fieldManager=other {{metadata: {{name: a}}, spec: {{replicas: 4}}}}
  APPLY deployments/a/scale?fieldManager=other&force=true {{metadata: {{name: a}}, spec: {{replicas: 4}}}}
  PUT deployments/a/scale?fieldManager=putter {{metadata: {{name: a}}, spec: {{replicas: 5}}}}
  GET deployments/a
an atomic list
  APPLY deployments/a?fieldManager=one {{spec: {{{_SPEC}}}}}
  APPLY deployments/a?fieldManager=two {{spec: {{template: {{spec: {{tolerations: [{{key: t}}]}}}}}}}}
  APPLY deployments/a?fieldManager=three {{spec: {{template: {{spec: {{tolerations: [{{key: u}}]}}}}}}}}
  APPLY deployments/a?fieldManager=two {{}}
an atomic map
  APPLY deployments/a?fieldManager=one {{spec: {{{_SPEC}}}}}
  APPLY deployments/a?fieldManager=two {{spec: {{template: {{spec: {{nodeSelector: {{x: y}}}}}}}}}}
  APPLY deployments/a?fieldManager=three {{spec: {{template: {{spec: {{nodeSelector: {{z: y}}}}}}}}}}
a Service's ports
  APPLY services/a?fieldManager=one {{spec: {{ports: [{{port: 80, name: web}}], selector: {{a: b}}}}}}
  APPLY services/a?fieldManager=two {{spec: {{ports: [{{port: 81, name: other, protocol: TCP}}]}}}}
  APPLY services/a?fieldManager=two {{spec: {{selector: {{a: c}}}}}}
  APPLY services/a?fieldManager=one {{spec: {{ports: [{{port: 80, name: web}}]}}}}
a Secret's plain text
  APPLY secrets/a?fieldManager=one {{stringData: {{k: v}}}}
  APPLY secrets/a?fieldManager=one {{stringData: {{k: w}}}}
  APPLY secrets/a?fieldManager=one {{data: {{k: dg==}}}}
roles, atomic
  APPLY roles/a?fieldManager=one {{rules: [{{apiGroups: [''], resources: [pods], verbs: [get]}}]}}
  APPLY roles/a?fieldManager=two {{rules: [{{apiGroups: [''], resources: [pods], verbs: [list]}}]}}
status by apply, of a Pod
  POST pods {{metadata: {{name: a}}, spec: {{containers: [{{name: c, image: 'i:1'}}]}}}}
  APPLY pods/a/status?fieldManager=kubelet {{status: {{phase: Running, conditions: [{{type: Ready, status: 'True'}}]}}}}
  APPLY pods/a/status?fieldManager=other {{status: {{conditions: [{{type: lab.example/Gate, status: 'True'}}]}}}}
  APPLY pods/a/status?fieldManager=other {{status: {{conditions: [{{type: Ready, status: 'False'}}]}}}}
  APPLY pods/a?fieldManager=main {{status: {{phase: Failed}}}}
  APPLY pods/a/status?fieldManager=other {{}}
status by apply, of a Job
  POST jobs {{metadata: {{name: a}}, spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: 'i:1'}}]}}}}}}}}
  APPLY jobs/a/status?fieldManager=one {{status: {{active: 1, startTime: '2026-01-01T00:00:00Z'}}}}
  APPLY jobs/a/status?fieldManager=one {{status: {{active: 2, startTime: '2026-01-01T00:00:00Z'}}}}
  APPLY jobs/a/status?fieldManager=two {{status: {{active: 0}}}}
values of wrong types
  APPLY configmaps/a?fieldManager=one {{data: {{k: 1}}}}
  APPLY configmaps/a?fieldManager=one {{data: text}}
  APPLY configmaps/a?fieldManager=one {{data: [k]}}
  APPLY configmaps/a?fieldManager=one {{immutable: 'yes'}}
  APPLY configmaps/a?fieldManager=one {{metadata: {{labels: {{a: 1}}}}}}
  APPLY configmaps/a?fieldManager=one {{metadata: text}}
  APPLY configmaps/a?fieldManager=one {{other: 1}}
  APPLY deployments/a?fieldManager=one {{spec: {{replicas: many}}}}
  APPLY deployments/a?fieldManager=one {{spec: {{replicas: 1.5}}}}
  APPLY deployments/a?fieldManager=one {{spec: {{replicas: 1.0, {_SPEC}}}}}
nulls
  APPLY configmaps/a?fieldManager=one {{data: {{k: null}}}}
  APPLY configmaps/a?fieldManager=one {{data: null}}
  APPLY configmaps/a?fieldManager=one {{metadata: {{labels: null}}, data: {{k: v}}}}
our kind by several
  APPLY dgdrs/a?fieldManager=one {{spec: {{model: {{name: Org/M-8B}}, backends: [vllm]}}}}
  APPLY dgdrs/a?fieldManager=two {{spec: {{model: {{name: Org/N-8B}}}}}}
  APPLY dgdrs/a?fieldManager=two&force=true {{spec: {{model: {{name: Org/N-8B}}}}}}
  APPLY dgdrs/a?fieldManager=one {{spec: {{backends: [vllm]}}}}
  APPLY dgdrs/a?fieldManager=one {{spec: {{}}}}
  APPLY dgdrs/a/status?fieldManager=one {{status: {{phase: Running}}}}
  APPLY dgdrs/a/status?fieldManager=two {{status: {{phase: Failed}}}}
more than ten updaters
""" + "".join(
    f"  MERGE configmaps/a?fieldManager=m{n} {{data: {{k{n}: v}}}}\n"
    if n
    else "  POST configmaps?fieldManager=m0 {metadata: {name: a}}\n"
    for n in range(13)
)
