{{- /* Rules that the code declares, names filled in. Argument: (list $ "name of a file in files/rules") */ -}}
{{- define "dynamo-operator.rules" -}}
{{- $root := index . 0 -}}
{{- tpl ($root.Files.Get (printf "files/rules/%s.yaml" (index . 1))) $root | fromYamlArray | toYaml -}}
{{- end -}}

{{- /* A role and its binding to the operator's ServiceAccount. Argument: (dict "root" $ "name" "..." "namespace" "", for a ClusterRole, "rules" "YAML") */ -}}
{{- define "dynamo-operator.grant" -}}
{{- $kind := ternary "Role" "ClusterRole" (ne .namespace "") -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "dynamo-operator.labels" (list .root "rbac") | nindent 4 }}
rules: {{- .rules | nindent 0 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "dynamo-operator.labels" (list .root "rbac") | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ include "dynamo-operator.serviceAccount" .root }}
  namespace: {{ .root.Release.Namespace }}
{{ end -}}
