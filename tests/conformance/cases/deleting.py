"""Deletion: finalizers, propagation, preconditions, grace, and whole collections."""

_POD = "POST pods {metadata: {name: a}, spec: {containers: [{name: c, image: 'i:1'}]}}"
_BOUND = (
    "POST pods {metadata: {name: a}, spec: {nodeName: n, containers: [{name: c, image: 'i:1'}]}}"
)
_MAP = "POST configmaps {metadata: {name: a}, data: {k: v}}"
_HELD = "POST configmaps {metadata: {name: a, finalizers: [lab.example/f]}}"
_THREE = """  POST configmaps {metadata: {name: a, labels: {x: '1'}}}
  POST configmaps {metadata: {name: b, labels: {x: '1'}, finalizers: [lab.example/f]}}
  POST configmaps {metadata: {name: c, labels: {x: '2'}}}"""


def _options(setup: str, target: str, options: dict[str, str]) -> str:
    lines = []
    for name, body in options.items():
        lines += [
            f"delete {target}: {name}",
            f"  {setup}",
            f"  DELETE {target} {body}",
            f"  GET {target}",
        ]
    return "\n".join(lines) + "\n"


_OPTIONS = {
    "with nothing": "",
    "with options of nothing": "{}",
    "in the background": "{propagationPolicy: Background}",
    "in the foreground": "{propagationPolicy: Foreground}",
    "orphaning": "{propagationPolicy: Orphan}",
    "orphaning, the old way": "{orphanDependents: true}",
    "not orphaning, the old way": "{orphanDependents: false}",
    "both ways": "{orphanDependents: true, propagationPolicy: Background}",
    "by an unknown policy": "{propagationPolicy: Sideways}",
    "at its version": "{preconditions: {resourceVersion: $.metadata.resourceVersion}}",
    "at another version": "{preconditions: {resourceVersion: '1'}}",
    "with its uid": "{preconditions: {uid: $.metadata.uid}}",
    "with another uid": "{preconditions: {uid: 4f1c2a00-0000-4000-8000-000000000001}}",
    "with both": "{preconditions: {uid: $.metadata.uid, resourceVersion: '1'}}",
    "at once": "{gracePeriodSeconds: 0}",
    "with grace": "{gracePeriodSeconds: 7}",
    "with less than no grace": "{gracePeriodSeconds: -1}",
    "for show": "{dryRun: [All]}",
    "for some show": "{dryRun: [Some]}",
    "with an unknown field": "{other: 1}",
    "with options of another kind": "={apiVersion: v1, kind: ConfigMap}",
    "with options of another version": "={apiVersion: meta.k8s.io/v1, kind: DeleteOptions}",
    "with options of a group": "={apiVersion: apps/v1, kind: DeleteOptions}",
    "with a body that is none": '"{none"',
    "with a list": "[1]",
    "ignoring read errors": "{ignoreStoreReadErrorWithClusterBreakingPotential: true}",
}

CASES = (
    _options(_MAP, "configmaps/a", _OPTIONS)
    + _options(_HELD, "configmaps/a", {f"held, {k}": v for k, v in list(_OPTIONS.items())[:12]})
    + _options(_POD, "pods/a", {f"a Pod, {k}": v for k, v in list(_OPTIONS.items())[:18]})
    + _options(_BOUND, "pods/a", {f"a bound Pod, {k}": v for k, v in list(_OPTIONS.items())[:18]})
    + f"""
by query instead of a body
  {_MAP}
  DELETE configmaps/a?propagationPolicy=Foreground
  DELETE configmaps/a?gracePeriodSeconds=0
  DELETE configmaps/a?propagationPolicy=Sideways
  DELETE configmaps/a?gracePeriodSeconds=x
  DELETE configmaps/a?dryRun=All
  MERGE configmaps/a {{metadata: {{finalizers: null}}}}
  GET configmaps/a
finalizers hold until the last is gone
  POST configmaps {{metadata: {{name: a, finalizers: [lab.example/f, lab.example/g]}}}}
  DELETE configmaps/a
  DELETE configmaps/a
  MERGE configmaps/a {{metadata: {{finalizers: [lab.example/f, lab.example/g, lab.example/h]}}}}
  MERGE configmaps/a {{metadata: {{finalizers: [lab.example/f]}}}}
  MERGE configmaps/a {{data: {{k: v}}}}
  MERGE configmaps/a {{metadata: {{finalizers: [lab.example/z]}}}}
  MERGE configmaps/a {{metadata: {{deletionTimestamp: null}}}}
  PUT configmaps/a +{{metadata: {{finalizers: null}}}}
  GET configmaps/a
finalizers by apply, on what is being deleted
  APPLY configmaps/a?fieldManager=one {{metadata: {{finalizers: [lab.example/f]}}}}
  DELETE configmaps/a
  APPLY configmaps/a?fieldManager=one {{metadata: {{finalizers: [lab.example/f]}}, data: {{k: v}}}}
  APPLY configmaps/a?fieldManager=two {{metadata: {{finalizers: [lab.example/g]}}}}
  APPLY configmaps/a?fieldManager=one {{data: {{k: v}}}}
  GET configmaps/a
finalizers' names
  POST configmaps {{metadata: {{name: a, finalizers: [plain]}}}}
  POST configmaps {{metadata: {{name: b, finalizers: ['']}}}}
  POST configmaps {{metadata: {{name: c, finalizers: [lab.example/f, lab.example/f]}}}}
  POST configmaps {{metadata: {{name: d, finalizers: [orphan]}}}}
  POST configmaps {{metadata: {{name: e, finalizers: [orphan, foregroundDeletion]}}}}
  POST configmaps {{metadata: {{name: f, finalizers: [a/b/c]}}}}
changed policies of what is being deleted
  {_HELD}
  DELETE configmaps/a {{propagationPolicy: Foreground}}
  DELETE configmaps/a {{propagationPolicy: Orphan}}
  DELETE configmaps/a {{propagationPolicy: Background}}
  GET configmaps/a
foreground with the finalizer that is there
  POST configmaps {{metadata: {{name: a, finalizers: [foregroundDeletion]}}}}
  DELETE configmaps/a {{propagationPolicy: Background}}
  GET configmaps/a
orphan with the finalizer that is there
  POST configmaps {{metadata: {{name: a, finalizers: [orphan]}}}}
  DELETE configmaps/a {{propagationPolicy: Foreground}}
  GET configmaps/a
a Pod's grace
  POST pods {{metadata: {{name: a}}, spec: {{nodeName: n, terminationGracePeriodSeconds: 5, containers: [{{name: c, image: 'i:1'}}]}}}}
  DELETE pods/a
  DELETE pods/a {{gracePeriodSeconds: 9}}
  DELETE pods/a {{gracePeriodSeconds: 2}}
  DELETE pods/a {{gracePeriodSeconds: 1}}
  MERGE pods/a {{metadata: {{labels: {{x: y}}}}}}
  DELETE pods/a {{gracePeriodSeconds: 0}}
  GET pods/a
a Pod's grace with a finalizer
  POST pods {{metadata: {{name: a, finalizers: [lab.example/f]}}, spec: {{nodeName: n, containers: [{{name: c, image: 'i:1'}}]}}}}
  DELETE pods/a
  DELETE pods/a {{gracePeriodSeconds: 0}}
  MERGE pods/a {{metadata: {{finalizers: null}}}}
  GET pods/a
a Pod that has ended
  {_BOUND}
  MERGE pods/a/status {{status: {{phase: Succeeded}}}}
  DELETE pods/a
  GET pods/a
a Pod's grace of zero
  POST pods {{metadata: {{name: a}}, spec: {{nodeName: n, terminationGracePeriodSeconds: 0, containers: [{{name: c, image: 'i:1'}}]}}}}
  DELETE pods/a
  GET pods/a
kinds that are deleted in the foreground or not
  POST deployments {{metadata: {{name: a}}, spec: {{selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}}}}}
  DELETE deployments/a
  POST jobs {{metadata: {{name: a}}, spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}
  DELETE jobs/a
  POST jobs {{metadata: {{name: b}}, spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}
  DELETE jobs/b {{propagationPolicy: Background}}
  POST replicationcontrollers {{metadata: {{name: a}}, spec: {{selector: {{a: b}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}}}}}
  DELETE replicationcontrollers/a
  POST statefulsets {{metadata: {{name: a}}, spec: {{serviceName: s, selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}}}}}
  DELETE statefulsets/a
  POST dgdrs {{metadata: {{name: a}}, spec: {{model: {{name: Org/M-8B}}}}}}
  DELETE dgdrs/a {{propagationPolicy: Foreground}}
  MERGE dgdrs/a {{metadata: {{finalizers: null}}}}
  DELETE dgdrs/a
a whole collection
{_THREE}
  DELETE configmaps
  GET configmaps
a collection by label
{_THREE}
  DELETE configmaps?labelSelector=x%3D1
  GET configmaps
a collection by field
{_THREE}
  DELETE configmaps?fieldSelector=metadata.name%3Dc
  GET configmaps
a collection for show
{_THREE}
  DELETE configmaps?dryRun=All
  DELETE configmaps {{dryRun: [All]}}
  GET configmaps
a collection in pages
{_THREE}
  DELETE configmaps?limit=1
  GET configmaps
a collection with a policy
{_THREE}
  DELETE configmaps {{propagationPolicy: Foreground}}
  GET configmaps
a collection with preconditions
{_THREE}
  DELETE configmaps {{preconditions: {{uid: $1.metadata.uid}}}}
  GET configmaps
a collection with what cannot be read
{_THREE}
  DELETE configmaps?labelSelector=a%3D%3D%3Db
  DELETE configmaps?fieldSelector=spec.x%3Db
  DELETE configmaps?limit=x
  DELETE configmaps?resourceVersion=x
  DELETE configmaps?resourceVersion=999999999
  DELETE configmaps {{propagationPolicy: Sideways}}
  DELETE configmaps "{{none"
  DELETE configmaps?dryRun=Some
  GET configmaps
an empty collection
  DELETE configmaps
  DELETE pods
  DELETE dgdrs
a collection of Pods
  {_POD}
  POST pods {{metadata: {{name: b}}, spec: {{nodeName: n, containers: [{{name: c, image: 'i:1'}}]}}}}
  DELETE pods
  GET pods
a collection as metadata or a table
{_THREE}
  DELETE configmaps?labelSelector=x%3D2 Accept=metadata-list
  DELETE configmaps?labelSelector=x%3D1 Accept=table
a deletion answered otherwise
  {_MAP}
  DELETE configmaps/a Accept=table
  {_HELD}
  DELETE configmaps/a Accept=metadata
  DELETE configmaps/a Accept=table
  DELETE configmaps/a Accept=yaml
collections that may not be deleted
  DELETE services
  DELETE namespaces
  DELETE bindings
  DELETE componentstatuses
a namespace
  POST namespaces {{metadata: {{name: $ns-a}}}}
  DELETE namespaces/$ns-a
  POST /api/v1/namespaces/$ns-a/configmaps {{metadata: {{name: a}}}}
  DELETE namespaces/$ns-a
  PUT /api/v1/namespaces/$ns-a/finalize ={{apiVersion: v1, kind: Namespace, metadata: {{name: $ns-a}}, spec: {{finalizers: []}}}}
  GET namespaces/$ns-a
namespaces that stay
  DELETE namespaces/default
  DELETE namespaces/kube-system
what is not there
  DELETE configmaps/none
  DELETE configmaps/none {{preconditions: {{uid: u}}}}
  DELETE dgdrs/none
  DELETE nodes/$ns-none
""".replace("componentstatuses", "/api/v1/componentstatuses")
)
