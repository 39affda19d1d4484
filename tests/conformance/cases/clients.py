"""What other people's clients came upon: kubectl, client-go and the rest."""

from __future__ import annotations

AT_ONCE = 8

_TEMPLATE = (
    "{metadata: {labels: {a: b}}, spec: {restartPolicy: Never, containers: [{name: m, image: i}]}}"
)
_SERVED = "{metadata: {labels: {a: b}}, spec: {containers: [{name: m, image: i}]}}"
CASES = f"""
a patch cannot rename
  POST configmaps {{metadata: {{name: a}}, data: {{k: v}}}}
  MERGE configmaps/a {{metadata: {{name: b}}}}
  STRATEGIC configmaps/a {{metadata: {{name: b}}}}
  JSONPATCH configmaps/a =[{{op: replace, path: /metadata/name, value: b}}]

a JSON patch that does not apply says nothing about why
  POST configmaps {{metadata: {{name: a}}, data: {{k: v}}}}
  JSONPATCH configmaps/a =[{{op: test, path: /data/k, value: w}}]
  JSONPATCH configmaps/a =[{{op: remove, path: /data/none}}]
  JSONPATCH configmaps/a =[{{op: add, path: /none/none, value: w}}]

a JSON patch replaces a key that was not there
  POST configmaps {{metadata: {{name: a}}, data: {{k: v}}}}
  JSONPATCH configmaps/a =[{{op: replace, path: /data/none, value: w}}]
  JSONPATCH configmaps/a =[{{op: replace, path: /data/x/y, value: w}}]

a label selector that cannot be read
  GET configmaps?labelSelector=app%3D%28x
  GET configmaps?labelSelector=app%20in
  GET configmaps?labelSelector=%2C

a field selector of kinds with and without fields of their own
  GET configmaps?fieldSelector=data%3Dnone
  GET secrets?fieldSelector=data%3Dnone
  GET pods?fieldSelector=data%3Dnone
  GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldSelector=data%3Dnone
  GET dgdrs?fieldSelector=data%3Dnone

who only joins the owners of a field gets no time
  POST configmaps?fieldManager=one {{metadata: {{name: a}}, data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=two {{data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=two {{data: {{k: w}}}}
  APPLY configmaps/a?fieldManager=two&force=true {{data: {{k: w}}}}

where nothing is served there is no Status
  GET /apis/nosuch.example.com/v1/things
  GET /apis/nvidia.com/v1beta2/things
  GET /nosuch
  GET /apis/apps/v1/things
  GET /api/v1/things

a CronJob's Job has no defaults until it is made
  POST cronjobs {{metadata: {{name: a}}, spec: {{schedule: "0 * * * *", jobTemplate: {{spec: {{template: {_TEMPLATE}}}}}}}}}
  POST cronjobs {{metadata: {{name: b}}, spec: {{schedule: "0 * * * *", jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: m, image: i}}]}}}}}}}}}}}}
  POST cronjobs {{metadata: {{name: c}}, spec: {{schedule: nonsense, jobTemplate: {{spec: {{template: {_TEMPLATE}}}}}}}}}

a Job is not selected by hand unless it says so
  POST jobs {{metadata: {{name: a}}, spec: {{suspend: true, template: {_TEMPLATE}}}}}

counts of a disruption budget are never absent
  POST poddisruptionbudgets {{metadata: {{name: a}}, spec: {{minAvailable: 1, selector: {{matchLabels: {{a: b}}}}}}}}

kinds that count no generations, or have no status
  POST resourcequotas {{metadata: {{name: a}}, spec: {{hard: {{pods: "1"}}}}}}
  POST networkpolicies {{metadata: {{name: a}}, spec: {{podSelector: {{matchLabels: {{a: b}}}}, policyTypes: [Ingress]}}}}
  POST serviceaccounts {{metadata: {{name: a}}}}

the scale of a workload selects as its spec does
  POST deployments {{metadata: {{name: a}}, spec: {{replicas: 0, selector: {{matchLabels: {{a: b}}}}, template: {_SERVED}}}}}
  GET deployments/a/scale
  POST replicasets {{metadata: {{name: a}}, spec: {{replicas: 0, selector: {{matchExpressions: [{{key: a, operator: In, values: [c, b]}}]}}, template: {_SERVED}}}}}
  GET replicasets/a/scale
"""
