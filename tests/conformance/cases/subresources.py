"""Status, scale, eviction, binding, log and others; and what each refuses."""

_POD = (
    "POST pods {metadata: {name: a, labels: {a: b}}, spec: {containers: [{name: c, image: 'i:1'}]}}"
)
_BOUND = "POST pods {metadata: {name: a, labels: {a: b}}, spec: {nodeName: $ns-none, containers: [{name: c, image: 'i:1'}, {name: d, image: 'i:1'}]}}"
_DEPLOYMENT = "POST deployments {metadata: {name: a}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}"
_JOB = "POST jobs {metadata: {name: a}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}"


def _scaled(plural: str, made: str) -> str:
    return f"""
scale of {plural}
  {made}
  GET {plural}/a/scale
  PUT {plural}/a/scale {{metadata: {{name: a}}, spec: {{replicas: 4}}}}
  PUT {plural}/a/scale +{{spec: {{replicas: 5}}}}
  MERGE {plural}/a/scale {{spec: {{replicas: 6}}}}
  JSONPATCH {plural}/a/scale [{{op: replace, path: /spec/replicas, value: 7}}]
  STRATEGIC {plural}/a/scale {{spec: {{replicas: 8}}}}
  APPLY {plural}/a/scale?fieldManager=m {{metadata: {{name: a}}, spec: {{replicas: 8}}}}
  APPLY {plural}/a/scale?fieldManager=m&force=true {{metadata: {{name: a}}, spec: {{replicas: 9}}}}
  PUT {plural}/a/scale {{metadata: {{name: a}}, spec: {{replicas: -1}}}}
  PUT {plural}/a/scale {{metadata: {{name: b}}, spec: {{replicas: 1}}}}
  PUT {plural}/a/scale {{metadata: {{name: a, resourceVersion: '1'}}, spec: {{replicas: 1}}}}
  PUT {plural}/a/scale {{metadata: {{name: a, uid: 4f1c2a00-0000-4000-8000-000000000001}}, spec: {{replicas: 1}}}}
  PUT {plural}/a/scale {{metadata: {{name: a}}}}
  PUT {plural}/a/scale?dryRun=All {{metadata: {{name: a}}, spec: {{replicas: 2}}}}
  PUT {plural}/a/scale ={{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}}}
  MERGE {plural}/a/scale {{spec: {{replicas: many}}}}
  DELETE {plural}/a/scale
  POST {plural}/a/scale {{metadata: {{name: a}}}}
  GET {plural}/none/scale
  MERGE {plural}/none/scale {{spec: {{replicas: 1}}}}
  GET {plural}/a
"""


_SCALED = {
    "deployments": _DEPLOYMENT,
    "replicasets": _DEPLOYMENT.replace("deployments", "replicasets"),
    "statefulsets": _DEPLOYMENT.replace("deployments", "statefulsets"),
    "replicationcontrollers": "POST replicationcontrollers {metadata: {name: a}, spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}",
}

CASES = (
    "".join(_scaled(plural, made) for plural, made in _SCALED.items())
    + f"""
status of a Deployment
  {_DEPLOYMENT}
  GET deployments/a/status
  MERGE deployments/a/status {{status: {{replicas: 3, observedGeneration: 1}}}}
  PUT deployments/a/status +{{spec: {{replicas: 7}}, status: {{replicas: 2, readyReplicas: 1}}, metadata: {{labels: {{x: y}}}}}}
  MERGE deployments/a {{status: {{replicas: 9}}}}
  MERGE deployments/a/status {{status: {{replicas: -1}}}}
  MERGE deployments/a/status {{status: {{readyReplicas: 9}}}}
  STRATEGIC deployments/a/status {{status: {{conditions: [{{type: Available, status: 'True'}}]}}}}
  STRATEGIC deployments/a/status {{status: {{conditions: [{{type: Progressing, status: 'True'}}]}}}}
  MERGE deployments/a/status {{status: null}}
  GET deployments/none/status
  DELETE deployments/a/status
  POST deployments/a/status {{status: {{}}}}
status of a Job
  {_JOB}
  MERGE jobs/a/status {{status: {{active: 1}}}}
  MERGE jobs/a/status {{status: {{startTime: '2026-01-01T00:00:00Z'}}}}
  MERGE jobs/a/status {{status: {{conditions: [{{type: Complete, status: 'True'}}]}}}}
  MERGE jobs/a/status {{status: {{conditions: [{{type: Failed, status: 'True', reason: R}}], active: 0, failed: 1}}}}
  MERGE jobs/a/status {{status: {{failed: -1}}}}
status of a Pod
  {_POD}
  MERGE pods/a/status {{status: {{phase: Running, podIP: 10.0.0.1, conditions: [{{type: Ready, status: 'True'}}]}}}}
  STRATEGIC pods/a/status {{status: {{conditions: [{{type: PodScheduled, status: 'True'}}]}}}}
  PUT pods/a/status +{{status: {{phase: Succeeded}}, spec: {{nodeName: n}}}}
  MERGE pods/a/status {{status: {{phase: Strange}}}}
  MERGE pods/a/status {{status: {{podIP: none}}}}
  MERGE pods/a/status {{metadata: {{labels: {{s: t}}, annotations: {{s: t}}, finalizers: [lab.example/f]}}}}
  MERGE pods/a/status {{status: {{containerStatuses: [{{name: c, ready: true, restartCount: 1, image: i, imageID: i, state: {{running: {{startedAt: '2026-01-01T00:00:00Z'}}}}}}]}}}}
status of others
  POST services {{metadata: {{name: a}}, spec: {{ports: [{{port: 80}}]}}}}
  MERGE services/a/status {{status: {{loadBalancer: {{ingress: [{{ip: 10.0.0.1}}]}}}}}}
  POST persistentvolumeclaims {{metadata: {{name: a}}, spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}}}
  MERGE persistentvolumeclaims/a/status {{status: {{phase: Bound}}}}
  POST resourcequotas {{metadata: {{name: a}}, spec: {{hard: {{pods: '9'}}}}}}
  MERGE resourcequotas/a/status {{status: {{hard: {{pods: '9'}}, used: {{pods: '1'}}}}}}
  POST poddisruptionbudgets {{metadata: {{name: a}}, spec: {{minAvailable: 1, selector: {{}}}}}}
  MERGE poddisruptionbudgets/a/status {{status: {{disruptionsAllowed: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2, observedGeneration: 1}}}}
  MERGE configmaps/a/status {{data: {{}}}}
  GET configmaps/a/status
  GET leases/a/status
  MERGE secrets/a/status {{data: {{}}}}
  POST cronjobs {{metadata: {{name: a}}, spec: {{schedule: '@daily', jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}}}}}
  MERGE cronjobs/a/status {{status: {{lastScheduleTime: '2026-01-01T00:00:00Z'}}}}
  MERGE namespaces/$ns/status {{status: {{conditions: [{{type: NamespaceContentRemaining, status: 'False'}}]}}}}
binding
  {_POD}
  POST pods/a/binding {{metadata: {{name: a}}, target: {{kind: Node, name: n}}}}
  GET pods/a
  POST pods/a/binding {{metadata: {{name: a}}, target: {{kind: Node, name: n}}}}
  POST pods/a/binding {{metadata: {{name: a}}, target: {{kind: Node, name: m}}}}
  POST pods/none/binding {{metadata: {{name: none}}, target: {{kind: Node, name: n}}}}
  POST pods/a/binding {{metadata: {{name: b}}, target: {{kind: Node, name: n}}}}
  GET pods/a/binding
  MERGE pods/a/binding {{target: {{name: n}}}}
bindings that are none
  {_POD}
  POST pods/a/binding {{metadata: {{name: a}}, target: {{kind: Node}}}}
  POST pods/a/binding {{metadata: {{name: a}}, target: {{kind: Pod, name: n}}}}
  POST pods/a/binding {{metadata: {{name: a}}}}
  POST pods/a/binding {{metadata: {{name: a}}, target: {{apiVersion: v1, kind: Node, name: 'Bad Name'}}}}
  POST pods/a/binding ={{apiVersion: v1, kind: Pod, metadata: {{name: a}}}}
  POST pods/a/binding?dryRun=All {{metadata: {{name: a}}, target: {{kind: Node, name: n}}}}
  GET pods/a
  POST pods/a/binding {{metadata: {{name: a, annotations: {{x: y}}, labels: {{l: m}}}}, target: {{kind: Node, name: n}}}}
  GET pods/a
  POST pods/a/binding {{metadata: {{name: a, uid: 4f1c2a00-0000-4000-8000-000000000001}}, target: {{kind: Node, name: n}}}}
bindings as a resource
  {_POD}
  POST bindings {{metadata: {{name: a}}, target: {{kind: Node, name: n}}}}
  GET pods/a
  GET bindings
binding of a gated Pod
  POST pods {{metadata: {{name: a}}, spec: {{schedulingGates: [{{name: lab.example/g}}], containers: [{{name: c, image: i}}]}}}}
  POST pods/a/binding {{metadata: {{name: a}}, target: {{kind: Node, name: n}}}}
  MERGE pods/a {{spec: {{schedulingGates: [{{name: lab.example/h}}]}}}}
  MERGE pods/a {{spec: {{schedulingGates: null}}}}
  POST pods/a/binding {{metadata: {{name: a}}, target: {{kind: Node, name: n}}}}
  MERGE pods/a {{spec: {{schedulingGates: [{{name: lab.example/g}}]}}}}
binding of a Pod that is being deleted
  POST pods {{metadata: {{name: a, finalizers: [lab.example/f]}}, spec: {{containers: [{{name: c, image: i}}]}}}}
  DELETE pods/a
  POST pods/a/binding {{metadata: {{name: a}}, target: {{kind: Node, name: n}}}}
eviction
  {_POD}
  POST pods/a/eviction {{metadata: {{name: a}}}}
  GET pods/a
  POST pods/a/eviction {{metadata: {{name: a}}}}
eviction of a bound Pod
  {_BOUND}
  POST pods/a/eviction {{metadata: {{name: a}}}}
  GET pods/a
  POST pods/a/eviction {{metadata: {{name: a}}, deleteOptions: {{gracePeriodSeconds: 0}}}}
  GET pods/a
eviction for show
  {_POD}
  POST pods/a/eviction?dryRun=All {{metadata: {{name: a}}}}
  POST pods/a/eviction {{metadata: {{name: a}}, deleteOptions: {{dryRun: [All]}}}}
  GET pods/a
eviction with preconditions
  {_POD}
  POST pods/a/eviction {{metadata: {{name: a}}, deleteOptions: {{preconditions: {{uid: other}}}}}}
  POST pods/a/eviction {{metadata: {{name: a}}, deleteOptions: {{preconditions: {{resourceVersion: '1'}}}}}}
  POST pods/a/eviction {{metadata: {{name: a}}, deleteOptions: {{propagationPolicy: Sideways}}}}
  POST pods/a/eviction {{metadata: {{name: b}}}}
  POST pods/a/eviction ={{apiVersion: policy/v1beta1, kind: Eviction, metadata: {{name: a}}}}
  POST pods/a/eviction ={{apiVersion: v1, kind: Pod, metadata: {{name: a}}}}
  GET pods/a/eviction
  POST pods/a/eviction {{metadata: {{name: a}}, deleteOptions: {{preconditions: {{uid: $1.metadata.uid}}}}}}
  GET pods/a
eviction against a budget
  {_BOUND}
  MERGE pods/a/status {{status: {{phase: Running, conditions: [{{type: Ready, status: 'True'}}]}}}}
  POST poddisruptionbudgets {{metadata: {{name: p}}, spec: {{minAvailable: 1, selector: {{matchLabels: {{a: b}}}}}}}}
  POST pods/a/eviction {{metadata: {{name: a}}}}
  MERGE poddisruptionbudgets/p/status {{status: {{disruptionsAllowed: 0, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1, observedGeneration: 1}}}}
  POST pods/a/eviction {{metadata: {{name: a}}}}
  MERGE poddisruptionbudgets/p/status {{status: {{disruptionsAllowed: 1, currentHealthy: 2, desiredHealthy: 1, expectedPods: 2, observedGeneration: 1}}}}
  POST pods/a/eviction {{metadata: {{name: a}}}}
  GET poddisruptionbudgets/p
  GET pods/a
eviction against two budgets
  {_BOUND}
  POST poddisruptionbudgets {{metadata: {{name: p}}, spec: {{minAvailable: 1, selector: {{matchLabels: {{a: b}}}}}}}}
  POST poddisruptionbudgets {{metadata: {{name: q}}, spec: {{minAvailable: 1, selector: {{matchLabels: {{a: b}}}}}}}}
  MERGE pods/a/status {{status: {{phase: Running}}}}
  POST pods/a/eviction {{metadata: {{name: a}}}}
eviction of a Pod that has ended, against a budget
  {_BOUND}
  POST poddisruptionbudgets {{metadata: {{name: p}}, spec: {{minAvailable: 1, selector: {{matchLabels: {{a: b}}}}}}}}
  MERGE pods/a/status {{status: {{phase: Succeeded}}}}
  POST pods/a/eviction {{metadata: {{name: a}}}}
eviction of what is not there
  POST pods/none/eviction {{metadata: {{name: none}}}}
logs
  {_POD}
  GET pods/a/log
  GET pods/none/log
  GET pods/a/log?container=none
  GET pods/a/log?tailLines=-1
  GET pods/a/log?tailLines=x
  GET pods/a/log?sinceSeconds=0
  GET pods/a/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z
  GET pods/a/log?limitBytes=0
  GET pods/a/log?follow=maybe
  POST pods/a/log {{}}
logs of a Pod with two containers
  {_BOUND}
  GET pods/a/log
  GET pods/a/log?container=none
  GET pods/a/log?container=c
token
  POST serviceaccounts {{metadata: {{name: a}}}}
  POST serviceaccounts/none/token {{spec: {{}}}}
  POST serviceaccounts/a/token {{spec: {{expirationSeconds: 1}}}}
  POST serviceaccounts/a/token {{spec: {{expirationSeconds: 4294967297}}}}
  POST serviceaccounts/a/token {{spec: {{boundObjectRef: {{kind: ConfigMap, apiVersion: v1, name: x}}}}}}
  POST serviceaccounts/a/token {{spec: {{boundObjectRef: {{kind: Pod, apiVersion: v1, name: x}}}}}}
  GET serviceaccounts/a/token
ephemeral containers
  {_POD}
  GET pods/a/ephemeralcontainers
  STRATEGIC pods/a/ephemeralcontainers {{spec: {{ephemeralContainers: [{{name: e, image: i}}]}}}}
  STRATEGIC pods/a/ephemeralcontainers {{spec: {{ephemeralContainers: [{{name: e, image: j}}]}}}}
  STRATEGIC pods/a/ephemeralcontainers {{spec: {{ephemeralContainers: [{{name: f, image: i, ports: [{{containerPort: 80}}]}}]}}}}
  STRATEGIC pods/a/ephemeralcontainers {{spec: {{ephemeralContainers: [{{name: g, image: i, targetContainerName: none}}]}}}}
  MERGE pods/a/ephemeralcontainers {{spec: {{ephemeralContainers: []}}}}
  GET pods/none/ephemeralcontainers
resize
  POST pods {{metadata: {{name: a}}, spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1}}, limits: {{cpu: 2}}}}}}]}}}}
  GET pods/a/resize
  STRATEGIC pods/a/resize {{spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 2}}}}}}]}}}}
  STRATEGIC pods/a/resize {{spec: {{containers: [{{name: c, image: j}}]}}}}
subresources that are not there
  {_POD}
  GET pods/a/none
  POST pods/a/none {{}}
  GET configmaps/a/scale
  GET pods/a/scale
  GET daemonsets/a/scale
  GET jobs/a/scale
  GET dgdrs/a/scale
  GET dgdrs/a/none
"""
)
