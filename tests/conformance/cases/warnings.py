"""What Pods and workloads are warned about, and what of them is refused beside it."""

_POD = "POST pods?dryRun=All {metadata: {name: a}, spec: {containers: [{name: c, image: i"
_PORTS = (
    "containers: [{name: c, image: i, ports: [{containerPort: 80}]}, {name: d, image: i, ports: "
)
_APP_ARMOR = "annotations: {container.apparmor.security.beta.kubernetes.io/c: "


def _deployment(template: str) -> str:
    spec = f"selector: {{matchLabels: {{a: b}}}}, template: {template}"
    return f"POST deployments?dryRun=All {{metadata: {{name: a}}, spec: {{{spec}}}}}"


CASES = f"""
names and ports
  POST pods?dryRun=All {{metadata: {{name: a.b}}, spec: {{containers: [{{name: c, image: i}}]}}}}
  POST deployments?dryRun=All {{metadata: {{name: a.b}}, spec: {{selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}}}}}
  {_POD}, ports: [{{containerPort: 80}}, {{containerPort: 80}}]}}]}}}}
  {_POD}, ports: [{{containerPort: 80, name: a}}, {{containerPort: 81, name: a}}]}}]}}}}
  {_POD}, ports: [{{containerPort: 80, hostPort: 80}}, {{containerPort: 80, hostPort: 81}}]}}]}}}}
  {_POD}, ports: [{{containerPort: 80, hostPort: 80}}, {{containerPort: 81, hostPort: 80}}]}}]}}}}
  {_POD}, ports: [{{containerPort: 80, hostIP: 10.0.0.1}}]}}]}}}}
  POST pods?dryRun=All {{metadata: {{name: a}}, spec: {{{_PORTS}[{{containerPort: 80}}]}}]}}}}
  POST pods?dryRun=All {{metadata: {{name: a}}, spec: {{{_PORTS}[{{containerPort: 80, hostPort: 80}}]}}]}}}}
variables, amounts and secrets
  {_POD}, env: [{{name: A, value: x}}, {{name: A, value: y}}]}}]}}}}
  {_POD}, env: [{{name: A, value: x}}, {{name: A, value: $(A)y}}]}}]}}}}
  {_POD}, resources: {{limits: {{memory: 100m}}}}}}]}}}}
  {_POD}}}], imagePullSecrets: [{{name: s}}, {{name: s}}, {{}}]}}}}
  {_POD}}}], hostAliases: [{{ip: 10.0.0.1, hostnames: [h]}}, {{ip: 10.0.0.1, hostnames: [i]}}]}}}}
  {_POD}}}], terminationGracePeriodSeconds: -1}}}}
selectors that select nothing
  {_POD}}}], affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: k}}]}}}}}}}}
  {_POD}}}], affinity: {{podAntiAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, podAffinityTerm: {{topologyKey: k}}}}]}}}}}}}}
  {_POD}}}], topologySpreadConstraints: [{{maxSkew: 1, topologyKey: k, whenUnsatisfiable: DoNotSchedule}}]}}}}
annotations of old
  POST pods?dryRun=All {{metadata: {{name: a, {_APP_ARMOR}runtime/default}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}
  POST pods?dryRun=All {{metadata: {{name: a, annotations: {{scheduler.alpha.kubernetes.io/critical-pod: ''}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}
  {_deployment(f"{{metadata: {{labels: {{a: b}}, {_APP_ARMOR}unconfined}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}")}
  {_deployment("{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i, ports: [{containerPort: 80}, {containerPort: 80}]}]}}")}
Windows
  {_POD}, securityContext: {{windowsOptions: {{runAsUserName: u, hostProcess: false}}}}}}], os: {{name: windows}}}}}}
  {_POD}, securityContext: {{windowsOptions: {{gmsaCredentialSpecName: 'Bad Name'}}}}}}]}}}}
  {_POD}}}], securityContext: {{windowsOptions: {{hostProcess: true}}}}}}}}
who asks, with a uid
  POST selfsubjectreviews Impersonate-User=u Impersonate-Uid=7 {{}}
  POST selfsubjectreviews Impersonate-Uid=7 {{}}
"""
