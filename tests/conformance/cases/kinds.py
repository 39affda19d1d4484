"""Every kind through its life: create, read, replace, patch, apply, list, delete."""

from __future__ import annotations

from collections.abc import Iterator

_POD = "{containers: [{name: c, image: 'i:1'}]}"
_JOB = "{containers: [{name: c, image: 'i:1'}], restartPolicy: Never}"
_TEMPLATE = f"{{metadata: {{labels: {{a: b}}}}, spec: {_POD}}}"
_SELECTOR = "{matchLabels: {a: b}}"
_WEBHOOK = (
    "{name: w.lab.example, clientConfig: {url: 'https://lab.example/w'}, sideEffects: None,"
    " admissionReviewVersions: [v1], rules: [{apiGroups: [lab.example], apiVersions: [v1],"
    " operations: [CREATE], resources: [labs]}]}"
)
_CONSTRAINTS = (
    "{resourceRules: [{apiGroups: [lab.example], apiVersions: [v1], operations: [CREATE],"
    " resources: [labs]}]}"
)

# plural, minimal content beside metadata, a merge patch of it
KINDS: tuple[tuple[str, str, str], ...] = (
    ("configmaps", "data: {k: v}", "{data: {k: w, l: x}}"),
    ("configmaps", "binaryData: {k: dg==}, immutable: false", "{immutable: true}"),
    ("secrets", "stringData: {k: v}", "{stringData: {l: w}}"),
    ("secrets", "type: lab.example/t, data: {k: dg==}", "{data: {k: null}}"),
    ("serviceaccounts", "automountServiceAccountToken: false", "{imagePullSecrets: [{name: p}]}"),
    ("pods", f"spec: {_POD}", "{metadata: {labels: {x: y}}}"),
    ("services", "spec: {ports: [{port: 80}], selector: {a: b}}", "{spec: {selector: {a: c}}}"),
    (
        "services",
        "spec: {clusterIP: None, ports: [{port: 80}]}",
        "{spec: {publishNotReadyAddresses: true}}",
    ),
    (
        "services",
        "spec: {type: ExternalName, externalName: lab.example}",
        "{spec: {externalName: e.example}}",
    ),
    (
        "services",
        "spec: {type: NodePort, ports: [{port: 80, targetPort: web}]}",
        "{spec: {sessionAffinity: ClientIP}}",
    ),
    (
        "endpoints",
        "subsets: [{addresses: [{ip: 10.1.2.3}], ports: [{port: 80}]}]",
        "{subsets: null}",
    ),
    (
        "endpointslices",
        "addressType: IPv4, endpoints: [{addresses: [10.1.2.3]}], ports: [{port: 80}]",
        "{endpoints: []}",
    ),
    (
        "persistentvolumeclaims",
        "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}",
        "{metadata: {labels: {x: y}}}",
    ),
    (
        "resourcequotas",
        "spec: {hard: {pods: '9', requests.cpu: '10'}}",
        "{spec: {hard: {pods: '8'}}}",
    ),
    (
        "limitranges",
        "spec: {limits: [{type: Pod, max: {cpu: '9'}}]}",
        "{spec: {limits: [{type: Pod, max: {cpu: '8'}}]}}",
    ),
    ("podtemplates", f"template: {_TEMPLATE}", "{template: {metadata: {labels: {a: c}}}}"),
    (
        "replicationcontrollers",
        f"spec: {{selector: {{a: b}}, template: {_TEMPLATE}}}",
        "{spec: {replicas: 3}}",
    ),
    (
        "deployments",
        f"spec: {{selector: {_SELECTOR}, template: {_TEMPLATE}}}",
        "{spec: {replicas: 3}}",
    ),
    (
        "replicasets",
        f"spec: {{selector: {_SELECTOR}, template: {_TEMPLATE}}}",
        "{spec: {replicas: 3}}",
    ),
    (
        "statefulsets",
        f"spec: {{serviceName: s, selector: {_SELECTOR}, template: {_TEMPLATE}}}",
        "{spec: {replicas: 3}}",
    ),
    (
        "daemonsets",
        f"spec: {{selector: {_SELECTOR}, template: {_TEMPLATE}}}",
        "{spec: {minReadySeconds: 3}}",
    ),
    ("controllerrevisions", "revision: 1, data: {a: {b: c}}", "{revision: 2}"),
    ("jobs", f"spec: {{template: {{spec: {_JOB}}}}}", "{spec: {suspend: true}}"),
    (
        "cronjobs",
        f"spec: {{schedule: '@daily', jobTemplate: {{spec: {{template: {{spec: {_JOB}}}}}}}}}",
        "{spec: {suspend: true}}",
    ),
    ("roles", "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]", "{rules: []}"),
    (
        "rolebindings",
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}, subjects: [{kind: User, name: u}]",
        "{subjects: null}",
    ),
    (
        "leases",
        "spec: {holderIdentity: h, leaseDurationSeconds: 15}",
        "{spec: {holderIdentity: i}}",
    ),
    (
        "events",
        "involvedObject: {kind: Pod, name: p, namespace: $ns}, reason: R, type: Normal, message: m",
        "{count: 2}",
    ),
    (
        "poddisruptionbudgets",
        f"spec: {{minAvailable: 1, selector: {_SELECTOR}}}",
        "{spec: {minAvailable: 50%}}",
    ),
    ("networkpolicies", "spec: {podSelector: {}}", "{spec: {podSelector: {matchLabels: {a: b}}}}"),
    ("dgdrs", "spec: {model: {name: Org/M-8B}}", "{metadata: {labels: {x: y}}}"),
)
CLUSTER_KINDS: tuple[tuple[str, str, str], ...] = (
    ("namespaces", "metadata: {labels: {x: y}}", "{metadata: {labels: {x: z}}}"),
    ("nodes", "spec: {taints: [{key: k, effect: NoSchedule}]}", "{spec: {unschedulable: true}}"),
    (
        "persistentvolumes",
        "spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /p}}",
        "{spec: {storageClassName: s}}",
    ),
    ("clusterroles", "rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]", "{rules: []}"),
    (
        "clusterrolebindings",
        "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}",
        "{subjects: [{kind: Group, name: g}]}",
    ),
    ("priorityclasses", "value: 5", "{description: d}"),
    ("storageclasses", "provisioner: lab.example/p", "{allowVolumeExpansion: true}"),
    ("validatingwebhookconfigurations", f"webhooks: [{_WEBHOOK}]", "{webhooks: []}"),
    ("mutatingwebhookconfigurations", f"webhooks: [{_WEBHOOK}]", "{webhooks: []}"),
    (
        "validatingadmissionpolicies",
        f"spec: {{matchConstraints: {_CONSTRAINTS}, validations: [{{expression: 'true'}}]}}",
        "{spec: {failurePolicy: Ignore}}",
    ),
    (
        "validatingadmissionpolicybindings",
        "spec: {policyName: p, validationActions: [Deny]}",
        "{spec: {validationActions: [Audit]}}",
    ),
)


def _life(plural: str, content: str, change: str, name: str) -> Iterator[str]:
    with_name = f"metadata: {{name: {name}}}, {content}"
    if content.startswith("metadata"):
        with_name = content.replace("{", f"{{name: {name}, ", 1)
    yield f"POST {plural} {{{with_name}}}"
    yield f"GET {plural}/{name}"
    yield f"POST {plural} {{{with_name}}}"
    yield f"PUT {plural}/{name} +{{metadata: {{annotations: {{an: notation}}}}}}"
    yield f"MERGE {plural}/{name} {change}"
    yield f"APPLY {plural}/{name}?fieldManager=applier {{metadata: {{labels: {{ap: plied}}}}}}"
    yield f"GET {plural}?labelSelector=ap%3Dplied&fieldSelector=metadata.name%3D{name}"
    yield f"DELETE {plural}/{name}"
    yield f"GET {plural}/{name}"
    yield f"DELETE {plural}/{name}"


def _cases() -> Iterator[str]:
    for number, (plural, content, change) in enumerate(KINDS):
        yield f"{plural} {number}"
        yield from (f"  {line}" for line in _life(plural, content, change, "a"))
    for number, (plural, content, change) in enumerate(CLUSTER_KINDS):
        yield f"{plural} {number}"
        yield from (f"  {line}" for line in _life(plural, content, change, "$ns-a"))


CASES = "\n".join(_cases())
