"""What is refused, with every code, and how the Status says it."""

_MAP = "POST configmaps {metadata: {name: a}, data: {k: v}}"

CASES = f"""
400: bodies that cannot be read
  POST configmaps "{{"
  POST configmaps ""
  POST configmaps "null"
  POST configmaps "[]"
  POST configmaps "text"
  POST configmaps "5"
  POST configmaps "true"
  POST configmaps ={{}}
  POST configmaps ={{kind: ConfigMap}}
  POST configmaps ={{apiVersion: v1}}
  POST configmaps ={{apiVersion: v1, kind: Secret, metadata: {{name: a}}}}
  POST configmaps ={{apiVersion: v2, kind: ConfigMap, metadata: {{name: a}}}}
  POST configmaps ={{apiVersion: apps/v1, kind: ConfigMap, metadata: {{name: a}}}}
  POST configmaps ={{apiVersion: v1, kind: None, metadata: {{name: a}}}}
  POST configmaps ={{apiVersion: a/b/c, kind: ConfigMap, metadata: {{name: a}}}}
  POST configmaps {{metadata: text}}
  POST configmaps {{metadata: {{name: 1}}}}
  POST configmaps {{metadata: {{name: a, labels: [x]}}}}
  POST configmaps {{metadata: {{name: a, labels: {{x: 1}}}}}}
  POST configmaps {{metadata: {{name: a, labels: {{x: true}}}}}}
  POST configmaps {{metadata: {{name: a, annotations: {{x: {{y: z}}}}}}}}
  POST configmaps {{metadata: {{name: a, finalizers: x}}}}
  POST configmaps {{metadata: {{name: a, ownerReferences: {{}}}}}}
  POST configmaps {{metadata: {{name: a, creationTimestamp: yesterday}}}}
  POST configmaps {{metadata: {{name: a, generation: many}}}}
  POST configmaps {{metadata: {{name: a}}, data: [k]}}
  POST configmaps {{metadata: {{name: a}}, data: {{k: 1}}}}
  POST configmaps {{metadata: {{name: a}}, data: {{k: true}}}}
  POST configmaps {{metadata: {{name: a}}, data: {{k: {{}}}}}}
  POST configmaps {{metadata: {{name: a}}, binaryData: {{k: '!'}}}}
  POST configmaps {{metadata: {{name: a}}, immutable: 'true'}}
  POST configmaps {{metadata: {{name: a, namespace: other}}}}
  POST pods {{metadata: {{name: a}}, spec: text}}
  POST pods {{metadata: {{name: a}}, spec: {{containers: text}}}}
  POST pods {{metadata: {{name: a}}, spec: {{containers: [text]}}}}
  POST pods {{metadata: {{name: a}}, spec: {{containers: [{{name: c, image: i, ports: [{{containerPort: web}}]}}]}}}}
  POST pods {{metadata: {{name: a}}, spec: {{containers: [{{name: c, image: i, resources: {{limits: {{cpu: lots}}}}}}]}}}}
  POST pods {{metadata: {{name: a}}, spec: {{terminationGracePeriodSeconds: 1.5, containers: [{{name: c, image: i}}]}}}}
  POST services {{metadata: {{name: a}}, spec: {{ports: [{{port: 80, targetPort: {{}}}}]}}}}
  POST dgdrs {{metadata: text}}
  POST dgdrs ={{apiVersion: nvidia.com/v1beta2, kind: Other, metadata: {{name: a}}}}
  POST dgdrs ={{apiVersion: nvidia.com/v1, kind: DynamoGraphDeploymentRequest, metadata: {{name: a}}}}
  POST dgdrs ={{kind: DynamoGraphDeploymentRequest, metadata: {{name: a}}}}
  POST dgdrs ={{apiVersion: nvidia.com/v1beta2, metadata: {{name: a}}}}
  POST dgdrs "{{"
  POST dgdrs "[]"
  POST dgdrs "null"
  POST dgdrs ""
400: names that do not agree
  {_MAP}
  PUT configmaps/a {{metadata: {{name: b}}}}
  PUT configmaps/a {{metadata: {{namespace: b}}}}
  PUT configmaps/a {{metadata: {{}}}}
  PUT configmaps/a {{data: {{k: w}}}}
  PUT configmaps/b {{metadata: {{name: b}}}}
  PUT configmaps/b?fieldManager=m {{metadata: {{name: b, uid: u}}}}
  PUT configmaps/b {{metadata: {{name: b, resourceVersion: '5'}}}}
  PUT dgdrs/b {{metadata: {{name: b}}, spec: {{model: {{name: Org/M-8B}}}}}}
  PUT dgdrs/b {{metadata: {{name: b, resourceVersion: '5'}}, spec: {{model: {{name: Org/M-8B}}}}}}
  POST configmaps/a {{metadata: {{name: a}}}}
400: options that cannot be read
  POST configmaps?dryRun=some {{metadata: {{name: b}}}}
  POST configmaps?dryRun=All&dryRun=some {{metadata: {{name: b}}}}
  POST configmaps?dryRun=All&dryRun=All {{metadata: {{name: b}}}}
  POST configmaps?dryRun= {{metadata: {{name: b}}}}
  POST configmaps?fieldValidation=some {{metadata: {{name: c}}}}
  POST configmaps?fieldManager=%E2%98%83 {{metadata: {{name: d}}}}
  POST configmaps?pretty=maybe {{metadata: {{name: e}}}}
403: who may not
  GET configmaps Impersonate-User=nobody
  GET configmaps/a Impersonate-User=nobody
  POST configmaps Impersonate-User=nobody {{metadata: {{name: a}}}}
  PUT configmaps/a Impersonate-User=nobody {{metadata: {{name: a}}}}
  MERGE configmaps/a Impersonate-User=nobody {{data: {{}}}}
  DELETE configmaps/a Impersonate-User=nobody
  DELETE configmaps Impersonate-User=nobody
  WATCH configmaps Impersonate-User=nobody
  GET pods/a/log Impersonate-User=nobody
  POST pods/a/eviction Impersonate-User=nobody {{metadata: {{name: a}}}}
  GET deployments/a/scale Impersonate-User=nobody
  GET nodes Impersonate-User=nobody
  GET nodes/n Impersonate-User=nobody
  GET /metrics Impersonate-User=nobody
  GET /nothing Impersonate-User=nobody
  GET /api/v1/nones Impersonate-User=nobody
  GET dgdrs Impersonate-User=nobody
  MERGE dgdrs/a/status Impersonate-User=nobody {{status: {{}}}}
  GET configmaps?fieldSelector=metadata.name%3Da Impersonate-User=nobody
  GET configmaps Impersonate-User=nobody Impersonate-Group=system:masters
  GET configmaps Impersonate-Group=system:masters
404: what is not there
  GET configmaps/none
  GET dgdrs/none
  GET nodes/$ns-none
  PUT configmaps/none {{metadata: {{name: none, uid: u}}}}
  MERGE configmaps/none {{data: {{}}}}
  DELETE configmaps/none
  GET deployments/none/scale
  GET /api/v1/namespaces/$ns/nones
  GET /api/v1/nones/a
  GET /apis/lab.example/v1/things
  GET /apis/lab.example
  GET /apis/apps/v9/deployments
  GET /api/v9/pods
  GET /none
  POST /none {{}}
  GET /api/v1/namespaces/$ns/nodes
  GET /api/v1/nodes/$ns-none/none
  POST /api/v1/namespaces/$ns-none/configmaps {{metadata: {{name: a}}}}
  POST /apis/nvidia.com/v1beta2/namespaces/$ns-none/dynamographdeploymentrequests {{metadata: {{name: a}}}}
  GET /apis/nvidia.com/v1beta2/none
  GET /apis/nvidia.com/v9/dynamographdeploymentrequests
  GET namespaces/$ns-none
405: verbs that a path does not have
  POST /api/v1/namespaces/$ns {{}}
  PUT configmaps {{metadata: {{name: a}}}}
  MERGE configmaps {{data: {{}}}}
  PATCH configmaps/a Content-Type=application/json {{}}
  POST pods/a {{}}
  DELETE pods/a/status
  DELETE pods/a/log
  PUT pods/a/log {{}}
  POST deployments/a/scale {{}}
  GET pods/a/eviction
  GET subjectaccessreviews
  GET /apis/authorization.k8s.io/v1/subjectaccessreviews/a
  DELETE /apis/authentication.k8s.io/v1/tokenreviews
  POST dgdrs/a {{}}
  PUT dgdrs {{}}
  MERGE dgdrs {{}}
  DELETE dgdrs/a/status
  POST /version {{}}
  DELETE /healthz
  POST /api {{}}
  POST /apis/apps {{}}
  DELETE /apis/apps/v1
  OPTIONS configmaps
  HEAD configmaps
  HEAD configmaps/none
  TRACE configmaps
406: forms that are not there
  GET configmaps Accept=text/plain
  GET configmaps Accept=application/xml
  GET configmaps Accept=application/json;as=Other;g=meta.k8s.io;v=v1
  GET configmaps Accept=application/json;as=Table;g=meta.k8s.io;v=v2
  GET configmaps Accept=application/json;as=Table;g=other;v=v1
  POST configmaps Accept=text/plain {{metadata: {{name: a}}}}
  GET configmaps/none Accept=text/plain
  GET /api Accept=text/plain
  GET dgdrs Accept=text/plain
409: what is there, and what has changed
  {_MAP}
  {_MAP}
  PUT configmaps/a +{{metadata: {{resourceVersion: '1'}}}}
  PUT configmaps/a {{metadata: {{name: a, resourceVersion: '1'}}}}
  PUT configmaps/a {{metadata: {{name: a, uid: 4f1c2a00-0000-4000-8000-000000000001}}}}
  MERGE configmaps/a {{metadata: {{resourceVersion: '1'}}}}
  JSONPATCH configmaps/a [{{op: add, path: /metadata/resourceVersion, value: '1'}}]
  DELETE configmaps/a {{preconditions: {{resourceVersion: '1'}}}}
  DELETE configmaps/a {{preconditions: {{uid: u}}}}
  POST namespaces {{metadata: {{name: $ns}}}}
  POST dgdrs {{metadata: {{name: a}}, spec: {{model: {{name: Org/M-8B}}}}}}
  POST dgdrs {{metadata: {{name: a}}, spec: {{model: {{name: Org/M-8B}}}}}}
  PUT dgdrs/a +{{metadata: {{resourceVersion: '1'}}}}
  PUT dgdrs/a +{{metadata: {{resourceVersion: null}}}}
  PUT dgdrs/a +{{metadata: {{resourceVersion: ''}}}}
  PUT dgdrs/a +{{metadata: {{resourceVersion: abc}}}}
  PUT configmaps/a {{metadata: {{name: a, resourceVersion: abc}}}}
  PUT configmaps/a {{metadata: {{name: a, resourceVersion: '0'}}}}
410: versions that are gone
  GET configmaps?resourceVersion=1&resourceVersionMatch=Exact
415: types that are not read
  POST configmaps Content-Type=text/plain {{metadata: {{name: a}}}}
  POST configmaps Content-Type=application/xml {{metadata: {{name: a}}}}
  POST configmaps Content-Type=application/vnd.kubernetes.protobuf "text"
  POST configmaps Content-Type=application/octet-stream "text"
  POST dgdrs Content-Type=text/plain {{metadata: {{name: a}}}}
  PUT configmaps/a Content-Type=text/plain {{metadata: {{name: a}}}}
  DELETE configmaps/a Content-Type=text/plain {{}}
500: versions on what is new
  POST configmaps {{metadata: {{name: a, resourceVersion: '5'}}}}
  POST dgdrs {{metadata: {{name: a, resourceVersion: '5'}}, spec: {{model: {{name: Org/M-8B}}}}}}
unknown but harmless
  POST configmaps {{metadata: {{name: a, uid: 4f1c2a00-0000-4000-8000-000000000001}}}}
  POST configmaps {{metadata: {{name: b, creationTimestamp: '2020-01-01T00:00:00Z', generation: 7, selfLink: /x}}}}
  POST configmaps {{metadata: {{name: c, deletionTimestamp: '2020-01-01T00:00:00Z', deletionGracePeriodSeconds: 5}}}}
  PUT configmaps/b +{{metadata: {{creationTimestamp: '2021-01-01T00:00:00Z', generation: 8, selfLink: /y}}}}
  PUT configmaps/b +{{metadata: {{deletionTimestamp: '2021-01-01T00:00:00Z'}}}}
"""
