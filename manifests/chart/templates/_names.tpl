{{- define "dynamo-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 43 | trimSuffix "-" -}}
{{- end -}}

{{- define "dynamo-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 43 | trimSuffix "-" -}}
{{- else if contains (include "dynamo-operator.name" .) .Release.Name -}}
{{- .Release.Name | trunc 43 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "dynamo-operator.name" .) | trunc 43 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* What the objects are called. */ -}}
{{- define "dynamo-operator.managerName" -}}{{ include "dynamo-operator.fullname" . }}-manager{{- end -}}
{{- define "dynamo-operator.webhookService" -}}{{ include "dynamo-operator.fullname" . }}-webhook{{- end -}}
{{- define "dynamo-operator.webhookConfiguration" -}}{{ include "dynamo-operator.fullname" . }}{{- end -}}
{{- define "dynamo-operator.webhookSecret" -}}
{{- default (printf "%s-webhook-certificate" (include "dynamo-operator.fullname" .)) .Values.webhook.certificateSecret.name -}}
{{- end -}}

{{- define "dynamo-operator.serviceAccount" -}}
{{- $account := .Values.controllerManager.serviceAccount -}}
{{- if $account.create -}}
{{- default (include "dynamo-operator.fullname" .) $account.name -}}
{{- else -}}
{{- default "default" $account.name -}}
{{- end -}}
{{- end -}}

{{- define "dynamo-operator.leaseName" -}}
{{- default "dynamo-operator.nvidia.com" .Values.controllerManager.leaderElection.id -}}
{{- end -}}

{{- define "dynamo-operator.leaseNamespace" -}}
{{- default .Release.Namespace .Values.controllerManager.leaderElection.namespace -}}
{{- end -}}

{{- define "dynamo-operator.image" -}}
{{- $image := .Values.controllerManager.manager.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "dynamo-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dynamo-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: manager
{{- end -}}

{{- /* Labels of an object. Argument: (list $ "component") */ -}}
{{- define "dynamo-operator.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "dynamo-operator.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/part-of: dynamo-operator
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- /* The namespaces that the operator is restricted to, as a JSON list; empty for all. */ -}}
{{- define "dynamo-operator.namespaces" -}}
{{- $restriction := .Values.namespaceRestriction -}}
{{- if not $restriction.enabled -}}
[]
{{- else if $restriction.targetNamespaces -}}
{{- toJson $restriction.targetNamespaces -}}
{{- else -}}
{{- list (default .Release.Namespace $restriction.targetNamespace) | toJson -}}
{{- end -}}
{{- end -}}

{{- /* off, auto or manual, as the operator calls it. */ -}}
{{- define "dynamo-operator.webhooks" -}}
{{- if not (and .Values.dgdrV1Beta2.enabled .Values.webhook.enabled) -}}
off
{{- else if or .Values.webhook.certManager.enabled .Values.webhook.certificateSecret.external -}}
manual
{{- else -}}
auto
{{- end -}}
{{- end -}}

{{- /* A choice of true, false or null: null is yes, but not where only Roles are granted. Argument: (list $ choice) */ -}}
{{- define "dynamo-operator.chosen" -}}
{{- $choice := index . 1 -}}
{{- if ternary (not (index . 0).Values.namespaceRestriction.enabled) $choice (kindIs "invalid" $choice) -}}
true
{{- end -}}
{{- end -}}

{{- define "dynamo-operator.discoversGpus" -}}
{{- if .Values.dgdrV1Beta2.enabled -}}
{{- include "dynamo-operator.chosen" (list . .Values.gpuDiscovery.enabled) -}}
{{- end -}}
{{- end -}}

{{- define "dynamo-operator.servesMetrics" -}}
{{- include "dynamo-operator.chosen" (list . .Values.metrics.enabled) -}}
{{- end -}}

{{- /* Whether an object may be this release's: there is none, or it was made by it. Argument: (list $ apiVersion kind namespace name) */ -}}
{{- define "dynamo-operator.isOurs" -}}
{{- $root := index . 0 -}}
{{- $found := lookup (index . 1) (index . 2) (index . 3) (index . 4) -}}
{{- $made := dig "metadata" "annotations" dict $found | default dict -}}
{{- if or (not $found) (and (eq (get $made "meta.helm.sh/release-name") $root.Release.Name) (eq (get $made "meta.helm.sh/release-namespace") $root.Release.Namespace)) -}}
true
{{- end -}}
{{- end -}}
